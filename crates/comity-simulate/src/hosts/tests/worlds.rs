//! What hosts do over time: outages, limits that move or are shared, crowds; and that a seed replays them.

use super::*;

#[test]
fn a_limit_that_halves_serves_half() {
    let mut host = host("kind = 'bucket'\nrate = '10/s'\nburst = 1\n[[then]]\nat = '300s'\nrate = '5/s'");
    assert_eq!(greedy(&mut *host, 0, 300_000), 3_000);
    assert_eq!(greedy(&mut *host, 300_000, 600_000), 1_500);
}

#[test]
fn what_a_change_does_not_name_stays_and_a_new_kind_starts_from_nothing() {
    let mut host = host(
        "kind = 'bucket'\nrate = '10/s'\nburst = 3\nlatency = '1s'\nsigma = 0\nrefusal = 403\n\
         [[then]]\nat = '10s'\nburst = 4\n[[then]]\nat = '20s'\nkind = 'window'\ncount = 2\nspan = '1h'\nsigma = 0",
    );
    let mut at = |now: u64| {
        let mut rng = dice(1);
        let mut replies = (0..9).map(|_| host.arrives(ms(now), US, &mut rng)).collect::<Vec<_>>();
        replies.dedup_by_key(|reply| reply.status);
        assert_eq!(replies.len(), 2);
        (replies[0].after.as_millis(), replies[1].status)
    };
    assert_eq!(at(0), (1_000, Some(403)));
    assert_eq!(at(10_000), (1_000, Some(403)));
    assert_eq!(at(20_000), (50, Some(429)));
}

#[test]
fn outages_answer_as_they_are_told_and_cost_the_limit_nothing() {
    for (with, status, millis) in
        [("503", Some(503), 5), ("500", Some(500), 5), ("reset", None, 5), ("silence", None, 120_000)]
    {
        let mut host = host(&format!(
            "kind = 'window'\ncount = 3\nspan = '1h'\n[[outage]]\nfrom = '1s'\nto = '3s'\nwith = '{with}'"
        ));
        for at in [1_000, 2_999] {
            let reply = host.arrives(ms(at), US, &mut dice(1));
            assert_eq!((reply.status, reply.after.as_millis()), (status, millis));
        }
        assert_eq!(greedy(&mut *host, 3_000, 3_100), 3);
    }
}

#[test]
fn a_refusal_may_be_a_reset() {
    let mut host = host("kind = 'cap'\nin_flight = 1\nrefusal = 'reset'\nadvice = 'exact'");
    let replies: Vec<_> = (0..2).map(|_| host.arrives(ms(0), US, &mut dice(1))).collect();
    assert_eq!((replies[0].status, replies[1].status), (Some(200), None));
    assert!(replies[1].fields.is_empty(), "nobody hears what is not answered");
}

#[test]
fn cap_lets_one_in_the_moment_another_is_answered() {
    let mut host = host("kind = 'cap'\nin_flight = 2\nlatency = '100ms'\nsigma = 0");
    assert_eq!(greedy(&mut *host, 0, 1), 2);
    assert_eq!(greedy(&mut *host, 1, 100), 0);
    assert_eq!(greedy(&mut *host, 100, 101), 2);
    assert_eq!(closed_loop(&mut *host, 2, 0, 100), 0, "refused until 200 ms");
}

#[test]
fn leaky_serves_at_its_rate_whatever_comes() {
    let mut host = host("kind = 'leaky'\nrate = '10/s'\ndepth = 2\nlatency = '0s'");
    let mut rng = dice(1);
    let leaves: Vec<_> = (0..3).map(|_| host.arrives(ms(0), US, &mut rng).after.as_millis()).collect();
    assert_eq!(leaves, [0, 100, 200]);
    assert_eq!(host.arrives(ms(0), US, &mut rng).status, Some(429));
    assert_eq!(host.arrives(ms(100), US, &mut rng).after, Duration::from_millis(200));
    let queue = host.queue();
    assert_eq!(
        (queue.requests, queue.waited, queue.service),
        (4, Duration::from_millis(500), Duration::from_millis(100))
    );
}

#[test]
fn sliding_never_serves_more_in_any_window() {
    let mut host = host("kind = 'sliding'\ncount = 10\nspan = '1s'");
    let mut rng = dice(9);
    let served: Vec<u64> = (0..20_000)
        .filter(|at| (at / 700) % 3 != 1 && host.arrives(ms(*at), US, &mut rng).status == Some(200))
        .collect();
    assert!(served.windows(11).all(|eleven| eleven[10] - eleven[0] >= 1_000));
    // Nor less: after every second a full ten.
    assert_eq!(greedy(&mut *host, 30_000, 35_000), 50);
}

#[test]
fn names_behind_one_limit_share_it() {
    let mut groups = Groups::default();
    let mut build = |toml: &str| toml::from_str::<Model>(toml).unwrap().build(1, &mut groups);
    let mut first = build("behind = 'cdn'\nkind = 'bucket'\nrate = '10/s'\nburst = 20").unwrap();
    let mut second = build("behind = 'cdn'\n[[outage]]\nfrom = '50s'\nto = '60s'").unwrap();
    let other = build("kind = 'bucket'\nrate = '10/s'\nburst = 20").unwrap();
    assert_eq!(greedy(&mut *first, 0, 1), 20);
    assert_eq!(greedy(&mut *second, 1, 100), 0);
    assert_eq!(greedy(&mut *second, 100, 101), 1);
    assert_eq!(other.possible(ms(101), ms(102)).floor(), 20.0);
    let both = [&first, &second].map(|host| host.capacity(ms(0), ms(60_000)));
    assert_eq!(both, [300.0, 250.0]);
    assert!(build("behind = 'cdn'\nkind = 'bucket'\nrate = '10/s'\nburst = 20").is_ok(), "the same said again");
    let why = build("behind = 'cdn'\nkind = 'bucket'\nrate = '1/s'\nburst = 1").unwrap_err().to_string();
    assert!(why.contains("behind = \"cdn\""), "{why}");
    assert!(build("behind = 'nobody'").is_err());
}

