//! The decisions of Comity, and nothing else.
//!
//! No clock, no I/O, no threads, no randomness: every function takes the time as an argument, so the same code runs in
//! memory, under a file lock, in a browser and in a simulator.
//!
//! - [`scope`]: who is asked: hosts, groups, path prefixes, identities, and which of them a request falls under.
//! - [`signal`]: what an answer taught.
//! - [`policy`]: turns what was taught into a pace.
//! - [`limits`]: when a request may start: decide all, then charge all.
//! - [`schedule`]: who of those that wait goes next.
//! - [`guard`]: the server's side: who of those that ask is let in.
//! - [`uplink`]: what all hosts have in common: when most slow down together it is our own way out.

extern crate alloc;

pub mod guard;
pub mod limits;
pub mod policy;
pub mod schedule;
pub mod scope;
pub mod signal;
pub mod time;
pub mod uplink;
