//! What it makes of a host, from the first request on.

use super::life::{Manner, Rule};
use super::*;

fn api() -> AdaptiveSettings {
    AdaptiveSettings::default()
}

fn bucket() -> Rule {
    Rule::Bucket { every: MS * 100, burst: 5 }
}

fn is(why: Why) -> impl Fn(&Life) -> bool {
    move |life| life.adaptive.said(life.now).why == why
}

/// A life up to there, which comes within so many answers.
fn until(rule: Rule, holds: impl Fn(&Life) -> bool) -> Life {
    let mut life = Life::new(1, api(), rule, Manner::steady());
    go_on(&mut life, holds);
    life
}

fn go_on(life: &mut Life, holds: impl Fn(&Life) -> bool) {
    for _ in 0..100_000 {
        if holds(life) {
            return;
        }
        life.step();
    }
    panic!("it never comes to that: {:?} at {:?}", life.adaptive.said(life.now), life.adaptive.interval());
}

#[test]
fn a_new_host_is_asked_as_the_settings_say() {
    let life = Life::new(1, api(), Rule::All, Manner::steady());
    assert_eq!((life.adaptive.interval(), life.adaptive.in_flight()), (MS * 250, 2));
    assert!(life.adaptive.is_fresh(&api()) && !life.adaptive.is_bimodal());
    assert_eq!(life.adaptive.latency_floor(), None);
    // A first interval outside the bounds begins at them.
    let slow = Adaptive::new(&AdaptiveSettings { floor: SEC, ..api() });
    assert_eq!(slow.interval(), SEC);
    let fast = Adaptive::new(&AdaptiveSettings { ceiling: MS * 100, ..api() });
    assert_eq!(fast.interval(), MS * 100);
}

#[test]
fn every_phase_says_what_it_is() {
    let mut life = Life::new(1, api(), bucket(), Manner::steady());
    let words = |life: &Life| life.adaptive.said(life.now).in_words(life.now);
    assert_eq!(words(&life), "searching for the host's rate: not refused yet");
    life.step();
    assert_eq!(words(&life), "searching for the host's rate: not refused yet");
    go_on(&mut life, is(Why::BackingOff));
    assert_eq!(words(&life), "backing off after one refusal, 5 ms ago");
    assert_eq!(life.adaptive.in_flight(), 1, "trials go one at a time");
    go_on(&mut life, is(Why::Searching));
    let said = life.adaptive.said(life.now);
    assert!(said.refusals == 1 && said.next_probe.is_none(), "{said:?}");
    go_on(&mut life, is(Why::Learned));
    let said = life.adaptive.said(life.now);
    let begins = format!("learned {} from ", said.rate.expect("a rate"));
    assert!(words(&life).starts_with(&begins) && words(&life).contains("; next probe in "), "{}", words(&life));
    let learned = said.rate.expect("a rate");
    go_on(&mut life, is(Why::Probing));
    let said = life.adaptive.said(life.now);
    assert_eq!(said.rate, Some(learned), "what was learned is still what is known");
    assert!(life.adaptive.interval() < learned.interval());
    assert!(words(&life).starts_with("trying a little more than "), "{}", words(&life));
    // Errors strain it, whatever it knows.
    let fact = Fact { started: life.now.after(MS), outcome: Outcome::ServerError, latency: None };
    life.adaptive.taught(life.now.after(MS * 2), &fact, &api());
    assert_eq!(life.adaptive.said(life.now).why, Why::Strained);
}

#[test]
fn a_buckets_rate_is_found_and_hardly_ever_passed() {
    for (every, burst) in [(10, 50), (100, 5), (100, 20), (1000, 5)] {
        let every = MS * every;
        let mut life = Life::new(1, api(), Rule::Bucket { every, burst }, Manner::steady());
        let begins = life.now;
        go_on(&mut life, |life| life.now.since(begins) > SEC * 300);
        let learned = life.adaptive.said(life.now).rate.expect("a rate").interval();
        assert!(learned >= every * 98 / 100 && learned < every * 125 / 100, "{learned:?} of {every:?}");
        let (refused, starts) = (life.refused, life.starts);
        assert!(refused < 12 + starts / 500, "{refused} of {starts} refused at {every:?}");
    }
}

/// Four clients that know nothing of each other at one bucket: none starves, whoever came first.
#[test]
fn strangers_share_a_limit() {
    for seed in 1..=4 {
        let shares = strangers(4, seed, Duration::from_secs(1200), &mut Bucket::new(20, 20));
        let (least, most) = (shares.iter().min().copied(), shares.iter().max().copied());
        assert!(least.zip(most).is_some_and(|(least, most)| most < 5 * least), "{shares:?}");
        assert!(shares.iter().sum::<u32>() > 20 * 1100, "{shares:?}");
    }
}