#[test]
fn a_crowd_takes_what_it_asks_and_does_not_depend_on_us() {
    let toml = "kind = 'window'\ncount = 1000\nspan = '100s'\nbegins = 'clock'\n[crowd]\nrate = '3/s'";
    // Whoever asks only at a window's end finds what others left.
    let lefts: Vec<f64> = (0..50)
        .map(|seed| {
            let model: Model = toml::from_str(toml).unwrap();
            let mut host = model.build(seed, &mut Groups::default()).unwrap();
            greedy(&mut *host, 99_999, 100_000) as f64
        })
        .collect();
    let mean = lefts.iter().sum::<f64>() / 50.0;
    let variance = lefts.iter().map(|left| (left - mean).powi(2)).sum::<f64>() / 49.0;
    assert!((mean - 700.0).abs() < 10.0, "300 ± 17 each: {mean}");
    assert!((100.0..600.0).contains(&variance), "a Poisson count's variance is its mean, 300: {variance}");
    let mut busy = host(toml);
    let taken = greedy(&mut *busy, 0, 1_000);
    let mut idle = host(toml);
    // We took 1,000 less what the crowd got before us; it got nothing more in that window.
    assert!((990..=1_000).contains(&taken));
    assert_eq!(greedy(&mut *busy, 199_999, 200_000), greedy(&mut *idle, 199_999, 200_000));
}

#[test]
fn a_crowd_that_comes_and_goes_is_there_while_it_is() {
    let mut host = host(
        "kind = 'window'\ncount = 1000\nspan = '10s'\nbegins = 'clock'\n[crowd]\nrate = '0'\n\
         [[crowd.then]]\nat = '20s'\nrate = '50/s'\n[[crowd.then]]\nat = '30s'\nrate = '0/s'",
    );
    let left = [9_999, 19_999, 29_999, 39_999, 49_999].map(|at| greedy(&mut *host, at, at + 1));
    assert_eq!([left[0], left[1], left[3], left[4]], [1_000; 4]);
    assert!((400..600).contains(&left[2]), "500 ± 22: {}", left[2]);
}

#[test]
fn others_fill_the_queue_that_ours_wait_in() {
    // An M/M/1-like load of 0.8 with constant service: Pollaczek and Khinchine give a mean wait of ρ/(2(1−ρ)) = 2 services.
    let mut host = host(
        "kind = 'workers'\nworkers = 1\nservice = '50ms'\nservice_sigma = 0\ndepth = 10000\n[crowd]\nrate = '16/s'",
    );
    let mut rng = dice(1);
    for n in 0..20_000 {
        let _ = host.arrives(ms(n * 5_000), US, &mut rng);
    }
    let queue = host.queue();
    let wait = queue.waited.as_secs_f64() / queue.requests as f64 / 0.05;
    // Ours add a hundredth to the load: 0.81 / (2 × 0.19) = 2.13.
    assert_eq!(queue.requests, 20_000, "the crowd's are not counted");
    assert!((1.95..2.25).contains(&wait), "{wait} service times");
}

#[test]
fn workers_with_lognormal_times_wait_as_long_as_theory_says() {
    // Pollaczek and Khinchine: ρ(1 + cv²)/(2(1−ρ)), cv² = exp(σ²) − 1.
    let sigma: f64 = 0.8;
    let mut host = host(&format!(
        "kind = 'workers'\nworkers = 1\nservice = '50ms'\nservice_sigma = {sigma}\ndepth = 10000\n[crowd]\nrate = '14/s'"
    ));
    let mut rng = dice(1);
    for n in 0..40_000 {
        let _ = host.arrives(ms(n * 5_000), US, &mut rng);
    }
    let queue = host.queue();
    let wait = queue.waited.as_secs_f64() / queue.requests as f64 / 0.05;
    let expected = 0.71 * (sigma * sigma).exp() / (2.0 * 0.29);
    assert!((wait / expected - 1.0).abs() < 0.06, "{wait}, not {expected}");
}

#[test]
fn a_seed_replays_a_host_and_another_one_does_not() {
    let tomls = [
        "kind = 'bucket'\nrate = '10/s'\nburst = 20\nadvice = 'exact'\n[crowd]\nrate = '3/s'",
        "kind = 'mix'\ncached = 0.8\ncache = '5ms'\nworkers = 2\nservice = '400ms'\n[crowd]\nrate = '3/s'",
        "kind = 'cap'\nin_flight = 2\n[crowd]\nrate = '3/s'",
    ];
    for toml in tomls {
        let run = |seed: u64| {
            let model: Model = toml::from_str(toml).unwrap();
            let mut host = model.build(seed, &mut Groups::default()).unwrap();
            let mut rng = dice(seed);
            (0..2_000).map(|n| format!("{:?}", host.arrives(ms(n * 70), US, &mut rng))).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
