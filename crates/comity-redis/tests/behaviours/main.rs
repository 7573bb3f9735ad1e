//! The shared store on real servers, which each test starts for itself on free ports of the loopback interface.

mod conformance;
mod same_verdicts;
mod server;
mod vectors;