/// What each of them was served.
fn strangers(count: usize, seed: u64, time: Duration, bucket: &mut Bucket) -> Vec<u32> {
    let mut dice = Dice::new(seed);
    let mut each: Vec<_> = (0..count)
        .map(|_| (Adaptive::new(&api()), Instant::ZERO.after(SEC).after(MS * dice.below(100) as u32), 0))
        .collect();
    loop {
        let (client, at, served) = each.iter_mut().min_by_key(|(_, next, _)| *next).expect("there is one");
        let started = *at;
        if started.since(Instant::ZERO) > time {
            return each.iter().map(|(.., served)| *served).collect();
        }
        let admitted = bucket.admits(started);
        *served += u32::from(admitted);
        let outcome = if admitted { Outcome::Served } else { Outcome::Refused { advice: None } };
        let takes = MS * 50 + MS * dice.below(20) as u32;
        client.taught(started.after(takes), &Fact { started, outcome, latency: admitted.then_some(takes) }, &api());
        *at = started.after(client.interval().max(takes));
    }
}

struct Bucket {
    every: Duration,
    burst: Duration,
    empty: Instant,
}

impl Bucket {
    fn new(a_second: u32, burst: u32) -> Self {
        Self { every: SEC / a_second, burst: SEC / a_second * burst, empty: Instant::ZERO }
    }

    fn admits(&mut self, now: Instant) -> bool {
        let next = self.empty.max(now).after(self.every);
        let admits = next.since(now) <= self.burst;
        if admits {
            self.empty = next;
        }
        admits
    }
}

/// A run that ended while the host had asked to be left alone for a second, and one that began an hour later: the hour says
/// nothing of the host's limit.
#[test]
fn a_rest_after_advice_is_no_window() {
    let mut life = Life::new(1, api(), bucket(), Manner { advises: true, ..Manner::steady() });
    go_on(&mut life, is(Why::Learned));
    let learned = life.adaptive.said(life.now).rate.expect("a rate").interval();
    let refused = Fact { started: life.now.after(MS), outcome: Outcome::Refused { advice: Some(SEC) }, latency: None };
    life.adaptive.taught(life.now.after(MS * 2), &refused, &api());
    let started = life.now.after(SEC * 3600);
    let served = Fact { started, outcome: Outcome::Served, latency: Some(MS * 20) };
    life.adaptive.taught(started.after(MS * 20), &served, &api());
    let interval = life.adaptive.interval();
    assert!(interval < learned * 3 / 2, "{interval:?} after {learned:?}");
}

#[test]
fn what_was_learned_is_not_lost_to_one_refusal() {
    for every in [1000, 1500, 2000, 3000] {
        let rule = Rule::Bucket { every: MS * every, burst: 1 };
        let mut life = Life::new(1, AdaptiveSettings { start: SEC, floor: SEC, ..api() }, rule, Manner::steady());
        let begins = life.now;
        go_on(&mut life, |life| {
            let (late, why) = (life.now.since(begins) > SEC * 600, life.adaptive.said(life.now).why);
            let lost = late && why != Why::BackingOff && life.adaptive.interval() > MS * every * 2;
            assert!(!lost, "{:?} of {every} ms after {:?}", life.adaptive.interval(), life.now.since(begins));
            life.now.since(begins) > SEC * 7200
        });
    }
}

#[test]
fn a_window_is_told_from_a_bucket() {
    let life = until(Rule::Window { span: SEC * 60, most: 60 }, is(Why::Learned));
    let learned = life.adaptive.said(life.now).rate.expect("a rate").interval();
    assert!(learned >= SEC * 95 / 100 && learned < SEC * 110 / 100, "{learned:?}");
    assert!(life.refused < 12, "{} refused", life.refused);
}

#[test]
fn a_rest_longer_than_the_hosts_window_is_survived() {
    // A window and more went well; then somebody else had used one up, and the trial came when every other was over.
    let learned = until(Rule::Window { span: SEC * 60, most: 60 }, is(Why::Learned));
    let (mut adaptive, pace) = (learned.adaptive, learned.adaptive.interval());
    let served = (1..66).map(|n| (SEC * n, Outcome::Served));
    let refused = (SEC * 67, Outcome::Refused { advice: None });
    for (after, outcome) in served.chain([refused, (SEC * 128, Outcome::Served)]) {
        let started = learned.now.after(after);
        adaptive.taught(started.after(MS * 5), &Fact { started, outcome, latency: None }, &api());
    }
    assert!(
        adaptive.interval() >= pace && adaptive.interval() < pace * 21 / 10,
        "{:?} of {pace:?}",
        adaptive.interval()
    );
}

#[test]
fn a_window_used_up_early_makes_it_as_much_slower() {
    let learned = until(Rule::Window { span: SEC * 60, most: 60 }, is(Why::Learned));
    let (mut adaptive, pace) = (learned.adaptive, learned.adaptive.interval());
    let served = (1..94).map(|n| (SEC * n, Outcome::Served));
    let refused = (SEC * 95, Outcome::Refused { advice: None });
    for (after, outcome) in served.chain([refused, (SEC * 125, Outcome::Served)]) {
        let started = learned.now.after(after);
        adaptive.taught(started.after(MS * 5), &Fact { started, outcome, latency: None }, &api());
    }
    // Half the window was left at most.
    assert!(adaptive.interval() > pace * 13 / 10, "{:?} of {pace:?}", adaptive.interval());
}

