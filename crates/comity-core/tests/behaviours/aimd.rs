//! A1–A11: latency and error signals.

use core::time::Duration;

use comity_core::limits::{Limits, ScopeId};
use comity_core::policy::{AimdSettings, Learned, Policy};

use crate::world::{MS, SEC, World, at, free, host, no_answer, refused_for, reply, reply_with, signal};

fn settings() -> AimdSettings {
    AimdSettings { damping: 1, ..AimdSettings::default() }
}

fn taught(settings: AimdSettings, signals: &[comity_core::signal::Signal]) -> World<Vec<comity_core::limits::Cell>> {
    let answers = signals.to_vec();
    let limits = Limits { policy: Policy::Aimd(settings), retries: 0, ..free() };
    let mut world = World::of([limits]).answering(move |start| reply_with(answers[start.id as usize - 1].clone(), 10));
    // One after the other, so that each starts after the change before it.
    for _ in signals {
        world.ask(&host(0));
        world.run();
    }
    world
}

fn interval(world: &World<Vec<comity_core::limits::Cell>>) -> Duration {
    world.cells[0].learned().interval()
}

fn threshold(world: &World<Vec<comity_core::limits::Cell>>) -> Duration {
    match world.cells[0].learned() {
        Learned::Aimd(aimd) => aimd.threshold(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a1_a_host_begins_at_a_second_within_half_a_second_and_thirty() {
    let world = taught(AimdSettings::default(), &[]);
    assert_eq!((interval(&world), threshold(&world)), (SEC, SEC * 4));
    assert_eq!(interval(&taught(settings(), &vec![signal(200); 100])), MS * 500);
    assert_eq!(interval(&taught(settings(), &vec![signal(503); 100])), SEC * 30);
}

#[test]
fn a2_a_refusal_doubles_and_marks_where_the_host_objected() {
    for status in [429, 503] {
        let world = taught(settings(), &[signal(status)]);
        assert_eq!((interval(&world), threshold(&world)), (SEC * 2, SEC));
    }
    // And obeys the Retry-After.
    let mut world = taught(settings(), &[refused_for(429, SEC * 20), signal(200)]);
    assert_eq!(world.times(ScopeId(0)), [0, 20_010]);
    world.run();
}

#[test]
fn a3_errors_and_silence_raise_it_by_half() {
    for signal in [signal(500), signal(502), signal(504), no_answer()] {
        let world = taught(settings(), &[signal.clone(), signal]);
        assert_eq!((interval(&world), threshold(&world)), (MS * 2250, SEC * 4));
    }
    let world = taught(settings(), &[no_answer(), no_answer(), signal(500)]);
    assert_eq!((world.cells[0].tally().no_answers, world.cells[0].tally().server_errors), (2, 1));
}

#[test]
fn a4_success_takes_a_tenth_above_the_threshold_and_50_ms_below() {
    let world = taught(settings(), &[signal(429), signal(200)]);
    assert_eq!(interval(&world), MS * 1800);
    assert_eq!(interval(&taught(settings(), &[signal(200)])), MS * 950);
}

#[test]
fn a7_inferred_signals_never_pass_an_authoritative_bound() {
    let limits = Limits { policy: Policy::Aimd(settings()), ..free() };
    let mut world = World::of([limits]).answering(|start| {
        if start.id == 10 && start.attempt == 1 { reply_with(refused_for(503, SEC * 40), 1) } else { reply(200, 1) }
    });
    world.cells[0].set_crawl_delay(SEC * 5);
    world.ask_many(&host(0), 30);
    world.run();
    let starts = world.times(ScopeId(0));
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 5000), "{starts:?}");
    assert_eq!(starts[10] - starts[9], 40_001);
    assert!(interval(&world) < SEC * 5, "what is learned moves beneath the bound");
}

#[test]
fn a8_the_floor_holds_over_the_whole_path() {
    let mut world = World::of([Limits { policy: Policy::Aimd(settings()), ..free() }]).answering(|_| reply(200, 0));
    world.ask_many(&host(0), 200);
    world.run();
    assert!(world.starts.windows(2).all(|pair| pair[1].at.since(pair[0].at) >= MS * 500));
}

#[test]
fn a9_one_increase_in_four_answers_and_only_of_requests_started_since() {
    let world = taught(AimdSettings::default(), &vec![signal(200); 7]);
    assert_eq!(interval(&world), MS * 950);
    // Ten in flight are refused together: it teaches once.
    let quick = AimdSettings { start: MS, floor: MS, ..settings() };
    let limits = Limits { policy: Policy::Aimd(quick), retries: 0, ..free() };
    let mut world = World::of([limits]).answering(|_| reply(429, 500));
    world.ask_many(&host(0), 10);
    world.run();
    assert_eq!(interval(&world), MS * 2);
}

#[test]
fn a11_client_errors_are_neutral_however_fast() {
    for status in [400, 401, 403, 404, 410, 451] {
        let world = taught(settings(), &vec![signal(status); 50]);
        assert_eq!((interval(&world), threshold(&world)), (SEC, SEC * 4), "{status}");
        match world.cells[0].learned() {
            Learned::Aimd(aimd) => assert_eq!(aimd.latency_floor(), None, "{status}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(at(0).as_nanos(), 0);
}

#[test]
fn c01_refusals_double_up_to_the_ceiling_and_their_latency_never_lowers_it() {
    let from = AimdSettings { start: MS * 2760, ..settings() };
    let mut last = MS * 2760;
    for n in 1..8 {
        let world = taught(from, &vec![signal(503); n]);
        assert_eq!(interval(&world), (last * 2).min(SEC * 30));
        last = interval(&world);
    }
}
