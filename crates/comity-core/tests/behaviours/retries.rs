//! T10: what is tried again, how often, and in which place.

use comity_core::limits::{Limits, ScopeId};
use comity_core::schedule::{Attempted, GiveUp, Replay, Verdict, verdict};
use comity_core::signal::{Reading, Signal, read};
use comity_core::time::Wall;

use crate::world::{Ask, MS, SEC, World, at, free, host, no_answer, places, refused_for, reply, reply_with, signal};

const GET: Replay = Replay { idempotent: true, replayable: true, retries: None };
const POST: Replay = Replay { idempotent: false, ..GET };
const STREAM: Replay = Replay { replayable: false, ..GET };
const ONCE: Attempted = Attempted { attempts: 1 };

fn after_one(limits: &Limits, signal: &Signal, replay: Replay) -> Verdict {
    verdict(limits, signal, replay, ONCE)
}

fn retry_at_once() -> Verdict {
    Verdict::Retry { after: None }
}

#[test]
fn t10_a_refused_request_keeps_its_place() {
    let mut world = World::of([places(1)]).answering(|start| match (start.id, start.attempt) {
        (1, 1..=3) => reply(429, 10),
        _ => reply(200, 10),
    });
    world.ask_many(&host(0), 3);
    world.run();
    assert_eq!(world.order(), [1, 1, 1, 1, 2, 3]);
}

#[test]
fn d21_the_successes_come_in_the_order_they_were_asked_for() {
    let mut world = World::of([Limits { interval: MS * 100, ..free() }])
        .answering(|start| if start.id == 1 && start.attempt == 1 { reply(429, 50) } else { reply(200, 50) });
    world.ask_many(&host(0), 3);
    world.run();
    assert_eq!(world.order(), [1, 1, 2, 3]);
    assert_eq!(world.ends.iter().map(|end| end.id).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn t10_five_retries_and_then_the_last_answer() {
    let mut world = World::of([free()]).answering(|_| reply(429, 10));
    world.ask(&host(0));
    world.run();
    assert_eq!(world.starts.len(), 6);
    assert_eq!(world.ends[0].status, Some(429));
    assert_eq!(world.ends[0].gave_up, Some(GiveUp::NoRetriesLeft));
}

#[test]
fn d04_each_request_of_a_host_that_refuses_for_an_hour_ends_after_its_retries() {
    let mut world = World::of([Limits { in_flight: places(32).in_flight, ..crate::world::taught_by_refusals() }])
        .answering(|_| reply(503, 80));
    world.ask_many(&host(0), 100);
    world.run();
    assert_eq!((world.ends.len(), world.starts.len()), (100, 600));
    assert!(world.ends.iter().all(|end| end.status == Some(503)));
}

#[test]
fn t10_the_verdicts() {
    let limits = free();
    let unsafe_503 = Limits { retry_unsafe_503: true, ..free() };
    let listed = Limits { retry_statuses: vec![500], ..free() };
    let asked = |replay: Replay| Replay { retries: Some(2), ..replay };
    let fallback = Verdict::Retry { after: Some(SEC) };
    let not_replayable = Verdict::GiveUp(GiveUp::NotReplayable);
    let table = [
        (&limits, signal(429), GET, retry_at_once()),
        (&limits, signal(429), POST, retry_at_once()),
        (&limits, signal(429), STREAM, not_replayable),
        (&limits, signal(503), GET, retry_at_once()),
        (&limits, signal(503), POST, not_replayable),
        (&unsafe_503, signal(503), POST, retry_at_once()),
        (&unsafe_503, signal(503), STREAM, not_replayable),
        (&limits, signal(504), GET, Verdict::Done),
        (&limits, signal(504), asked(GET), fallback),
        (&limits, signal(504), asked(POST), Verdict::Done),
        (&limits, signal(504), asked(STREAM), Verdict::Done),
        (&limits, signal(500), asked(GET), Verdict::Done),
        (&listed, signal(500), GET, Verdict::Done),
        (&listed, signal(500), asked(GET), fallback),
        (&listed, signal(500), asked(POST), Verdict::Done),
        (&limits, no_answer(), GET, Verdict::Done),
        (&limits, no_answer(), asked(GET), fallback),
        (&limits, no_answer(), asked(POST), Verdict::Done),
        (&limits, signal(200), asked(GET), Verdict::Done),
        (&limits, signal(404), asked(GET), Verdict::Done),
    ];
    for (limits, signal, replay, expected) in table {
        assert_eq!(after_one(limits, &signal, replay), expected, "{signal:?} {replay:?}");
    }
    // As often as was asked for, and no retries at all when that is none.
    let attempted = |attempts| verdict(&limits, &signal(429), asked(GET), Attempted { attempts });
    assert_eq!((attempted(2), attempted(3)), (retry_at_once(), Verdict::GiveUp(GiveUp::NoRetriesLeft)));
    let never = Replay { retries: Some(0), ..GET };
    assert_eq!(after_one(&limits, &signal(429), never), Verdict::GiveUp(GiveUp::NoRetriesLeft));
    assert_eq!(after_one(&limits, &no_answer(), never), Verdict::Done);
}

#[test]
fn t10_the_fallback_is_a_second_and_the_place_is_kept() {
    let mut world = World::of([places(1)]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply(504, 10),
        _ => reply(200, 300),
    });
    world.ask_for(Ask { route: host(0), cost: 1, replay: Replay { retries: Some(1), ..GET } });
    world.ask_many(&host(0), 4);
    world.run();
    assert_eq!(world.order(), [1, 2, 3, 4, 5, 1]);
    assert_eq!(world.times(ScopeId(0)), [0, 10, 310, 610, 910, 1210]);
    let mut world = World::of([places(1)]).answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply(504, 10),
        _ => reply(200, 300),
    });
    world.ask_for(Ask { route: host(0), cost: 1, replay: Replay { retries: Some(1), ..GET } });
    world.ask_many(&host(0), 6);
    world.run();
    assert_eq!(world.order(), [1, 2, 3, 4, 5, 1, 6, 7], "ahead of those that came after it");
}

