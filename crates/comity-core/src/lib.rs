//! The decisions of Comity, and nothing else.
//!
//! No clock, no I/O, no threads, no randomness: every function takes the time as an argument, so the same code runs in
//! memory, under a file lock, in a browser and in a simulator.

pub mod signal;
pub mod time;
