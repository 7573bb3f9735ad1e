//! X1, X3, E02, E13, E14: one pace together, over restarts too.

use comity_core::limits::Because;
use comity_core::limits::all::{Begin, Cells as _, Origin};
use comity_store::Readable as _;

use super::*;

#[test]
fn x1_so_many_members_hold_one_rate() {
    for count in [1, 2, 4, 6, 8] {
        let town = Town::new(&[], every(100));
        let mut members = town.members(count);
        let starts = run(&mut members, |_| HOST.into(), MS, at(0), at(10_000), |_| Duration::ZERO);
        assert_eq!(starts.len(), 100, "{count} members");
        assert!(starts.windows(2).all(|pair| pair[1].0.since(pair[0].0) >= MS * 100), "{count} members");
    }
}

#[test]
fn x1_a_fast_rate_is_held_by_all_together_even_where_timers_are_late() {
    for count in [2, 6] {
        let town = Town::new(&[], every(2));
        let mut members = town.members(count);
        let mut dice = Dice(7);
        let late = |_| Duration::from_micros(dice.below(1500));
        let starts = run(&mut members, |_| HOST.into(), MS, at(0), at(4000), late);
        assert!(starts.len() <= 2006, "{count} members: {}", starts.len());
        assert!(starts.len() >= 1800, "{count} members lose little of it: {}", starts.len());
    }
}

#[test]
fn x3_a_claim_is_one_operation_over_all_scopes_and_all_members() {
    let town = Town::new(&[("*.example.org", places(1)), ("*", every(50))], Partial::default());
    let mut members = town.members(2);
    let held = members[0].claim(at(0), "a.example.org").unwrap();
    assert_eq!(held.from, Origin::Shared);
    for ms in 100..200 {
        let wait = members[1].claim(at(ms), "b.example.org").unwrap_err();
        assert_eq!(wait.because, Because::InFlight(1));
        assert!(wait.until > at(ms) && wait.until <= at(ms + 25), "only another can help: it asks again soon");
    }
    members[0].release(at(200), "a.example.org", &held);
    members[1].claim(at(200), "b.example.org").expect("what did not start was charged nowhere");
}

#[test]
fn x3_what_one_member_learns_holds_for_all() {
    let town = Town::new(&[], Partial::default());
    let mut members = town.members(3);
    let grant = members[0].claim(at(0), HOST).unwrap();
    let mut late = members[1].claim(at(0), HOST).unwrap();
    members[0].learn(at(10), HOST, &grant, &refused(Some(SEC * 30)));
    members[0].release(at(10), HOST, &grant);
    assert_eq!(members[1].begin(at(11), HOST, &mut late), Begin::TooLate, "a pause overtakes what is granted");
    let wait = members[2].claim(at(20), HOST).unwrap_err();
    assert_eq!((wait.because, wait.until), (Because::Pause, at(30_010)));
    let listing = members[1].machine.list().unwrap();
    let known = listing.scopes.iter().find(|known| known.name == HOST).unwrap();
    let lowered = known.lowered.as_ref().unwrap();
    assert_eq!((lowered.status, lowered.at), (Some(429), at(10)));
    assert_eq!(lowered.by, listing.members[0].id);
    assert_eq!(known.places, [(listing.members[1].id.clone(), 1)]);
    assert_eq!(listing.members.len(), 3);
    members[1].forget(at(30), HOST);
    members[2].claim(at(30), HOST).expect("forgotten for all");
}

#[test]
fn x3_a_grant_used_late_is_restamped_or_given_up_among_all() {
    let town = Town::new(&[], every(100));
    let mut members = town.members(2);
    let mut grant = members[0].claim(at(0), HOST).unwrap();
    assert_eq!(members[0].begin(at(2), HOST, &mut grant), Begin::Go);
    assert_eq!(members[0].begin(at(5), HOST, &mut grant), Begin::Restamped, "noticeably late");
    assert_eq!(members[0].begin(at(50), HOST, &mut grant), Begin::Restamped);
    assert_eq!(members[1].claim(at(51), HOST).unwrap_err().until, at(150));
    members[1].claim(at(150), HOST).unwrap();
    assert_eq!(members[0].begin(at(200), HOST, &mut grant), Begin::TooLate);
}

#[test]
fn t7_one_trial_after_a_pause_among_all() {
    let town = Town::new(&[], Partial::default());
    let mut members = town.members(3);
    let grant = members[0].claim(at(0), HOST).unwrap();
    members[0].learn(at(0), HOST, &grant, &refused(Some(SEC)));
    members[0].release(at(0), HOST, &grant);
    let trial = members[1].claim(at(1000), HOST).unwrap();
    for member in [0, 2] {
        let wait = members[member].claim(at(1001), HOST).unwrap_err();
        assert_eq!(wait.because, Because::AfterPause);
        assert!(wait.until <= at(1030), "it looks again for the trial's answer");
    }
    assert_eq!(members[1].claim(at(1001), HOST).unwrap_err().until, Instant::FAR, "its own answer wakes it");
    members[1].learn(at(1100), HOST, &trial, &served());
    members[1].release(at(1100), HOST, &trial);
    for member in &mut members {
        member.claim(at(1130), HOST).expect("over for all");
    }
}

