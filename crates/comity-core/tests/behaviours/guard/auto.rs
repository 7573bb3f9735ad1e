//! The limit in flight that learns, with its queue, before upstreams of some size and speed.

use core::time::Duration;

use comity_core::guard::{Auto, AutoSettings, End, Exchange};

use super::upstream::Pool;
use crate::world::{MS, at};

const POOLS: [(usize, u32); 3] = [(4, 200), (16, 100), (1, 50)];

#[test]
fn it_finds_the_upstreams_concurrency_and_keeps_the_latency_under_four_times_its_load() {
    for (workers, service) in POOLS {
        for seed in 1..4 {
            let mut pool = Pool::of(workers, service).seeded(seed);
            pool.load(4.0 * capacity(workers, service), 30);
            held(&mut pool, workers, service);
        }
    }
}

#[test]
fn it_learns_anew_when_the_upstream_changes() {
    let mut pool = Pool::of(16, 100);
    pool.load(640.0, 20);
    for (workers, service) in [(16, 400), (16, 100), (16, 30), (4, 100), (16, 100), (1, 50)] {
        pool.workers = workers;
        pool.service = Box::new(move |_| MS * service);
        pool.load(4.0 * capacity(workers, service), 90);
        held(&mut pool, workers, service);
    }
}

#[test]
fn a_mixture_of_quick_hits_and_slow_misses_is_no_queue() {
    for hits in [10, 50, 90] {
        for seed in 1..4 {
            let mut pool = mixed(hits).seeded(seed);
            let capacity = 16.0 * 1000.0 / (hits as f64 * 0.05 + (100 - hits) as f64 * 4.0);
            pool.load(4.0 * capacity, 120);
            pool.load(4.0 * capacity, 120);
            let share = pool.served.len() as f64 / 120.0 / capacity;
            assert!(share > 0.85, "{hits} % hits: it serves {share:.2} of what it could, at {}", pool.auto.limit());
            assert!(pool.percentile(99) < MS * 800, "{hits} % hits: {:?}", pool.percentile(99));
        }
    }
}

#[test]
fn another_mixture_of_hits_and_misses_is_no_queue_either() {
    let mut pool = mixed(90);
    pool.load(1400.0, 120);
    pool.service = Box::new(|dice| MS * if dice.below(10) == 0 { 5 } else { 400 });
    pool.load(160.0, 60);
    pool.load(160.0, 60);
    let share = pool.served.len() as f64 / 60.0 / 44.2;
    assert!(share > 0.85, "it serves {share:.2} of what it could, at {}", pool.auto.limit());
}

#[test]
fn a_limit_that_is_not_used_does_not_grow_and_turns_nobody_away() {
    let mut pool = Pool::of(16, 100);
    pool.load(30.0, 300);
    let (served, shed) = (pool.served.len(), pool.shed);
    assert!(shed * 1000 <= served, "{shed} shed, {served} served, at a fifth of what it can");
    assert!(pool.auto.limit() <= 16, "three in flight on the mean taught it {}", pool.auto.limit());
}

#[test]
fn drops_of_a_small_upstream_make_it_smaller() {
    let mut pool = Pool::of(16, 100);
    pool.refuses_over = 10;
    pool.load(640.0, 30);
    pool.load(640.0, 60);
    assert!(pool.auto.limit() <= 12, "{}", pool.auto.limit());
    let (served, dropped) = (pool.served.len(), pool.dropped);
    assert!(served > 5200, "{served} of 6000");
    assert!(dropped * 8 < served, "{dropped} dropped");
}

#[test]
fn time_outs_are_drops() {
    let mut auto = learned(20);
    let mut now = 10_000;
    for _ in 0..200 {
        now += 100;
        auto.ended(at(now), &Exchange { latency: MS * 1000, end: End::Dropped, in_flight: 20 });
        if auto.limit() <= 10 {
            return;
        }
    }
    panic!("it is {} after 200 time-outs", auto.limit());
}

#[test]
fn faults_that_come_whatever_the_load_do_not_close_the_gate() {
    for faults in [5, 50, 300] {
        let mut pool = Pool::of(16, 100);
        pool.faults = faults;
        pool.load(640.0, 30);
        pool.load(640.0, 60);
        let share = (pool.served.len() + pool.dropped) as f64 / 60.0 / 160.0;
        assert!(share > 0.75, "{faults} in 1,000 are faults: it serves {share:.2} of what it could");
    }
}

#[test]
fn it_stays_within_its_bounds() {
    let settings = AutoSettings { start: 3, least: 2, most: 5 };
    for (latency, end, bound) in [(MS * 10, End::Served, 5), (MS * 10, End::Dropped, 2)] {
        let mut auto = Auto::new(settings).unwrap();
        let mut lowest = u32::MAX;
        for n in 0..20_000 {
            // A share of the drops is answered, so that it is their number that is judged.
            let end = if n % 40 == 0 { End::Served } else { end };
            auto.ended(at(1000 + n), &Exchange { latency, end, in_flight: auto.limit() });
            assert!((2..=5).contains(&auto.limit()));
            lowest = lowest.min(auto.limit());
        }
        let reached = if bound == 2 { lowest } else { auto.limit() };
        assert_eq!(reached, bound);
    }
}

#[test]
fn what_says_nothing_teaches_nothing() {
    let mut auto = learned(20);
    let before = auto;
    for n in 0..10_000 {
        auto.ended(at(20_000 + n), &Exchange { latency: MS * 9000, end: End::Unknown, in_flight: 20 });
    }
    assert_eq!(auto, before);
}

#[test]
fn g5_bounds_that_contradict_each_other_are_refused() {
    for (start, least, most, wrong) in
        [(1, 0, 5, "least"), (1, 2, 5, "start"), (6, 2, 5, "start"), (1, 1, 70_000, "most")]
    {
        let error = Auto::new(AutoSettings { start, least, most }).unwrap_err();
        assert_eq!(error.parameter, wrong, "{error}");
    }
}

/// It knows the upstream, holds its latency and uses it.
fn held(pool: &mut Pool, workers: usize, service: u32) {
    pool.load(4.0 * capacity(workers, service), 60);
    let (limit, p99) = (pool.auto.limit(), pool.percentile(99));
    let story = format!("{workers} × {service} ms: limit {limit}, p99 {p99:?}");
    assert!(limit as usize >= workers && limit as usize <= workers + 1 + workers / 4, "{story}");
    assert!(p99 <= MS * service * 2 + MS * service / 10, "{story}");
    assert!(pool.percentile(95) <= MS * service * 2, "{story}");
    let share = pool.served.len() as f64 / 60.0 / capacity(workers, service);
    assert!(share > 0.9, "{story}, {share:.2} of what it can");
}

fn capacity(workers: usize, service: u32) -> f64 {
    workers as f64 * 1000.0 / f64::from(service)
}

fn mixed(hits: u64) -> Pool {
    Pool::serving(16, move |dice| MS * if dice.below(100) < hits { 5 } else { 400 })
}

/// Before an upstream that takes 100 ms whatever the number.
fn learned(limit: u32) -> Auto {
    let mut auto = Auto::new(AutoSettings { start: limit, least: 1, most: limit }).expect("allowed");
    for n in 0..500 {
        auto.ended(at(1000 + n * 5), &Exchange { latency: MS * 100, end: End::Served, in_flight: limit });
    }
    assert_eq!(auto.base(), Some(Duration::from_millis(100)));
    auto
}
