//! Runs against servers that record what arrives: the far end is the witness, never the limiter.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic, and tells what it measured")]

mod pace;
mod refusals;
mod robots;
mod troubles;
mod world;
