//! The way between: it takes time, it loses, it fills up.

use crate::support::{arrived, bucket, failed, host, outcome};

#[test]
fn the_round_trip_is_in_what_clients_see() {
    let p95 = |rest: &str| {
        let text = bucket(&format!("latency = '100ms'\nsigma = 0\n{rest}"));
        host(&text, "interval 200ms").latency_p95
    };
    let near = |seen: f64, expected: f64| (seen / expected - 1.0).abs() < 0.03;
    assert!(near(p95(""), 0.100), "{}", p95(""));
    assert!(near(p95("[network]\nlatency = '60ms'\n"), 0.160));
    let jittered = p95("[network]\nlatency = '60ms'\njitter = '80ms'\n");
    assert!(jittered > 0.2 && jittered < 0.24, "between 160 and 240 ms: {jittered}");
}

#[test]
fn half_of_the_lost_requests_never_arrive_and_none_is_answered() {
    let host = host(&bucket("[network]\nloss = 0.2\n"), "interval 100ms");
    let arrived = arrived(&host);
    assert!((1030..1130).contains(&arrived), "nine of ten of 1200 arrive: {arrived}");
    assert!((900..1000).contains(&host.got), "eight of ten are heard of: {}", host.got);
    assert!(host.given_up > 150, "the others are given up after their time: {}", host.given_up);
    assert_eq!(failed(&host), host.given_up, "and count as failed, whether they arrived or not");
}

#[test]
fn requests_that_come_to_nothing_are_counted_wherever_they_were_lost() {
    let failed_of = |rest: &str| {
        let host = host(&bucket(rest), "interval 1s");
        (failed(&host), arrived(&host))
    };
    assert_eq!(failed_of("[network]\nloss = 1\n[clients]\nattempt_timeout = '500ms'\n").0, 120, "in the network");
    assert_eq!(failed_of("[network]\nresets = 1\n"), (120, 120), "by a reset");
    assert_eq!(failed_of("latency = '2s'\nsigma = 0\n[clients]\nattempt_timeout = '500ms'\n"), (120, 120), "late");
    assert_eq!(failed_of("[[host.outage]]\nfrom = '0s'\nto = '120s'\nwith = 500\n"), (120, 120), "at the host");
    assert_eq!(failed_of("[[host.outage]]\nfrom = '0s'\nto = '120s'\nwith = 429\n").0, 0, "a refusal is none");
}

#[test]
fn loss_and_resets_teach() {
    // A host that refuses nobody: what slows the clients down is the network alone.
    let interval = |network: &str| {
        let text = bucket(&format!("{network}[clients]\nfloor = '100ms'\nstart = '1s'\nattempt_timeout = '200ms'\n"));
        let outcome = outcome(&text.replace("'10/s'", "'1000/s'"), "aimd", 1);
        let samples = &outcome.hosts[0].samples;
        samples.iter().map(|sample| sample.interval).sum::<f64>() / samples.len() as f64
    };
    let (calm, lossy, reset) =
        (interval(""), interval("[network]\nloss = 0.3\n"), interval("[network]\nresets = 0.3\n"));
    assert!(calm < 0.4, "{calm}");
    assert!(lossy > calm * 2.0, "{lossy} with loss, {calm} without");
    assert!(reset > calm * 2.0, "{reset} with resets, {calm} without");
}

#[test]
fn a10_a_full_uplink_makes_every_host_look_slow_and_loses_what_finds_no_room() {
    let world = |queue: u32, hosts: u32| {
        let text = format!(
            "name = 'uplink'\ntime = '60s'\nreport = 'together'\n[[host]]\nname = 'host-{{}}.example'\nhosts = {hosts}\n\
             kind = 'bucket'\nrate = '100/s'\nburst = 100\nlatency = '10ms'\n\
             [uplink]\nbytes_per_second = 1e6\nanswer_bytes = 10000\nqueue = {queue}\n"
        );
        outcome(&text, "interval 100ms", 1)
    };
    // A hundred answers a second fit; five hosts ask for fifty, twenty for two hundred.
    let calm = world(50, 5);
    let uplink = calm.uplink.unwrap();
    assert!((uplink.used - 0.5).abs() < 0.01 && uplink.lost == 0, "{uplink:?}");
    assert!(calm.hosts[0].latency_p95 < 0.1, "{}", calm.hosts[0].latency_p95);
    let full = world(50, 20);
    let uplink = full.uplink.unwrap();
    assert!(uplink.used > 0.98 && uplink.lost > 1000, "{uplink:?}");
    assert!((0.45..0.55).contains(&uplink.wait), "fifty wait before each: {uplink:?}");
    assert!(full.hosts[0].latency_p95 > 0.4, "{}", full.hosts[0].latency_p95);
}

#[test]
fn an_answer_that_takes_too_long_is_none() {
    let text = "name = 'slow'\ntime = '60s'\n[[host]]\nname = 'api.example'\nkind = 'workers'\nworkers = 1\nservice = '3s'\n\
                service_sigma = 0\n[clients]\nurls = 5\nattempt_timeout = '2s'\n";
    for policy in ["interval 100ms", "fixed 100ms"] {
        let outcome = outcome(text, policy, 1);
        let host = &outcome.hosts[0];
        assert_eq!((host.got, host.given_up), (0, 5), "{policy}");
        assert!(outcome.ended.is_some_and(|at| (2.3..2.5).contains(&at)), "{policy}: {:?}", outcome.ended);
    }
}
