//! The state of guards: what each key has left under each limit.
//!
//! [`Buckets`] makes the core's [`guard`](comity_core::guard) decisions atomic and remembers them. [`BucketTable`] serves
//! one process. Every implementation passes the same [`conformance`] suite.

mod apart;
mod charge;
pub mod conformance;
mod shard;
mod table;

pub use apart::{Apart, part_of, refusal, spent};
pub use charge::{Charge, ChargeError, Charges, Key, MOST_KEY_BYTES};
pub use table::{BucketTable, BucketTableSettings};

use core::fmt;
use core::future::Future;
use core::pin::Pin;

use comity_core::guard::Verdict;
use comity_core::time::Instant;

use crate::{ReadClock, Standing};

/// The state of guards. Every instant is on the [clock](Buckets::clock) of the store, in whole microseconds.
///
/// What is remembered of a key under a limit is a [`Bucket`](comity_core::guard::Bucket), two plain numbers, from the first
/// take until it is as good as new. No call waits longer than the store's own time limit; one that is out of reach lets in
/// less, never more.
pub trait Buckets: Send + Sync {
    /// The clock that every instant given to this store is read from.
    fn clock(&self) -> ReadClock;

    /// Takes the costs of a request from the buckets of all its limits, or from none: one atomic operation.
    fn take(&self, now: Instant, charges: Charges<'_>) -> Taken;

    /// What is in the store, and what came of its bounds.
    fn counts(&self) -> Counts;

    /// How it stands between this process and the store.
    fn standing(&self) -> Standing;
}

/// A store's answer to a take.
#[expect(
    clippy::large_enum_variant,
    reason = "the answer at once is the common one, and moving it costs less than a box"
)]
pub enum Taken {
    /// At once.
    Now(Verdict),
    /// When the store has answered. Dropped before that, it may have been charged all the same.
    Later(Pin<Box<dyn Future<Output = Verdict> + Send>>),
}

/// What is in a store of buckets, and what came of its bounds (G8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Buckets remembered.
    pub keys: u64,
    /// Full buckets that were dropped: nobody can tell.
    pub dropped: u64,
    /// Takes of keys that had no bucket of their own because all were in debt, and shared one.
    pub shared: u64,
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(verdict) => f.debug_tuple("Now").field(verdict).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}
