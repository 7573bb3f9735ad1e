use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use comity_core::guard::{Bucket, FixedWindow, LeakyBucket, Limit, NamedLimit, TokenBucket, all};
use comity_store::guard::{Charge, Key, conformance};
use proptest::prelude::*;

use super::*;
use crate::file::dying;

/// A place for one store, and those that share it.
struct Town(tempfile::TempDir, BucketSettings);

impl Town {
    fn new() -> Self {
        Self::of(BucketSettings::default())
    }

    /// One in which hardly any key has a bucket of its own.
    fn tiny() -> Self {
        Self::of(BucketSettings { most_buckets: 1, ..BucketSettings::default() })
    }

    fn of(settings: BucketSettings) -> Self {
        Self(tempfile::tempdir().unwrap(), settings)
    }

    fn open(&self) -> MachineBuckets {
        MachineBuckets::open(self.0.path().join("pace"), self.1).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("pace.guard")
    }

    fn overwrite(&self, at: u64, bytes: &[u8]) {
        OpenOptions::new().write(true).open(self.path()).unwrap().write_all_at(bytes, at).unwrap();
    }
}

fn per_second(count: i64, burst: i64) -> NamedLimit {
    named("each", TokenBucket::rate(count, Duration::from_secs(1), burst).unwrap())
}

fn named(name: &str, limit: impl Into<Limit>) -> NamedLimit {
    NamedLimit::new(name, limit.into()).unwrap()
}

fn take(buckets: &MachineBuckets, ms: u64, limit: &NamedLimit, key: &[u8]) -> Verdict {
    let charges = [Charge { limit, key: Key::new(key).unwrap(), cost: 1 }];
    buckets.take_now(at(ms), Charges::new(&charges).unwrap())
}

