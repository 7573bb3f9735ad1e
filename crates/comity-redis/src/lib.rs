//! The shared store of many machines: Redis or Valkey.
//!
//! [`Redis`] keeps one pace for all processes that name the same server: a claim is one script and one round trip, on the
//! server's clock, for every scope it falls under. Where the server is out of reach, each goes on with its part of every
//! limit, slower and never faster, and joins again by itself.

mod claims;
mod clock;
mod connect;
mod keys;
mod link;
mod look;
mod members;
mod mirror;
mod redis;
mod reserve;
mod script;
mod state;
mod teach;
mod url;

pub use crate::redis::{Redis, Settings};
