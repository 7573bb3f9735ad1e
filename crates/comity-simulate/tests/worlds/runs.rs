//! Runs: the same from the same seed, exact where nothing is random, and over when their work is.

use comity_simulate::scenario::Scenario;
use comity_simulate::sweep::{jobs, sweep};
use comity_simulate::world::{Error, RunOptions, run};

use crate::support::{arrived, bucket, host, outcome, refused, scenario};

#[test]
fn the_same_seed_gives_the_same_outcome_byte_for_byte() {
    let text =
        bucket("[network]\nlatency = '50ms'\njitter = '30ms'\nloss = 0.01\nresets = 0.01\n[clients]\ncount = 3\n");
    for policy in ["adaptive", "aimd", "pressure", "refusal", "scrapy", "lychee"] {
        let bytes = |seed| serde_json::to_string(&outcome(&text, policy, seed)).unwrap();
        assert_eq!(bytes(7), bytes(7), "{policy}");
        assert_ne!(bytes(7), bytes(8), "{policy}: another seed is another run");
    }
}

#[test]
fn a_sweep_gives_what_single_runs_give_in_the_order_of_its_jobs() {
    let scenarios = [scenario(&bucket("")), scenario(&bucket("[clients]\ncount = 2\n"))];
    let policies = ["adaptive".to_owned(), "wget".to_owned()];
    let jobs = jobs(&scenarios, &policies, Some(3));
    assert_eq!(jobs.len(), 12);
    let told = std::sync::atomic::AtomicUsize::new(0);
    let count = |_: &_| {
        told.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let swept = sweep(&jobs, core::num::NonZeroUsize::new(4), &RunOptions::default(), &count).unwrap();
    assert_eq!(told.into_inner(), 12);
    for (job, outcome) in jobs.iter().zip(swept) {
        let single = run(job.scenario, job.policy, job.seed, &RunOptions::default()).unwrap();
        assert_eq!(serde_json::to_string(&single).unwrap(), serde_json::to_string(&outcome).unwrap());
    }
}

#[test]
fn an_interval_a_person_set_gives_exactly_its_arrivals() {
    // The first at 0 s, then one each 250 ms: the last before 120 s at 119.75 s.
    let host = host(&bucket(""), "interval 250ms");
    assert_eq!((arrived(&host), refused(&host)), (480, 0));
    assert!(host.minutes.iter().all(|minute| minute.arrived == 240), "{:?}", host.minutes);
    let fixed = crate::support::host(&bucket(""), "fixed 250ms");
    assert_eq!((arrived(&fixed), refused(&fixed)), (480, 0));
}

#[test]
fn too_short_an_interval_is_refused_as_the_host_says() {
    // Twenty a second at ten a second with twenty at once: every second one is refused once the burst is gone.
    let host = host(&bucket(""), "fixed 50ms");
    assert_eq!(arrived(&host), 2400);
    let served = 120 * 10 + 20;
    assert!(refused(&host).abs_diff(2400 - served) <= 1, "{} refused", refused(&host));
    assert_eq!(host.refusals.len() as u64, refused(&host));
}

#[test]
fn a_list_that_ends_ends_the_run() {
    let text = bucket("[clients]\nurls = 30\n");
    for policy in ["interval 100ms", "fixed 100ms"] {
        let outcome = outcome(&text, policy, 1);
        // The last starts at 2.9 s.
        assert!(outcome.ended.is_some_and(|at| (2.9..3.2).contains(&at)), "{policy}: {:?}", outcome.ended);
        assert_eq!(outcome.ended, Some(outcome.seconds));
        assert_eq!((outcome.hosts[0].got, outcome.hosts[0].given_up), (30, 0), "{policy}");
        assert!((outcome.hosts[0].minutes[0].capacity - 10.0 * outcome.seconds).abs() < 1e-6);
    }
    let endless = outcome(&bucket(""), "interval 100ms", 1);
    assert_eq!((endless.ended, endless.seconds), (None, 120.0));
}

#[test]
fn t10_a_refused_request_is_tried_again_before_it_is_given_up() {
    // Two at once and then one in ten seconds: most are refused whatever is done.
    let text = "name = 'strict'\ntime = '60s'\n[[host]]\nname = 'api.example'\nkind = 'bucket'\nrate = '1/10s'\nburst = 2\n\
                [clients]\nurls = 3\nretries = ";
    let tried = |retries: u32| {
        let host = host(&format!("{text}{retries}\n"), "interval 1s");
        (host.got, host.given_up, arrived(&host))
    };
    assert_eq!(tried(0), (2, 1, 3));
    assert_eq!(tried(4), (2, 1, 7));
    let (got, given_up, _) = tried(20);
    assert_eq!((got, given_up), (3, 0));
}

#[test]
fn what_is_remembered_is_there_in_the_second_run() {
    for policy in ["aimd", "adaptive"] {
        let cold = outcome(&bucket(""), policy, 1);
        let warm = outcome(&format!("remembered = true\n{}", bucket("")), policy, 1);
        // The first of the two runs is the cold one again.
        let (first, last) = (cold.hosts[0].samples[0], cold.hosts[0].samples[599]);
        let again = warm.hosts[0].samples[0];
        assert!((again.interval / last.interval - 1.0).abs() < 0.3, "{policy}: {again:?} after {last:?}");
        assert!(first.interval > 1.3 * again.interval, "{policy}: a cold run begins slowly: {first:?}");
        assert!(again.in_flight <= 1, "{policy}: nothing is in flight from the first run");
    }
    let other = outcome(&format!("remembered = true\n{}", bucket("")), "wget", 1);
    let same = outcome(&bucket(""), "wget", 1);
    assert_eq!(other.hosts[0].got, same.hosts[0].got, "a baseline remembers nothing");
}

#[test]
fn samples_are_taken_only_where_they_are_asked_for() {
    let asked = outcome(&bucket(""), "refusal", 1);
    assert_eq!(asked.hosts[0].samples.len(), 600);
    assert!(!asked.hosts[0].refusals.is_empty());
    let quiet = run(&scenario(&bucket("")), "refusal", 1, &RunOptions::default()).unwrap();
    assert!(quiet.hosts[0].samples.is_empty() && quiet.hosts[0].refusals.is_empty());
    assert_eq!(quiet.hosts[0].minutes, asked.hosts[0].minutes, "and change nothing");
}

#[test]
fn an_unknown_policy_is_an_error_that_names_those_there_are() {
    let scenario: Scenario = scenario(&bucket(""));
    let error = run(&scenario, "haste", 1, &RunOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Policy { .. }));
    let text = error.to_string();
    assert!(["haste", "adaptive", "scrapy", "interval 100ms"].iter().all(|word| text.contains(word)), "{text}");
}
