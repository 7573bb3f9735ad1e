//! Processes that do not go by the same rules: an upgrade, another profile, a limit given on one command line.

use comity_core::limits::Because;
use comity_store::{OwnLimits, Readable as _};

use super::*;

fn own(set: u32, ms: u32) -> OwnLimits {
    OwnLimits { set, limits: Arc::new(Limits { interval: MS * ms, policy: Policy::Off, ..Limits::none() }) }
}

/// Two processes, each under a template of its own, on one file.
fn two(one: Partial, other: Partial) -> (Town, Member, Member) {
    let mut town = Town::new(&[], one);
    let first = town.member();
    town.rules = Town::new(&[], other).rules;
    let second = town.member();
    (town, first, second)
}

/// Starts of each, where both always have requests waiting.
fn starts(mut members: [&mut Member; 2], ticks: core::ops::Range<u64>) -> [Vec<Instant>; 2] {
    let mut starts = [Vec::new(), Vec::new()];
    for tick in ticks {
        let now = at(tick * 5);
        for (member, starts) in members.iter_mut().zip(&mut starts) {
            if let Ok(grant) = member.claim_of(now, HOST, now, 2) {
                starts.push(now);
                member.release(now, HOST, &grant);
            }
        }
    }
    starts
}

#[test]
fn t5_a_callers_set_is_not_held_back_by_another_process_set_of_the_same_number() {
    let town = Town::new(&[], Partial::default());
    let mut members = town.members(2);
    let sets = [own(0, 1000), own(0, 10)];
    let mut counts = [0, 0];
    for tick in 0..2000u64 {
        let now = at(tick * 5);
        for (n, (member, set)) in members.iter_mut().zip(&sets).enumerate() {
            let route = member.memory.route(now, &Target::host(HOST), Some(set)).unwrap();
            let claim = Claim::at_once(route.members(), 1, now);
            let asked = Asked { id: 1, waiting: 2 };
            if let Claimed::Now(Ok(grant)) = member.machine.claim(&mut member.memory, now, &claim, asked) {
                counts[n] += 1;
                member.machine.release(&mut member.memory, now, route.members(), &grant);
            }
        }
    }
    assert_eq!(counts, [10, 1000], "10 s at 1/s and at 100/s");
    let listed = Machine::look(town.path()).unwrap().list().unwrap();
    let names: Vec<&str> = listed.scopes.iter().map(|scope| &*scope.name).collect();
    assert_eq!(names, [HOST], "nobody else's business");
}

#[test]
fn t5_a_callers_set_keeps_its_places_and_its_last_look_needs_no_lock() {
    let town = Town::new(&[], Partial::default());
    let mut member = town.member();
    let set = OwnLimits { set: 0, limits: Arc::new(Limits { in_flight: NonZeroU32::new(1), ..Limits::none() }) };
    let route = member.memory.route(at(0), &Target::host(HOST), Some(&set)).unwrap();
    let ask = |member: &mut Member, ms| {
        let claim = Claim::at_once(route.members(), 1, at(ms));
        match member.machine.claim(&mut member.memory, at(ms), &claim, Asked { id: 1, waiting: 1 }) {
            Claimed::Now(answer) => answer,
            Claimed::Later => panic!("a machine answers at once"),
        }
    };
    let mut held = ask(&mut member, 0).unwrap();
    let wait = ask(&mut member, 1).unwrap_err();
    assert_eq!((wait.because, wait.until), (Because::InFlight(1), Instant::FAR), "nobody else can free it");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(town.path()).unwrap();
    file.lock().unwrap();
    assert_eq!(member.machine.begin(&mut member.memory, at(2), route.members(), &mut held), Begin::Go);
    assert!(!member.is_lost());
    drop(file);
    member.machine.release(&mut member.memory, at(3), route.members(), &held);
    ask(&mut member, 4).unwrap();
}

#[test]
fn x8_a_process_with_a_slower_limit_is_not_starved_by_one_with_a_faster() {
    for burst in [1, 5] {
        let slow = Partial { burst: NonZeroU32::new(burst), ..every(1000) };
        let (_town, mut slow, mut fast) = two(slow, every(10));
        let both = starts([&mut slow, &mut fast], 0..4000);
        for (starts, other) in both.iter().zip(["slow", "fast"]) {
            assert!((9..=11).contains(&starts.len()), "{other}, burst {burst}: {} of 20 in 20 s", starts.len());
        }
        let mut all = both.concat();
        all.sort_unstable();
        // The fast one may have started before it heard of the slow one's limit.
        let gaps = all.windows(2).skip(1).map(|pair| pair[1].since(pair[0]));
        assert!(gaps.min() >= Some(MS * 900), "the stricter promise holds for both: {all:?}");
        // Some seconds after the slower left, the faster goes at its own rate.
        drop(slow);
        let fast = (0..2000).filter(|n| fast.claim(at(26_000 + n * 5), HOST).is_ok()).count();
        assert_eq!(fast, 1000, "10 s at 100/s");
    }
}

