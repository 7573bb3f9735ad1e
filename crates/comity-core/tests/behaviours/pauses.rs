//! T7: pauses, and the one request that tries whether a pause is over.

use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{self, Claim};
use comity_core::limits::{Because, Cell, Limits, ScopeId};
use comity_core::schedule::GiveUp;
use comity_core::signal::Reading;

use crate::world::{
    MS, SEC, World, at, every, free, grouped, host, millis, no_answer, places, refused_for, reply, reply_with, signal,
    taught_by_refusals,
};

#[test]
fn t7_nothing_starts_before_the_server_said_and_nothing_else_changes() {
    let mut world = World::of([taught_by_refusals()]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply_with(refused_for(429, MS * 1500), 100),
        _ => reply(200, 40),
    });
    world.ask(&host(0));
    world.run_until(at(100));
    world.ask_many(&host(0), 5);
    assert_eq!(world.wait_of(1).map(|wait| (wait.until, wait.because)), Some((at(1600), Because::Pause)));
    world.run();
    // One goes first, and its answer lets the others go.
    assert_eq!(world.times(ScopeId(0)), [0, 1600, 1640, 1640, 1640, 1640, 1640]);
    assert_eq!(world.cells[0].learned().interval(), Duration::ZERO);
}

#[test]
fn t7_a_trial_that_ends_without_an_answer_is_followed_by_another() {
    let mut world = World::of([free()]).answering(|start| match start.id {
        1 => reply_with(refused_for(429, SEC), 0),
        2 => reply_with(no_answer(), 500),
        _ => reply(200, 50),
    });
    world.cells[0].set_limits(Limits { retries: 0, ..free() }.into());
    world.ask(&host(0));
    world.run_until(at(10));
    world.ask_many(&host(0), 5);
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 1000, 1500, 1550, 1550, 1550]);
}

#[test]
fn t7_a_cancelled_trial_is_followed_by_another() {
    let mut world = World::of([free()]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply_with(refused_for(429, SEC), 0),
        _ => reply(200, 50),
    });
    world.ask(&host(0));
    world.run_until(at(10));
    world.ask_many(&host(0), 3);
    world.run_until(at(1010));
    assert_eq!(world.flying(), [1]);
    assert!(matches!(world.wait_of(2).map(|wait| wait.because), Some(Because::AfterPause)));
    world.cancel(1);
    assert_eq!(world.flying(), [2], "one, not all");
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 1000, 1010, 1060, 1060]);
}

#[test]
fn t7_a_refused_trial_is_another_pause() {
    let mut world = World::of([free()]).answering(|start| match start.at {
        early if early < at(3000) => reply_with(refused_for(503, SEC), 10),
        _ => reply(200, 10),
    });
    world.ask_many(&host(0), 4);
    world.run();
    let starts = world.times(ScopeId(0));
    assert_eq!(starts, [0, 0, 0, 0, 1010, 2020, 3030, 3040, 3040, 3040]);
}

#[test]
fn t7_an_earlier_pauses_trial_says_nothing_of_a_later_pause() {
    let mut cells = vec![Cell::new(Arc::new(free()))];
    let route = host(0);
    let members = route.members();
    let asking = Claim::at_once(members, 1, at(0));
    let [first, second] = [0, 1].map(|ms| all::claim(&mut cells, at(ms), &asking).expect("free"));
    all::settle(&mut cells, at(10), members, &first, &refused_for(429, SEC), None);
    let old_trial = all::claim(&mut cells, at(1010), &asking).expect("the trial");
    all::settle(&mut cells, at(1500), members, &second, &refused_for(429, SEC), None);
    let trial = all::claim(&mut cells, at(2500), &asking).expect("the later pause's trial");
    all::release(&mut cells, members, &old_trial);
    assert_eq!(all::decide(&cells, at(2600), &asking).map_err(|wait| wait.because), Err(Because::AfterPause));
    all::settle(&mut cells, at(2700), members, &trial, &signal(200), None);
    assert_eq!(all::decide(&cells, at(2700), &asking), Ok(()));
}

#[test]
fn t7_an_answer_to_a_request_started_before_the_pause_does_not_end_it() {
    let mut world = World::of([free()]).answering(|start| match start.id {
        1 => reply_with(refused_for(429, SEC), 10),
        2 => reply(200, 1200),
        _ => reply(200, 500),
    });
    world.cells[0].set_limits(Limits { retries: 0, ..free() }.into());
    world.ask_many(&host(0), 2);
    world.run_until(at(20));
    world.ask_many(&host(0), 3);
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 0, 1010, 1510, 1510]);
}

