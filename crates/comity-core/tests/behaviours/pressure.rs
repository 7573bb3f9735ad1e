//! P4–P11: the pressure policy.

use comity_core::limits::{Limits, Partial};
use comity_core::policy::{Fact, Learned, Outcome, Policy, Pressure};
use comity_core::time::Instant;

use crate::world::{Ask, MS, SEC, World, at, free, host, millis, no_answer, refused_for, reply, reply_with, signal};

fn browsing(burst: u32) -> Limits {
    Limits { policy: Policy::Pressure { burst }, retry_after_limit: SEC * 60, ..free() }
}

/// P4, P5, P6 and P8 as the behaviours word them, in whole milliseconds.
fn by_the_book(burst: u64, navigations: usize, mut asked: u64) -> Vec<u64> {
    let (mut tat, mut pressure, mut drained) = (0, 0, 0);
    let mut starts = Vec::new();
    for _ in 0..navigations {
        let steps = (asked - drained) / 100;
        (pressure, drained) = if steps >= pressure { (0, asked) } else { (pressure - steps, drained + 100 * steps) };
        let spacing = (20 * (1 + pressure / 10)).min(1200);
        let start: u64 = asked.max(u64::saturating_sub(tat, (burst - 1) * 20));
        tat = tat.max(start) + spacing;
        pressure = (pressure + 1).min(590);
        starts.push(start);
        asked = start;
    }
    starts
}

fn run(burst: u32, navigations: usize) -> Vec<u64> {
    let mut world = World::of([browsing(burst)]);
    world.ask_many(&host(0), navigations);
    world.run();
    world.starts.iter().map(|start| millis(start.at)).collect()
}

