//! Guards' buckets in real time: many takers at once, and a server that dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use comity_core::guard::{NamedLimit, TokenBucket, Verdict};
use comity_redis::{BucketSettings, RedisBuckets};
use comity_store::guard::conformance::settled;
use comity_store::guard::{Buckets as _, Charge, Charges, Key};

use crate::guard::{bucket_settings, named, per_second};
use crate::member::real_now;
use crate::server::{Server, pause};

const MS: Duration = Duration::from_millis(1);

fn open(url: &str, settings: &BucketSettings) -> RedisBuckets {
    RedisBuckets::open(url, settings.clone()).expect("the server answers")
}

fn take(buckets: &RedisBuckets, limits: &[&NamedLimit]) -> Verdict {
    let charges: Vec<Charge<'_>> = limits.iter().map(|limit| Charge { limit, key: Key::ALL, cost: 1 }).collect();
    settled(buckets.take(buckets.clock()(), Charges::new(&charges).expect("charges")))
}

/// As fast as each can: how many were let in, and how long that took at most.
fn taken(all: Vec<RedisBuckets>, limit: &NamedLimit, span: Duration) -> (u64, Duration) {
    let began = real_now();
    let takers: Vec<_> = all
        .into_iter()
        .map(|buckets| {
            let limit = limit.clone();
            std::thread::spawn(move || {
                let mut let_in = 0;
                while began.elapsed() < span {
                    let_in += u64::from(take(&buckets, &[&limit]).refused().is_none());
                }
                let_in
            })
        })
        .collect();
    let let_in = takers.into_iter().map(|taker| taker.join().expect("it ends")).sum();
    (let_in, began.elapsed())
}

#[test]
fn x1_any_number_of_guards_that_take_as_fast_as_they_can_hold_one_limit() {
    let _alone = crate::server::busy();
    let server = Server::start();
    // Two hundred a second.
    let limit = named("each", TokenBucket::new(200, 1, MS * 5).expect("a limit"));
    for guards in [1, 2, 4, 6] {
        let settings = bucket_settings();
        let all = (0..guards).map(|_| open(&server.url(), &settings)).collect();
        let (let_in, took) = taken(all, &limit, MS * 2000);
        let most = 200 + took.as_micros().div_ceil(5000) as u64;
        assert!(let_in <= most, "{guards} guards: {let_in} of {most}");
        assert!(let_in >= 200 + 400 - 40, "{guards} guards: {let_in} of {most}");
    }
}

#[test]
fn x9_a_flush_meanwhile_makes_them_slower_and_not_faster() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let (settings, limit) = (bucket_settings(), named("each", TokenBucket::new(200, 1, MS * 5).expect("a limit")));
    let all = (0..3).map(|_| open(&server.url(), &settings)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let flushes = Arc::new(AtomicU64::new(0));
    let flusher = std::thread::spawn({
        let (stop, flushes, port) = (Arc::clone(&stop), Arc::clone(&flushes), server.port);
        move || {
            while !stop.load(Ordering::Relaxed) {
                pause(MS * 200);
                crate::server::say(port, &["FLUSHALL"]);
                flushes.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let (let_in, took) = taken(all, &limit, MS * 1500);
    stop.store(true, Ordering::Relaxed);
    flusher.join().expect("it ends");
    assert!(flushes.load(Ordering::Relaxed) >= 2);
    let most = 200 + took.as_micros().div_ceil(5000) as u64;
    assert!(let_in <= most && let_in >= 200, "{let_in} of {most}");
}

#[test]
fn decision_7_while_the_server_is_gone_each_has_its_part_and_it_is_found_again() {
    let _quiet = crate::server::on_time();
    let mut server = Server::start();
    let settings = BucketSettings { deadline: MS * 200, ..bucket_settings() };
    let limit = per_second(100, 100);
    let (one, other) = (open(&server.url(), &settings), open(&server.url(), &settings));
    assert!(take(&one, &[&limit]).refused().is_none());
    // Each has heard of the other.
    while [&one, &other].iter().any(|buckets| buckets.standing().members < 2) {
        pause(MS * 20);
    }
    server.kill();
    let killed = real_now();
    let mut let_in = 0;
    while killed.elapsed() < MS * 2000 {
        for buckets in [&one, &other] {
            let verdict = take(buckets, &[&limit]);
            let_in += u32::from(verdict.refused().is_none());
            assert!(verdict.refused().is_none_or(|(_, retry)| !retry.is_zero()));
        }
        assert!(killed.elapsed() >= MS * 900 || let_in == 0, "nothing at first: {let_in}");
        pause(MS);
    }
    let lost = one.standing();
    assert!(lost.lost.is_some() && lost.losses == 1 && !lost.place.is_empty(), "{lost:?}");
    let most = (killed.elapsed().as_millis() / 10) as u32 - 90;
    assert!(let_in > 0 && let_in <= most, "{let_in} of {most} that are earned after a second");
    server.restart();
    let restarted = real_now();
    while one.standing().lost.is_some() || other.standing().lost.is_some() {
        assert!(restarted.elapsed() < MS * 10_000, "it is not found again");
        pause(MS * 10);
    }
    // It is empty: the burst is spent.
    let verdict = take(&one, &[&limit]);
    assert!(verdict.left()[0].remaining < 60 * (1 + restarted.elapsed().as_secs() as u32), "{verdict:?}");
    assert_eq!(one.standing().losses, 1);
}

#[test]
fn decision_9_on_a_cluster_all_limits_of_a_request_are_decided_together() {
    let _quiet = crate::server::on_time();
    let nodes = crate::cluster::cluster();
    let settings = BucketSettings { deadline: MS * 2000, ..bucket_settings() };
    let all: Vec<RedisBuckets> = nodes.iter().map(|node| open(&node.url(), &settings)).collect();
    let limits: Vec<NamedLimit> = [3, 9, 9, 9]
        .iter()
        .enumerate()
        .map(|(nth, capacity)| {
            let hourly = TokenBucket::new(*capacity, 1, Duration::from_secs(3600)).expect("a limit");
            named(&format!("l{nth}"), hourly)
        })
        .collect();
    let asked: Vec<&NamedLimit> = limits.iter().collect();
    let let_in = (0..12).filter(|nth| take(&all[nth % 3], &asked).refused().is_none()).count();
    assert_eq!(let_in, 3);
    let verdict = take(&all[0], &asked);
    let left: Vec<u32> = verdict.left().iter().map(|left| left.remaining).collect();
    assert_eq!(left, [0, 6, 6, 6], "those that refused cost the others nothing");
}

#[test]
fn a_user_who_may_run_scripts_on_a_guards_keys_may_do_enough() {
    let server = Server::with(&[
        "--user",
        "ann on >pass resetchannels ~comity:1:guard:* -@all +evalsha +eval +mget +get +set +del +time +hello +select +client",
    ]);
    let buckets = open(&format!("redis://ann:pass@127.0.0.1:{}", server.port), &BucketSettings::default());
    let limit = per_second(1, 1);
    assert!(take(&buckets, &[&limit]).refused().is_none() && take(&buckets, &[&limit]).refused().is_some());
    assert_eq!(buckets.standing().lost, None);
}