#[test]
fn e02_two_members_start_sixty_a_minute() {
    let town = Town::new(&[], windows(&["2/1s", "60/60s"]));
    let mut members = town.members(2);
    let starts = run(&mut members, |_| HOST.into(), MS, at(0), at(59_999), |_| Duration::ZERO);
    assert_eq!(starts.len(), 60);
    let all = run(&mut members, |_| HOST.into(), MS, at(59_999), at(180_000), |_| Duration::ZERO);
    let starts: Vec<Instant> = starts.into_iter().chain(all).map(|(start, _)| start).collect();
    for (count, span) in [(2, SEC), (60, SEC * 60)] {
        assert!(starts.windows(count + 1).all(|window| window[count].since(window[0]) >= span));
    }
}

#[test]
fn e13_a_pause_and_the_last_start_survive_a_restart() {
    let town = Town::new(&[("spaced.org", every(400_000))], Partial::default());
    let mut first = town.member();
    let spaced = first.claim(at(0), "spaced.org").unwrap();
    first.release(at(1), "spaced.org", &spaced);
    let grant = first.claim(at(0), HOST).unwrap();
    first.learn(at(0), HOST, &grant, &refused(Some(SEC * 1800)));
    first.release(at(0), HOST, &grant);
    drop(first);
    let mut second = town.member();
    let wait = second.claim(at(60_000), HOST).unwrap_err();
    assert_eq!((wait.because, wait.until), (Because::Pause, at(1_800_000)));
    assert_eq!(second.claim(at(60_000), "spaced.org").unwrap_err().until, at(400_000));
    second.claim(at(1_800_000), HOST).expect("and not longer");
}

#[test]
fn e13_what_was_learned_ages_over_a_restart_as_without_one() {
    let interval_at = |restart: bool| {
        let town = Town::new(&[], Partial::default());
        let mut member = town.member();
        let grant = member.claim(at(0), HOST).unwrap();
        for n in 0..4 {
            member.learn(at(1 + n), HOST, &Grant { start: at(1 + n), ..grant }, &refused(None));
        }
        member.release(at(5), HOST, &grant);
        if restart {
            drop(member);
            member = town.member();
        }
        let grant = member.claim(at(1_500_000), HOST).unwrap();
        member.release(at(1_500_000), HOST, &grant);
        let scope = member.route(HOST).members()[0].scope;
        member.memory.cell(scope).interval()
    };
    assert_eq!(interval_at(true), interval_at(false));
}

#[test]
fn e14_members_with_subdomains_of_their_own_share_their_group() {
    let town = Town::new(&[("*.example.org", every(1000))], Partial::default());
    let mut members = town.members(4);
    let starts = run(&mut members, |who| format!("h{who}.example.org"), MS, at(0), at(20_000), |_| Duration::ZERO);
    assert_eq!(starts.len(), 20);
    assert!(starts.windows(2).all(|pair| pair[1].0.since(pair[0].0) >= SEC));
}

#[test]
fn d8_records_of_hosts_that_are_as_new_are_used_again() {
    let town = Town::new(&[], every(10));
    let mut member = town.member();
    for n in 0..3000u64 {
        let host = format!("h{n}.example");
        let grant = member.claim(at(0), &host).unwrap();
        member.release(at(1), &host, &grant);
    }
    assert_eq!(member.machine.list().unwrap().scopes.len(), 3000);
    let length = town.path().metadata().unwrap().len();
    for n in 0..3000u64 {
        let host = format!("later{n}.example");
        let grant = member.claim(at(3_700_000), &host).unwrap();
        member.release(at(3_700_001), &host, &grant);
    }
    assert_eq!(town.path().metadata().unwrap().len(), length, "an hour later the old ones make room");
    let listed = member.machine.list().unwrap();
    assert_eq!(listed.scopes.iter().filter(|known| known.name.starts_with("later")).count(), 3000);
    member.claim(at(3_700_002), "later7.example").expect_err("those that matter are found");
}

#[test]
fn t13_all_is_forgotten_in_parts_that_nobody_waits_long_for() {
    let town = Town::new(&[], Partial::default());
    let mut one = town.member();
    let hosts: Vec<String> = (0..600).map(|n| format!("h{n}.example")).collect();
    for host in &hosts {
        let grant = one.claim(at(0), host).unwrap();
        one.learn(at(0), host, &grant, &refused(Some(SEC * 60)));
        one.release(at(0), host, &grant);
    }
    let mut look = Machine::look(town.path()).unwrap();
    let long = format!("{}example", format!("{}.", "a".repeat(60)).repeat(4));
    let grant = one.claim(at(0), &long).unwrap();
    one.learn(at(0), &long, &grant, &refused(Some(SEC * 60)));
    assert_eq!(look.forget_by_name(Some(&long)), Ok(1), "a name that no record has room for");
    assert_eq!(look.forget_by_name(None), Ok(601));
    for host in &hosts {
        one.claim(at(1), host).unwrap();
    }
    std::fs::remove_file(town.path()).unwrap();
    let error = look.forget_by_name(None).unwrap_err().to_string();
    assert!(error.contains("gone"), "{error}");
}
