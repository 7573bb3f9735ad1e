//! The vectors.
