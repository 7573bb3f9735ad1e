//! Virtual worlds of hosts with hidden limits, in which policies are told apart.
//!
//! A [scenario] names hosts, a network and clients. The [world] runs it in virtual time, from a seed: the
//! same seed gives the same run to the digit. Our own policies are run by the real core and its store in memory, not by a
//! copy of them; the [baselines] are what other programs do, each written from its public definition. What is reported
//! ([outcome]) is what the hosts received, never what a client believes;
//! [report] puts it together, [table] and [picture] show it.

pub mod baselines;
mod clients;
pub mod hosts;
pub mod outcome;
pub mod picture;
pub mod report;
pub mod scenario;
pub mod sweep;
pub mod table;
pub mod world;
