//! The guard's decisions (behaviours G).

mod auto;
mod laws;
mod stories;
mod upstream;
mod vectors;
