//! T3 and T4: all scopes or none, and the order within a group.

use comity_core::limits::all::{self, Claim};
use comity_core::limits::{Because, Cell, Limits, ScopeId};

use crate::world::{MS, SEC, World, at, every, free, grouped, host, places, reply};

#[test]
fn t3_a_request_that_does_not_start_costs_nobody_anything() {
    let mut cells: Vec<Cell> =
        [every(100), every(100), places(1), every(1000)].into_iter().map(|limits| Cell::new(limits.into())).collect();
    let one = grouped(&[0, 2, 3]);
    let other = grouped(&[1, 2, 3]);
    let asking = |route| Claim::at_once(comity_core::limits::Route::members(route), 1, at(0));
    all::claim(&mut cells, at(0), &asking(&one)).expect("the first");
    let before = format!("{cells:?}");
    for ms in 0..2000 {
        let wait = all::claim(&mut cells, at(ms), &asking(&other)).expect_err("the group is full");
        assert_eq!(wait.scope, ScopeId(2));
    }
    assert_eq!(format!("{cells:?}"), before);
}

#[test]
fn t3_the_wait_is_the_one_that_ends_last_and_says_whose_it_is() {
    let mut cells: Vec<Cell> =
        [every(100), every(1000), every(300)].into_iter().map(|limits| Cell::new(limits.into())).collect();
    let route = grouped(&[0, 1, 2]);
    let asking = Claim::at_once(route.members(), 1, at(0));
    all::claim(&mut cells, at(0), &asking).expect("the first");
    let wait = all::claim(&mut cells, at(1), &asking).expect_err("too soon");
    assert_eq!((wait.until, wait.scope, wait.because), (at(1000), ScopeId(1), Because::Interval(SEC)));
}

#[test]
fn t4_a_group_starts_its_hosts_in_order_of_arrival() {
    let mut world = World::of([free(), free(), free(), every(100)]);
    let mut asked = Vec::new();
    for n in [0, 1, 2, 2, 1, 0, 0, 0, 1, 2, 0] {
        asked.push(world.ask(&grouped(&[n, 3])));
    }
    world.run();
    assert_eq!(world.order(), asked);
}

#[test]
fn t4_a_host_that_always_has_requests_takes_nobodys_place() {
    let mut world = World::of([free(), free(), places(1)]).answering(|_| reply(200, 100));
    world.ask_many(&grouped(&[0, 2]), 5);
    let other = world.ask(&grouped(&[1, 2]));
    for _ in 0..50 {
        world.step(at(3_600_000));
        world.ask(&grouped(&[0, 2]));
    }
    assert_eq!(world.order().iter().position(|id| *id == other), Some(5));
    world.run();
}

#[test]
fn t4_a_held_back_host_keeps_its_own_rate_when_the_group_has_room_again() {
    let mut world = World::of([every(100), free(), places(1)]).answering(|start| match start.id {
        1 => reply(200, 5000),
        _ => reply(200, 1),
    });
    world.ask(&grouped(&[1, 2]));
    world.ask_many(&grouped(&[0, 2]), 10);
    world.run();
    assert_eq!(world.times(ScopeId(0)), (0..10).map(|n| 5000 + 100 * n).collect::<Vec<_>>());
}

#[test]
fn t4_a_host_that_waits_for_itself_holds_up_nobody_else_of_its_group() {
    let mut world = World::of([every(10_000), free(), every(100)]);
    world.ask_many(&grouped(&[0, 2]), 3);
    world.ask_many(&grouped(&[1, 2]), 5);
    world.run();
    assert_eq!(world.times(ScopeId(1)), [100, 200, 300, 400, 500]);
    assert_eq!(world.times(ScopeId(0)), [0, 10_000, 20_000]);
}

#[test]
fn t4_nested_groups_and_all_hosts_keep_the_order_too() {
    // Hosts 0, 1 in group 3; all in group 4.
    let mut world = World::of([free(), free(), free(), every(300), places(1)]).answering(|_| reply(200, 50));
    for n in 0..12 {
        match n % 3 {
            2 => world.ask(&grouped(&[2, 4])),
            n => world.ask(&grouped(&[n, 3, 4])),
        };
    }
    world.run();
    let of = |scope| world.starts.iter().filter(move |start| crate::world::falls_under(&start.route, ScopeId(scope)));
    let ids: Vec<u64> = of(3).map(|start| start.id).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert!(of(2).map(|start| start.at).max() < of(3).map(|start| start.at).max(), "the free host is not held up");
}

#[test]
fn t4_a_pace_that_gets_faster_wakes_those_that_wait_sooner() {
    let limits = Limits { retries: 0, ..crate::world::taught_by_refusals() };
    let mut world = World::of([limits]).answering(|start| reply(if start.id <= 6 { 429 } else { 200 }, 10));
    for _ in 0..6 {
        world.ask(&host(0));
        world.run();
    }
    assert_eq!(world.cells[0].learned().interval(), SEC * 8);
    world.ask_many(&host(0), 3);
    world.run();
    let starts = world.times(ScopeId(0));
    assert_eq!(starts[7] - starts[6], 7200, "{starts:?}");
    assert_eq!(starts[8] - starts[7], 6480, "{starts:?}");
    assert_eq!(MS * 6480, SEC * 8 * 81 / 100);
}
