//! Guards' buckets at times that are given: the suite, and every verdict beside the core's.

use core::time::Duration;
use std::collections::HashMap;

use comity_core::guard::{Bucket, FixedWindow, LeakyBucket, Limit, NamedLimit, TokenBucket, Verdict, all};
use comity_core::time::Instant;
use comity_redis::{BucketSettings, RedisBuckets};
use comity_store::guard::conformance::{every_check, settled};
use comity_store::guard::{Buckets, Charge, Charges, Key};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::server::{Server, settings};

pub(crate) fn bucket_settings() -> BucketSettings {
    BucketSettings { prefix: settings().prefix, deadline: Duration::from_secs(5), ..BucketSettings::default() }
}

fn given(server: &Server, settings: &BucketSettings) -> RedisBuckets {
    RedisBuckets::at_given_times(&server.url(), settings.clone()).expect("the server answers")
}

fn take(buckets: &impl Buckets, now: Instant, charges: &[(&NamedLimit, &[u8], u32)]) -> Verdict {
    let charges: Vec<Charge<'_>> = charges
        .iter()
        .map(|(limit, key, cost)| Charge { limit, key: Key::new(key).expect("a short key"), cost: *cost })
        .collect();
    settled(buckets.take(now, Charges::new(&charges).expect("charges")))
}

pub(crate) fn named(name: &str, limit: impl Into<Limit>) -> NamedLimit {
    NamedLimit::new(name, limit.into()).expect("a name")
}

pub(crate) fn per_second(count: i64, burst: i64) -> NamedLimit {
    named("each", TokenBucket::rate(count, Duration::from_secs(1), burst).expect("a limit"))
}

fn many(buckets: &RedisBuckets, now: Instant, limit: &NamedLimit, asked: usize) -> usize {
    (0..asked).filter(|_| take(buckets, now, &[(limit, b"a", 1)]).refused().is_none()).count()
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

#[test]
fn x3_it_passes_the_suite_of_every_store_of_buckets() {
    let _alone = crate::server::busy();
    let server = Server::start();
    every_check(|| given(&server, &bucket_settings()));
}

#[test]
fn x1_those_that_share_a_server_hold_one_limit() {
    let _alone = crate::server::busy();
    let (server, settings, limit) = (Server::start(), bucket_settings(), per_second(2, 10));
    let all: Vec<RedisBuckets> = (0..4).map(|_| given(&server, &settings)).collect();
    assert_eq!(all.iter().map(|buckets| many(buckets, at(0), &limit, 4)).sum::<usize>(), 10);
    let elsewhere = given(&server, &bucket_settings());
    assert_eq!(many(&elsewhere, at(0), &limit, 11), 10, "another prefix is another limit");
    drop(all);
    assert_eq!(many(&given(&server, &settings), at(500), &limit, 3), 1);
}

#[test]
fn x9_after_a_flush_every_bucket_is_spent() {
    let _alone = crate::server::busy();
    let (server, settings, limit) = (Server::start(), bucket_settings(), per_second(1, 5));
    let (one, other) = (given(&server, &settings), given(&server, &settings));
    assert_eq!((many(&one, at(0), &limit, 3), many(&other, at(0), &limit, 1)), (3, 1));
    server.say(&["FLUSHALL"]);
    assert_eq!(many(&one, at(10), &limit, 9), 0);
    assert_eq!(many(&other, at(1010), &limit, 9), 1);
    assert_eq!(many(&given(&server, &settings), at(3010), &limit, 9), 2, "for one that comes later, too");
    server.say(&["FLUSHALL"]);
    // One that knows nothing of others comes first.
    let newcomer = given(&server, &settings);
    assert_eq!(many(&newcomer, at(5000), &limit, 9), 5, "one more burst");
    assert_eq!(many(&one, at(5000), &limit, 9), 0);
    assert!(take(&newcomer, at(5000), &[(&limit, b"b", 1)]).refused().is_some(), "what one knows, all know");
}

#[test]
fn e05_a_server_whose_clock_goes_back_holds_nobody_for_longer_than_a_limit_does() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let limits = [
        per_second(1, 3),
        named("window", FixedWindow::new(3, Duration::from_secs(3)).expect("a limit")),
        named("leaky", LeakyBucket::new(1, Duration::from_secs(1), 2).expect("a limit")),
    ];
    for limit in &limits {
        let settings = bucket_settings();
        let buckets = given(&server, &settings);
        assert_eq!(many(&buckets, at(900_000), limit, 9), 3);
        assert_eq!(many(&buckets, at(0), limit, 9), 0, "{}: not sooner either", limit.limit());
        assert_eq!(many(&buckets, at(3000), limit, 9), 3, "{}", limit.limit());
        server.say(&["FLUSHALL"]);
        assert_eq!(many(&buckets, at(900_000), limit, 9), 0, "{}", limit.limit());
        assert_eq!(many(&buckets, at(0), limit, 9), 0, "{}", limit.limit());
        assert_eq!(many(&buckets, at(3000), limit, 9), 3, "{}: nor does a generation", limit.limit());
    }
}

