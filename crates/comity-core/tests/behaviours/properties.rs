//! Laws that hold whatever comes: the envelope, no trace of what was cancelled, and turns for everybody.

use core::num::NonZeroU32;
use core::time::Duration;

use comity_core::limits::all::{self, Begin, Claim, Grant};
use comity_core::limits::{Cell, Limits, Member, Part, Route, ScopeId};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Policy};
use comity_core::schedule::Replay;
use comity_core::time::Instant;
use proptest::prelude::*;

use crate::world::{
    Ask, Dice, MS, SEC, World, assert_envelope, at, free, grouped, no_answer, refused_for, reply, reply_with,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// In any window at most burst + (w + credit) ÷ interval starts, for a host and its group at once, however late the
    /// timers are.
    #[test]
    fn p_envelope_over_the_whole_path(seed in any::<u64>(), intervals in [1u32..400, 1u32..400, 1u32..150], bursts in [1u32..6, 1u32..6, 1u32..6]) {
        let limits = |n: usize| Limits { interval: MS * intervals[n], burst: NonZeroU32::new(bursts[n]).unwrap(), ..free() };
        let mut world = World::of([limits(0), limits(1), limits(2)]);
        world.dice = Dice::new(seed);
        world.late = MS * 25;
        let mut dice = Dice::new(seed ^ 1);
        let mut asked = 0;
        while asked < 120 {
            for _ in 0..dice.below(8) {
                world.ask(&grouped(&[dice.below(2) as u32, 2]));
                asked += 1;
            }
            world.run_for(MS * dice.pick(&[0, 1, 20, 300, 2000]));
        }
        world.run();
        for scope in 0..3 {
            let starts: Vec<Instant> = world.starts.iter()
                .filter(|start| crate::world::falls_under(&start.route, ScopeId(scope))).map(|start| start.at).collect();
            let n = scope as usize;
            assert_envelope(&starts, MS * intervals[n], bursts[n], comity_core::limits::credit(MS * intervals[n]));
        }
    }

    /// The same law over departures, where grants are used late, restamped or given up.
    #[test]
    fn p_envelope_over_late_departures(seed in any::<u64>(), intervals in [1u32..300, 1u32..300, 1u32..100], bursts in [1u32..4, 1u32..4, 1u32..4]) {
        let limits = |n: usize| Limits { interval: MS * intervals[n], burst: NonZeroU32::new(bursts[n]).unwrap(), ..free() };
        let mut cells: Vec<Cell> = (0..3).map(|n| Cell::new(limits(n).into())).collect();
        let mut dice = Dice::new(seed);
        let mut pending: Vec<(Instant, Route, Grant)> = Vec::new();
        let mut departures: Vec<(Instant, Route)> = Vec::new();
        let mut now = at(1000);
        for _ in 0..600 {
            now = now.after(MS * dice.below(30) as u32);
            pending.sort_by_key(|(at, ..)| *at);
            while pending.first().is_some_and(|(at, ..)| *at <= now) {
                let (at, route, mut grant) = pending.remove(0);
                match all::begin(&mut cells, at, route.members(), &mut grant) {
                    Begin::Go | Begin::Restamped => departures.push((at, route)),
                    Begin::TooLate => {}
                }
            }
            let route = grouped(&[dice.below(2) as u32, 2]);
            let due = now.before(MS * dice.below(40) as u32);
            if let Ok(grant) = all::claim(&mut cells, now, &Claim { members: route.members(), cost: 1, asked: due, due }) {
                let late = if dice.once_in(3) { dice.below(80) } else { dice.below(4) };
                pending.push((now.after(MS * late as u32), route, grant));
            }
        }
        for n in 0..3 {
            let interval = MS * intervals[n];
            // Under 10 ms the promise is the rate over any 100 ms (decision 2).
            let late = if interval < MS * 10 { MS * 50 } else { comity_core::limits::late_by(interval) };
            let of: Vec<Instant> = departures.iter()
                .filter(|(_, route)| crate::world::falls_under(route, ScopeId(n as u32))).map(|(at, _)| *at).collect();
            prop_assert!(of.len() > 2);
            assert_envelope(&of, interval, bursts[n], late);
        }
    }

    /// A request that waited and was cancelled changes nothing for the others.
    #[test]
    fn t11_the_cancelled_leave_no_trace(seed in any::<u64>()) {
        let run = |disturbed: bool| {
            let mut dice = Dice::new(seed);
            let mut extra = Dice::new(seed ^ 2);
            let mut world = World::of((0..4).map(|_| random_limits(&mut dice)).collect::<Vec<_>>());
            let latencies: Vec<u64> = (0..200).map(|_| dice.below(300)).collect();
            let mut nth = 0;
            world = world.answering(move |_| {
                nth += 1;
                reply(200, latencies[nth % 200])
            });
            for _ in 0..60 {
                let route = grouped(&[dice.below(2) as u32, 2, 3]);
                world.ask(&route);
                if disturbed {
                    let route = grouped(&[extra.below(2) as u32, 2, 3]);
                    let claim = Claim::at_once(route.members(), 1, world.now);
                    if all::decide(&world.cells, world.now, &claim).is_err() {
                        let ids = world.ask_many(&route, 1 + extra.below(3) as usize);
                        for id in ids {
                            world.cancel(id);
                        }
                    }
                }
                world.run_for(MS * dice.below(100) as u32);
            }
            world.run();
            world.starts.iter().map(|start| (start.at, start.route.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(false), run(true));
    }

    /// Whoever could start does, in order, through cancels, retries, pauses, changed limits and groups; and in the end
    /// every place is free. The world checks it at every step.
    #[test]
    fn d22_whoever_could_start_does(seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        let mut world = World::of((0..8).map(|_| random_limits(&mut dice)).collect::<Vec<_>>());
        world.dice = Dice::new(seed ^ 3);
        world.late = MS * dice.below(3) as u32;
        let mut answers = Dice::new(seed ^ 4);
        world = world.answering(move |_| random_reply(&mut answers));
        // Hosts 0–4; groups 5 and 6; all hosts 7; 4 is under limits that a caller brought (3).
        let member = |scope, part| Member { scope: ScopeId(scope), part };
        let routes = [
            grouped(&[0, 5]),
            Route::from(vec![member(1, Part::Own), member(5, Part::Own), member(6, Part::Own), member(7, Part::Bound)]),
            Route::from(vec![member(2, Part::Own), member(6, Part::Own), member(7, Part::Bound)]),
            Route::from(vec![member(3, Part::Bound), member(4, Part::Learned), member(7, Part::Bound)]),
            Route::from(vec![member(4, Part::Own), member(7, Part::Bound)]),
        ];
        for _ in 0..250 {
            match dice.below(12) {
                0..5 => {
                    let route = routes[dice.below(5) as usize].clone();
                    let cost = if dice.once_in(6) { 1 + dice.below(4) as u32 } else { 1 };
                    let replay = Replay { retries: dice.pick(&[None, None, Some(1)]), ..Replay::default() };
                    world.ask_for(Ask { route, cost, replay });
                }
                5 | 6 => {
                    let mut ids = world.waiting_ids();
                    ids.extend(world.flying());
                    if !ids.is_empty() {
                        let id = dice.pick(&ids);
                        world.cancel(id);
                    }
                }
                7 if dice.once_in(3) => {
                    let scope = dice.below(8) as usize;
                    match dice.below(3) {
                        0 => world.cells[scope].forget(),
                        _ => world.cells[scope].set_limits(random_limits(&mut dice).into()),
                    }
                    world.schedule.wake_all();
                    world.pump();
                }
                8 if dice.once_in(4) => world.reroute(|_, route| route.clone()),
                _ => {
                    for _ in 0..dice.below(6) {
                        let end = world.now.after(SEC * 30);
                        world.step(end);
                    }
                }
            }
        }
        world.run();
        for cell in &world.cells {
            prop_assert_eq!(cell.in_flight(), 0);
        }
        prop_assert!(world.schedule.is_empty());
    }
}

fn random_limits(dice: &mut Dice) -> Limits {
    let windows: &[&str] = dice.pick(&[&[], &[], &["3:1"], &["2:1", "9:10"]]);
    Limits {
        interval: MS * dice.pick(&[0, 0, 5, 30, 250, 1000]),
        burst: NonZeroU32::new(dice.pick(&[1, 1, 3])).expect("above zero"),
        in_flight: NonZeroU32::new(dice.pick(&[0, 1, 2, 4])),
        windows: windows.iter().map(|text| text.parse().expect("a window")).collect(),
        policy: match dice.below(7) {
            0 => Policy::pressure(),
            1 => Policy::Aimd(AimdSettings { start: MS * 80, floor: MS * 20, ..AimdSettings::default() }),
            2 | 3 => Policy::refusal(),
            4 | 5 => {
                Policy::Adaptive(AdaptiveSettings { start: MS * 40, floor: MS * 5, ..AdaptiveSettings::default() })
            }
            _ => Policy::Off,
        },
        retry_after_limit: SEC * 5,
        ..free()
    }
}

fn random_reply(dice: &mut Dice) -> crate::world::Reply {
    let after = dice.pick(&[0, 1, 40, 40, 300, 2000]);
    match dice.below(14) {
        0 => reply(429, after),
        1 => reply_with(refused_for(503, Duration::from_millis(dice.pick(&[1, 700, 4000, 60_000]))), after),
        2 => reply(500, after),
        3 => reply_with(no_answer(), after),
        4 => reply(504, after),
        5 => reply(404, after),
        _ => reply(200, after),
    }
}