#[test]
fn t11_a_retry_that_waits_for_its_time_is_cancelled_without_a_trace() {
    let mut world = World::of([free()]).answering(|_| reply(504, 10));
    world.ask_for(Ask { route: host(0), cost: 1, replay: Replay { retries: Some(1), ..GET } });
    world.run_until(at(500));
    assert!(world.cancel(1));
    assert!(world.schedule.is_empty());
    assert_eq!(world.schedule.deadline(), None);
}

#[test]
fn d16_a_stream_is_sent_once_and_its_host_is_paused_all_the_same() {
    let mut world = World::of([free()]).answering(|start| match start.id {
        1 => reply_with(refused_for(503, SEC), 0),
        _ => reply(200, 10),
    });
    world.ask_for(Ask { route: host(0), cost: 1, replay: STREAM });
    world.run_until(at(0));
    assert_eq!(world.ends[0].status, Some(503));
    assert_eq!(world.ends[0].gave_up, Some(GiveUp::NotReplayable));
    world.ask(&host(0));
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 1000]);
}

#[test]
fn d17_post_is_retried_after_429_by_choice_after_503_and_never_after_a_reset() {
    let chosen = Limits { retry_unsafe_503: true, ..free() };
    assert_eq!(after_one(&free(), &signal(429), POST), retry_at_once());
    assert_eq!(after_one(&free(), &signal(503), POST), Verdict::GiveUp(GiveUp::NotReplayable));
    assert_eq!(after_one(&chosen, &signal(503), POST), retry_at_once());
    for retries in [None, Some(5)] {
        assert_eq!(after_one(&chosen, &no_answer(), Replay { retries, ..POST }), Verdict::Done);
    }
}

#[test]
fn d28_405_refuses_only_with_a_valid_retry_after() {
    let answer = |value: Option<&'static str>| {
        let headers = value.map(|value| ("retry-after", value.as_bytes()));
        read(405, headers.into_iter(), Wall::from_secs(1_782_000_000), &Reading::default())
    };
    let refusal = answer(Some("2"));
    assert_eq!(after_one(&free(), &refusal, GET), retry_at_once());
    let mut world = World::of([free()]).answering(move |start| match start.attempt {
        1 => reply_with(refusal.clone(), 0),
        _ => reply(200, 10),
    });
    world.ask(&host(0));
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 2000]);
    for other in [None, Some("junk")] {
        assert_eq!(answer(other).authoritative.refusal, None);
        assert_eq!(after_one(&free(), &answer(other), GET), Verdict::Done);
    }
}
