//! What the guard decides, as it is told to those who run it.

use core::time::Duration;

use comity_core::guard::{
    Admission, Bucket, FixedWindow, Gate, LeakyBucket, Limit, NamedLimit, Queue, QueueSettings, Ruling, Shed,
    TokenBucket, Turn, admit, all, retry_after,
};
use comity_core::time::Instant;

use crate::world::{MS, SEC, at};

#[test]
fn g04_every_refusal_says_how_long_in_whole_seconds() {
    for (wait, secs) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (59_999, 60), (60_000, 60)] {
        assert_eq!(retry_after(MS * wait), secs, "{wait} ms");
    }
    assert_eq!(retry_after(Duration::MAX), u64::MAX);
    assert_eq!(retry_after(Shed::default().retry), 1, "shed (G6)");
}

#[test]
fn g06_a_bucket_knows_when_it_is_as_good_as_new() {
    let limit = Limit::from(TokenBucket::rate(10, SEC, 20).unwrap());
    let mut bucket = [limit.fresh(at(0))];
    assert!(limit.is_full(at(0), &bucket[0]));
    let verdict = all::take(at(0), &[(limit, 3)], &mut bucket);
    let left = verdict.left()[0];
    assert_eq!((left.remaining, left.next, left.full), (17, MS * 100, MS * 300));
    assert!(!limit.is_full(at(299), &bucket[0]));
    assert!(limit.is_full(at(300), &bucket[0]));
    assert!(size_of::<Bucket>() <= 16, "a million of them are small");
}

/// No clock but the argument: the same instants bring the same verdicts wherever they lie, and time that stands still brings
/// nothing back, however often it is asked.
#[test]
fn g9_time_is_an_argument_of_every_decision() {
    let limits = [
        Limit::from(TokenBucket::rate(10, SEC, 5).unwrap()),
        Limit::from(FixedWindow::new(5, SEC).unwrap()),
        Limit::from(LeakyBucket::new(10, SEC, 4).unwrap()),
    ];
    let verdicts = |begins: u64, limit: Limit| -> Vec<_> {
        let mut bucket = [limit.fresh(at(begins))];
        let asks = (0..400).map(|n| begins + n * n % 97 / 8 * 25 + n / 20 * 310);
        let mut latest = begins;
        let ask = |now: u64| {
            latest = latest.max(now);
            let ruling = all::take(at(latest), &[(limit, 1)], &mut bucket).ruling();
            match ruling {
                Ruling::Admitted { start, .. } => (true, start.since(at(latest))),
                Ruling::Refused { retry, .. } => (false, retry),
            }
        };
        asks.map(ask).collect()
    };
    for limit in limits {
        let here = verdicts(0, limit);
        assert!(here.iter().any(|(admitted, _)| *admitted) && here.iter().any(|(admitted, _)| !admitted), "{limit}");
        for begins in [3_000, 86_400_000, 4_000_000_000_000] {
            assert_eq!(verdicts(begins, limit), here, "{limit} from {begins} ms on");
        }
        let mut bucket = [limit.fresh(at(7))];
        let admitted =
            (0..100_000).filter(|_| all::take(at(7), &[(limit, 1)], &mut bucket).refused().is_none()).count();
        assert_eq!(admitted, 5, "{limit}");
    }
}

#[test]
fn g15_one_an_hour_means_that_the_second_is_refused() {
    for limit in [
        Limit::from(TokenBucket::rate(1, SEC * 3600, 1).unwrap()),
        Limit::from(FixedWindow::new(1, SEC * 3600).unwrap()),
        Limit::from(LeakyBucket::new(1, SEC * 3600, 0).unwrap()),
    ] {
        let mut bucket = [limit.fresh(at(5000))];
        let ask = |now, bucket: &mut [Bucket]| all::take(at(now), &[(limit, 1)], bucket).refused();
        assert_eq!(ask(5000, &mut bucket), None, "{limit}");
        assert_eq!(ask(5000, &mut bucket), Some((0, SEC * 3600)), "{limit}");
        assert_eq!(ask(3_605_000, &mut bucket), None, "{limit}");
    }
}