/// How many of so many are let in at an instant.
fn many(buckets: &MachineBuckets, ms: u64, limit: &NamedLimit, asked: usize) -> usize {
    (0..asked).filter(|_| take(buckets, ms, limit, b"a").refused().is_none()).count()
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

fn is_lost(buckets: &MachineBuckets) -> bool {
    buckets.standing().lost.is_some()
}

#[test]
fn x3_it_passes_the_suite_of_every_store_of_buckets() {
    for settings in [BucketSettings::default(), BucketSettings { most_buckets: 60, ..BucketSettings::default() }] {
        let towns = std::cell::RefCell::new(Vec::new());
        conformance::every_check(|| {
            let town = Town::of(settings);
            let buckets = town.open();
            towns.borrow_mut().push(town);
            buckets
        });
    }
}

#[test]
fn x1_those_that_share_a_file_hold_one_limit() {
    let town = Town::new();
    let limit = per_second(2, 10);
    let all: Vec<MachineBuckets> = (0..4).map(|_| town.open()).collect();
    let admitted: usize = all.iter().map(|buckets| many(buckets, 0, &limit, 4)).sum();
    assert_eq!(admitted, 10);
    let (by, retry) = take(&all[2], 0, &limit, b"a").refused().unwrap();
    assert_eq!((by, retry), (0, Duration::from_millis(500)), "each knows when the next may");
    assert!(
        take(&all[3], 499, &limit, b"a").refused().is_some() && take(&all[1], 500, &limit, b"a").refused().is_none()
    );
    // And one that comes later, or comes back.
    drop(all);
    assert_eq!(many(&town.open(), 500, &limit, 3), 0);
    assert_eq!(many(&town.open(), 1000, &limit, 3), 1);
}

#[test]
fn a_pace_and_buckets_of_one_path_are_beside_each_other() {
    let town = Town::new();
    let path = town.0.path().join("pace");
    let (machine, buckets) = (crate::Machine::open(&path, crate::Settings::default()).unwrap(), town.open());
    assert_eq!(many(&buckets, 0, &per_second(1, 1), 2), 1);
    assert_eq!(comity_store::Shared::standing(&machine).lost, None);
    let error = crate::Machine::open(town.path(), crate::Settings::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains("holds the buckets of guards"), "{error}");
    let error = crate::Machine::look(town.path()).map(drop).unwrap_err().to_string();
    assert!(error.contains("holds the buckets of guards"), "{error}");
    std::fs::remove_file(town.path()).unwrap();
    std::fs::rename(&path, town.path()).unwrap();
    let error = MachineBuckets::open(&path, BucketSettings::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains("holds the pace of hosts"), "{error}");
}

#[test]
fn x9_a_file_that_is_lost_is_followed_by_one_whose_buckets_are_spent() {
    type Lose = (&'static str, fn(&Town));
    let loses: [Lose; 5] = [
        ("deleted", |town| std::fs::remove_file(town.path()).unwrap()),
        ("truncated", |town| OpenOptions::new().write(true).open(town.path()).unwrap().set_len(5000).unwrap()),
        ("emptied", |town| std::fs::write(town.path(), "").unwrap()),
        ("its header damaged", |town| town.overwrite(30, &[0xaa; 40])),
        ("all of it damaged", |town| town.overwrite(0, &vec![0x55; 300_000])),
    ];
    for (how, lose) in loses {
        let town = Town::new();
        let limit = per_second(1, 5);
        let (one, other) = (town.open(), town.open());
        assert_eq!(many(&one, 0, &limit, 3), 3);
        lose(&town);
        assert_eq!(many(&one, 10, &limit, 9), 0, "{how}: the burst is spent");
        assert_eq!(many(&other, 1009, &limit, 9), 0, "{how}");
        assert_eq!(many(&other, 1010, &limit, 9), 1, "{how}");
        assert_eq!(many(&town.open(), 3010, &limit, 9), 2, "{how}: also for one that came later");
        assert!(!is_lost(&one) && !is_lost(&other), "{how}");
    }
}

#[test]
fn x9_whoever_finds_anothers_new_file_has_it_spent_too() {
    let town = Town::new();
    let limit = per_second(1, 5);
    let one = town.open();
    many(&one, 0, &limit, 5);
    // All that tells of it is gone, so that the next believes it is the first.
    for entry in town.0.path().read_dir().unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
    let newcomer = town.open();
    assert_eq!(many(&newcomer, 10, &limit, 9), 5, "one more burst");
    assert_eq!(many(&one, 10, &limit, 9), 0);
    let unseen = take(&newcomer, 20, &limit, b"b");
    assert!(unseen.refused().is_some(), "known by one, known by all: {unseen:?}");
}

#[test]
fn x9_a_damaged_bucket_is_not_forgotten_debt() {
    // Its key, or what it has.
    for damage in [4, -8] {
        let town = Town::tiny();
        let limit = per_second(1, 2);
        let one = town.open();
        assert_eq!(many(&one, 0, &limit, 3), 2);
        let bytes = std::fs::read(town.path()).unwrap();
        let name = bytes.windows(5).position(|five| five == b"eacha").unwrap();
        let damaged = name.checked_add_signed(damage).unwrap();
        town.overwrite(damaged as u64, &[bytes[damaged] ^ 1]);
        assert_eq!(many(&one, 0, &limit, 3), 0, "byte {damage}");
        assert!(!is_lost(&one) && town.path().with_extension("guard.damaged-1").exists());
    }
}

#[test]
fn g8_a_bucket_in_debt_is_never_written_over_and_the_rest_share_one() {
    let town = Town::tiny();
    let limit = per_second(1, 2);
    let one = town.open();
    let shared: Vec<bool> = (0..200u32).map(|n| take(&one, 0, &limit, &n.to_le_bytes()).left()[0].shared).collect();
    let own = shared.iter().filter(|shared| !**shared).count();
    assert!((2..=22).contains(&own), "{own}");
    let counts = one.counts();
    assert_eq!((counts.dropped, counts.shared), (0, 200 - own as u64));
    for n in 0..200u32 {
        let verdict = take(&one, 1, &limit, &n.to_le_bytes());
        assert_eq!(verdict.left()[0].shared, shared[n as usize], "{n}");
        assert_eq!(verdict.refused().is_some(), verdict.left()[0].shared, "its own has one left: {n}");
    }
    // A second later each has one back.
    assert!(!take(&town.open(), 3000, &limit, b"new").left()[0].shared, "full ones have made room");
    assert_eq!(one.counts().keys, counts.keys, "in their place");
}

#[test]
fn g8_a_file_has_room_for_nearly_as_many_as_it_should() {
    let town = Town::of(BucketSettings { most_buckets: 2000, ..BucketSettings::default() });
    let limit = per_second(1, 1);
    let one = town.open();
    let first_shared = (0..2500u32).position(|n| take(&one, 0, &limit, &n.to_le_bytes()).left()[0].shared).unwrap();
    assert!(first_shared >= 1600, "{first_shared}");
}

#[test]
fn g8_what_one_request_uses_is_not_written_over_by_its_other_limits() {
    let town = Town::tiny();
    let one = town.open();
    let limits: Vec<NamedLimit> =
        (0..8).map(|n| named(&format!("l{n}"), TokenBucket::new(3, 1, Duration::from_secs(1)).unwrap())).collect();
    // All are full again each time, and there is room for few.
    for round in 0..50u64 {
        for nth in 0..3 {
            let key = (round * 3 + nth).to_le_bytes();
            let charges: Vec<Charge<'_>> =
                limits.iter().map(|limit| Charge { limit, key: Key::new(&key).unwrap(), cost: 3 }).collect();
            let now = at(round * 3000 + nth * 3000 / 3);
            let verdict = one.take_now(now, Charges::new(&charges).unwrap());
            let again = one.take_now(now, Charges::new(&charges).unwrap());
            assert!(again.refused().is_some(), "{round}.{nth}: {verdict:?}, {again:?}");
            if verdict.refused().is_none() {
                assert!(again.left().iter().all(|left| left.retry.is_some()), "all were charged: {again:?}");
            }
        }
    }
}

#[test]
fn a_lock_that_is_not_had_in_time_lets_nothing_in_at_first_and_then_a_part() {
    let town = Town::of(BucketSettings { lock_deadline: Duration::from_millis(5), ..BucketSettings::default() });
    let limit = per_second(10, 10);
    let (one, _other) = (town.open(), town.open());
    let holder = OpenOptions::new().read(true).write(true).open(town.path()).unwrap();
    holder.lock().unwrap();
    assert_eq!(many(&one, 0, &limit, 20), 0);
    let standing = one.standing();
    assert!(standing.lost.is_some_and(|(since, why)| since == at(0) && why.contains("lock")));
    assert_eq!((standing.members, standing.losses), (2, 1));
    assert_eq!(many(&one, 999, &limit, 20), 0);
    // Half of ten a second since the first second, and no more than half of the burst.
    assert_eq!(many(&one, 2000, &limit, 20), 5);
    assert_eq!(many(&one, 2100, &limit, 20), 0);
    assert_eq!(many(&one, 9000, &limit, 20), 5);
    drop(holder);
    assert_eq!(many(&one, 20_000, &limit, 20), 10, "all of it again");
    assert!(!is_lost(&one));
}

#[test]
fn x3_a_process_that_dies_within_a_take_has_made_the_others_slower_at_most() {
    let limits = [
        named("bucket", TokenBucket::new(3, 1, Duration::from_secs(9)).unwrap()),
        named("window", FixedWindow::new(3, Duration::from_secs(9)).unwrap()),
        named("leaky", LeakyBucket::new(1, Duration::from_secs(9), 2).unwrap()),
    ];
    let charges: Vec<Charge<'_>> = limits.iter().map(|limit| Charge { limit, key: Key::ALL, cost: 1 }).collect();
    let charges = Charges::new(&charges).unwrap();
    let mut whole = 0;
    for writes in 0.. {
        let town = Town::new();
        let (other, dies) = (town.open(), town.open());
        let before = usize::from(other.take_now(at(0), charges).refused().is_none());
        dying::after(Some(writes));
        let let_in = usize::from(dies.take_now(at(1), charges).refused().is_none());
        let died = dying::died();
        drop(dies);
        dying::after(None);
        let after = (0..5).filter(|_| other.take_now(at(2), charges).refused().is_none()).count();
        assert!(!is_lost(&other));
        assert!(before + let_in + after <= 3 && before + after >= 2, "{writes}: {before} + {let_in} + {after}");
        whole += usize::from(before + let_in + after == 3);
        if !died {
            assert!(writes >= 3 && whole >= 2, "one write for each");
            return;
        }
    }
}

#[test]
fn e13_buckets_outlive_a_boot() {
    let town = Town::new();
    let limit = per_second(1, 5);
    let clock = |buckets: &MachineBuckets| buckets.clock()().as_nanos() / 1_000_000 - 1_000_000;
    let boot = |id| MachineBuckets::open_as(&town.0.path().join("pace"), town.1, Boot { id, namespace: 1 }).unwrap();
    let one = boot(7);
    let now = clock(&one);
    assert_eq!(many(&one, now, &limit, 9), 5);
    drop(one);
    let other = boot(8);
    assert_eq!(many(&other, clock(&other).min(now + 999), &limit, 9), 0);
    assert!(clock(&other) >= now, "the clock goes on");
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let span = || prop_oneof![1u64..50, 100u64..2_000_000, Just(3_600_000_000)].prop_map(Duration::from_micros);
    prop_oneof![
        (1i64..12, 1i64..5, span()).prop_map(|(most, refill, per)| TokenBucket::new(most, refill, per).unwrap().into()),
        (1i64..9, span()).prop_map(|(most, per)| FixedWindow::new(most, per).unwrap().into()),
        (100u64..2_000_000, 0i64..9)
            .prop_map(|(per, burst)| LeakyBucket::new(1, Duration::from_micros(per), burst).unwrap().into()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Which of two processes asks makes no difference.
    #[test]
    fn g1_g2_every_verdict_is_the_cores(
        limits in prop::collection::vec(any_limit(), 4),
        steps in prop::collection::vec(
            (prop_oneof![Just(0u64), 0u64..100, 1000u64..3_000_000, Just(7_200_000_000)], 0usize..2,
             prop::collection::vec((0usize..4, 0u8..3, 1u32..4), 1..4)),
            1..60),
    ) {
        let town = Town::new();
        let both = [town.open(), town.open()];
        // The last two go by one name, so that what one keeps the other goes on with.
        let limits: Vec<NamedLimit> =
            limits.into_iter().zip(["a", "ab", "c", "c"]).map(|(limit, name)| named(name, limit)).collect();
        let mut kept = std::collections::HashMap::<(String, Vec<u8>), Bucket>::new();
        let mut now = at(0);
        for (pass, which, wanted) in steps {
            now = now.after(Duration::from_micros(pass));
            let mut asked: Vec<(&NamedLimit, Vec<u8>, u32)> = Vec::new();
            for (limit, key, cost) in wanted {
                let limit = &limits[limit];
                if asked.iter().all(|(other, ..)| other.name() != limit.name()) {
                    asked.push((limit, vec![b'b'; key.into()], cost.min(limit.limit().capacity())));
                }
            }
            let names = asked.iter().map(|(limit, key, _)| (limit.name().to_owned(), key.clone()));
            let names: Vec<(String, Vec<u8>)> = names.collect();
            let fresh = |(limit, ..): &(&NamedLimit, Vec<u8>, u32)| limit.limit().fresh(now);
            let mut buckets: Vec<Bucket> = names.iter().zip(&asked)
                .map(|(name, asked)| kept.get(name).copied().unwrap_or_else(|| fresh(asked)))
                .collect();
            let costs: Vec<(Limit, u32)> = asked.iter().map(|(limit, _, cost)| (*limit.limit(), *cost)).collect();
            let expected = all::take(now, &costs, &mut buckets);
            let charges: Vec<Charge<'_>> = asked.iter()
                .map(|(limit, key, cost)| Charge { limit, key: Key::new(key).unwrap(), cost: *cost })
                .collect();
            prop_assert_eq!(both[which].take_now(now, Charges::new(&charges).unwrap()), expected);
            for (name, bucket) in names.into_iter().zip(buckets) {
                if expected.refused().is_none() || kept.contains_key(&name) {
                    kept.insert(name, bucket);
                }
            }
        }
    }
}
