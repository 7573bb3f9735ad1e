//! Laws of the guard's limits that hold whatever comes.

use core::time::Duration;

use comity_core::guard::{Bucket, FixedWindow, LeakyBucket, Limit, Ruling, TokenBucket, all};
use comity_core::time::Instant;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// In any window w at most capacity + refill × (w ÷ interval + 1) are admitted, whether full buckets are dropped (G8) or
    /// not.
    #[test]
    fn g1_no_window_holds_more_than_the_burst_and_the_rate(
        limit in bucket(),
        asks in prop::collection::vec((0u64..60, 1u32..4), 1..300),
        dropped in any::<bool>(),
    ) {
        let mut now = 1000;
        let mut state = Bucket::full(at(now), &limit);
        let mut admitted: Vec<(u64, u32)> = Vec::new();
        for (pause, cost) in asks {
            now += pause;
            let cost = cost.min(limit.capacity());
            if dropped && Limit::from(limit).is_full(at(now), &state) {
                state = Bucket::full(at(now), &limit);
            }
            if state.take(at(now), &limit, cost)?.is_ok() {
                admitted.push((now, cost));
            }
        }
        for (first, (from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (to, cost) in &admitted[first..] {
                sum += u64::from(*cost);
                let steps = (to - from) / ticks(limit.interval()) + 1;
                let most = u64::from(limit.capacity()) + u64::from(limit.refill()) * steps;
                prop_assert!(sum <= most, "{sum} in {} ticks, {most} are allowed", to - from);
            }
        }
    }

    /// Asked by itself or among others, a limit says the same and leaves the same.
    #[test]
    fn one_limit_by_itself_is_taken_as_all_are(limit in any_limit(), asks in asks()) {
        let mut now = 1000;
        let (mut one, mut all) = (limit.fresh(at(now)), limit.fresh(at(now)));
        for (pause, cost) in asks {
            now += pause;
            let cost = cost.min(limit.capacity());
            let verdict = all::take_one(at(now), &limit, cost, &mut one);
            let same = all::take(at(now), &[(limit, cost)], core::slice::from_mut(&mut all));
            prop_assert_eq!(one, all);
            prop_assert_eq!(verdict.refused(), same.refused());
            prop_assert_eq!(all::Verdict::from(verdict), same);
        }
    }

    /// The quick arithmetic of 64 bits and that of 128 agree, up to limits whose products only the latter holds.
    #[test]
    fn retries_are_exact_for_the_longest_intervals(
        (capacity, refill) in (1i64..=1_000_000_000, 1i64..=1_000_000_000),
        interval in 1u64..=3_000_000_000_000_000,
        cost in 1u32..=1_000_000_000,
    ) {
        let limit = TokenBucket::new(capacity, refill, Duration::from_micros(interval)).unwrap();
        let cost = cost.min(limit.capacity());
        let mut state = Bucket { tokens: 0, last: 1000 };
        let wait = state.take(Instant::from_nanos(1_000_000), &limit, cost)?.unwrap_err();
        let (cost, refill, interval) = (u128::from(cost), refill as u128, u128::from(interval));
        let exact = (cost * interval).div_ceil(refill).max(cost.div_ceil(refill) * interval);
        // What 64 bits cannot say is said as the most they can, hundreds of thousands of years.
        let most = u128::from(u64::MAX - 1000);
        prop_assert_eq!(wait.as_micros().min(most), exact.min(most), "{:?}", limit);
    }

    /// A refused request that waits as long as it was told is admitted, by every kind of limit; and the wait is no longer
    /// than the share of the refill that is missing, or the step that brings it.
    #[test]
    fn g2_waiting_exactly_that_long_is_enough(limit in any_limit(), asks in asks()) {
        let mut now = 1000;
        let mut state = limit.fresh(at(now));
        for (pause, cost) in asks {
            now += pause;
            let cost = cost.min(limit.capacity());
            let verdict = all::take(at(now), &[(limit, cost)], core::slice::from_mut(&mut state));
            let Some((_, retry)) = verdict.refused() else { continue };
            let ask = |at: Instant| all::take(at, &[(limit, cost)], &mut [state]).refused();
            prop_assert_eq!(ask(at(now).after(retry)), None, "after {:?}", retry);
            let earliest = (1..=ticks(retry)).find(|wait| ask(at(now + wait)).is_none()).unwrap_or(u64::MAX);
            match limit {
                // One tick less is not enough, but for the rest of a step that had passed already.
                Limit::Bucket(limit) => prop_assert!(ticks(retry) < earliest + ticks(limit.interval())),
                Limit::Window(_) | Limit::Leaky(_) => prop_assert_eq!(earliest, ticks(retry)),
            }
        }
    }

    /// One tick less is not, where the step ends after the share of it that is missing, or the step has just begun.
    #[test]
    fn g2_one_tick_less_is_not_enough(limit in bucket(), asks in asks()) {
        let mut now = 1000;
        let mut state = Bucket::full(at(now), &limit);
        for (pause, cost) in asks {
            now += pause;
            let cost = cost.min(limit.capacity());
            let Err(retry) = state.take(at(now), &limit, cost)? else { continue };
            let missing = u64::from(cost - state.tokens);
            let share = (missing * ticks(limit.interval())).div_ceil(u64::from(limit.refill()));
            let exact = share < ticks(retry) || state.last == now;
            let early = state.clone().take(at(now + ticks(retry) - 1), &limit, cost)?;
            prop_assert!(!exact || early.is_err(), "a tick before {:?} is too early", retry);
        }
    }

    /// Decide all, then charge all: what was refused leaves no trace, whatever is asked in between and however often.
    #[test]
    fn g4_a_refused_request_leaves_no_trace(limits in prop::collection::vec(any_limit(), 1..5), asks in asks()) {
        let run = |disturbed: bool| {
            let mut now = 1000;
            let mut states: Vec<Bucket> = limits.iter().map(|limit| limit.fresh(at(now))).collect();
            let mut verdicts = Vec::new();
            for (pause, cost) in &asks {
                now += pause;
                if disturbed {
                    let all_of = |limit: &Limit| (*limit, limit.capacity());
                    let greedy: Vec<(Limit, u32)> = limits.iter().map(all_of).collect();
                    if all::take(at(now), &greedy, &mut states.clone()).refused().is_some() {
                        all::take(at(now), &greedy, &mut states);
                    }
                }
                let fair: Vec<(Limit, u32)> = limits.iter().map(|l| (*l, (*cost).min(l.capacity()))).collect();
                verdicts.push(all::take(at(now), &fair, &mut states));
            }
            verdicts
        };
        prop_assert_eq!(run(false), run(true));
    }

    /// The longest wait of those that refused is enough for all of them.
    #[test]
    fn g4_the_longest_wait_is_enough_for_all(limits in prop::collection::vec(any_limit(), 1..5), asks in asks()) {
        let mut now = 1000;
        let mut states: Vec<Bucket> = limits.iter().map(|limit| limit.fresh(at(now))).collect();
        for (pause, cost) in asks {
            now += pause;
            let fair: Vec<(Limit, u32)> = limits.iter().map(|l| (*l, cost.min(l.capacity()))).collect();
            let verdict = all::take(at(now), &fair, &mut states);
            if let Ruling::Refused { by, retry } = verdict.ruling() {
                prop_assert_eq!(verdict.left().iter().filter_map(|left| left.retry).max(), Some(retry));
                prop_assert_eq!(verdict.left()[by].retry, Some(retry));
                let later = all::take(at(now).after(retry), &fair, &mut states.clone());
                prop_assert!(later.refused().is_none(), "{:?}", later);
            }
        }
    }

    /// The rate that was asked for is never exceeded, and missed by a thousandth at most.
    #[test]
    fn g1_a_rate_is_what_was_asked_for(count in 1i64..1_000_000, per in 1u64..100_000_000, burst in 1i64..1000) {
        let limit = TokenBucket::rate(count, Duration::from_micros(per), burst);
        prop_assume!(limit.is_ok());
        let limit = limit?;
        let asked = u128::from(count as u64) * u128::from(ticks(limit.interval()));
        let got = u128::from(limit.refill()) * u128::from(per);
        prop_assert!(got <= asked, "faster than asked for");
        prop_assert!(got * 1001 >= asked * 1000, "slower than asked for by more than a thousandth: {limit:?}");
    }

    /// Nothing overflows, whatever is in a bucket and whatever the clock says.
    #[test]
    fn g5_no_number_is_too_large(
        capacity in 1i64..=1_000_000_000, refill in 1i64..=1_000_000_000, interval in 1u64..=3_155_760_000_000_000,
        tokens in any::<u32>(), last in any::<u64>(), now in any::<u64>(), cost in 1u32..=1_000_000_000,
    ) {
        let interval = Duration::from_micros(interval);
        let limits = [
            TokenBucket::new(capacity, refill, interval).map(Limit::from),
            FixedWindow::new(capacity, interval).map(Limit::from),
            LeakyBucket::new(1, interval.max(Duration::from_millis(1)), capacity).map(Limit::from),
        ];
        for limit in limits {
            let limit = limit?;
            let mut state = [Bucket { tokens, last }];
            let verdict = all::take(Instant::from_nanos(now), &[(limit, cost.min(limit.capacity()))], &mut state);
            prop_assert_eq!(verdict.left().len(), 1);
        }
    }
}

fn bucket() -> impl Strategy<Value = TokenBucket> {
    (1i64..30, 1i64..12, 1u64..50).prop_map(|(capacity, refill, ticks)| {
        TokenBucket::new(capacity, refill, Duration::from_micros(ticks)).expect("allowed")
    })
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let window = (1i64..20, 1u64..200)
        .prop_map(|(n, ticks)| FixedWindow::new(n, Duration::from_micros(ticks)).expect("allowed"));
    let leaky = (100u64..300, 0i64..6)
        .prop_map(|(per, burst)| LeakyBucket::new(1, Duration::from_micros(per), burst).expect("allowed"));
    prop_oneof![bucket().prop_map(Limit::from), window.prop_map(Limit::from), leaky.prop_map(Limit::from)]
}

fn asks() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((0u64..40, 1u32..9), 1..120)
}

fn at(ticks: u64) -> Instant {
    Instant::from_nanos(ticks * 1000)
}

fn ticks(span: Duration) -> u64 {
    span.as_micros() as u64
}