#[test]
fn a_pace_that_is_not_used_does_not_grow() {
    for rule in [Rule::All, bucket()] {
        for why in [Why::Searching, Why::Probing] {
            if matches!((&rule, why), (Rule::All, Why::Probing)) {
                continue;
            }
            let mut life = until(rule.clone(), is(why));
            let before = life.adaptive.interval();
            for _ in 0..200 {
                life.now = life.now.after(before * 4);
                let fact = Fact { started: life.now.before(MS * 20), outcome: Outcome::Served, latency: Some(MS * 20) };
                life.adaptive.taught(life.now, &fact, &api());
                assert!(life.adaptive.interval() >= before, "{rule:?} {why:?}");
            }
        }
    }
}

#[test]
fn after_a_rest_it_goes_on_from_what_it_knew_and_after_a_month_anew() {
    let learned = until(bucket(), |life| life.adaptive.said(life.now).refusals >= 2 && is(Why::Learned)(life));
    let rate = learned.adaptive.interval();
    for secs in [600, 86_400, 20 * 86_400] {
        let mut life = learned.clone();
        life.rest(SEC * secs);
        assert_eq!(life.adaptive.interval(), rate, "after {secs} s");
        life.step();
        assert!(is_about(life.adaptive.interval(), rate), "after {secs} s and one answer");
        assert_eq!(life.adaptive.said(life.now).why, Why::Learned);
    }
    let probe_after = |days: u32| {
        let mut life = learned.clone();
        life.rest(SEC * 86_400 * days + SEC * 600);
        life.step();
        life.adaptive.said(life.now).next_probe.expect("a probe").since(life.now)
    };
    assert!(probe_after(0) > probe_after(2) && probe_after(2) > probe_after(5), "the older, the sooner it is tried");
    let mut forgotten = learned.clone();
    forgotten.rest(FORGOTTEN);
    assert!(forgotten.adaptive.is_fresh(&api()));
    let mut kept = learned;
    kept.rest(FORGOTTEN - SEC);
    assert!(!kept.adaptive.is_fresh(&api()));
}

#[test]
fn within_other_bounds_it_is_inside_them() {
    let life = until(bucket(), is(Why::Learned));
    let slower = life.adaptive.within(&AdaptiveSettings { floor: SEC, ..api() });
    assert_eq!(slower.interval(), SEC);
    let faster = life.adaptive.within(&AdaptiveSettings { ceiling: MS * 50, ..api() });
    assert_eq!(faster.interval(), MS * 50);
    assert_eq!(life.adaptive.within(&api()), life.adaptive);
    let others = AdaptiveSettings { start: SEC * 2, ..api() };
    assert_eq!(Adaptive::new(&api()).within(&others), Adaptive::new(&others), "a new host begins where they say");
}

#[test]
fn a3_errors_strain_it_and_what_is_served_eases_it() {
    let mut life = until(bucket(), is(Why::Learned));
    let known = life.adaptive.said(life.now).rate;
    let pace = life.adaptive.interval();
    for n in 1..20u32 {
        let (started, before) = (life.now.after(MS), life.adaptive.interval());
        life.now = life.now.after(MS * 10);
        let outcome = if n % 2 == 0 { Outcome::NoAnswer } else { Outcome::ServerError };
        life.adaptive.taught(life.now, &Fact { started, outcome, latency: None }, &api());
        assert!(life.adaptive.interval() > before || life.adaptive.interval() >= pace * 63);
        assert!(life.adaptive.interval() <= api().ceiling);
    }
    assert_eq!(life.adaptive.said(life.now).rate, known, "they teach nothing that is remembered");
    go_on(&mut life, is(Why::Learned));
    assert!(life.adaptive.interval() <= pace * 101 / 100, "{:?} of {pace:?}", life.adaptive.interval());
}

#[test]
fn a5_latency_finds_how_many_workers_there_are() {
    for (workers, service) in [(1, 50), (4, 200), (16, 100)] {
        let manner = Manner { service: MS * service, workers, ..Manner::steady() };
        let mut life = Life::new(1, api(), Rule::All, manner);
        let begins = life.now;
        go_on(&mut life, |life| life.now.since(begins) > SEC * 300);
        let most = u64::from(life.adaptive.in_flight());
        assert!(most >= workers && most <= workers * 3 / 2 + 1, "{most} in flight for {workers} workers");
    }
}

#[test]
fn a6_two_populations_are_reported() {
    let mut adaptive = Adaptive::new(&api());
    for n in 0..200u64 {
        let started = Instant::from_millis(1_000_000 + n * 300);
        let latency = MS * if n % 5 == 0 { 400 } else { 5 };
        let fact = Fact { started, outcome: Outcome::Served, latency: Some(latency) };
        adaptive.taught(started.after(latency), &fact, &api());
    }
    assert!(adaptive.is_bimodal() && adaptive.said(Instant::from_millis(2_000_000)).bimodal);
}
