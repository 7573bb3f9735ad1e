//! One scope's clocks: what holds, what a cost takes, late starts, and time that goes back.

use core::num::NonZeroU32;
use core::time::Duration;

use comity_core::limits::all::{self, Begin, Claim, Grant};
use comity_core::limits::{Because, Cell, Limits, Member, Part, Partial, Route, ScopeId, Wait};
use comity_core::policy::{AimdSettings, Learned, Policy, Pressure};
use comity_core::schedule::Replay;
use comity_core::time::Instant;

use crate::world::{
    Ask, Dice, MS, SEC, World, assert_envelope, at, every, free, grouped, host, places, refused_for, reply, reply_with,
    signal, taught_by_refusals,
};

fn claim(cells: &mut Vec<Cell>, now: Instant, route: &Route, cost: u32) -> Result<Grant, Wait> {
    all::claim(cells, now, &Claim::at_once(route.members(), cost, now))
}

fn cells(limits: impl IntoIterator<Item = Limits>) -> Vec<Cell> {
    limits.into_iter().map(|limits| Cell::new(limits.into())).collect()
}

fn number(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("above zero")
}

#[test]
fn c04_the_later_of_crawl_delay_and_retry_after_and_the_refusal_teaches() {
    let limits = Limits { policy: Policy::Aimd(AimdSettings::default()), ..free() };
    let mut world = World::of([limits]).answering(|start| match start.attempt {
        1 => reply_with(refused_for(429, SEC * 60), 1000),
        _ => reply(200, 10),
    });
    world.cells[0].set_crawl_delay(SEC * 5);
    world.ask(&host(0));
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 61_000]);
    assert_eq!(world.cells[0].tally().refusals_with_advice, 1);
    assert!(world.cells[0].learned().interval() > SEC);
}

#[test]
fn c08_what_the_server_sees_is_burst_and_rate() {
    for (burst, first_minute) in [(1, 15), (5, 20)] {
        let limits = Limits { burst: number(burst), ..every(4000) };
        let mut world = World::of([limits]);
        world.run_until(at(300_000));
        world.ask_many(&host(0), 60);
        world.run();
        let starts: Vec<Instant> = world.starts.iter().map(|start| start.at).collect();
        assert_envelope(&starts, SEC * 4, burst, Duration::ZERO);
        let begin = starts[0];
        let seen = starts.iter().filter(|start| start.since(begin) < SEC * 60).count();
        assert_eq!(seen, first_minute - usize::from(burst > 1), "burst {burst}");
    }
}

#[test]
fn c13_state_outlives_the_empty_queue() {
    let mut world = World::of([every(5000)]);
    for _ in 0..5 {
        world.ask(&host(0));
        world.run();
        assert!(world.schedule.is_empty());
        assert!(!world.cells[0].is_as_new(world.now));
    }
    assert_eq!(world.times(ScopeId(0)), [0, 5000, 10_000, 15_000, 20_000]);
    assert!(world.cells[0].is_as_new(at(25_000)), "and is dropped when it can no longer matter");
}

#[test]
fn c15_an_interval_of_zero_is_no_spacing() {
    let mut world = World::of([every(0)]);
    world.ask_many(&host(0), 20);
    world.run();
    assert!(world.starts.iter().all(|start| start.at == at(0)));
}

#[test]
fn c21_a_lower_limit_drains_first_and_a_higher_one_starts_at_once() {
    let mut world = World::of([places(5)]).answering(|_| reply(200, 1000));
    world.ask_many(&host(0), 20);
    assert_eq!(world.starts.len(), 5);
    world.cells[0].set_limits(places(2).into());
    world.schedule.wake_all();
    world.run_until(at(1000));
    assert_eq!(world.starts.len(), 7, "five ended and two started");
    world.cells[0].set_limits(places(5).into());
    world.schedule.wake_all();
    world.pump();
    assert_eq!(world.starts.len(), 10);
    world.run();
    assert_eq!((world.starts.len(), world.cells[0].in_flight()), (20, 0));
}

#[test]
fn c21_a_changed_pace_holds_at_once_for_those_that_wait() {
    let mut world = World::of([every(100)]);
    world.ask_many(&host(0), 50);
    world.run_until(at(1000));
    assert_eq!(world.starts.len(), 11);
    world.cells[0].set_limits(every(1000).into());
    world.schedule.wake_all();
    world.run_until(at(3999));
    assert_eq!(world.starts.len(), 13);
    world.cells[0].set_limits(every(100).into());
    world.schedule.wake_all();
    world.run();
    assert_eq!(world.times(ScopeId(0))[11..15], [2000, 3000, 3999, 4099]);
}

