//! Rules that change under way (C21, D22), and many hosts.

use core::num::NonZeroU32;
use std::sync::Arc;

use comity_core::limits::{Because, Limits, Partial, Route};
use comity_core::policy::Policy;
use comity_core::scope::{Pattern, Rules, Target};
use comity_store::{Memory, MemorySettings, OwnLimits, Store};
use proptest::prelude::*;

use crate::world::{Dice, MS, SEC, World, at, millis, no_answer, refused_for, reply, reply_with};

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

fn places(n: u32) -> Partial {
    Partial { in_flight: NonZeroU32::new(n), ..Partial::default() }
}

fn rules(written: &[(&str, Partial)]) -> Arc<Rules> {
    let mut builder =
        Rules::builder(Limits { policy: Policy::refusal(), retry_after_limit: SEC * 5, ..Limits::none() });
    for (pattern, partial) in written {
        builder.rule(Pattern::parse(pattern).expect("a pattern"), partial.clone());
    }
    Arc::new(builder.build())
}

fn world(written: &[(&str, Partial)]) -> World<Memory> {
    World::new(Memory::new(rules(written), MemorySettings::default()))
}

fn change(world: &mut World<Memory>, written: &[(&str, Partial)]) {
    world.cells.set_rules(rules(written));
    world.reroute(|memory, route| memory.reroute(route));
}

fn route(world: &mut World<Memory>, host: &str, path: &str) -> Route {
    world.cells.route(world.now, &Target { path, ..Target::host(host) }, None).expect("room")
}

#[test]
fn c21_changed_rules_hold_at_once_for_those_that_wait() {
    let mut world = world(&[("example.org", every(100))]);
    let route = route(&mut world, "example.org", "/");
    world.ask_many(&route, 50);
    world.run_until(at(1000));
    change(&mut world, &[("example.org", every(1000))]);
    world.run_until(at(2000));
    assert_eq!(world.starts.len(), 12);
    change(&mut world, &[("example.org", every(10))]);
    world.run();
    assert_eq!(world.starts.iter().map(|start| millis(start.at)).nth(13), Some(2020));
    assert_eq!(world.starts.len(), 50);
}

#[test]
fn c21_a_new_group_holds_for_those_that_wait_and_an_old_one_no_longer() {
    let mut world = world(&[("a.example.org", every(100)), ("b.example.org", every(100))]);
    let (one, other) = (route(&mut world, "a.example.org", "/"), route(&mut world, "b.example.org", "/"));
    world.ask_many(&one, 5);
    world.ask_many(&other, 5);
    change(&mut world, &[("*.example.org", every(1000))]);
    world.run_until(at(2500));
    // What started before did so under no group; then one after the other.
    assert_eq!(world.starts.iter().map(|start| millis(start.at)).collect::<Vec<_>>(), [0, 0, 0, 1000, 2000]);
    change(&mut world, &[]);
    world.run();
    assert!(world.starts[5..].iter().all(|start| start.at == at(2500)));
}

#[test]
fn c21_changed_rules_reach_a_path_of_its_own() {
    let mut world = world(&[("example.org/slow", every(1000))]);
    let slow = route(&mut world, "example.org", "/slow/x");
    world.ask_many(&slow, 4);
    change(&mut world, &[("example.org/slow", every(100))]);
    world.run();
    assert_eq!(world.starts.iter().map(|start| millis(start.at)).collect::<Vec<_>>(), [0, 100, 200, 300]);
}

#[test]
fn f07_a_path_that_is_taught_by_itself_teaches_no_group_after_a_change_of_rules_either() {
    let written = [("example.org/flaky", places(9)), ("*.example.org", places(9))];
    let mut world = world(&written).answering(|start| match (start.id, start.attempt) {
        (2, 1) => reply_with(refused_for(503, SEC), 10),
        (1, _) => reply(200, 500),
        _ => reply(200, 10),
    });
    let flaky = route(&mut world, "example.org", "/flaky");
    change(&mut world, &written);
    let rerouted = world.cells.reroute(&flaky);
    assert_eq!(rerouted, flaky);
    let rest = route(&mut world, "example.org", "/rest");
    world.ask(&rest);
    world.ask(&rerouted);
    world.run_until(at(20));
    world.ask(&rest);
    world.run_until(at(30));
    assert_eq!(world.starts.len(), 3, "the rest of the host goes on");
    assert!(matches!(world.wait_of(2).map(|wait| wait.because), Some(Because::Pause)));
    world.run();
}

#[test]
fn f14_a_hundred_thousand_hosts_find_their_groups() {
    let names: Vec<String> = (0..1000).map(|n| format!("*.d{n}.example")).collect();
    let written: Vec<(&str, Partial)> = names.iter().map(|name| (name.as_str(), places(1))).collect();
    let mut memory = Memory::new(rules(&written), MemorySettings::default());
    for n in 0..100_000 {
        let route = memory.route(at(0), &Target::host(&format!("h{n}.d{}.example", n % 2000)), None).expect("room");
        assert_eq!(route.members().len(), 1 + usize::from(n % 2000 < 1000));
    }
    assert_eq!(memory.len(), 101_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whoever could start does, in order, while rules change, hosts refuse and callers leave.
    #[test]
    fn d22_whoever_could_start_does_while_rules_change(seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        let mut world = World::new(Memory::new(random_rules(&mut dice), MemorySettings::default()));
        let mut answers = Dice::new(seed ^ 1);
        world = world.answering(move |_| match answers.below(10) {
            0 => reply(429, 30),
            1 => reply_with(refused_for(503, MS * answers.pick(&[100, 3000, 60_000])), 30),
            2 => reply_with(no_answer(), 200),
            _ => reply(200, answers.pick(&[0, 20, 400])),
        });
        world.late = MS * 2;
        for _ in 0..200 {
            match dice.below(10) {
                0..5 => {
                    let host = dice.pick(&["a.example.org", "b.example.org", "example.org", "c.example.net"]);
                    let path = dice.pick(&["/", "/api/x"]);
                    let limits = Limits { interval: MS * 30, ..Limits::none() };
                    let own = dice.once_in(4).then(|| OwnLimits { set: 1, limits: Arc::new(limits) });
                    let target = Target { path, ..Target::host(host) };
                    let route = world.cells.route(world.now, &target, own.as_ref()).expect("room");
                    world.ask(&route);
                }
                5 => {
                    let mut ids = world.waiting_ids();
                    ids.extend(world.flying());
                    if !ids.is_empty() {
                        let id = dice.pick(&ids);
                        world.cancel(id);
                    }
                }
                6 if dice.once_in(3) => {
                    world.cells.set_rules(random_rules(&mut dice));
                    world.reroute(|memory, route| memory.reroute(route));
                }
                _ => {
                    let end = world.now.after(SEC * 10);
                    world.step(end);
                }
            }
        }
        world.run();
        for (_, name, _, cell) in world.cells.scopes() {
            prop_assert_eq!(cell.in_flight(), 0, "{}", name);
        }
    }
}

fn random_rules(dice: &mut Dice) -> Arc<Rules> {
    let mut written = Vec::new();
    for pattern in
        ["a.example.org", "example.org", "*.example.org", "*.org", "*", "example.org/api", "a.example.org/api"]
    {
        match dice.below(4) {
            0 => written.push((pattern, every(dice.pick(&[5, 60, 700])))),
            1 => written.push((pattern, places(dice.pick(&[1, 2, 5])))),
            _ => {}
        }
    }
    rules(&written)
}
