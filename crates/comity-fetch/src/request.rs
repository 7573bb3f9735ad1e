//! TODO

/// TODO
pub struct Requests;