#[test]
fn c21_places_come_back_whatever_the_limit_was_when_they_were_taken() {
    for (then, now) in [(5, 2), (2, 5), (3, 1)] {
        let mut cells = cells([places(then)]);
        let route = host(0);
        let grant = claim(&mut cells, at(0), &route, 5).expect("a costly one starts alone");
        cells[0].set_limits(places(now).into());
        all::release(&mut cells, route.members(), &grant);
        assert_eq!(cells[0].in_flight(), 0, "{then} then {now}");
    }
    // Where there was no limit when it started.
    let mut cells = cells([free()]);
    let route = host(0);
    let grants: Vec<Grant> = (0..4).map(|_| claim(&mut cells, at(0), &route, 3).expect("no limit")).collect();
    cells[0].set_limits(places(2).into());
    for grant in &grants {
        assert!(claim(&mut cells, at(1), &route, 1).is_err());
        all::release(&mut cells, route.members(), grant);
    }
    assert_eq!(cells[0].in_flight(), 0);
}

#[test]
fn c24_the_configured_rate_is_a_bound_that_learning_comes_back_to() {
    let person = Partial { interval: Some(SEC), ..Partial::default() };
    let limits = person.over(&Limits { retries: 0, ..taught_by_refusals() });
    let mut world = World::of([limits]).answering(|start| reply(if start.id < 4 { 429 } else { 200 }, 10));
    world.ask_many(&host(0), 200);
    world.run();
    let gaps: Vec<Duration> = world.starts.windows(2).map(|pair| pair[1].at.since(pair[0].at)).collect();
    assert!(gaps.iter().any(|gap| *gap > SEC), "slower while refused");
    assert!(gaps.iter().all(|gap| *gap >= SEC));
    assert!(gaps[150..].iter().all(|gap| *gap == SEC), "and back, not above");
}

#[test]
fn t1_a_start_needs_a_place_and_its_spacing() {
    let limits = Limits { interval: MS * 100, ..places(2) };
    let mut world = World::of([limits]).answering(|_| reply(200, 350));
    world.ask_many(&host(0), 5);
    assert!(matches!(world.wait_of(2).map(|wait| wait.because), Some(Because::Interval(_))));
    world.run();
    // The third waits for a place, the fourth only for its spacing.
    assert_eq!(world.times(ScopeId(0)), [0, 100, 350, 450, 700]);
}

#[test]
fn a_costly_request_takes_its_cost_of_every_clock() {
    let limits =
        Limits { interval: MS * 100, in_flight: NonZeroU32::new(4), windows: vec!["6:10".parse().unwrap()], ..free() };
    let mut world = World::of([limits]).answering(|_| reply(200, 50));
    for cost in [3, 1, 1, 3, 1] {
        world.ask_for(Ask { route: host(0), cost, replay: Replay::default() });
    }
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 300, 400, 10_000, 10_300]);
}

#[test]
fn a_request_that_costs_more_than_there_is_starts_alone() {
    let limits = Limits { windows: vec!["2:1".parse().unwrap()], ..places(2) };
    let mut world = World::of([limits]).answering(|_| reply(200, 100));
    for cost in [1, 50, 1] {
        world.ask_for(Ask { route: host(0), cost, replay: Replay::default() });
    }
    world.run();
    assert_eq!(world.times(ScopeId(0)), [0, 1000, 2000]);
}

#[test]
fn a_start_used_in_time_goes_and_one_that_is_late_moves_the_clock() {
    let mut cells = cells([every(1000)]);
    let route = host(0);
    let mut grant = claim(&mut cells, at(0), &route, 1).expect("the first");
    assert_eq!(grant.late_by, Some(MS * 100));
    assert_eq!(all::begin(&mut cells, at(3), route.members(), &mut grant), Begin::Go);
    assert_eq!(all::begin(&mut cells, at(4), route.members(), &mut grant), Begin::Restamped);
    assert_eq!(all::begin(&mut cells, at(101), route.members(), &mut grant), Begin::Restamped);
    assert_eq!(claim(&mut cells, at(1000), &route, 1).map_err(|wait| wait.until), Err(at(1101)));
}

#[test]
fn a_late_start_that_others_overtook_is_given_up() {
    let mut cells = cells([every(1000), every(1000), every(100)]);
    let (one, other) = (grouped(&[0, 2]), grouped(&[1, 2]));
    let mut late = claim(&mut cells, at(0), &one, 1).expect("the first");
    claim(&mut cells, at(100), &other, 1).expect("the group lets it");
    assert_eq!(late.late_by, Some(MS * 10), "the least of its scopes");
    assert_eq!(all::begin(&mut cells, at(150), one.members(), &mut late), Begin::TooLate);
}

