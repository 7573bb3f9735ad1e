//! The buckets of one process, in its memory.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use comity_core::guard::{Bucket, MOST_LIMITS, Verdict, all};
use comity_core::time::Instant;
use foldhash::quality::FixedState;

use super::shard::{self, Shard, Slot};
use super::{Buckets, Charge, Charges, Counts, Taken};
use crate::{ReadClock, Standing};

/// Buckets in this process's memory: a bounded number, whatever the number of clients (G8).
///
/// A full bucket is as good as new and is dropped when others come; one in debt never is. When all are in debt, new keys of
/// a limit share one bucket, and that is counted.
pub struct BucketTable {
    shards: Box<[Mutex<Shard>]>,
    most_each: usize,
    hasher: FixedState,
    /// By the limit's name: the bucket of all keys that have none of their own. Locked after the shards.
    overflow: Mutex<Vec<(Box<str>, Bucket)>>,
    shared: AtomicU64,
    clock: ReadClock,
}

/// How large a [`BucketTable`] may become.
#[derive(Clone, Copy, Debug)]
pub struct BucketTableSettings {
    /// Buckets kept at most, 1,000,000 unless set: some 100 MB with addresses as keys.
    pub most_keys: u32,
    /// Locks, 32 unless set.
    pub shards: u32,
}

/// What was found for one charge.
#[derive(Clone, Copy, Debug)]
enum Found {
    Kept(Slot),
    New,
    Shared,
}

impl Default for BucketTableSettings {
    fn default() -> Self {
        Self { most_keys: 1_000_000, shards: 32 }
    }
}

