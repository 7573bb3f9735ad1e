//! T6, T8 and T9: what refusals teach, and whom.

use comity_core::limits::{Limits, Member, Part, Route, ScopeId};

use crate::world::{
    MS, SEC, World, at, host, millis, no_answer, places, refused_for, reply, reply_with, taught_by_refusals,
};

#[test]
fn t6_a_refusal_teaches_the_host_and_its_groups_and_never_all_hosts() {
    let member = |scope, part| Member { scope: ScopeId(scope), part };
    let route =
        Route::from(vec![member(0, Part::Own), member(1, Part::Own), member(2, Part::Own), member(3, Part::Bound)]);
    for (answer, paused) in [(refused_for(429, SEC), true), (crate::world::signal(429), false)] {
        let limits = Limits { retries: 0, ..taught_by_refusals() };
        let mut world = World::of(vec![limits; 4]).answering(move |_| reply_with(answer.clone(), 10));
        world.ask(&route);
        world.run();
        for scope in 0..4 {
            let cell = &world.cells[scope];
            let taught = cell.paused_until() == at(1010) || cell.learned().interval() == MS * 250;
            assert_eq!(taught, scope < 3, "scope {scope}");
            assert_eq!(cell.paused_until() > at(0), paused && scope < 3);
        }
    }
}

#[test]
fn t8_doubled_up_to_ten_seconds_and_a_tenth_off_for_every_other_answer() {
    let limits = Limits { retries: 0, ..taught_by_refusals() };
    let mut world = World::of([limits]).answering(|start| match start.id {
        ..=8 => reply(429, 1),
        id => reply([200, 404, 500, 301][id as usize % 4], 1),
    });
    let mut intervals = Vec::new();
    for _ in 0..100 {
        world.ask(&host(0));
        world.run();
        intervals.push(world.cells[0].learned().interval());
    }
    assert_eq!(intervals[..8], [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000].map(|ms| MS * ms));
    assert_eq!(intervals[8..10], [SEC * 9, MS * 8100]);
    assert!(intervals[8..].is_sorted_by(|a, b| a >= b));
    assert_eq!(intervals[99], core::time::Duration::ZERO, "below 1 ms it is none");
    assert!(!intervals.iter().any(|interval| !interval.is_zero() && *interval < MS));
}

#[test]
fn t8_a_burst_refused_together_teaches_once_and_before_its_places_are_free() {
    let limits = Limits { retries: 0, ..taught_by_refusals() };
    let limits = Limits { in_flight: places(10).in_flight, ..limits };
    let mut world = World::of([limits]).answering(|start| reply(if start.at == at(0) { 429 } else { 200 }, 100));
    world.ask_many(&host(0), 12);
    world.run();
    assert_eq!(world.times(ScopeId(0))[10..], [250, 475], "the freed places wait for what was taught");
}

#[test]
fn t9_silence_changes_nothing() {
    let limits = Limits { retries: 0, ..taught_by_refusals() };
    let mut world = World::of([limits]).answering(|start| match start.id {
        1 => reply(429, 1),
        _ => reply_with(no_answer(), 1),
    });
    world.ask_many(&host(0), 1);
    world.run();
    world.ask_many(&host(0), 20);
    world.run();
    assert_eq!(world.cells[0].learned().interval(), MS * 250);
    assert_eq!(world.cells[0].tally().no_answers, 20);
}

#[test]
fn d20_attempts_grow_with_the_logarithm_of_the_time() {
    for requests in [100, 400] {
        let limits = Limits { in_flight: places(32).in_flight, retries: 1000, ..taught_by_refusals() };
        let mut world = World::of([limits]).answering(|start| reply(if start.at < at(60_000) { 429 } else { 200 }, 50));
        world.ask_many(&host(0), requests);
        world.run();
        let refused = world.starts.iter().filter(|start| millis(start.at) < 60_000).count();
        // What was in flight, six doublings, and then one in ten seconds.
        assert!(refused <= 32 + 6 + 6, "{refused} of {requests}");
        assert_eq!(world.ends.len(), requests);
    }
}
