//! The waiting requests: cancelling, redirects, thousands of them, and a store that takes its time.

use std::collections::BTreeMap;

use comity_core::limits::all::{self, Cells, Claim, Grant};
use comity_core::limits::{Cell, Limits, Route, ScopeId, Wait};
use comity_core::schedule::{Attempt, Schedule, Ticket, Waiting};
use comity_core::time::Instant;

use crate::world::{Dice, MS, World, at, every, free, grouped, host, places, reply};

#[test]
fn t11_cancelling_a_waiting_request_costs_nobody_anything() {
    let run = |cancelled: usize| {
        let mut world = World::of([Limits { interval: MS * 100, ..places(2) }]).answering(|_| reply(200, 150));
        world.ask_many(&host(0), 3);
        for id in world.ask_many(&host(0), cancelled) {
            world.cancel(id);
        }
        world.ask_many(&host(0), 3);
        world.run();
        world.times(ScopeId(0))
    };
    assert_eq!(run(0), run(20));
}

#[test]
fn t11_one_in_flight_gives_its_place_back() {
    let mut world = World::of([places(1)]).answering(|_| reply(200, 10_000));
    let ids = world.ask_many(&host(0), 3);
    world.run_until(at(100));
    world.cancel(ids[0]);
    assert_eq!(world.times(ScopeId(0)), [0, 100]);
    assert_eq!(world.cells[0].in_flight(), 1);
    world.run();
}

#[test]
fn d06_a_redirect_chain_ends_with_any_number_of_places() {
    for most in 1..=3 {
        let mut world = World::of([places(most)]).answering(|_| reply(302, 10));
        let mut hops: BTreeMap<u64, u32> = world.ask_many(&host(0), 4).into_iter().map(|id| (id, 2)).collect();
        // Each goes on with two more hops, which queue after the place was given up.
        while !hops.is_empty() {
            assert!(world.step(at(1_000_000)), "{most} places: {hops:?} are stuck");
            for end in core::mem::take(&mut world.ends) {
                if let Some(left @ 1..) = hops.remove(&end.id) {
                    let next = world.ask(&host(0));
                    hops.insert(next, left - 1);
                }
            }
        }
        assert_eq!((world.starts.len(), world.cells[0].in_flight()), (12, 0), "{most} places");
    }
}

#[test]
fn d08_one_that_is_dropped_as_the_place_comes_free_takes_it_from_nobody() {
    // Asked for first and woken by the release, then cancelled before it is tried.
    let mut cells = vec![Cell::new(places(1).into())];
    let mut schedule = Schedule::default();
    let route = host(0);
    let held = claim(&mut cells, at(0), &route).expect("free");
    let [b, c] = [1, 2].map(|place| schedule.enqueue(at(0), waiting(&route, place)));
    drain(&mut schedule, &mut cells, at(0));
    let effects = all::release(&mut cells, route.members(), &held);
    schedule.effects(route.members(), effects);
    assert!(schedule.cancel(b));
    assert_eq!(drain(&mut schedule, &mut cells, at(0)), [c]);
}

#[test]
fn d08_after_ten_thousand_random_cancels_the_free_places_are_the_limit() {
    let mut world = World::of([places(7), places(3), places(8)]).answering(|start| reply(200, 1 + start.id % 50));
    world.dice = Dice::new(8);
    let routes = [grouped(&[0, 2]), grouped(&[1, 2])];
    let mut cancelled = 0;
    while cancelled < 10_000 {
        while world.waiting() < 12 {
            let n = world.dice.below(2) as usize;
            world.ask(&routes[n]);
        }
        let mut of = world.waiting_ids();
        of.extend(world.flying());
        let id = world.dice.pick(&of);
        cancelled += u32::from(world.cancel(id));
        if world.dice.once_in(4) {
            world.step(Instant::from_nanos(u64::MAX - 1));
        }
        world.starts.truncate(64);
    }
    world.run();
    for (scope, most) in [(0, 7), (1, 3), (2, 8)] {
        let free = core::iter::from_fn(|| claim(&mut world.cells, world.now, &host(scope)).ok()).count();
        assert_eq!(free, most, "scope {scope}");
    }
}

