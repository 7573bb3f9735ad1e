//! Limits in front of a server.

pub mod proxy;
