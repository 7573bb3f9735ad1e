//! What a world must do, whatever policy is in it.

mod claims;
mod clients;
mod network;
mod runs;
mod scenarios;
mod support;
mod uplink;