#[test]
fn d14_a_place_is_given_back_by_the_grant_that_took_it() {
    let mut cells = vec![Cell::new(places(2).into())];
    let mut schedule = Schedule::default();
    let route = host(0);
    let ticket = schedule.enqueue(at(0), waiting(&route, 1));
    let attempt = schedule.next(at(0)).expect("its turn");
    let grant = claim(&mut cells, at(0), &route).expect("free");
    // Cancelled while the store was asked: the schedule says so, and the grant is given back once.
    assert!(schedule.cancel(ticket));
    assert!(!schedule.started(&attempt));
    all::release(&mut cells, route.members(), &grant);
    assert!(!schedule.started(&attempt), "a second answer finds nothing");
    assert_eq!(cells[0].in_flight(), 0);
    let other = claim(&mut cells, at(0), &route).expect("free");
    assert_eq!(cells[0].in_flight(), 1);
    all::release(&mut cells, route.members(), &other);
    assert!(schedule.is_empty());
}

#[test]
fn four_thousand_waiters_of_one_host_take_two_decisions_a_start() {
    for limits in [every(4), places(32), crate::world::taught_by_refusals()] {
        let mut world = World::of([limits]).answering(|_| reply(200, 20));
        world.checked = false;
        world.late = MS * 2;
        world.ask_many(&host(0), 4000);
        world.run();
        assert_eq!(world.starts.len(), 4000);
        assert!(world.schedule.attempts() <= 8000, "{} decisions", world.schedule.attempts());
        assert!(world.order().is_sorted());
    }
}

#[test]
fn a_cancelled_head_that_woke_the_others_passes_it_on_whenever_its_answer_comes() {
    // Two hosts wait on their group. The first is woken and tried; it is cancelled before the store has answered.
    for granted in [true, false] {
        let mut cells: Vec<Cell> = [free(), free(), places(1)].map(|limits| Cell::new(limits.into())).into();
        let mut schedule = Schedule::default();
        let (one, other) = (grouped(&[0, 2]), grouped(&[1, 2]));
        let held = claim(&mut cells, at(0), &one).expect("free");
        let first = schedule.enqueue(at(0), waiting(&one, 1));
        let second = schedule.enqueue(at(0), waiting(&other, 2));
        assert_eq!(drain(&mut schedule, &mut cells, at(0)), []);
        let effects = all::release(&mut cells, one.members(), &held);
        schedule.effects(one.members(), effects);
        let attempt = schedule.next(at(1)).expect("the place is free");
        assert_eq!(attempt.ticket, first);
        assert!(schedule.cancel(first));
        if granted {
            let grant = claim(&mut cells, at(1), &one).expect("free");
            assert!(!schedule.started(&attempt));
            let effects = all::release(&mut cells, one.members(), &grant);
            schedule.effects(one.members(), effects);
        } else {
            // Somebody else's request had it, and has ended since.
            let wait =
                Wait { until: Instant::FAR, scope: ScopeId(2), because: comity_core::limits::Because::InFlight(1) };
            schedule.must_wait(&attempt, wait);
        }
        assert_eq!(drain(&mut schedule, &mut cells, at(1)), [second], "granted: {granted}");
    }
}

#[test]
fn a_place_that_comes_free_while_the_store_is_asked_is_not_missed() {
    let mut cells = vec![Cell::new(places(1).into())];
    let mut schedule = Schedule::default();
    let route = host(0);
    let held = claim(&mut cells, at(0), &route).expect("free");
    let ticket = schedule.enqueue(at(0), waiting(&route, 1));
    let attempt = schedule.next(at(0)).expect("its turn");
    let wait = claim(&mut cells, at(0), &route).expect_err("full");
    let effects = all::release(&mut cells, route.members(), &held);
    schedule.effects(route.members(), effects);
    schedule.must_wait(&attempt, wait);
    assert_eq!(drain(&mut schedule, &mut cells, at(0)), [ticket]);
}

