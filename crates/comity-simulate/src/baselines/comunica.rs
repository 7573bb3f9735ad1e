//! Comunica's rate limiter.
//!
//! Source: Comunica 4 `packages/actor-http-limit-rate`, README and `lib/ActorHttpLimitRate.ts`, with its defaults
//! (correctionMultiplier 0.1, failureMultiplier 10, limitByDefault and allowOverlap false).
//!
//! - Nothing is limited until an answer fails that is not a 404; from then on for good.
//! - The interval between starts follows durations: a tenth of the first, then a tenth of the difference more at each, in
//!   whole milliseconds. A failed one counts ten times.
//!
//! It limits starts only: how many are in flight is the query engine's business, which is `in_flight`. Refused requests are
//! not tried again unless a person asks for it (`httpRetryCount`, 0). Retry-After is not read.

use core::time::Duration;

use comity_core::time::Instant;

use super::{Answered, Baseline, LONGEST, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Comunica {
    most: u32,
    limited: bool,
    /// Milliseconds; `None` before the first answer.
    interval: Option<f64>,
    last: Option<Instant>,
}

impl Comunica {
    pub(super) fn new(in_flight: u32) -> Self {
        Self { most: in_flight.max(1), limited: false, interval: None, last: None }
    }
}

impl Baseline for Comunica {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        let next = match (self.interval(), self.last) {
            (Some(interval), Some(last)) => last.after(interval),
            _ => Instant::ZERO,
        };
        gate(now, in_flight, self.most, next)
    }

    fn started(&mut self, now: Instant) {
        self.last = Some(now);
    }

    fn answered(&mut self, _now: Instant, answer: &Answered) {
        let failed = !answer.served();
        let weight = if failed { FAILURE } else { 1.0 };
        let duration = weight * answer.latency.min(LONGEST).as_secs_f64() * 1_000.0;
        self.interval = Some(match self.interval {
            None => round(duration * CORRECTION),
            Some(interval) => interval + round(CORRECTION * (duration - interval)),
        });
        self.limited |= failed && answer.status != Some(404);
    }

    fn interval(&self) -> Option<Duration> {
        self.interval.filter(|_| self.limited).map(|millis| super::seconds(millis / 1_000.0))
    }

    fn most_in_flight(&self) -> u32 {
        self.most
    }

    fn retries(&self) -> u32 {
        0
    }
}

/// To the nearest whole number, halves up, as JavaScript does.
fn round(number: f64) -> f64 {
    (number + 0.5).floor()
}

/// correctionMultiplier.
const CORRECTION: f64 = 0.1;

/// failureMultiplier.
const FAILURE: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    fn after(status: u16, millis: u64, comunica: &mut Comunica) -> Option<f64> {
        comunica.answered(Instant::ZERO, &answer(Instant::ZERO, status, Duration::from_millis(millis)));
        comunica.interval
    }

    #[test]
    fn the_interval_follows_durations_by_a_tenth() {
        let mut comunica = Comunica::new(8);
        // 0.1 × 200; + 0.1 × (400 − 20); + 0.1 × (10 × 50 − 58) = 44.2; − 0.1 × 102 = −10.2.
        assert_eq!(after(200, 200, &mut comunica), Some(20.0));
        assert_eq!(after(200, 400, &mut comunica), Some(58.0));
        assert_eq!(after(429, 50, &mut comunica), Some(102.0));
        assert_eq!(after(200, 0, &mut comunica), Some(92.0));
    }

    #[test]
    fn halves_round_up() {
        assert!((round(2.5) - 3.0).abs() < 1e-9 && (round(-2.5) + 2.0).abs() < 1e-9 && round(-0.4).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_spaced_before_a_failure_that_is_not_a_404() {
        let mut comunica = Comunica::new(2);
        comunica.started(Instant::ZERO);
        for status in [200, 404] {
            after(status, 1_000, &mut comunica);
            assert_eq!(comunica.may_start(Instant::ZERO, 1), Start::Now, "{status}");
        }
        assert_eq!(comunica.may_start(Instant::ZERO, 2), Start::AfterAnswer);
        // 0.1 × 1000 = 100; + 0.1 × (10 000 − 100) = 1090; + 0.1 × (10 000 − 1090) = 1981.
        after(503, 1_000, &mut comunica);
        assert_eq!(comunica.may_start(Instant::ZERO, 1), Start::At(Instant::from_millis(1_981)));
    }
}
