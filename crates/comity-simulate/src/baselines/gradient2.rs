//! Netflix concurrency-limits, Gradient2.
//!
//! Source: `concurrency-limits-core/…/limit/Gradient2Limit.java` and `measurement/ExpAvgMeasurement.java`, as
//! `Gradient2Limit.newDefault()` builds it: at each answer
//!
//! - the long-term latency is the mean of the first 10, then an exponential mean over 600; more than twice the last one, it
//!   shrinks by a tenth;
//! - gradient = long ÷ last, between 0.5 and 1; the new limit is gradient × limit + 4, of which a fifth is taken, between
//!   20 and 200; it starts at 20;
//! - it stays where fewer than half of it were in flight when the request started.
//!
//! It limits what is in flight, starts at no rate and tries nothing again. A drop counts as its latency and no more: so a
//! fast 429 is the best news it can get.

use super::Answered;
use super::flights::Limit;

/// See the module.
#[derive(Debug)]
pub(super) struct Gradient2 {
    limit: f64,
    long: LongTerm,
}

impl Gradient2 {
    pub(super) fn new() -> Self {
        Self { limit: LEAST, long: LongTerm::default() }
    }
}

impl Limit for Gradient2 {
    fn most(&self) -> u32 {
        self.limit as u32
    }

    fn learns(&mut self, in_flight: u32, answer: &Answered) {
        let last = answer.latency.as_secs_f64().max(1e-9);
        let long = self.long.add(last);
        if long / last > 2.0 {
            self.long.mean *= 0.9;
        }
        if f64::from(in_flight) < self.limit / 2.0 {
            return;
        }
        let gradient = (long / last).clamp(0.5, 1.0);
        let next = self.limit * gradient + QUEUE;
        self.limit = (self.limit * (1.0 - SMOOTHING) + next * SMOOTHING).clamp(LEAST, MOST);
    }
}

/// The mean of the first samples, then an exponential one.
#[derive(Debug, Default)]
struct LongTerm {
    mean: f64,
    sum: f64,
    samples: u32,
}

impl LongTerm {
    fn add(&mut self, sample: f64) -> f64 {
        if self.samples < WARM_UP {
            self.samples += 1;
            self.sum += sample;
            self.mean = self.sum / f64::from(self.samples);
        } else {
            let weight = 2.0 / (WINDOW + 1.0);
            self.mean = self.mean * (1.0 - weight) + sample * weight;
        }
        self.mean
    }
}

/// The least limit, and the first.
const LEAST: f64 = 20.0;

const MOST: f64 = 200.0;

/// What it adds at each step while latency is low.
const QUEUE: f64 = 4.0;

const SMOOTHING: f64 = 0.2;

const WARM_UP: u32 = 10;

const WINDOW: f64 = 600.0;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use comity_core::time::Instant;

    use super::*;
    use crate::baselines::tests::answer;

    /// An answer of a request that started with so many in flight.
    fn step(gradient: &mut Gradient2, in_flight: u32, millis: u64) -> f64 {
        gradient.learns(in_flight, &answer(Instant::ZERO, 200, Duration::from_millis(millis)));
        gradient.limit
    }

    #[test]
    fn while_latency_is_steady_it_grows_by_a_fifth_of_the_queue() {
        let mut gradient = Gradient2::new();
        // 20 × 0.8 + (20 × 1 + 4) × 0.2.
        assert!((step(&mut gradient, 20, 100) - 20.8).abs() < 1e-9);
        assert!((step(&mut gradient, 20, 100) - 21.6).abs() < 1e-9);
        assert_eq!(gradient.most(), 21);
    }

    #[test]
    fn a_latency_far_above_the_long_term_one_halves_at_most() {
        let mut gradient = Gradient2::new();
        gradient.limit = 100.0;
        gradient.long = LongTerm { mean: 0.1, sum: 1.0, samples: 10 };
        // long = 0.1 × 599/601 + 1 × 2/601 = 0.102 995; ÷ 1 s is below a half:
        // 100 × 0.8 + (100 × 0.5 + 4) × 0.2 = 90.8.
        assert!((step(&mut gradient, 60, 1_000) - 90.8).abs() < 1e-9);
        // And one between: long = 0.102 995 × 599/601 + 0.15 × 2/601 = 0.103 151; gradient 0.687 676;
        // 90.8 × 0.8 + (90.8 × 0.687 676 + 4) × 0.2 = 85.928 2.
        let limit = step(&mut gradient, 60, 150);
        assert!((limit - 85.928_2).abs() < 1e-3, "{limit}");
    }

    #[test]
    fn a_limit_that_is_not_used_does_not_grow() {
        let mut gradient = Gradient2::new();
        assert!((step(&mut gradient, 9, 100) - 20.0).abs() < 1e-9);
        assert!((step(&mut gradient, 10, 100) - 20.8).abs() < 1e-9);
    }

    #[test]
    fn a_long_term_latency_twice_the_last_one_shrinks() {
        let mut gradient = Gradient2::new();
        gradient.long = LongTerm { mean: 1.0, sum: 10.0, samples: 10 };
        step(&mut gradient, 20, 100);
        // (1 × 599/601 + 0.1 × 2/601) × 0.9.
        assert!((gradient.long.mean - 0.9 * (599.2 / 601.0)).abs() < 1e-9);
    }

    #[test]
    fn it_stays_between_20_and_200() {
        let mut gradient = Gradient2::new();
        for _ in 0..1_000 {
            step(&mut gradient, 200, 100);
        }
        assert_eq!(gradient.most(), 200);
        for _ in 0..200 {
            step(&mut gradient, 200, 100_000);
        }
        assert!(gradient.most() >= 20);
    }
}