#[test]
fn a_queue_whose_head_is_cancelled_while_it_is_tried_still_passes_on_what_woke_it() {
    // As above, but a retry that is not due yet keeps the queue, and is cancelled too.
    let mut cells: Vec<Cell> = [free(), free(), places(1)].map(|limits| Cell::new(limits.into())).into();
    let mut schedule = Schedule::default();
    let (one, other) = (grouped(&[0, 2]), grouped(&[1, 2]));
    let held = claim(&mut cells, at(0), &one).expect("free");
    let first = schedule.enqueue(at(0), waiting(&one, 1));
    let later = schedule.enqueue(at(0), Waiting { not_before: Some(at(500)), ..waiting(&one, 3) });
    let second = schedule.enqueue(at(0), waiting(&other, 2));
    assert_eq!(drain(&mut schedule, &mut cells, at(0)), []);
    give_back(&mut schedule, &mut cells, &one, &held);
    let attempt = schedule.next(at(1)).expect("the place is free");
    assert!(schedule.cancel(first) && schedule.cancel(later));
    assert!(!schedule.started(&attempt));
    assert_eq!(drain(&mut schedule, &mut cells, at(1)), [second]);
    assert!(schedule.is_empty());
}

#[test]
fn a_retry_that_takes_the_head_of_its_queue_elsewhere_leaves_nobody_behind() {
    // A costly request waits for its group, and another behind it. A retry of the same host, which has a place before
    // both, is held back by its host: the other need not wait any longer than for the costly one.
    let mut cells: Vec<Cell> = [every(1000), free(), places(2)].map(|limits| Cell::new(limits.into())).into();
    let mut schedule = Schedule::default();
    let (one, other) = (grouped(&[0, 2]), grouped(&[1, 2]));
    claim(&mut cells, at(0), &other).expect("free");
    schedule.enqueue(at(0), Waiting { cost: 2, ..waiting(&one, 5) });
    let attempt = schedule.next(at(0)).expect("its turn");
    let wait = all::claim(&mut cells, at(0), &Claim::at_once(one.members(), 2, at(0))).expect_err("one place of two");
    schedule.must_wait(&attempt, wait);
    let second = schedule.enqueue(at(0), waiting(&other, 6));
    assert!(schedule.next(at(0)).is_none(), "in order");
    cells[0].set_crawl_delay(MS * 1000);
    claim(&mut cells, at(0), &host(0)).expect("the host by itself");
    schedule.enqueue(at(0), waiting(&one, 1));
    assert_eq!(drain(&mut schedule, &mut cells, at(0)), [second]);
}

#[test]
fn an_answer_that_comes_after_the_rules_changed_is_nobody_elses() {
    let mut cells: Vec<Cell> = [free(), free(), free()].map(|limits| Cell::new(limits.into())).into();
    let mut schedule = Schedule::default();
    let first = schedule.enqueue(at(0), waiting(&host(0), 1));
    let attempt = schedule.next(at(0)).expect("its turn");
    let second = schedule.enqueue(at(0), waiting(&host(1), 2));
    let third = schedule.enqueue(at(0), waiting(&host(0), 3));
    schedule.reroute(|route| if *route == host(0) { grouped(&[0, 2]) } else { route.clone() });
    assert!(schedule.started(&attempt), "it was waiting");
    assert_eq!(drain(&mut schedule, &mut cells, at(0)), [second, third]);
    assert!(!schedule.cancel(first) && schedule.is_empty());
}

#[test]
fn a_newcomer_queues_behind_those_that_are_about_to_be_tried() {
    let mut schedule = Schedule::default();
    schedule.enqueue(at(0), waiting(&grouped(&[0, 2]), 1));
    assert!(schedule.others_wait(&grouped(&[1, 2])), "they share a group");
    assert!(!schedule.others_wait(&host(1)));
    let attempt = schedule.next(at(0)).expect("its turn");
    assert!(schedule.others_wait(&grouped(&[1, 2])));
    schedule.started(&attempt);
    assert!(!schedule.others_wait(&grouped(&[1, 2])));
}

