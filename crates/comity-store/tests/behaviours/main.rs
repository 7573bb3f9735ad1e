//! The store in memory: what it keeps and drops, limit sets, and changes of rules under way.

#[path = "../../../comity-core/tests/world/mod.rs"]
mod world;

mod memory;
mod rules;
mod sets;
