//! What a world must do, whatever policy is in it.

mod clients;
mod network;
mod runs;
mod scenarios;
mod support;
