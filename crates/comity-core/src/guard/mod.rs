//! The server's side: who of those that ask is let in (behaviours G).
//!
//! - [`Limit`]: what one key may do: a [`TokenBucket`], a [`FixedWindow`] or a [`LeakyBucket`]. What is remembered of a key
//!   is a [`Bucket`], two plain numbers, so that a file or a server can keep it.
//! - [`all`]: several limits on one request: decide all, then charge all.
//! - [`Gate`]: how many are in flight; [`admit`] asks it before any limit.
//! - [`Queue`]: the bounded wait in front of the gate.
//! - [`Auto`]: how many may be in flight, learned from latency and drops.
//!
//! Time in here goes in whole microseconds, rounded down: a store on another machine counts so too and decides the same.

pub mod all;
mod auto;
mod bucket;
mod gate;
mod leaky;
mod limit;
mod parameter;
mod queue;
mod window;

pub use all::{Left, MOST_LIMITS, Ruling, Verdict};
pub use auto::{Auto, AutoSettings, End, Exchange};
pub use bucket::{Bucket, TokenBucket};
pub use gate::{Admission, Gate, Shed, admit};
pub use leaky::LeakyBucket;
pub use limit::{CostError, Limit, NamedLimit, retry_after};
pub use parameter::ParameterError;
pub use queue::{Queue, QueueSettings, Turn};
pub use window::FixedWindow;
