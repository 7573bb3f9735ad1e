//! The shared store on real servers, which each test starts for itself on free ports of the loopback interface.

mod alone;
mod cluster;
mod concurrency;
mod conformance;
mod differing;
mod doors;
mod expiry;
mod failing;
mod guard;
mod guard_sharing;
mod member;
mod same_verdicts;
mod server;
mod sharing;
mod vectors;
