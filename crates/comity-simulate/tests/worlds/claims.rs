//! What is claimed of the adaptive policy, on short runs: each bound holds for it, and a policy that lacks what the claim is
//! about fails it.

use core::time::Duration;

use comity_simulate::outcome::HostOutcome;
use comity_simulate::scenario::Scenario;
use comity_simulate::world::{RunOptions, run};

use crate::support::{file, refused};

#[test]
fn refusals_teach_a_bucket_so_that_few_are_needed() {
    let holds = |policy| all(&file("bucket-10"), policy, |host| refused(host) <= 8 && host.used(1) >= 0.9);
    assert!(holds("adaptive"));
    assert!(!holds("aimd") && !holds("refusal"), "those that go on trying are refused all the time");
}

#[test]
fn latency_teaches_a_queue_so_that_nothing_of_ours_waits_in_it() {
    let holds = |policy| {
        let host_is_full = |host: &HostOutcome| host.used(1) >= 0.9 && host.queue <= 1.0;
        all(&file("queue-4x200"), policy, host_is_full)
    };
    assert!(holds("adaptive"));
    assert!(!holds("aimd") && !holds("refusal"), "neither knows how many a host can work on");
}

#[test]
fn what_is_remembered_needs_no_refusal_and_no_first_minute() {
    let holds = |policy, scenario: &Scenario| all(scenario, policy, |host| refused(host) <= 1 && host.used(0) >= 0.9);
    let bucket = file("remembered-bucket-10");
    assert!(holds("adaptive", &bucket));
    assert!(!holds("aimd", &bucket) && !holds("refusal", &bucket));
    assert!(!holds("adaptive", &Scenario { remembered: false, ..bucket }), "the first run has to learn it");

    let holds = |scenario: &Scenario| all(scenario, "adaptive", |host| host.used(0) >= 0.9 && host.queue <= 1.0);
    assert!(holds(&file("remembered-queue-4x200")));
}

#[test]
fn what_was_learned_is_told_in_the_policys_own_words() {
    let learned = |name: &str, policy: &str| {
        let host = &short(&file(name), policy, 1)[0];
        (host.learned.clone(), host.bimodal)
    };
    let (words, bimodal) = learned("window-60-min", "adaptive");
    assert!(words.starts_with("learned 60/min from one refusal, ") && !bimodal, "{words}");
    assert_eq!(learned("queue-4x200", "adaptive").0, "searching for the host's rate: not refused yet");
    assert!(learned("bimodal", "adaptive").1, "some answers come from a cache");
    assert!(learned("bucket-10", "refusal").0.starts_with("interval "));
    assert_eq!(learned("bucket-10", "scrapy").0, "");
}

/// Whether something holds for every host, whatever the seed.
fn all(scenario: &Scenario, policy: &str, holds: impl Fn(&HostOutcome) -> bool) -> bool {
    (1..=3).all(|seed| short(scenario, policy, seed).iter().all(&holds))
}

fn short(scenario: &Scenario, policy: &str, seed: u64) -> Vec<HostOutcome> {
    let options = RunOptions { samples: false, time: Some(Duration::from_secs(120)) };
    run(scenario, policy, seed, &options).unwrap_or_else(|error| panic!("{error}")).hosts
}