#[test]
fn what_is_no_bucket_is_written_over() {
    let _alone = crate::server::busy();
    let (server, settings, limit) = (Server::start(), bucket_settings(), per_second(1, 5));
    let buckets = given(&server, &settings);
    for words in [["SET", "words"], ["LPUSH", "3:x"], ["SET", "99999999999999999999999999999999:1"]] {
        let key = format!("{}:{{~}}:each=a", settings.prefix);
        server.say(&["DEL", &key]);
        server.say(&[words[0], &key, words[1]]);
        assert!(many(&buckets, at(0), &limit, 9) <= 5, "{words:?}");
        let kept = server.say(&["GET", &key]);
        assert!(kept.starts_with("0:"), "{words:?}: {kept}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Take(Vec<(usize, usize, u32)>),
}

const KEYS: [&str; 3] = ["", "192.0.2.1", "é={}:\0"];

fn limits() -> impl Strategy<Value = [Limit; 4]> {
    let span = || prop_oneof![1u64..50, 100u64..2_000_000, Just(3_600_000_000)].prop_map(Duration::from_micros);
    let bucket = move || {
        (1i64..12, 1i64..5, span())
            .prop_map(|(capacity, refill, per)| Limit::from(TokenBucket::new(capacity, refill, per).expect("a limit")))
    };
    let window =
        move || (1i64..9, span()).prop_map(|(count, per)| Limit::from(FixedWindow::new(count, per).expect("a limit")));
    let leaky = (100u64..2_000_000, 0i64..9)
        .prop_map(|(per, burst)| Limit::from(LeakyBucket::new(1, Duration::from_micros(per), burst).expect("a limit")));
    // The last two go by one name, so that what one keeps the other goes on with.
    let one = prop_oneof![bucket(), window(), leaky];
    let two = prop_oneof![(bucket(), bucket()), (window(), window())];
    (one, bucket(), two).prop_map(|(one, other, (before, after))| [one, other, before, after])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let charge = (0usize..4, 0usize..KEYS.len(), 1u32..4);
    let step = prop_oneof![
        1 => prop_oneof![0u64..100, 1000u64..3_000_000, Just(1_000_000), 60_000_000u64..70_000_000, Just(7_200_000_000)]
            .prop_map(Step::Pass),
        2 => prop::collection::vec(charge, 1..4).prop_map(Step::Take),
    ];
    prop::collection::vec(step, 1..60)
}

/// Every verdict is the core's own, word for word; and what expires has been as good as new for a minute.
fn same(server: &Server, limits: &[Limit; 4], steps: &[Step]) -> Result<(), TestCaseError> {
    let settings = bucket_settings();
    let distant = given(server, &settings);
    let named: Vec<NamedLimit> =
        limits.iter().zip(["a", "a:b", "c", "c"]).map(|(limit, name)| named(name, *limit)).collect();
    let mut now = Instant::from_nanos(5_000_000_000_000_000);
    let mut kept: HashMap<String, Kept> = HashMap::new();
    let name = |limit: &NamedLimit, key: &str| format!("{}:{{~}}:{}={key}", settings.prefix, limit.name());
    for step in steps {
        match step {
            Step::Pass(micros) => {
                now = now.after(Duration::from_micros(*micros));
                // The server's time goes by as well while it is asked, so that a little of the minute is gone.
                for (key, kept) in kept.extract_if(|_, kept| kept.expires <= now) {
                    prop_assert!(kept.limit.is_full(kept.expires.before(Duration::from_secs(50)), &kept.bucket));
                    server.say(&["DEL", &key]);
                }
            }
            Step::Take(wanted) => {
                let mut charges: Vec<(&NamedLimit, &str, u32)> = Vec::new();
                for (limit, key, cost) in wanted {
                    let limit = &named[*limit];
                    if charges.iter().all(|(other, ..)| other.name() != limit.name()) {
                        charges.push((limit, KEYS[*key], (*cost).min(limit.limit().capacity())));
                    }
                }
                let asked: Vec<(Limit, u32)> = charges.iter().map(|(limit, _, cost)| (*limit.limit(), *cost)).collect();
                let bucket = |(limit, key, _): &(&NamedLimit, &str, u32)| {
                    kept.get(&name(limit, key)).map_or_else(|| limit.limit().fresh(now), |kept| kept.bucket)
                };
                let mut buckets: Vec<Bucket> = charges.iter().map(bucket).collect();
                let here = all::take(now, &asked, &mut buckets);
                let bytes: Vec<_> = charges.iter().map(|(limit, key, cost)| (*limit, key.as_bytes(), *cost)).collect();
                prop_assert_eq!(take(&distant, now, &bytes), here);
                for ((limit, key, _), bucket) in charges.iter().zip(buckets) {
                    let (key, limit) = (name(limit, key), *limit.limit());
                    let left = server.say(&["PTTL", &key]).trim().trim_start_matches(':').parse::<i64>();
                    let Some(left) = left.ok().filter(|left| *left >= 0) else {
                        prop_assert!(here.refused().is_some(), "a bucket is not kept");
                        continue;
                    };
                    if kept.get(&key).is_none_or(|kept| kept.bucket != bucket) {
                        let expires = now.after(Duration::from_millis(left.unsigned_abs() + 1));
                        kept.insert(key, Kept { bucket, limit, expires });
                    }
                }
            }
        }
    }
    Ok(())
}

struct Kept {
    bucket: Bucket,
    limit: Limit,
    expires: Instant,
}

#[test]
fn g1_g2_every_verdict_is_the_cores_and_expiry_is_never_observed() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let mut runner = TestRunner::new(Config { cases: 80, failure_persistence: None, ..Config::default() });
    runner
        .run(&(limits(), steps()), |(limits, steps)| same(&server, &limits, &steps))
        .unwrap_or_else(|error| panic!("{error}"));
}
