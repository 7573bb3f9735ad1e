//! TODO

/// TODO
pub struct List;
