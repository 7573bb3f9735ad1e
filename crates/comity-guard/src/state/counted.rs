//! What was decided, in numbers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use comity_store::guard::Counts;

use super::door::Stands;
use super::live::Live;

/// What a guard decided since it was made, and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests let in, the delayed among them.
    pub admitted: u64,
    /// Requests that no rule is about because they are exempt.
    pub exempt: u64,
    /// Requests that a limit refused.
    pub refused: u64,
    /// The same by the rule that asked for the longest wait; in a dry run, those it would have refused.
    pub refused_by: Vec<(String, u64)>,
    /// Requests for which no place in flight was free.
    pub shed: u64,
    /// Requests that a limit let in later.
    pub delayed: u64,
    /// Requests that waited for a place in flight, whether they got one or not.
    pub queued: u64,
    /// Requests that went away while they waited.
    pub abandoned: u64,
    /// Requests that a limit would have refused, were this no dry run.
    pub would_refuse: u64,
    /// Requests for which no place in flight was free at once: they would have been shed or queued, were this no dry run.
    pub would_shed: u64,
    /// Requests of which not even the peer's address was known. They share one bucket; is the peer's address handed on?
    pub unknown: u64,
    /// Requests judged while the shared store was out of reach and a limit refused: refused all the same, or let in, as
    /// the settings say.
    pub store_lost: u64,
    /// Takes by clients that had no bucket of their own for lack of room, and shared one (G8).
    pub overflow: u64,
    /// Buckets remembered.
    pub keys: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// The most that may be; `None` where as many as come.
    pub most_in_flight: Option<u32>,
    /// Requests that wait for a place in flight.
    pub waiting: u32,
}

/// The counters behind it, by themselves on lines of the processor's cache: each request writes one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Tally {
    pub(super) admitted: AtomicU64,
    pub(super) exempt: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) shed: AtomicU64,
    pub(super) delayed: AtomicU64,
    pub(super) queued: AtomicU64,
    pub(super) abandoned: AtomicU64,
    pub(super) would_refuse: AtomicU64,
    pub(super) would_shed: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) store_lost: AtomicU64,
}

impl Tally {
    pub(super) fn read(&self, live: &Live, door: &Stands, buckets: &Counts) -> Counted {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            admitted: of(&self.admitted),
            exempt: of(&self.exempt),
            refused: of(&self.refused),
            refused_by: live.refused().map(|(name, count)| (name.to_owned(), count)).collect(),
            shed: of(&self.shed),
            delayed: of(&self.delayed),
            queued: of(&self.queued),
            abandoned: of(&self.abandoned),
            would_refuse: of(&self.would_refuse),
            would_shed: of(&self.would_shed),
            unknown: of(&self.unknown),
            store_lost: of(&self.store_lost),
            overflow: buckets.shared,
            keys: buckets.keys,
            in_flight: door.in_flight,
            most_in_flight: door.most,
            waiting: door.waiting,
        }
    }
}

/// Counts one more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admitted, refused, shed, delayed, in_flight, .. } = self;
        write!(
            f,
            "{admitted} let in ({delayed} of them delayed), {refused} refused, {shed} shed, {in_flight} in flight"
        )?;
        if self.would_refuse + self.would_shed > 0 {
            write!(f, "; {} would have been refused and {} shed", self.would_refuse, self.would_shed)?;
        }
        if self.overflow > 0 {
            write!(f, "; {} without a bucket of their own", self.overflow)?;
        }
        Ok(())
    }
}
