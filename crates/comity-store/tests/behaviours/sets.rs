//! T5: limits that callers bring.

use std::sync::Arc;

use comity_core::limits::{Limits, Route};
use comity_core::policy::{AimdSettings, Policy};
use comity_core::scope::{Pattern, Rules, Target};
use comity_store::{Memory, MemorySettings, OwnLimits, Store};

use crate::world::{MS, SEC, World, at, millis, refused_for, reply, reply_with};

fn world(base: Limits) -> World<Memory> {
    let mut builder = Rules::builder(base);
    builder.rule(
        Pattern::parse("*.example.org").expect("a pattern"),
        comity_core::limits::Partial { in_flight: core::num::NonZeroU32::new(4), ..Default::default() },
    );
    World::new(Memory::new(Arc::new(builder.build()), MemorySettings::default()))
}

fn set(number: u32, interval_ms: u32) -> OwnLimits {
    OwnLimits { set: number, limits: Arc::new(Limits { interval: MS * interval_ms, ..Limits::none() }) }
}

fn route(world: &mut World<Memory>, own: Option<&OwnLimits>) -> Route {
    world.cells.route(at(0), &Target::host("a.example.org"), own).expect("room")
}

fn times(world: &World<Memory>, route: &Route) -> Vec<u64> {
    world.starts.iter().filter(|start| start.route == *route).map(|start| millis(start.at)).collect()
}

#[test]
fn t5_each_set_keeps_its_own_rate() {
    let mut world = world(Limits { interval: SEC * 60, policy: Policy::refusal(), ..Limits::none() });
    let (fast, slow) = (route(&mut world, Some(&set(1, 100))), route(&mut world, Some(&set(2, 450))));
    world.ask_many(&fast, 10);
    world.ask_many(&slow, 3);
    world.run();
    assert_eq!(times(&world, &fast), (0..10).map(|n| 100 * n).collect::<Vec<_>>());
    assert_eq!(times(&world, &slow), [0, 450, 900]);
}

#[test]
fn t5_a_sets_rate_outlives_its_queue() {
    let mut world = world(Limits::none());
    let slow = set(1, 5000);
    for _ in 0..3 {
        let route = route(&mut world, Some(&slow));
        world.ask(&route);
        world.run();
        assert!(world.schedule.is_empty());
    }
    assert_eq!(world.starts.iter().map(|start| millis(start.at)).collect::<Vec<_>>(), [0, 5000, 10_000]);
}

#[test]
fn t5_what_was_learned_and_the_last_start_are_shared() {
    let mut world = world(Limits { policy: Policy::refusal(), ..Limits::none() });
    world = world.answering(|start| match (start.id, start.attempt) {
        (1, 1) => reply_with(refused_for(503, SEC), 0),
        _ => reply(200, 10),
    });
    let (one, other) = (route(&mut world, Some(&set(1, 10))), route(&mut world, Some(&set(2, 20))));
    world.ask(&one);
    world.run_until(at(0));
    world.ask_many(&other, 2);
    world.run();
    assert_eq!(times(&world, &one), [0, 1000]);
    assert_eq!(times(&world, &other), [1010, 1030], "the pause was learned for all, and one goes first");
    // A pace that was learned counts from the last start, whoever's it was.
    let mut world = self::world(Limits { policy: Policy::refusal(), retries: 0, ..Limits::none() });
    world = world.answering(|start| reply(if start.id == 1 { 429 } else { 404 }, 1));
    let mut once = set(1, 10);
    once.limits = Arc::new(Limits { retries: 0, ..(*once.limits).clone() });
    let (one, other) = (route(&mut world, Some(&once)), route(&mut world, None));
    world.ask(&one);
    world.run();
    world.ask(&other);
    world.ask(&one);
    world.run();
    let starts: Vec<u64> = world.starts.iter().map(|start| millis(start.at)).collect();
    assert_eq!(starts, [0, 250, 475]);
}

#[test]
fn t5_the_queues_of_one_host_start_in_order_of_arrival() {
    let mut world = world(Limits { policy: Policy::Aimd(AimdSettings::default()), ..Limits::none() });
    let (one, other, plain) =
        (route(&mut world, Some(&set(1, 0))), route(&mut world, Some(&set(2, 0))), route(&mut world, None));
    let mut asked = Vec::new();
    for n in 0..15 {
        asked.push(world.ask([&one, &other, &plain, &other][n % 4]));
    }
    world.run();
    assert_eq!(world.order(), asked);
}

#[test]
fn t5_a_policy_in_a_set_learns_nothing_beside_the_host() {
    let mut world = world(Limits { policy: Policy::refusal(), ..Limits::none() });
    let limits = Limits { policy: Policy::Aimd(AimdSettings::default()), interval: MS * 10, ..Limits::none() };
    let own = route(&mut world, Some(&OwnLimits { set: 1, limits: Arc::new(limits) }));
    world.ask_many(&own, 4);
    world.run();
    assert_eq!(times(&world, &own), [0, 10, 20, 30]);
}
