//! The buckets of one process, in its memory.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use comity_core::guard::{Bucket, Limit, MOST_LIMITS, Verdict, all};
use comity_core::time::Instant;
use foldhash::quality::FixedState;

use super::shard::{self, Shard, Slot};
use super::{Buckets, Charge, ChargeError, Charges, Counts, Taken, spent};
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
    /// Since when keys that are not here may have come back: before that all they had was taken.
    spent_at: Option<Instant>,
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
            spent_at: None,
        }
    }

    /// The same for one that takes another's place whose buckets are lost: every key begins as if all it has had been taken
    /// at that instant (X9).
    pub fn spent(settings: BucketTableSettings, seed: u64, clock: ReadClock, at: Instant) -> Self {
        Self { spent_at: Some(at), ..Self::new(settings, seed, clock) }
    }

    /// As [`Buckets::take`], which this table answers at once.
    pub fn take_now(&self, now: Instant, charges: Charges<'_>) -> Verdict {
        match charges.as_slice() {
            [] => all::take(now, &[], &mut []),
            [one] => self.take_one(now, one).into(),
            [first, ..] => self.take_all(now, charges.as_slice(), first),
        }
    }

    /// The same for a request under a single limit, which is the common case: a fraction of the work.
    ///
    /// # Errors
    /// The cost can never be paid.
    pub fn take_one_now(&self, now: Instant, charge: &Charge<'_>) -> Result<Verdict<1>, ChargeError> {
        charge.check()?;
        Ok(self.take_one(now, charge))
    }

    fn take_one(&self, now: Instant, charge: &Charge<'_>) -> Verdict<1> {
        let (limit, name) = (charge.limit.limit(), charge.limit.name());
        let hash = shard::hash(&self.hasher, name.as_bytes(), charge.key.as_bytes());
        let Some(shard) = self.shards.get(self.shard_of(hash)) else { return self.take_shared(now, charge) };
        let mut shard = lock(shard);
        if let Some((bucket, full_at)) = shard.find_mut(hash, name, charge.key) {
            let verdict = all::take_one(now, limit, charge.cost, bucket);
            *full_at = limit.full_at(bucket);
            return verdict;
        }
        if !shard.make_room(now.as_nanos() / 1000, self.most_each, &[]) {
            return self.take_shared(now, charge);
        }
        let mut bucket = self.fresh(now, limit);
        let verdict = all::take_one(now, limit, charge.cost, &mut bucket);
        // One that was refused is as good as new.
        if verdict.refused().is_none() {
            shard.insert(hash, name, charge.key, bucket, limit.full_at(&bucket));
        }
        verdict
    }

    /// A take from the bucket of all keys of a limit that have none of their own.
    #[cold]
    fn take_shared(&self, now: Instant, charge: &Charge<'_>) -> Verdict<1> {
        self.shared.fetch_add(1, Ordering::Relaxed);
        let mut overflow = lock(&self.overflow);
        let limit = charge.limit.limit();
        let mut verdict = match shared(&mut overflow, charge) {
            Some((_, bucket)) => all::take_one(now, limit, charge.cost, bucket),
            None => {
                let mut bucket = self.fresh(now, limit);
                let verdict = all::take_one(now, limit, charge.cost, &mut bucket);
                overflow.push((charge.limit.name().into(), bucket));
                verdict
            }
        };
        verdict.mark_shared(0);
        verdict
    }

    fn take_all(&self, now: Instant, charges: &[Charge<'_>], first: &Charge<'_>) -> Verdict {
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
                        shard.insert(hashes[nth], charge.limit.name(), charge.key, bucket, full_at);
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
        let fresh = self.fresh(now, charge.limit.limit());
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
        if shard.make_room(now.as_nanos() / 1000, most, &kept) { (Found::New, fresh) } else { (Found::Shared, fresh) }
    }

    /// What a key has that is not here.
    fn fresh(&self, now: Instant, limit: &Limit) -> Bucket {
        self.spent_at.map_or_else(|| limit.fresh(now), |at| spent(limit, at))
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
    use core::time::Duration;
    use std::sync::Arc;

    use comity_core::guard::{LeakyBucket, NamedLimit, Ruling, TokenBucket};

    use super::*;
    use crate::guard::{Key, MOST_KEY_BYTES, conformance};

    #[test]
    fn it_passes_the_suite() {
        conformance::every_check(|| table(1_000_000, 32));
        conformance::every_check(|| table(64, 1));
    }

    #[test]
    fn g06_ten_million_keys_stay_within_the_bound() {
        let (table, limit) = (table(100_000, 32), per_second(20, 20));
        // Without optimisation ten million take most of a minute, and show no more.
        let keys = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000u64 };
        for n in 0..keys {
            // A million a second: each bucket is full again after a twentieth of a second.
            assert!(ask(&table, n, &limit, &n.to_le_bytes()).refused().is_none());
        }
        let counts = table.counts();
        assert!(counts.keys <= 51_000, "those in debt, and hardly more: {counts:?}");
        assert!(counts.shared == 0 && counts.dropped >= keys - 51_000, "{counts:?}");
    }

    #[test]
    fn g06_a_table_shrinks_when_its_clients_have_gone() {
        let (table, limit) = (table(100_000, 4), per_second(1, 1));
        for n in 0..50_000u64 {
            ask(&table, n, &limit, &n.to_le_bytes());
        }
        assert_eq!(table.counts().keys, 50_000);
        for n in 50_000..100_000u64 {
            ask(&table, 10_000_000 + (n - 50_000) * 10_000, &limit, &n.to_le_bytes());
        }
        assert!(table.counts().keys < 200, "{:?}", table.counts());
    }

    #[test]
    fn g8_a_flood_of_forged_keys_makes_no_debt_forgotten() {
        let (table, limit) = (table(1000, 8), per_second(1, 2));
        for _ in 0..2 {
            assert!(ask(&table, 0, &limit, b"noisy").refused().is_none());
        }
        for n in 0..200_000u64 {
            ask(&table, n, &limit, &n.to_le_bytes());
            if n % 1000 == 0 {
                assert!(ask(&table, n, &limit, b"noisy").refused().is_some(), "after {n} forged keys");
            }
        }
        let counts = table.counts();
        assert_eq!((counts.keys <= 1000, counts.dropped), (true, 0), "all were in debt: {counts:?}");
        assert!(counts.shared > 190_000, "{counts:?}");
    }

    #[test]
    fn g8_new_keys_share_one_bucket_when_all_are_in_debt() {
        let (table, limit) = (table(10, 1), per_second(1, 3));
        for n in 0..10u8 {
            assert!(!ask(&table, 0, &limit, &[n]).left()[0].shared);
        }
        let rest: Vec<bool> = (10..20u8)
            .map(|n| {
                let verdict = ask(&table, 0, &limit, &[n]);
                assert!(verdict.left()[0].shared);
                verdict.refused().is_none()
            })
            .collect();
        assert_eq!(rest.iter().filter(|admitted| **admitted).count(), 3, "one bucket for all of them");
        assert_eq!(table.counts(), Counts { keys: 10, dropped: 0, shared: 10 });
        assert!(ask(&table, 0, &limit, &[0]).refused().is_none(), "those that are known have their own");
        assert!(ask(&table, 1_000_000, &limit, &[10]).refused().is_none());
        assert!(!ask(&table, 1_000_000, &limit, &[11]).left()[0].shared, "full ones have made room");
    }

    /// Full ones are found even where every bucket was used again after it was noted when it would be full.
    #[test]
    fn g8_a_full_bucket_is_found_among_many_in_debt() {
        let (table, limit) = (table(1000, 1), per_second(1, 10));
        for round in 0..5u64 {
            for n in 0..1000u64 {
                ask(&table, round * 1000 + n, &limit, &n.to_le_bytes());
            }
        }
        assert_eq!(table.counts().shared, 0);
        // All but one are kept in debt.
        for second in 1..6u64 {
            for n in 1..1000u64 {
                ask(&table, second * 1_000_000 + n, &limit, &n.to_le_bytes());
            }
        }
        let shared = (0..200u64).filter(|n| ask(&table, 5_999_000, &limit, &(5000 + n).to_le_bytes()).left()[0].shared);
        assert!(shared.count() >= 198, "one was full, the others were not");
        assert_eq!(table.counts().dropped, 1, "and it was found within {} takes", 200);
    }

    #[test]
    fn g8_a_single_limit_shares_the_buckets_of_many() {
        for most_keys in [1000, 1] {
            let (table, own, other) = (table(most_keys, 1), per_second(1, 3), per_second_named("other", 1, 3));
            let refused: Vec<bool> = (0..6u8)
                .map(|n| {
                    let others = [b'b', n];
                    let own = Charge { limit: &own, key: Key::new(b"a").unwrap(), cost: 1 };
                    let other = Charge { limit: &other, key: Key::new(&others).unwrap(), cost: 1 };
                    if n % 2 == 0 {
                        return table.take_one_now(Instant::ZERO, &own).unwrap().refused().is_some();
                    }
                    table.take_now(Instant::ZERO, Charges::new(&[own, other]).unwrap()).refused().is_some()
                })
                .collect();
            assert_eq!(refused, [false, false, false, true, true, true], "with {most_keys}");
        }
        let (table, limit) = (table(1, 1), per_second(1, 3));
        let dear = Charge { limit: &limit, key: Key::ALL, cost: 4 };
        assert!(matches!(table.take_one_now(Instant::ZERO, &dear), Err(ChargeError::Cost { .. })));
    }

    #[test]
    fn a_key_of_any_length_has_a_bucket_of_its_own() {
        let (table, limit) = (table(1000, 4), per_second(1, 1));
        for length in 0..=MOST_KEY_BYTES {
            assert!(ask(&table, 0, &limit, &vec![7; length]).refused().is_none(), "{length}");
            assert!(ask(&table, 0, &limit, &vec![7; length]).refused().is_some(), "{length}");
        }
        assert_eq!(table.counts().keys, 257);
    }

    #[test]
    fn a_refused_newcomer_is_not_remembered() {
        let (table, own, all) = (table(1000, 4), per_second(1, 1), NamedLimit::new("all", bucket(1, 1)).unwrap());
        for n in 0..500u64 {
            let key = n.to_le_bytes();
            let charges = [
                Charge { limit: &own, key: Key::new(&key).unwrap(), cost: 1 },
                Charge { limit: &all, key: Key::ALL, cost: 1 },
            ];
            let verdict = table.take_now(Instant::ZERO, Charges::new(&charges).unwrap());
            assert_eq!(verdict.refused().map(|(by, _)| by), (n > 0).then_some(1));
        }
        assert_eq!(table.counts().keys, 2);
    }

    #[test]
    fn g5_charges_that_cannot_be_are_refused() {
        let limit = per_second(1, 3);
        let charge = |cost| Charge { limit: &limit, key: Key::ALL, cost };
        assert!(matches!(Charges::new(&[charge(4)]), Err(ChargeError::Cost { .. })));
        assert!(matches!(Charges::new(&[charge(0)]), Err(ChargeError::Cost { .. })));
        assert_eq!(Charges::new(&[charge(1), charge(1)]).unwrap_err(), ChargeError::Twice("per-client".to_owned()));
        let many: Vec<NamedLimit> = (0..9).map(|n| NamedLimit::new(&format!("l{n}"), bucket(1, 1)).unwrap()).collect();
        let many: Vec<Charge<'_>> = many.iter().map(|limit| Charge { limit, key: Key::ALL, cost: 1 }).collect();
        assert_eq!(Charges::new(&many).unwrap_err(), ChargeError::TooMany(9));
        assert_eq!(Key::new(&[0; 257]).unwrap_err(), ChargeError::LongKey(257));
        assert!(table(1, 1).take_now(Instant::ZERO, Charges::new(&[]).unwrap()).refused().is_none());
    }

    #[test]
    fn g25_those_that_wait_for_their_turn_are_in_debt_until_it_comes() {
        let table = table(1, 1);
        let limit = NamedLimit::new("leaky", LeakyBucket::new(1, Duration::from_secs(1), 5).unwrap().into()).unwrap();
        ask(&table, 0, &limit, b"a");
        ask(&table, 0, &limit, b"a");
        assert!(ask(&table, 1_999_999, &limit, b"b").left()[0].shared);
        let verdict = ask(&table, 2_000_000, &limit, b"c");
        assert!(matches!(verdict.ruling(), Ruling::Admitted { delayed_by: None, .. }));
        assert!(!verdict.left()[0].shared, "the place of `a` is free");
    }

    fn table(most_keys: u32, shards: u32) -> BucketTable {
        BucketTable::new(BucketTableSettings { most_keys, shards }, 7, Arc::new(|| Instant::ZERO))
    }

    fn bucket(count: i64, burst: i64) -> Limit {
        TokenBucket::rate(count, Duration::from_secs(1), burst).unwrap().into()
    }

    fn per_second(count: i64, burst: i64) -> NamedLimit {
        per_second_named("per-client", count, burst)
    }

    fn per_second_named(name: &str, count: i64, burst: i64) -> NamedLimit {
        NamedLimit::new(name, bucket(count, burst)).unwrap()
    }

    fn ask(table: &BucketTable, micros: u64, limit: &NamedLimit, key: &[u8]) -> Verdict {
        let charges = [Charge { limit, key: Key::new(key).unwrap(), cost: 1 }];
        table.take_now(Instant::from_nanos(micros * 1000), Charges::new(&charges).unwrap())
    }
}
