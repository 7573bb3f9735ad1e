//! What holds whatever a host does.

mod kept;
mod life;
mod stories;

use proptest::prelude::*;

use self::life::{Dice, Life};
use super::*;

/// A fact as absurd as they come: any instant, any latency.
fn absurd(dice: &mut Dice) -> (Instant, Fact) {
    let mut instant = || {
        let nanos = [0, u64::MAX, dice.below(0), dice.below(1 << 36), dice.below(1000) * 50_000_000];
        Instant::from_nanos(dice.pick(&nanos))
    };
    let (now, started) = (instant(), instant());
    let any = Duration::from_nanos(dice.below(0));
    let latency = dice.pick(&[None, Some(Duration::ZERO), Some(Duration::MAX), Some(any), Some(MS * 20)]);
    (now, Fact { started, outcome: outcome(dice), latency })
}

fn outcome(dice: &mut Dice) -> Outcome {
    let advice = dice.once_in(2).then(|| Duration::from_nanos(dice.below(0) >> dice.below(64)));
    match dice.below(16) {
        0 | 1 => Outcome::Refused { advice },
        2 => Outcome::ServerError,
        3 => Outcome::NoAnswer,
        4 => Outcome::Neutral,
        _ => Outcome::Served,
    }
}

fn absurd_settings(dice: &mut Dice) -> AdaptiveSettings {
    let mut span = || {
        let nanos = [0, 1, u64::MAX, dice.below(0), dice.below(100_000_000_000)];
        Duration::from_nanos(dice.pick(&nanos))
    };
    AdaptiveSettings { start: span(), floor: span(), ceiling: span() }
}

/// A life with its rests, and now and then another limit.
fn live(seed: u64, steps: usize, mut seen: impl FnMut(&mut Life)) {
    let mut life = Life::any(seed);
    for _ in 0..steps {
        life.step();
        if life.dice.once_in(150) {
            life.rule = Life::any(life.dice.below(0)).rule;
        }
        if life.dice.once_in(300) {
            let secs = life.dice.pick(&[1, 100, 1000, 10_000, 200_000, 3_000_000]);
            life.rest(Duration::from_secs(secs));
        }
        seen(&mut life);
    }
}

/// After a while of it.
fn lived(seed: u64) -> Life {
    let mut life = Life::any(seed);
    for _ in 0..life.dice.below(400) {
        life.step();
    }
    life
}

