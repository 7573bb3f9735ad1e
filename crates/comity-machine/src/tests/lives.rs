//! E10, E11: members that are killed, stopped and woken; and a lock that is held.

use comity_core::limits::Because;
use comity_core::limits::all::{Cells as _, Origin};
use comity_store::Readable as _;

use super::*;

#[test]
fn e11_a_killed_members_places_and_trial_are_free_at_once() {
    let town = Town::new(&[], places(1));
    let mut members = town.members(2);
    members[0].claim(at(0), HOST).unwrap();
    members[1].claim(at(1), HOST).unwrap_err();
    members.remove(0).kill();
    let grant = members[0].claim(at(2), HOST).expect("its place is free");
    members[0].learn(at(3), HOST, &grant, &refused(Some(SEC)));
    members[0].release(at(3), HOST, &grant);
    members.push(town.member());
    members[0].claim(at(1003), HOST).expect("the trial");
    members.remove(0).kill();
    let trial = members[0].claim(at(1010), HOST).expect("another trial");
    assert_eq!(trial.trials, 1);
}

#[test]
fn e11_a_member_stopped_for_longer_than_its_lease_loses_its_places_and_notices() {
    let town = Town::new(&[], places(1));
    let mut members = town.members(2);
    let stopped = members[0].claim(at(0), HOST).unwrap();
    members[0].stop_for(SEC * 9);
    members[1].claim(at(1), HOST).expect_err("its lease runs");
    members[0].stop_for(SEC * 11);
    let grant = members[1].claim(at(2), HOST).expect("its lease is over");
    // It wakes, and its answer comes: that is not aborted, and it knows.
    members[0].learn(at(3), HOST, &stopped, &served());
    assert_eq!(members[0].machine.given_up(), 1);
    members[0].claim(at(4), HOST).expect_err("both are in flight now: one too many, and nobody starts beside them");
    members[1].release(at(5), HOST, &grant);
    let wait = members[1].claim(at(6), HOST).unwrap_err();
    assert_eq!(wait.because, Because::InFlight(1), "it counts its place again");
    members[0].release(at(7), HOST, &stopped);
    members[1].claim(at(40), HOST).expect("and gives it back once");
    assert_eq!(members[0].machine.given_up(), 1);
}

#[test]
fn e10_a_late_sign_of_life_within_the_lease_changes_nothing() {
    let town = Town::new(&[], places(1));
    let mut members = town.members(2);
    let grant = members[0].claim(at(0), HOST).unwrap();
    members[0].stop_for(SEC * 8);
    members[1].claim(at(1), HOST).unwrap_err();
    members[0].release(at(2), HOST, &grant);
    assert_eq!(members[0].machine.given_up(), 0);
    members[1].claim(at(30), HOST).expect("given back as ever");
}

#[test]
fn d7_a_lock_that_stays_held_makes_a_member_slower_until_it_is_free() {
    let mut town = Town::new(&[], every(100));
    town.settings.lock_deadline = MS * 20;
    let mut members = town.members(2);
    members[0].claim(at(0), HOST).unwrap();
    members[1].claim(at(1), HOST).unwrap_err();
    let file = std::fs::File::open(town.path()).unwrap();
    file.lock().unwrap();
    let mut now = at(100);
    let grant = loop {
        match members[0].claim(now, HOST) {
            Ok(grant) => break grant,
            Err(wait) => now = wait.until,
        }
    };
    assert_eq!(grant.from, Origin::Degraded);
    assert!(members[0].is_lost());
    assert!(now >= at(200), "at half the pace, for two members: {now:?}");
    members[0].release(now.after(MS), HOST, &grant);
    file.unlock().unwrap();
    // Found again by itself; what it did alone is told to the others.
    let again = now.after(SEC * 3);
    members[0].news(again);
    assert!(!members[0].is_lost());
    assert_eq!(members[0].machine.standing().losses, 1);
    let wait = members[1].claim(now.after(MS), HOST).unwrap_err();
    assert!(wait.until >= now.after(MS * 100), "its start counts: {wait:?}");
}

#[test]
fn d7_places_taken_and_given_back_alone_are_told_when_the_store_is_back() {
    let mut town = Town::new(&[], places(4));
    town.settings.lock_deadline = MS * 20;
    let mut members = town.members(2);
    let before = members[0].claim(at(0), HOST).unwrap();
    members[1].claim(at(0), HOST).unwrap();
    let file = std::fs::File::open(town.path()).unwrap();
    file.lock().unwrap();
    let alone = members[0].claim(at(1000), HOST).expect("its part is two");
    assert_eq!(alone.from, Origin::Degraded);
    members[0].claim(at(1001), HOST).expect_err("and not three");
    members[0].release(at(1002), HOST, &before);
    file.unlock().unwrap();
    members[0].news(at(10_000));
    assert!(!members[0].is_lost());
    // One of each is in flight.
    for n in 0..2 {
        members[1].claim(at(10_001 + n), HOST).unwrap();
    }
    members[1].claim(at(10_005), HOST).unwrap_err();
}

#[test]
fn a_member_that_leaves_gives_all_back() {
    let town = Town::new(&[], places(1));
    let mut members = town.members(2);
    members[0].claim(at(0), HOST).unwrap();
    drop(members.remove(0));
    members[0].claim(at(1), HOST).unwrap();
    let scope = members[0].route(HOST).members()[0].scope;
    assert_eq!(members[0].memory.cell(scope).in_flight(), 1);
}

#[test]
fn a_forked_copy_joins_anew_and_takes_nothing_from_its_parent() {
    let town = Town::new(&[("*", Partial::default())], Partial { in_flight: NonZeroU32::new(2), ..every(100) });
    let mut child = town.member();
    let _parents = child.claim(at(0), HOST).unwrap();
    // What fork(2) leaves to the parent: the same open files, locks and all.
    let (own, opened) = child.machine.fork();
    let parent = own.me;
    let wait = child.claim(at(10), HOST).unwrap_err();
    assert_eq!(wait.until, at(100), "one pace");
    assert_ne!(child.machine.own().unwrap().me, parent);
    assert_eq!(child.machine.standing().members, 2, "the parent lives, as a member of its own");
    let listed = child.machine.list().unwrap();
    let known = listed.scopes.iter().find(|scope| scope.name == HOST).unwrap();
    assert_eq!(known.places, [(listed.members[0].id.clone(), 1)], "its place is its own");
    // The parent is inside: its copy is not.
    let locked = opened.file.lock(SEC).unwrap();
    let other = std::fs::OpenOptions::new().write(true).open(town.path()).unwrap();
    assert!(other.try_lock().is_err());
    drop(locked);
    drop(child);
    assert_eq!(town.member().machine.list().unwrap().members.len(), 2, "nor does it end with its copy");
}

#[test]
fn a_forked_copy_that_only_ends_leaves_its_parents_places() {
    let town = Town::new(&[], places(1));
    let mut child = town.member();
    child.claim(at(0), HOST).unwrap();
    let (_own, opened) = child.machine.fork();
    let locked = opened.file.lock(SEC).unwrap();
    drop(child);
    let other = std::fs::OpenOptions::new().write(true).open(town.path()).unwrap();
    assert!(other.try_lock().is_err(), "the parent is still inside");
    drop(locked);
    town.member().claim(at(1), HOST).unwrap_err();
}