/// A store whose answers take their time: whatever comes in between, everybody gets their turn.
#[test]
fn d22_a_slow_store_loses_nobody() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let mut cells: Vec<Cell> = (0..6)
            .map(|n| {
                let limits = match n {
                    0..4 => [places(1), places(2), every(7), free()][dice.below(4) as usize].clone(),
                    _ => [places(2), every(3), free()][dice.below(3) as usize].clone(),
                };
                Cell::new(limits.into())
            })
            .collect();
        let routes = [grouped(&[0, 4, 5]), grouped(&[1, 4, 5]), grouped(&[2, 5]), host(3)];
        let mut schedule = Schedule::default();
        let mut now = at(0);
        let mut asked: Vec<(Attempt, Result<Grant, Wait>)> = Vec::new();
        let mut flights: Vec<(Route, Grant)> = Vec::new();
        let mut waiting_now: Vec<Ticket> = Vec::new();
        let (mut made, mut quiet) = (0, 0);
        while made < 150 || !schedule.is_empty() || !flights.is_empty() || !asked.is_empty() {
            now = now.after(MS);
            quiet += 1;
            assert!(quiet < 2000, "seed {seed}: {} wait for ever", schedule.len());
            if made < 150 && dice.once_in(2) {
                made += 1;
                waiting_now.push(schedule.enqueue(now, waiting(&routes[dice.below(4) as usize], made)));
                quiet = 0;
            }
            while let Some(attempt) = schedule.next(now) {
                let claim = Claim { members: attempt.route.members(), cost: 1, asked: attempt.asked, due: attempt.due };
                let answer = all::claim(&mut cells, now, &claim);
                asked.push((attempt, answer));
                if dice.once_in(2) {
                    break;
                }
            }
            if !asked.is_empty() && !dice.once_in(3) {
                let (attempt, answer) = asked.swap_remove(dice.below(asked.len() as u64) as usize);
                match answer {
                    Err(wait) => schedule.must_wait(&attempt, wait),
                    Ok(grant) if schedule.started(&attempt) => {
                        waiting_now.retain(|ticket| *ticket != attempt.ticket);
                        flights.push((attempt.route.clone(), grant));
                        quiet = 0;
                    }
                    Ok(grant) => give_back(&mut schedule, &mut cells, &attempt.route, &grant),
                }
            }
            if !flights.is_empty() && dice.once_in(3) {
                let (route, grant) = flights.swap_remove(dice.below(flights.len() as u64) as usize);
                give_back(&mut schedule, &mut cells, &route, &grant);
            }
            if !waiting_now.is_empty() && dice.once_in(12) {
                let ticket = waiting_now.swap_remove(dice.below(waiting_now.len() as u64) as usize);
                assert!(schedule.cancel(ticket), "seed {seed}");
            }
            if dice.once_in(60) {
                schedule.reroute(Clone::clone);
            }
            if dice.once_in(60) {
                schedule.wake_all();
            }
        }
        assert!(cells.iter().all(|cell| cell.in_flight() == 0), "seed {seed}");
    }
}

fn give_back(schedule: &mut Schedule, cells: &mut Vec<Cell>, route: &Route, grant: &Grant) {
    let effects = all::release(cells, route.members(), grant);
    schedule.effects(route.members(), effects);
}

fn waiting(route: &Route, place: u64) -> Waiting {
    Waiting { route: route.clone(), cost: 1, place, not_before: None }
}

fn claim(cells: &mut impl Cells, now: Instant, route: &Route) -> Result<Grant, Wait> {
    all::claim(cells, now, &Claim::at_once(route.members(), 1, now))
}

/// Lets start whatever may, and says who did.
fn drain(schedule: &mut Schedule, cells: &mut Vec<Cell>, now: Instant) -> Vec<Ticket> {
    let mut started = Vec::new();
    while let Some(attempt) = schedule.next(now) {
        match claim(cells, now, &attempt.route) {
            Ok(_) => {
                schedule.started(&attempt);
                started.push(attempt.ticket);
            }
            Err(wait) => schedule.must_wait(&attempt, wait),
        }
    }
    started
}
