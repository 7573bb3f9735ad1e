//! The reverse proxy on real sockets: what goes over the wire, and what is left when somebody leaves.

#![expect(clippy::unwrap_used, reason = "the helpers of tests, which are no tests themselves, may fail like these")]

mod bodies;
mod early;
mod failures;
mod fields;
mod http2;
mod leaving;
mod smuggling;
mod switching;
mod tls;
mod town;
