//! The behaviours of the core, in virtual time. Every test bears the name of the behaviour or field case it shows.

#[path = "../world/mod.rs"]
mod world;

mod adaptive;
mod adaptive_json;
mod aimd;
mod alone;
mod cells;
mod concurrency;
mod guard;
mod names;
mod order;
mod pauses;
mod pressure;
mod properties;
mod queues;
mod refusals;
mod retries;
mod uplink;
mod vectors;
