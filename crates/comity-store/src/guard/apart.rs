//! Buckets without the store that is shared: after a loss every burst is spent (X9), and while it lasts each process has its
//! part of every limit.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use comity_core::guard::{Bucket, FixedWindow, LeakyBucket, Limit, NamedLimit, TokenBucket, Verdict, all};
use comity_core::limits::Share;
use comity_core::time::Instant;

use super::{BucketTable, BucketTableSettings, Charge, Charges};
use crate::ReadClock;

/// What a key has of which nothing is known since a loss: as if all had been taken at that instant (X9).
///
/// What came back since is there once the bucket is [refilled](Limit::refill).
pub fn spent(limit: &Limit, at: Instant) -> Bucket {
    let at = at.as_nanos().div_ceil(1000);
    match limit {
        Limit::Bucket(_) | Limit::Window(_) => Bucket { tokens: 0, last: at },
        Limit::Leaky(leaky) => Bucket { tokens: 0, last: at.saturating_add(queue(leaky)) },
    }
}

/// The part of a limit that one of several has, so that all of them together have no more than it; `None` where that is
/// nothing.
pub fn part_of(limit: &Limit, share: &Share) -> Option<Limit> {
    if share.is_whole() {
        return Some(*limit);
    }
    let capacity = i64::from(Some(share.of(limit.capacity())).filter(|part| *part > 0)?);
    let part: Result<Limit, _> = match limit {
        Limit::Bucket(bucket) => {
            TokenBucket::new(capacity, i64::from(bucket.refill()), share.slower(bucket.interval())).map(Limit::from)
        }
        Limit::Window(window) => FixedWindow::new(capacity, window.per()).map(Limit::from),
        Limit::Leaky(leaky) => LeakyBucket::new(1, share.slower(leaky.spacing()), capacity - 1).map(Limit::from),
    };
    part.ok()
}

/// A refusal of these costs, as of buckets of which everything was taken just now.
pub fn refusal(now: Instant, asked: &[(Limit, u32)]) -> Verdict {
    let mut buckets: Vec<Bucket> = asked.iter().map(|(limit, _)| spent(limit, now)).collect();
    all::take(now, asked, &mut buckets)
}

/// The buckets of a process that has lost the store it shares: from each loss on its part of every limit, and no burst
/// before it has been earned. So all of them together let in no more than one store would, where it is lost to all.
pub struct Apart {
    clock: ReadClock,
    seed: u64,
    lost: Mutex<Option<(Instant, BucketTable)>>,
}

impl Apart {
    /// Not apart yet. The seed is to be random.
    pub fn new(seed: u64, clock: ReadClock) -> Self {
        Self { clock, seed, lost: Mutex::new(None) }
    }

    /// The part of a process of which nobody said how many it is one of: less than most have.
    pub fn assumed_share() -> Share {
        Share::of_members(ASSUMED_MEMBERS, ASSUMED_MEMBERS.get() - 1, Duration::ZERO)
    }

    /// Takes by itself, while the store is lost since that instant.
    pub fn take(&self, now: Instant, since: Instant, share: &Share, charges: Charges<'_>) -> Verdict {
        let refused = || {
            let asked: Vec<(Limit, u32)> =
                charges.as_slice().iter().map(|charge| (*charge.limit.limit(), charge.cost)).collect();
            refusal(now, &asked)
        };
        let parts: Option<Vec<NamedLimit>> = charges.as_slice().iter().map(|charge| part(charge, share)).collect();
        let Some(parts) = parts else { return refused() };
        let parts: Vec<Charge<'_>> =
            charges.as_slice().iter().zip(&parts).map(|(charge, limit)| Charge { limit, ..*charge }).collect();
        // What costs more than the part ever holds waits for the store.
        let Ok(parts) = Charges::new(&parts) else { return refused() };
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = since.after(SHORT_LOSS);
        let (of, table) = lost.get_or_insert_with(|| (since, self.table(begins)));
        if *of != since {
            (*of, *table) = (since, self.table(begins));
        }
        table.take_now(now, parts)
    }

    /// The store is there again.
    pub fn found(&self) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn table(&self, begins: Instant) -> BucketTable {
        BucketTable::spent(BucketTableSettings::default(), self.seed, self.clock.clone(), begins)
    }
}

impl fmt::Debug for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apart").finish_non_exhaustive()
    }
}

fn part(charge: &Charge<'_>, share: &Share) -> Option<NamedLimit> {
    NamedLimit::new(charge.limit.name(), part_of(charge.limit.limit(), share)?).ok()
}

/// How long the queue of a leaky bucket is that holds all it can, in microseconds.
fn queue(leaky: &LeakyBucket) -> u64 {
    let spacing = u64::try_from(leaky.spacing().as_micros()).unwrap_or(u64::MAX);
    spacing.saturating_mul(u64::from(leaky.burst()) + 1)
}

