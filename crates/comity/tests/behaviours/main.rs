//! The behaviours and field cases of the pacer and its doors, one test each, under the name of the behaviour.
//!
//! Logic runs under tokio's paused clock; what a server must see is asked of a far end on loopback.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

mod adaptive;
mod distant;
mod learning;
#[cfg(feature = "metrics")]
mod measure;
mod places;
mod profiles;
#[cfg(feature = "reqwest")]
mod redirects;
mod support;
mod tower_far_end;
mod tower_logic;
mod uplink;
mod waiting;