/// As far as the packing keeps it.
fn is_about(one: Duration, other: Duration) -> bool {
    one.abs_diff(other) <= Duration::from_nanos(1) + one / 10_000_000
}

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(48))]

    /// With what overflows being a panic, as in every test.
    #[test]
    fn nothing_panics_and_the_floor_holds_however_absurd_the_facts(seed in any::<u64>()) {
        let dice = &mut Dice::new(seed);
        let settings = absurd_settings(dice);
        let floor = settings.floor.min(Duration::from_nanos(LONGEST));
        let mut adaptive = Adaptive::new(&settings);
        for _ in 0..400 {
            let (now, fact) = absurd(dice);
            adaptive.taught(now, &fact, &settings);
            prop_assert!(adaptive.interval() >= floor && adaptive.in_flight() > 0, "{:?}", adaptive.said(now));
            if dice.once_in(50) {
                adaptive = adaptive.aged(Duration::from_nanos(dice.below(0)), &settings);
                let by = Duration::from_nanos(dice.below(0));
                adaptive.shift(|at| at.after(by));
            }
        }
    }

    #[test]
    fn a8_never_faster_than_the_floor_nor_slower_than_the_ceiling_but_for_trials(seed in any::<u64>()) {
        let mut fault = None;
        live(seed, 600, |life| {
            let AdaptiveSettings { floor, ceiling, .. } = life.settings;
            let interval = life.adaptive.interval();
            let tried = State::unpack(&life.adaptive).rate.is_refused();
            if interval < floor || interval > ceiling.max(floor).max(Duration::from_nanos(1)) && !tried {
                fault = fault.or(Some((interval, life.adaptive.said(life.now))));
            }
        });
        prop_assert_eq!(fault, None);
    }

    #[test]
    fn a9_what_was_refused_or_failed_together_teaches_once(seed in any::<u64>(), together in 2..40u64) {
        for outcome in [Outcome::Refused { advice: None }, Outcome::ServerError, Outcome::NoAnswer] {
            let mut life = lived(seed);
            let (settings, started) = (life.settings, life.now.after(MS));
            let mut once = None;
            for n in 0..together {
                let fact = Fact { started: started.after(MS / 10 * n as u32), outcome, latency: None };
                let change = life.adaptive.taught(started.after(MS * (20 + n as u32)), &fact, &settings);
                let now = (life.adaptive.interval(), life.adaptive.in_flight());
                prop_assert_eq!(*once.get_or_insert(now), now, "{} of {}, {:?}", n, together, change);
            }
        }
    }

    #[test]
    fn a9_it_is_faster_once_in_four_answers_or_a_control_period(seed in any::<u64>()) {
        let mut life = Life::any(seed);
        let mut answers = 4;
        let mut last = Instant::ZERO;
        for _ in 0..400 {
            let before = State::unpack(&life.adaptive).rate.interval;
            life.step();
            answers += 1;
            if State::unpack(&life.adaptive).rate.interval < before - before / 1_000_000 {
                let long = life.now.since(last) >= MS * 90;
                prop_assert!(answers >= 4 || long, "{} answers since the last time", answers);
                (answers, last) = (0, life.now);
            }
        }
    }

    /// But that they were let in ends an episode, and from then on the pace before it holds at most.
    #[test]
    fn a11_client_errors_make_it_neither_faster_nor_slower(seed in any::<u64>()) {
        let mut life = lived(seed);
        let settings = life.settings;
        let mut before: Option<(Duration, u32)> = None;
        for _ in 0..200 {
            let started = life.now.after(life.adaptive.interval());
            life.now = started.after(MS * 3);
            let fact = Fact { started, outcome: Outcome::Neutral, latency: Some(MS * 3) };
            life.adaptive.taught(life.now, &fact, &settings);
            let (interval, in_flight) = (life.adaptive.interval(), life.adaptive.in_flight());
            if let Some((last, most)) = before {
                prop_assert!(is_about(interval, last), "{:?} from {:?}", interval, last);
                prop_assert_eq!(in_flight, most);
            }
            before = Some((interval, in_flight));
        }
    }

    #[test]
    fn a5_only_what_was_served_is_a_latency(seed in any::<u64>()) {
        live(seed, 300, |life| {
            let before = State::unpack(&life.adaptive);
            let (now, fact) = life.next_fact();
            life.adaptive.taught(now, &fact, &life.settings);
            let after = State::unpack(&life.adaptive);
            if fact.outcome != Outcome::Served {
                assert_eq!((after.concurrency.base, after.octaves), (before.concurrency.base, before.octaves));
                let (count, sum) = (after.concurrency.count, after.concurrency.sum);
                assert!(count == 0 || (count, sum) == (before.concurrency.count, before.concurrency.sum), "{fact:?}");
            }
        });
    }

    #[test]
    fn on_another_clock_it_does_the_same(seed in any::<u64>(), hours in 0..1_000_000u32) {
        let by = |at: Instant| if at == Instant::ZERO { at } else { at.after(SEC * 3600 * hours) };
        let mut life = lived(seed);
        let mut there = life.adaptive;
        there.shift(by);
        for _ in 0..300 {
            let (now, fact) = life.next_fact();
            let change = life.adaptive.taught(now, &fact, &life.settings);
            let moved = Fact { started: by(fact.started), ..fact };
            prop_assert_eq!(there.taught(by(now), &moved, &life.settings), change);
            prop_assert_eq!((there.interval(), there.in_flight()), (life.adaptive.interval(), life.adaptive.in_flight()));
        }
        there.shift(|at| if at == Instant::ZERO { at } else { at.before(SEC * 3600 * hours) });
        prop_assert_eq!(there, life.adaptive);
    }
}
