//! The same courtesy from the server's side: a guard in front of a server.

pub mod key;

pub use key::{ClientKey, ForwardedField, KeyBy, Network};
