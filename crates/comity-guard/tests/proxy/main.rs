//! The reverse proxy on real sockets: what goes over the wire, and what is left when somebody leaves.

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
