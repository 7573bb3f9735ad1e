//! `possible` is what an oracle really gets, and `capacity` what is got in the long run.

use rand::RngExt;

use super::*;

/// Every law with something in it: no spread of times, so that the formulas are exact.
const LAWS: [&str; 11] = [
    "kind = 'bucket'\nrate = '10/s'\nburst = 20",
    "kind = 'bucket'\nrate = '1/s'\nburst = 5",
    "kind = 'bucket'\nrate = '7/min'\nburst = 1",
    "kind = 'window'\ncount = 60\nspan = '1min'",
    "kind = 'window'\ncount = 10\nspan = '1s'",
    "kind = 'window'\ncount = 33\nspan = '7s'\nbegins = 'clock'\nphase = '3s'",
    "kind = 'sliding'\ncount = 30\nspan = '20s'",
    "kind = 'leaky'\nrate = '5/s'\ndepth = 8",
    "kind = 'cap'\nin_flight = 3\nlatency = '70ms'\nsigma = 0",
    "kind = 'bucket'\nrate = '10/s'\nburst = 20\n[[then]]\nat = '50s'\nrate = '5/s'\n[[then]]\nat = '130s'\nkind = 'window'\ncount = 7\nspan = '1s'",
    "kind = 'window'\ncount = 60\nspan = '1min'\n[[outage]]\nfrom = '45s'\nto = '75s'\n[[outage]]\nfrom = '100s'\nto = '101s'",
];

/// The last token of a bucket may come at the very end, which belongs to what follows: so much may be missing.
/// What came before matters: nothing, a request now and then, or one who took all there was.
#[test]
fn possible_is_what_an_oracle_gets_minute_by_minute() {
    for law in LAWS {
        for before in [0, 900, 13_000] {
            let mut host = host(law);
            let ends = 1 + law.matches("[then]").count();
            let mut rng = dice(1);
            let mut from = 0;
            if before > 0 {
                from = 31_000;
                for at in (0..from).step_by(before) {
                    (0..4).for_each(|_| drop(host.arrives(ms(at as u64), US, &mut rng)));
                }
            }
            let mut from = from as u64;
            for minute in 0..4 {
                let possible = host.possible(ms(from), ms(from + 60_000));
                let got = greedy(&mut *host, from, from + 60_000) as f64;
                assert!(
                    (0.0..=ends as f64).contains(&(possible - got)),
                    "{law}\nbefore {before}, minute {minute}: {possible}, got {got}"
                );
                from += 60_000;
            }
        }
    }
}

#[test]
fn possible_is_what_an_oracle_gets_whatever_the_limit_and_whatever_came_before() {
    let mut rng = dice(11);
    for _ in 0..150 {
        let mut pick = |from: u64, to: u64| rng.random_range(from..to);
        let (count, span) = (pick(1, 40), pick(1, 200) * 100);
        let law = match pick(0, 6) {
            0 => format!("kind = 'bucket'\nrate = '1/{span}ms'\nburst = {count}"),
            1 => format!("kind = 'leaky'\nrate = '1/{span}ms'\ndepth = {count}"),
            2 => format!("kind = 'window'\ncount = {count}\nspan = '{span}ms'"),
            3 => format!("kind = 'window'\ncount = {count}\nspan = '{span}ms'\nbegins = 'clock'\nphase = '{count}s'"),
            4 => format!("kind = 'sliding'\ncount = {count}\nspan = '{span}ms'"),
            _ => format!("kind = 'cap'\nin_flight = {count}\nlatency = '{span}ms'\nsigma = 0"),
        };
        let (mut host, mut at) = (host(&law), 0);
        for _ in 0..pick(0, 80) {
            at += pick(0, 3) * pick(0, span);
            let _ = host.arrives(ms(at), US, &mut dice(1));
        }
        let from = at + pick(1, 2 * span);
        let to = from + pick(1, 20_000);
        let (possible, got) = (host.possible(ms(from), ms(to)), greedy(&mut *host, from, to) as f64);
        // A part of a token counts, and the token of the last instant.
        assert!((0.0..=1.0).contains(&(possible - got)), "{law}\n{from} to {to}: {possible}, got {got}");
    }
}

#[test]
fn possible_of_a_burst_that_came_back_in_an_outage_counts_it_once_it_is_over() {
    let mut host = host("kind = 'bucket'\nrate = '1/s'\nburst = 50\n[[outage]]\nfrom = '10s'\nto = '20s'");
    // 50 and nearly 10 by then, then the ten that came meanwhile, then nearly 10.
    let possible = host.possible(ms(0), ms(30_000));
    assert_eq!(possible, 80.0);
    assert_eq!(greedy(&mut *host, 0, 30_000), 79, "the eightieth token comes at the thirtieth second");
}