#[test]
fn a_late_wake_up_and_a_late_use_do_not_close_a_gap_twice() {
    let mut cells = cells([every(1000)]);
    let route = host(0);
    let asking = |due| Claim { members: route.members(), cost: 1, asked: at(0), due };
    all::claim(&mut cells, at(0), &asking(at(0))).expect("the first");
    // Due at 1000, woken at 1080: it counts from 1000, and may be used until 1100.
    let mut grant = all::claim(&mut cells, at(1080), &asking(at(1000))).expect("due");
    assert_eq!(grant.late_by, Some(MS * 20));
    assert_eq!(all::begin(&mut cells, at(1083), route.members(), &mut grant), Begin::Go);
    assert_eq!(all::decide(&cells, at(1999), &asking(at(0))).map_err(|wait| wait.until), Err(at(2000)));
    // Used later than timers are anyhow, it counts from then.
    assert_eq!(all::begin(&mut cells, at(1100), route.members(), &mut grant), Begin::Restamped);
    assert_eq!(all::decide(&cells, at(1999), &asking(at(0))).map_err(|wait| wait.until), Err(at(2100)));
}

#[test]
fn a_brought_limit_is_what_decides_how_late_its_start_may_be() {
    let mut cells = cells([every(10_000), every(100)]);
    let route = Route::from(vec![
        Member { scope: ScopeId(1), part: Part::Bound },
        Member { scope: ScopeId(0), part: Part::Learned },
    ]);
    assert_eq!(claim(&mut cells, at(0), &route, 1).map(|grant| grant.late_by), Ok(Some(MS * 10)));
    let only_learned = Route::Host(Member { scope: ScopeId(0), part: Part::Learned });
    assert_eq!(claim(&mut cells, at(0), &only_learned, 1).map(|grant| grant.late_by), Ok(None));
}

#[test]
fn a_scope_with_a_guest_in_flight_is_not_as_new() {
    let mut cells = cells([taught_by_refusals()]);
    let route = Route::Host(Member { scope: ScopeId(0), part: Part::Learned });
    let grant = claim(&mut cells, at(0), &route, 1).expect("nothing holds");
    assert!(!cells[0].is_as_new(at(1)));
    all::release(&mut cells, route.members(), &grant);
    assert!(cells[0].is_as_new(at(1)));
}

#[test]
fn e05_time_that_goes_back_never_panics_nor_admits_more() {
    let mut in_all = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let limits = Limits {
            interval: MS * 10,
            burst: number(3),
            windows: vec!["20:1".parse().unwrap()],
            policy: dice.pick(&[1, 2]).eq(&1).then(Policy::pressure).unwrap_or(Policy::refusal()),
            ..free()
        };
        let mut cells = cells([limits]);
        let route = host(0);
        let mut starts = Vec::new();
        let mut now = at(4_000_000);
        for _ in 0..2000 {
            now = match dice.below(200) {
                0 => now.before(SEC * 11),
                1..4 => now.after(SEC * 11),
                4 => now.before(SEC * 3600),
                5 => now.after(SEC * 3600),
                _ => now.after(MS * dice.below(20) as u32),
            };
            if let Ok(grant) = claim(&mut cells, now, &route, 1) {
                starts.push(now);
                let answer = if dice.once_in(20) { signal(503) } else { signal(200) };
                all::settle(&mut cells, now, route.members(), &grant, &answer, Some(MS));
            }
        }
        in_all += starts.len();
        // Of any two starts, the later one in order came late enough by its own argument.
        for (i, first) in starts.iter().enumerate() {
            for (n, last) in starts[i..].iter().enumerate() {
                assert!(last.after(MS * 20) >= first.after(MS * 10 * n as u32), "seed {seed}");
                assert!(n < 20 || *last >= first.after(SEC * (n as u32 / 20)), "seed {seed}, window");
            }
        }
    }
    assert!(in_all > 1000);
}

#[test]
fn e05_a_step_back_forgives_no_pressure() {
    let mut pressure = Pressure::default();
    pressure.started(at(3_600_000));
    let mut stepped = Pressure::default();
    stepped.started(at(3_600_000));
    for ms in [3_600_000, 3_599_000, 3_600_000] {
        let mut learned = Learned::Pressure(stepped);
        learned.started(at(ms));
        let Learned::Pressure(next) = learned else { panic!("it is the same policy") };
        stepped = next;
        pressure.started(at(3_600_000));
    }
    assert_eq!(stepped.pressure(at(3_600_000)), pressure.pressure(at(3_600_000)));
}
