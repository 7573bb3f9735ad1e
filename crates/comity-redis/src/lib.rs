//! The shared store of many machines: Redis or Valkey.