#[test]
fn d19_asked_for_more_than_the_limit_it_gives_up_at_once_and_others_wait_no_longer_than_it() {
    let limits = Limits { retry_after_limit: SEC * 20, ..free() };
    let mut world = World::of([limits]).answering(|start| match start.id {
        1 => reply_with(refused_for(429, SEC * 300), 0),
        _ => reply(200, 10),
    });
    world.ask(&host(0));
    world.run_until(at(0));
    let end = world.ends[0].clone();
    assert_eq!((end.at, end.status), (at(0), Some(429)));
    assert_eq!(end.gave_up, Some(GiveUp::AskedTooLong(SEC * 300)));
    world.ask(&host(0));
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 20_000]);
}

#[test]
fn t7_a_shorter_retry_after_never_shortens_a_pause() {
    let mut world = World::of([free()]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply_with(refused_for(429, SEC * 10), 10),
        (2, 1) => reply_with(refused_for(429, SEC), 20),
        _ => reply(200, 10),
    });
    world.ask_many(&host(0), 2);
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 0, 10_010, 10_020]);
}

#[test]
fn t13_a_forgotten_pause_lets_those_that_wait_go_at_once() {
    let mut world = World::of([taught_by_refusals()]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply_with(refused_for(429, SEC * 60), 10),
        _ => reply(200, 10),
    });
    world.ask(&host(0));
    world.run_until(at(10));
    world.ask_many(&host(0), 3);
    world.run_until(at(5000));
    world.cells[0].forget();
    world.schedule.wake_all();
    world.pump();
    assert_eq!(world.times(ScopeId(0)), [0, 5000, 5000, 5000, 5000]);
    world.run();
}

#[test]
fn a41_a_refusal_without_advice_pauses_longer_each_time_and_a_burst_counts_once() {
    let reading = Reading { min_refusal_wait: Some(SEC * 60), ..Reading::default() };
    let limits = Limits { reading: reading.into(), retry_after_limit: SEC * 3600, retries: 9, ..free() };
    let mut world = World::of([limits]).answering(|start| {
        if start.at < at(400_000) { reply_with(refused_for(403, SEC * 60), 100) } else { reply(200, 100) }
    });
    world.ask_many(&host(0), 30);
    world.run();
    let starts = world.times(ScopeId(0));
    assert!(starts[..30].iter().all(|start| *start == 0));
    assert_eq!(starts[30..35], [60_100, 180_200, 420_300, 420_400, 420_400]);
}

#[test]
fn f08_a_groups_refusals_are_as_many_as_were_in_flight() {
    // The service refuses all after 5 quick requests; 200 hosts, one group at one a second.
    let group = Limits { interval: SEC, ..taught_by_refusals() };
    let mut limits = vec![taught_by_refusals(); 200];
    limits.push(group);
    let mut world = World::of(limits).answering(|start| match millis(start.at) {
        5000..65_000 => reply_with(refused_for(429, SEC * 30), 1500),
        _ => reply(200, 100),
    });
    for n in 0..200 {
        world.ask(&grouped(&[n, 200]));
    }
    world.run();
    let refused = world.starts.iter().filter(|start| (5000..65_000).contains(&millis(start.at))).count();
    assert!(refused <= 4, "{refused} refused");
    let starts = world.times(ScopeId(200));
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 1000));
}

#[test]
fn t7_after_a_pause_of_the_group_one_request_of_one_host_goes_first() {
    let mut world = World::of([free(), free(), free()]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply_with(refused_for(429, SEC), 0),
        _ => reply(200, 50),
    });
    world.ask(&grouped(&[0, 2]));
    world.run_until(at(0));
    for n in 0..6 {
        world.ask(&grouped(&[n % 2, 2]));
    }
    world.run();
    assert_eq!(world.times(ScopeId(2))[1..], [1000, 1050, 1050, 1050, 1050, 1050, 1050]);
}

#[test]
fn t7_a_trial_waits_for_the_other_limits_too() {
    let limits = Limits { interval: MS * 400, ..places(1) };
    let mut world = World::of([limits, every(100)]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply_with(refused_for(429, MS * 300), 50),
        _ => reply(200, 90),
    });
    for _ in 0..3 {
        world.ask(&grouped(&[0, 1]));
    }
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 400, 800, 1200]);
}