impl BucketTable {
    /// An empty table. The seed is to be random, so that nobody can choose keys that hash alike.
    pub fn new(settings: BucketTableSettings, seed: u64, clock: ReadClock) -> Self {
        let shards = settings.shards.clamp(1, settings.most_keys.max(1));
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            most_each: (settings.most_keys / shards).max(1) as usize,
            hasher: FixedState::with_seed(seed),
            overflow: Mutex::default(),
            shared: AtomicU64::new(0),
            clock,
        }
    }

    /// As [`Buckets::take`], which this table answers at once.
    pub fn take_now(&self, now: Instant, charges: Charges<'_>) -> Verdict {
        let charges = charges.as_slice();
        let Some(first) = charges.first() else { return all::take(now, &[], &mut []) };
        let mut hashes = [0; MOST_LIMITS];
        for (hash, charge) in hashes.iter_mut().zip(charges) {
            *hash = shard::hash(&self.hasher, charge.limit.name().as_bytes(), charge.key.as_bytes());
        }
        let mut held = self.lock(&hashes[..charges.len()]);
        let mut limits = [(*first.limit.limit(), 0); MOST_LIMITS];
        let mut buckets = [Bucket::default(); MOST_LIMITS];
        let mut found = [Found::New; MOST_LIMITS];
        for (nth, charge) in charges.iter().enumerate() {
            limits[nth] = (*charge.limit.limit(), charge.cost);
            let earlier = hashes.iter().zip(&found).take(nth);
            (found[nth], buckets[nth]) = self.find(now, charge, hashes[nth], &mut held, earlier);
        }
        let overflow = found[..charges.len()].iter().any(|found| matches!(found, Found::Shared));
        let mut overflow = overflow.then(|| lock(&self.overflow));
        if let Some(overflow) = &mut overflow {
            for (nth, charge) in charges.iter().enumerate().filter(|(nth, _)| matches!(found[*nth], Found::Shared)) {
                buckets[nth] = shared(overflow, charge).map_or(buckets[nth], |(_, bucket)| *bucket);
            }
        }
        let asked = charges.len();
        let mut verdict = all::take(now, &limits[..asked], &mut buckets[..asked]);
        let charged = verdict.refused().is_none();
        for (nth, charge) in charges.iter().enumerate() {
            let (bucket, full_at) = (buckets[nth], charge.limit.limit().full_at(&buckets[nth]));
            match found[nth] {
                Found::Kept(slot) => {
                    if let Some(shard) = self.held(&mut held, hashes[nth]) {
                        shard.set(slot, bucket, full_at);
                    }
                }
                Found::New if charged => {
                    if let Some(shard) = self.held(&mut held, hashes[nth]) {
                        shard.insert(&self.hasher, charge.limit.name(), charge.key, bucket, full_at);
                    }
                }
                // It is as good as new.
                Found::New => {}
                Found::Shared => {
                    verdict.mark_shared(nth);
                    self.shared.fetch_add(1, Ordering::Relaxed);
                    match overflow.as_mut().and_then(|overflow| shared(overflow, charge)) {
                        Some((_, kept)) => *kept = bucket,
                        None => overflow.iter_mut().for_each(|all| all.push((charge.limit.name().into(), bucket))),
                    }
                }
            }
        }
        verdict
    }

    /// A key's bucket, or a new one where there is room for it beside those that were found `earlier`.
    fn find<'f>(
        &self,
        now: Instant,
        charge: &Charge<'_>,
        hash: u64,
        held: &mut Held<'_>,
        earlier: impl Iterator<Item = (&'f u64, &'f Found)>,
    ) -> (Found, Bucket) {
        let fresh = charge.limit.limit().fresh(now);
        let Some(shard) = self.held(held, hash) else { return (Found::Shared, fresh) };
        if let Some((slot, bucket)) = shard.find(hash, charge.limit.name(), charge.key) {
            return (Found::Kept(slot), bucket);
        }
        let (mut kept, mut most) = ([None; MOST_LIMITS], self.most_each);
        let beside = earlier.filter(|(other, _)| self.shard_of(**other) == self.shard_of(hash));
        for (kept, (_, found)) in kept.iter_mut().zip(beside) {
            match found {
                Found::Kept(slot) => *kept = Some(*slot),
                Found::New => most -= 1,
                Found::Shared => {}
            }
        }
        if shard.make_room(now.as_nanos() / 1000, &self.hasher, most, &kept) {
            (Found::New, fresh)
        } else {
            (Found::Shared, fresh)
        }
    }

    /// Locks the shards of these keys, in one order for all.
    fn lock(&self, hashes: &[u64]) -> Held<'_> {
        let mut which = [usize::MAX; MOST_LIMITS];
        for (which, hash) in which.iter_mut().zip(hashes) {
            *which = self.shard_of(*hash);
        }
        which.sort_unstable();
        let mut last = usize::MAX;
        which.map(|shard| {
            let again = shard == last;
            last = shard;
            (!again).then(|| self.shards.get(shard).map(|mutex| (shard, lock(mutex)))).flatten()
        })
    }

    fn held<'h>(&self, held: &'h mut Held<'_>, hash: u64) -> Option<&'h mut Shard> {
        let shard = self.shard_of(hash);
        held.iter_mut().flatten().find(|(which, _)| *which == shard).map(|(_, shard)| &mut **shard)
    }

    fn shard_of(&self, hash: u64) -> usize {
        // The table inside uses the low bits and the top seven.
        (((hash >> 24) & 0xffff_ffff) % self.shards.len() as u64) as usize
    }
}

impl Buckets for BucketTable {
    fn clock(&self) -> ReadClock {
        self.clock.clone()
    }

    fn take(&self, now: Instant, charges: Charges<'_>) -> Taken {
        Taken::Now(self.take_now(now, charges))
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts { shared: self.shared.load(Ordering::Relaxed), ..Counts::default() };
        for shard in &self.shards {
            let shard = lock(shard);
            counts.keys += shard.len() as u64;
            counts.dropped += shard.dropped;
        }
        counts
    }

    fn standing(&self) -> Standing {
        Standing { place: "memory".to_owned(), members: 1, lost: None, losses: 0 }
    }
}

impl fmt::Debug for BucketTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketTable").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

type Held<'a> = [Option<(usize, MutexGuard<'a, Shard>)>; MOST_LIMITS];

fn shared<'o>(overflow: &'o mut [(Box<str>, Bucket)], charge: &Charge<'_>) -> Option<&'o mut (Box<str>, Bucket)> {
    overflow.iter_mut().find(|(name, _)| **name == *charge.limit.name())
}

/// No take leaves a bucket half changed: a panic elsewhere does no harm to it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::guard::conformance;

    #[test]
    fn it_passes_the_suite() {
        conformance::every_check(|| BucketTable::new(BucketTableSettings::default(), 7, Arc::new(|| Instant::ZERO)));
    }
}