#[test]
fn capacity_is_the_rate_without_the_burst_and_does_not_depend_on_what_was_served() {
    let cases = [
        ("kind = 'bucket'\nrate = '10/s'\nburst = 20", 600.0),
        ("kind = 'window'\ncount = 1000\nspan = '5min'", 200.0),
        ("kind = 'sliding'\ncount = 30\nspan = '20s'", 90.0),
        ("kind = 'leaky'\nrate = '5/s'\ndepth = 8", 300.0),
        ("kind = 'cap'\nin_flight = 3\nlatency = '60ms'", 3_000.0),
        ("kind = 'workers'\nworkers = 4\nservice = '200ms'", 1_200.0),
        ("kind = 'mix'\ncached = 0.8\ncache = '5ms'\nworkers = 2\nservice = '400ms'", 1_500.0),
        ("kind = 'bucket'\nrate = '10/s'\nburst = 20\n[crowd]\nrate = '4/s'", 360.0),
        ("kind = 'bucket'\nrate = '10/s'\nburst = 20\n[crowd]\nrate = '40/s'", 0.0),
        ("kind = 'bucket'\nrate = '10/s'\nburst = 20\n[[outage]]\nfrom = '59s'\nto = '80s'", 400.0),
        ("kind = 'bucket'\nrate = '10/s'\nburst = 20\n[[then]]\nat = '90s'\nrate = '20/s'", 900.0),
        (
            "kind = 'bucket'\nrate = '10/s'\nburst = 20\n[[then]]\nat = '20s'\nrate = '20/s'\n[[then]]\nat = '90s'\nrate = '5/s'",
            750.0,
        ),
    ];
    for (law, expected) in cases {
        let mut host = host(law);
        for served_until in [0, 1, 70_000, 200_000] {
            let capacity = host.capacity(ms(60_000), ms(120_000));
            assert!((capacity - expected).abs() < 1e-3, "{law}: {capacity}, not {expected}, asked at {served_until}");
            let _ = host.arrives(ms(served_until), US, &mut dice(1));
        }
    }
}

#[test]
fn spans_that_have_no_end_are_finite_numbers() {
    for law in LAWS {
        let host = host(law);
        assert!(
            host.capacity(ms(0), Instant::FAR).is_finite() && host.possible(ms(5), Instant::FAR).is_finite(),
            "{law}"
        );
    }
}

#[test]
fn capacity_is_what_is_got_in_the_long_run() {
    for law in LAWS.into_iter().take(9) {
        let mut host = host(law);
        let _ = greedy(&mut *host, 0, 60_000);
        let got = greedy(&mut *host, 60_000, 480_000) as f64;
        let capacity = host.capacity(ms(60_000), ms(480_000));
        assert!((got / capacity - 1.0).abs() < 0.03, "{law}: got {got}, capacity {capacity}");
    }
}

#[test]
fn mix_is_as_fast_as_its_origin_allows() {
    let mut host = host("kind = 'mix'\ncached = 0.8\ncache = '5ms'\nworkers = 2\nservice = '400ms'\ndepth = 1000");
    // Forty clients keep the origin busy: it is asked by one in five.
    let served = closed_loop(&mut *host, 40, 100_000, 1_100_000) as f64;
    let capacity = host.capacity(ms(100_000), ms(1_100_000));
    assert!((served / capacity - 1.0).abs() < 0.03, "{served} of {capacity}");
    let queue = host.queue();
    assert_eq!(queue.service, Duration::from_millis(400));
    let share = queue.requests as f64 / (capacity * 1.1);
    assert!((share - 0.2).abs() < 0.01, "only what got to the origin counts: {share}");
    // Little: those that wait at the origin are all but two that are served and a few at the cache.
    let waiting = queue.waited.as_secs_f64() / 1_100.0;
    assert!((37.0..38.1).contains(&waiting), "{waiting} waited on the mean");
}

#[test]
fn possible_leaves_a_crowd_what_it_asks() {
    let host = host(
        "kind = 'bucket'\nrate = '10/s'\nburst = 20\n[crowd]\nrate = '4/s'\n[[crowd.then]]\nat = '30s'\nrate = '0'",
    );
    let possible = host.possible(ms(0), ms(60_000));
    assert_eq!(possible, 620.0 - 120.0);
    assert_eq!(host.capacity(ms(0), ms(60_000)), 480.0);
}