/// A loss that is over so soon was one of this process alone most likely: the others have had all of each limit meanwhile.
const SHORT_LOSS: Duration = Duration::from_secs(1);
/// More than most stores are shared by.
const ASSUMED_MEMBERS: NonZeroU32 = NonZeroU32::new(16).unwrap();

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::guard::Key;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> [Limit; 3] {
        [
            TokenBucket::new(7, 2, SECOND).unwrap().into(),
            FixedWindow::new(7, SECOND * 2).unwrap().into(),
            LeakyBucket::new(1, SECOND, 6).unwrap().into(),
        ]
    }

    fn named(limit: Limit) -> NamedLimit {
        NamedLimit::new("l", limit).unwrap()
    }

    fn share(members: u32, rank: u32) -> Share {
        Share::of_members(NonZeroU32::new(members).unwrap(), rank, Duration::ZERO)
    }

    #[test]
    fn x9_a_spent_bucket_is_what_a_burst_leaves() {
        for limit in limits() {
            let at = Instant::from_millis(5000);
            let mut burst = limit.fresh(at);
            let all_of_it = all::take(at, &[(limit, limit.capacity())], core::slice::from_mut(&mut burst));
            assert!(all_of_it.refused().is_none());
            assert_eq!(spent(&limit, at), burst, "{limit}");
        }
    }

    #[test]
    fn the_parts_of_all_are_no_more_than_the_limit() {
        for limit in limits() {
            for members in 1..10 {
                let parts = (0..members).filter_map(|rank| part_of(&limit, &share(members, rank)));
                assert_eq!(parts.map(|part| part.capacity()).sum::<u32>(), 7, "{limit}, {members}");
                let (count, per) = part_of(&limit, &share(members, 0)).unwrap().rate();
                let each = f64::from(count) / per.as_secs_f64();
                let (count, per) = limit.rate();
                let whole = f64::from(count) / per.as_secs_f64();
                let together = if matches!(limit, Limit::Window(_)) { whole } else { each * f64::from(members) };
                assert!(together <= whole * 1.000_001, "{limit}, {members}");
            }
        }
    }

    #[test]
    fn x9_apart_all_let_in_no_more_than_one_would_and_begin_with_nothing() {
        for limit in limits() {
            let limit = named(limit);
            let apart: Vec<Apart> = (0..3).map(|n| Apart::new(n, Arc::new(|| Instant::ZERO))).collect();
            let charges = [Charge { limit: &limit, key: Key::ALL, cost: 1 }];
            let charges = Charges::new(&charges).unwrap();
            let since = Instant::from_millis(1000);
            // One that has known nothing but this limit since the loss.
            let mut whole = spent(limit.limit(), since);
            let (mut together, mut alone) = (0, 0);
            for ms in 1000..15_000 {
                let now = Instant::from_millis(ms);
                for (rank, apart) in (0..).zip(&apart) {
                    together += u32::from(apart.take(now, since, &share(3, rank), charges).refused().is_none());
                }
                while all::take(now, &[(*limit.limit(), 1)], core::slice::from_mut(&mut whole)).refused().is_none() {
                    alone += 1;
                }
                assert!(together <= alone, "{} at {ms} ms: {together} of {alone}", limit.limit());
            }
            assert!(together * 2 >= alone, "{}: {together} of {alone}", limit.limit());
        }
    }

    #[test]
    fn a_part_of_nothing_and_a_cost_above_the_part_are_refused() {
        let limit = named(TokenBucket::new(2, 1, SECOND).unwrap().into());
        let apart = Apart::new(1, Arc::new(|| Instant::ZERO));
        let (since, late) = (Instant::from_millis(1), Instant::from_millis(1_000_000));
        for (cost, rank) in [(1, 2), (2, 0)] {
            let charges = [Charge { limit: &limit, key: Key::ALL, cost }];
            let verdict = apart.take(late, since, &share(3, rank), Charges::new(&charges).unwrap());
            assert!(verdict.refused().is_some_and(|(_, retry)| !retry.is_zero()), "{verdict:?}");
        }
    }

    #[test]
    fn each_loss_begins_anew() {
        let limit = named(TokenBucket::new(1, 1, SECOND).unwrap().into());
        let apart = Apart::new(1, Arc::new(|| Instant::ZERO));
        let charges = [Charge { limit: &limit, key: Key::ALL, cost: 1 }];
        let charges = Charges::new(&charges).unwrap();
        let take = |since, at| {
            apart.take(Instant::from_millis(at), Instant::from_millis(since), &Share::WHOLE, charges).refused()
        };
        assert!(take(1000, 2999).is_some() && take(1000, 3000).is_none());
        assert!(take(3000, 4000).is_some(), "nothing is left of the loss before");
        apart.found();
        assert!(take(3000, 4999).is_some() && take(3000, 5000).is_none());
    }
}