#[test]
fn g17_what_a_limit_refuses_gives_its_place_back() {
    let (mut gate, limit) = (Gate::new(3).unwrap(), Limit::from(TokenBucket::new(1, 1, SEC * 3600).unwrap()));
    let mut bucket = [limit.fresh(at(0))];
    let first = admit(&mut gate, || all::take(at(0), &[(limit, 1)], &mut bucket));
    assert!(matches!(first, Admission::Admitted(_)));
    for n in 0..10_000 {
        let next = admit(&mut gate, || all::take(at(n), &[(limit, 1)], &mut bucket));
        assert!(matches!(next, Admission::Refused(_)), "{next:?}");
        assert_eq!(gate.in_flight(), 1);
    }
    gate.release();
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn g18_what_is_shed_takes_no_token() {
    let (mut gate, limit) = (Gate::new(1).unwrap(), Limit::from(TokenBucket::new(5, 1, SEC * 3600).unwrap()));
    let mut bucket = [limit.fresh(at(0))];
    let mut ask = |gate: &mut Gate| admit(gate, || all::take(at(0), &[(limit, 1)], &mut bucket));
    assert!(matches!(ask(&mut gate), Admission::Admitted(_)));
    for _ in 0..20 {
        assert_eq!(ask(&mut gate), Admission::Shed(Shed { retry: SEC }));
    }
    gate.release();
    let Admission::Admitted(verdict) = ask(&mut gate) else { panic!("the place is free") };
    assert_eq!(verdict.left()[0].remaining, 3, "the bucket was still at four");
}

#[test]
fn g21_a_limiter_is_two_numbers_and_refills_when_it_is_asked() {
    let limit = TokenBucket::new(2, 1, SEC).unwrap();
    let mut refused = 0;
    for n in 0..1_000_000u64 {
        let mut bucket = Bucket { tokens: 0, last: n };
        refused += u32::from(bucket.take(Instant::from_nanos(n * 1000).after(SEC - MS), &limit, 1).unwrap().is_err());
        assert!(bucket.take(Instant::from_nanos(n * 1000).after(SEC), &limit, 1).unwrap().is_ok());
    }
    assert_eq!(refused, 1_000_000);
    assert!(!core::mem::needs_drop::<Bucket>() && !core::mem::needs_drop::<Limit>(), "nothing is to be shut down");
}

/// Everybody's 100 a second and each one's 10, for twenty seconds: five that send 200 a second, eleven that send 5.
#[test]
fn g22_the_good_are_served_beside_the_noisy() {
    let own = Limit::from(TokenBucket::rate(10, SEC, 10).unwrap());
    let everybody = Limit::from(TokenBucket::rate(110, SEC, 110).unwrap());
    let (mut served, mut sent) = ([0u32; 16], [0u32; 16]);
    let mut buckets = vec![own.fresh(at(0)); 16];
    let mut shared = everybody.fresh(at(0));
    for ms in 0..20_000 {
        for key in 0..16 {
            let period = if key < 5 { 5 } else { 200 };
            if !(ms + 13 * key as u64).is_multiple_of(period) {
                continue;
            }
            sent[key] += 1;
            let mut both = [buckets[key], shared];
            let verdict = all::take(at(ms), &[(own, 1), (everybody, 1)], &mut both);
            [buckets[key], shared] = both;
            served[key] += u32::from(verdict.refused().is_none());
        }
    }
    for noisy in &served[..5] {
        assert!((195..=220).contains(noisy), "ten a second and the burst: {noisy}");
    }
    for (served, sent) in served.iter().zip(&sent).skip(5) {
        assert!(served * 100 >= sent * 95, "{served} of {sent}");
    }
}

#[test]
fn g24_a_limit_is_said_as_a_client_will_see_it() {
    let bucket = |n, per, burst| Limit::from(TokenBucket::rate(n, per, burst).unwrap());
    for (limit, said) in [
        (bucket(1, SEC * 60, 20), "20 at once, then 1 per 60 s"),
        (bucket(10, SEC, 20), "20 at once, then 1 per 100 ms (10/s)"),
        (bucket(100_000, SEC, 200), "200 at once, then 100 per 1 ms (100000/s)"),
        (bucket(3, SEC, 1), "1 at once, then 1 per 333334 µs"),
        (
            FixedWindow::new(20, SEC * 60).unwrap().into(),
            "at most 20 in each window of 60 s, and no more before it ends",
        ),
        (
            LeakyBucket::new(1, SEC, 5).unwrap().into(),
            "1 per 1 s; 5 more at once wait for their turn, the rest is refused",
        ),
    ] {
        assert_eq!(limit.to_string(), said);
    }
}

#[test]
fn g24_twenty_at_once_then_one_a_minute_and_not_twenty_in_a_window() {
    let (bucket, window) = (TokenBucket::rate(1, SEC * 60, 20).unwrap(), FixedWindow::new(20, SEC * 60).unwrap());
    let served = |limit: Limit| {
        let mut state = [limit.fresh(at(0))];
        let mut take = |ms| u32::from(all::take(at(ms), &[(limit, 1)], &mut state).refused().is_none());
        [(0..30).map(|_| take(0)).sum::<u32>(), (0..30).map(|_| take(60_000)).sum()]
    };
    assert_eq!(served(bucket.into()), [20, 1]);
    assert_eq!(served(window.into()), [20, 20]);
}

#[test]
fn g25_three_at_once_start_one_after_the_other_and_the_seventh_is_refused() {
    let limit = Limit::from(LeakyBucket::new(1, SEC, 5).unwrap());
    let mut bucket = [limit.fresh(at(0))];
    let mut rulings = (0..7).map(|_| all::take(at(0), &[(limit, 1)], &mut bucket).ruling());
    for secs in 0..6 {
        let Some(Ruling::Admitted { start, delayed_by }) = rulings.next() else { panic!("it waits for its turn") };
        assert_eq!((start, delayed_by.is_some()), (at(1000 * secs), secs > 0));
    }
    assert_eq!(rulings.next(), Some(Ruling::Refused { by: 0, retry: SEC }));
}

#[test]
fn g5_a_name_that_could_break_a_header_or_a_key_is_refused() {
    let limit = Limit::from(TokenBucket::new(1, 1, SEC).unwrap());
    for bad in ["", "a b", "a\r\nb", "ä", "a\0", "\"a\"", &"a".repeat(65)] {
        assert!(NamedLimit::new(bad, limit).is_err_and(|error| error.parameter == "name"), "{bad:?}");
    }
    assert_eq!(NamedLimit::new("per-client:/api/*", limit).unwrap().name(), "per-client:/api/*");
}

#[test]
fn g3_a_lower_limit_lets_those_in_flight_end() {
    let mut gate = Gate::new(3).unwrap();
    for _ in 0..3 {
        gate.acquire().unwrap();
    }
    gate.set_most(1);
    gate.release();
    assert!(gate.acquire().is_err(), "two are in flight still");
    gate.release();
    gate.release();
    assert!(gate.acquire().is_ok());
    gate.set_most(0);
    assert_eq!(gate.most(), 1, "never closed for good");
}

fn queue(most: u32) -> Queue {
    Queue::new(QueueSettings { most, longest: MS * 100, standing: MS * 10 }).expect("allowed")
}

#[test]
fn a_queue_is_bounded_in_length_and_what_is_over_it_is_shed_at_once() {
    let mut queue = queue(2);
    assert_eq!(queue.admit(at(0), true), Turn::Run);
    for _ in 0..2 {
        assert_eq!(queue.admit(at(0), false), Turn::Wait { until: at(100) });
    }
    assert_eq!(queue.admit(at(1), false), Turn::Shed(Shed { retry: SEC }));
    assert_eq!(queue.admit(at(1), true), Turn::Shed(Shed { retry: SEC }), "nobody overtakes those who wait");
    queue.leave(at(2), MS * 2);
    assert_eq!(queue.admit(at(2), false), Turn::Wait { until: at(102) });
}

#[test]
fn a_burst_waits_long_and_a_standing_queue_does_not() {
    let mut queue = queue(1000);
    queue.admit(at(0), false);
    // One leaves for each that comes, each after 50 ms.
    for ms in (50..=100).step_by(10) {
        queue.admit(at(ms), false);
        queue.leave(at(ms), MS * 50);
    }
    assert!(!queue.is_standing(at(100)));
    assert_eq!(queue.admit(at(100), false), Turn::Wait { until: at(200) }, "it may be a burst yet");
    assert!(queue.is_standing(at(101)));
    assert_eq!(queue.admit(at(101), false), Turn::Wait { until: at(111) }, "it is none");
    queue.leave(at(105), MS * 4);
    assert_eq!(queue.admit(at(106), false), Turn::Wait { until: at(206) }, "somebody left it soon: it moves");
    for _ in 0..10 {
        queue.leave(at(300), MS * 90);
    }
    assert_eq!(queue.waiting(), 0);
    assert_eq!(queue.admit(at(300), true), Turn::Run);
}

#[test]
fn g5_a_queue_whose_waits_contradict_each_other_is_refused() {
    let settings = |longest, standing| QueueSettings { most: 1, longest: MS * longest, standing: MS * standing };
    assert!(Queue::new(settings(0, 0)).is_err_and(|error| error.parameter == "longest"));
    assert!(Queue::new(settings(5, 6)).is_err_and(|error| error.parameter == "standing"));
}