fn gaps(starts: &[u64]) -> Vec<u64> {
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn units(world: &World<Vec<comity_core::limits::Cell>>) -> u16 {
    match world.cells[0].learned() {
        Learned::Pressure(pressure) => pressure.pressure(world.now),
        other => panic!("{other:?}"),
    }
}

#[test]
fn p4_spacing_is_taken_with_the_pressure_before_the_navigation() {
    let mut pressure = Pressure::default();
    let refusal = Fact { started: at(0), outcome: Outcome::Refused { advice: None }, latency: None };
    for units in 0..2000u64 {
        assert_eq!(u64::from(pressure.pressure(at(0))), units.min(590));
        let mut next = pressure;
        next.started(at(0));
        assert_eq!(next.spacing(), MS * (20 * (1 + units.min(590) as u32 / 10)).min(1200));
        pressure = next;
    }
    pressure.taught(at(0), &refusal);
    assert_eq!(pressure.pressure(at(0)), 590);
}

#[test]
fn p5_the_burst_is_a_head_start_and_nothing_else() {
    for burst in [1, 2, 10, 20] {
        assert_eq!(run(burst, 300), by_the_book(u64::from(burst), 300, 0), "burst {burst}");
    }
    let sustained = |burst| gaps(&run(burst, 400)).split_off(300);
    assert_eq!(sustained(1), sustained(20));
}

#[test]
fn p6_refusals_errors_and_silence_press_and_other_answers_do_not() {
    for (signal, expected) in [
        (signal(429), 50),
        (signal(503), 50),
        (signal(500), 10),
        (no_answer(), 10),
        (signal(200), 0),
        (signal(301), 0),
        (signal(404), 0),
    ] {
        let mut world = World::of([Limits { retries: 0, ..browsing(10) }]);
        let answer = signal.clone();
        world = world.answering(move |_| reply_with(answer.clone(), 0));
        world.ask(&host(0));
        world.run();
        assert_eq!(units(&world), 1 + expected, "{signal:?}");
    }
}

#[test]
fn p7_a_pause_beats_the_head_start_and_lasts_at_most_a_minute() {
    for (asked, lasts) in [(2, 2), (60, 60), (3600, 60)] {
        let mut world = World::of([browsing(10)]).answering(move |start| match (start.id, start.attempt) {
            (1, 1) => reply_with(refused_for(429, SEC * asked), 0),
            _ => reply(200, 0),
        });
        world.ask(&host(0));
        world.run_until(at(0));
        world.ask(&host(0));
        world.run();
        let second = world.starts.iter().find(|start| start.id == 2).unwrap();
        assert!(second.at >= at(lasts * 1000), "{:?}", second.at);
        assert!(second.at <= at(lasts * 1000).after(MS), "and no longer: {:?}", second.at);
    }
}

#[test]
fn p8_a_unit_is_forgiven_every_100_ms_and_rounding_loses_nothing() {
    let mut touched = Pressure::default();
    let refusal = Fact { started: at(0), outcome: Outcome::Refused { advice: None }, latency: None };
    touched.taught(at(1000), &refusal);
    let untouched = touched;
    for ms in (1000..5950).step_by(7) {
        touched.started(at(ms));
        let mut other = untouched;
        assert!(touched.pressure(at(ms)) > other.pressure(at(ms)), "the touch added its unit");
        other.started(at(ms));
        touched = untouched;
        assert_eq!(u64::from(untouched.pressure(at(ms))), 50 - (ms - 1000) / 100);
    }
    for (units, drained_after) in [(41, 4100), (590, 59_000)] {
        let mut pressure = Pressure::default();
        for _ in 0..units {
            pressure.started(at(0));
        }
        assert_eq!(pressure.pressure(at(drained_after - 1)), 1);
        assert_eq!(pressure.pressure(at(drained_after)), 0);
    }
}

#[test]
fn p9_four_hundred_navigations_to_the_millisecond() {
    let mut world = World::of([browsing(10)]);
    for rest in [0, 8000] {
        let begin = world.starts.last().map_or(0, |start| millis(start.at)) + rest;
        world.run_until(at(begin));
        let first = world.starts.len();
        world.ask(&host(0));
        while world.starts.len() < first + 400 {
            if world.waiting() == 0 {
                world.ask(&host(0));
            } else {
                world.step(Instant::FAR);
            }
        }
        let starts: Vec<u64> = world.starts[first..].iter().map(|start| millis(start.at) - begin).collect();
        assert_eq!(starts, by_the_book(10, 400, 0));
        let gaps = gaps(&starts);
        let first_of = |gap: u64| {
            let at = gaps.iter().position(|other| *other == gap).unwrap() + 1;
            (at + 1, starts[at])
        };
        assert_eq!(starts[9], 0);
        assert_eq!(first_of(20), (11, 20));
        assert_eq!(first_of(40), (12, 60));
        assert_eq!(first_of(60), (27, 680));
        assert_eq!(first_of(80), (52, 2200));
        assert_eq!(first_of(100), (100, 6060));
        assert!(gaps[98..].iter().all(|gap| *gap == 100));
        assert_eq!(starts[399], 36_060);
    }
}

#[test]
fn p10_unset_is_pressure_zero_is_off_and_a_number_is_fixed() {
    let fixed = Limits { policy: Policy::Fixed, interval: MS * 300, retries: 0, ..free() };
    let mut world = World::of([fixed]).answering(|start| reply([429, 500, 200, 503][start.id as usize % 4], 10));
    world.ask_many(&host(0), 40);
    world.run();
    assert_eq!(world.times(comity_core::limits::ScopeId(0)), (0..40).map(|n| n * 300).collect::<Vec<_>>());

    let off = Limits { policy: Policy::Off, retries: 0, ..free() };
    let mut world = World::of([off]).answering(|_| reply(503, 10));
    world.ask_many(&host(0), 40);
    world.run();
    assert!(world.starts.iter().all(|start| start.at == at(0)));
}

#[test]
fn p10_retry_after_and_crawl_delay_hold_in_every_mode() {
    for policy in [Policy::Off, Policy::Fixed, Policy::pressure(), Policy::refusal()] {
        let mut world = World::of([Limits { policy: policy.clone(), ..free() }]).answering(|start| {
            if start.id == 1 && start.attempt == 1 { reply_with(refused_for(429, SEC * 7), 0) } else { reply(200, 0) }
        });
        world.cells[0].set_crawl_delay(SEC * 3);
        world.ask_many(&host(0), 3);
        world.run();
        let starts: Vec<u64> = world.starts.iter().map(|start| millis(start.at)).collect();
        assert_eq!(starts, [0, 7000, 10_000, 13_000], "{policy:?}");
    }
}

#[test]
fn p10_what_a_person_sets_is_a_bound_of_the_policy() {
    for policy in [Policy::pressure(), Policy::refusal(), Policy::Aimd(Default::default())] {
        let limits = Partial { interval: Some(MS * 2000), ..Partial::default() }.over(&Limits { policy, ..free() });
        let mut world = World::of([limits]);
        world.ask_many(&host(0), 30);
        world.run();
        for pair in world.starts.windows(2) {
            assert!(pair[1].at.since(pair[0].at) >= MS * 2000);
        }
    }
}

#[test]
fn p11_a_thousand_asked_at_once_follow_the_curve() {
    assert_eq!(run(10, 1000), by_the_book(10, 1000, 0));
}

#[test]
fn p11_a_refusal_reaches_all_that_wait() {
    let mut world = World::of([Limits { retries: 0, ..browsing(10) }])
        .answering(|start| if start.id == 60 { reply(429, 0) } else { reply(200, 0) });
    world.ask_many(&host(0), 100);
    world.run();
    let gaps = gaps(&world.starts.iter().map(|start| millis(start.at)).collect::<Vec<_>>());
    // The one after the next is the first that is booked after the refusal.
    assert!(gaps[61] >= gaps[59] + 80, "{gaps:?}");
}

#[test]
fn p11_a_cancelled_wait_leaves_no_trace() {
    let run = |extra: bool| {
        let mut world = World::of([browsing(10)]);
        world.ask_many(&host(0), 20);
        let gone = if extra { world.ask_many(&host(0), 50) } else { Vec::new() };
        world.ask_for(Ask { route: host(0), cost: 1, replay: Default::default() });
        for id in gone {
            world.cancel(id);
        }
        world.run();
        world.starts.iter().map(|start| start.at).collect::<Vec<_>>()
    };
    assert_eq!(run(true), run(false));
}