#[test]
fn x8_a_process_without_a_limit_keeps_to_one_that_others_bring() {
    let (_town, mut slow, mut free) = two(every(1000), Partial::default());
    let [slow, free] = starts([&mut slow, &mut free], 0..4000);
    assert!(slow.len() >= 9 && slow.len() + free.len() <= 22, "{} and {} in 20 s", slow.len(), free.len());
}

#[test]
fn what_was_learned_outlives_a_start_under_another_policy() {
    let template = |policy| Partial { policy: Some(policy), ..Partial::default() };
    let (mut town, mut one, mut browser) = two(template(Policy::refusal()), template(Policy::pressure()));
    for n in 1..=4 {
        let grant = one.claim(at(n * 20_000), HOST).unwrap();
        one.learn(at(n * 20_000), HOST, &grant, &refused(None));
        one.release(at(n * 20_000), HOST, &grant);
    }
    let interval = |member: &Member| {
        let scope = member.memory.find_host(&Target::host(HOST)).unwrap();
        member.memory.inspect(scope).unwrap().1.interval()
    };
    let learned = interval(&one);
    assert!(learned >= SEC);
    let grant = browser.claim(at(200_000), HOST).unwrap();
    browser.learn(at(200_000), HOST, &grant, &served());
    browser.release(at(200_000), HOST, &grant);
    town.rules = Town::new(&[], template(Policy::refusal())).rules;
    let mut third = town.member();
    third.claim(at(300_000), HOST).unwrap();
    assert_eq!(interval(&third), learned);
    // Forgotten is forgotten, whoever does it.
    browser.forget(at(300_001), HOST);
    let mut fourth = town.member();
    fourth.claim(at(400_000), HOST).unwrap();
    assert_eq!(interval(&fourth), Duration::ZERO);
}

#[test]
fn where_nobody_comes_under_a_policy_any_more_another_takes_its_place() {
    let template = |policy| Partial { policy: Some(policy), ..Partial::default() };
    let (town, mut one, mut browser) = two(template(Policy::refusal()), template(Policy::pressure()));
    let grant = one.claim(at(0), HOST).unwrap();
    one.learn(at(0), HOST, &grant, &refused(None));
    one.release(at(0), HOST, &grant);
    let kept = |town: &Town| {
        let listed = Machine::look(town.path()).unwrap().list().unwrap();
        listed.scopes.iter().find(|scope| scope.name == HOST).unwrap().state.learned
    };
    let kind = |kept: &comity_core::policy::Learned| core::mem::discriminant(kept);
    for (ms, policy) in [(3_500_000, Policy::refusal()), (7_300_000, Policy::pressure())] {
        browser.claim(at(ms), HOST).unwrap();
        assert_eq!(kind(&kept(&town)), kind(&policy.fresh()), "{ms}");
    }
}

#[test]
fn a_limit_that_a_process_brought_by_mistake_ends_soon_after_it() {
    let (_town, mut mistaken, mut other) = two(every(3_600_000), every(1000));
    mistaken.claim(at(0), HOST).unwrap();
    let wait = other.claim(at(5000), HOST).unwrap_err();
    assert_eq!(wait.because, Because::Interval(SEC * 3600));
    mistaken.kill();
    other.claim(at(5001), HOST).expect_err("others may have brought the same");
    other.claim(at(10_002), HOST).unwrap();
    other.claim(at(11_002), HOST).unwrap();
}

#[test]
fn a_process_that_takes_back_its_limit_holds_nobody() {
    let (town, mut one, mut other) = two(every(60_000), every(1000));
    one.claim(at(0), HOST).unwrap();
    other.claim(at(2000), HOST).unwrap_err();
    let rules = Arc::clone(&town.rules);
    one.memory.set_rules(rules);
    one.claim(at(3000), HOST).unwrap();
    other.claim(at(4000), HOST).unwrap();
}

/// Windows of two processes that differ: the longer one's log is kept.
#[test]
fn e02_a_longer_windows_log_outlives_a_start_under_a_shorter() {
    let mut town = Town::new(&[], windows(&["5/1h"]));
    let mut long = town.member();
    town.rules = Town::new(&[], windows(&["20/1s"])).rules;
    let mut short = town.member();
    for n in 0..5 {
        long.claim(at(n), HOST).unwrap();
    }
    short.claim(at(10_000), HOST).unwrap();
    assert!(long.claim(at(12_000), HOST).is_err(), "five an hour, and a sixth started after 12 s");
}
