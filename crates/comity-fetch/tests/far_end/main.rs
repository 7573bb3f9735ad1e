//! Runs against servers that record what arrives: the far end is the witness, never the limiter.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod pace;
mod refusals;
mod robots;
mod troubles;
mod world;
