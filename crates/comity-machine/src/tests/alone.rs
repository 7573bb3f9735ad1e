//! Decision 7: one that cannot get at the store goes on with its part of every limit, and the others leave it that.

use std::fs::{File, OpenOptions};

use comity_store::Readable as _;

use super::*;
use crate::side::Side;

/// Somebody holds the file's lock.
fn hold(town: &Town) -> File {
    let held = OpenOptions::new().read(true).write(true).open(town.path()).unwrap();
    held.lock().unwrap();
    held
}

fn impatient(template: Partial) -> Town {
    let mut town = Town::new(&[], template);
    town.settings.lock_deadline = MS * 5;
    town
}

#[test]
fn a_members_count_is_not_older_than_the_loss() {
    let town = impatient(every(1000));
    let mut idle = town.member();
    let _ = idle.claim(at(0), HOST);
    let _others = town.members(3);
    let _held = hold(&town);
    let _ = idle.claim(at(5000), HOST);
    assert!(idle.is_lost());
    assert_eq!(idle.machine.standing().members, 4);
}

#[test]
fn where_nobody_can_be_counted_the_last_known_number_holds() {
    let town = impatient(every(1000));
    let mut members = town.members(3);
    let _ = members[0].claim(at(0), HOST);
    std::fs::rename(town.directory.path().join("pace.members"), town.directory.path().join("elsewhere")).unwrap();
    let _held = hold(&town);
    let _ = members[0].claim(at(5000), HOST);
    assert!(members[0].is_lost());
    assert_eq!(members[0].machine.standing().members, 3);
}

/// Starts of one that is well and of one for which the lock is always held, both with requests waiting.
fn starts_of_two(town: &Town, well: &mut Member, cut_off: &mut Member, from: u64, to: u64) -> Vec<u64> {
    let mut starts = Vec::new();
    for ms in from..to {
        let mut ask = |member: &mut Member| {
            if let Ok(grant) = member.claim_of(at(ms), HOST, at(ms), 2) {
                starts.push(ms);
                member.release(at(ms), HOST, &grant);
            }
        };
        ask(well);
        if ms % 10 == 0 {
            let _held = hold(town);
            ask(cut_off);
        }
    }
    starts
}

#[test]
fn a_store_lost_to_one_process_alone_makes_nobody_faster() {
    let mut town = Town::new(&[], every(100));
    let mut well = town.member();
    town.settings.lock_deadline = MS * 2;
    let mut cut_off = town.member();
    let _ = well.claim(at(0), HOST);
    let _ = cut_off.claim(at(0), HOST);
    let starts = starts_of_two(&town, &mut well, &mut cut_off, 1000, 6000);
    assert!(cut_off.is_lost() && !well.is_lost());
    let least = starts.windows(2).map(|pair| pair[1] - pair[0]).min();
    assert!((45..=51).contains(&starts.len()) && least >= Some(90), "{} in 5 s at 10/s, {least:?} ms", starts.len());
    // Once it is back both use all of it.
    let _ = well.news(at(6000));
    let back = (6000..9000).step_by(10).filter(|ms| cut_off.claim(at(*ms), HOST).is_ok()).count();
    assert!(!cut_off.is_lost());
    assert!(back >= 28, "{back} in 3 s at 10/s");
    let _ = well.claim(at(9000), HOST);
    assert!(well.news(at(9000)), "who waited for a part of the limits is told");
    let alone = (9100..12_000).step_by(10).filter(|ms| well.claim(at(*ms), HOST).is_ok()).count();
    assert!(alone >= 28, "{alone} in 3 s at 10/s");
}

#[test]
fn one_that_was_alone_and_died_is_waited_for_no_more() {
    let mut town = impatient(places(1));
    let mut cut_off = town.member();
    town.settings.lock_deadline = SEC * 5;
    let mut well = town.member();
    {
        let _held = hold(&town);
        cut_off.claim(at(0), HOST).expect("the first of two has the one place there is");
        assert!(cut_off.is_lost());
    }
    let wait = well.claim(at(10), HOST).unwrap_err();
    assert!(wait.until <= at(260), "it looks again: {wait:?}");
    cut_off.kill();
    well.machine.lives_on();
    let _ = well.claim(at(260), HOST);
    well.claim(at(261), HOST).unwrap();
}

#[test]
fn a_process_that_pauses_without_the_store_leaves_its_part_to_the_others() {
    let mut town = impatient(every(100));
    let mut well = town.member();
    town.settings.on_failure = comity_store::OnFailure::Pause;
    let mut pausing = town.member();
    let _ = well.claim(at(0), HOST);
    {
        let _held = hold(&town);
        let _ = pausing.claim(at(0), HOST);
        assert!(pausing.is_lost());
    }
    let starts = (100..1100).filter(|ms| well.claim(at(*ms), HOST).is_ok()).count();
    assert_eq!(starts, 10);
}

#[test]
fn what_is_untold_is_told_once() {
    let mut side = Side::default();
    let scope = comity_core::limits::ScopeId(0);
    side.note(scope, crate::sum::key("a"));
    side.take_places(&comity_core::limits::Member { scope, part: comity_core::limits::Part::Own }, 1);
    side.unsaid(scope, crate::sum::key("a"));
    for _ in 0..100 {
        let unsaid = side.take_unsaid(true);
        assert_eq!(unsaid, [scope]);
        side.put_back(unsaid);
    }
    assert_eq!(side.take_unsaid(false), [scope]);
}

#[test]
fn what_could_not_be_forgotten_is_forgotten_later() {
    let town = impatient(Partial::default());
    let mut members = town.members(2);
    let grant = members[0].claim(at(0), HOST).unwrap();
    members[0].learn(at(0), HOST, &grant, &refused(Some(SEC * 60)));
    members[0].release(at(0), HOST, &grant);
    let held = hold(&town);
    members[1].forget(at(1), HOST);
    members[1].forget(at(2), HOST);
    assert!(members[1].is_lost());
    drop(held);
    for writes in 0..3 {
        // It fails again, between any two writes.
        dying::after(Some(writes));
        members[1].news(at(10_000 + u64::from(writes) * 10_000));
        dying::after(None);
    }
    members[1].news(at(50_000));
    assert!(!members[1].is_lost());
    let listed = members[1].machine.list().unwrap();
    assert!(listed.scopes[0].state.pause.until() <= at(0), "{:?}", listed.scopes[0].state.pause);
}
