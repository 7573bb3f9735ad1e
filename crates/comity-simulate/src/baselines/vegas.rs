//! Netflix concurrency-limits, Vegas: the library's default limit.
//!
//! Source: `concurrency-limits-core/…/limit/VegasLimit.java` and `functions/Log10RootFunction.java`, as
//! `VegasLimit.newDefault()` builds it. With l the limit, from 20 on, and lg its decimal logarithm cut to a whole number of at
//! least 1 (√l from 1000 on), at each answer:
//!
//! - the least latency seen is that of no load. After 30 l answers, times a number drawn from a half to 1, it is forgotten
//!   and the latency that has just come taken for it;
//! - queue = l × (1 − no load ÷ latency), rounded up. Dropped: l − lg. Fewer than half of l in flight at the request's start:
//!   as it is. Queue up to lg: l + 6 lg. Below 3 lg: l + lg. Above 6 lg: l − lg. Between 1 and 1000.
//!
//! It limits what is in flight, starts at no rate and tries nothing again. A refusal and no answer at all are drops.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Answered;
use super::flights::Limit;

/// See the module.
#[derive(Debug)]
pub(super) struct Vegas {
    limit: f64,
    /// Seconds; `None` before the first answer.
    no_load: Option<f64>,
    answers: f64,
    probe_after: f64,
    jitter: Pcg64Mcg,
}

impl Vegas {
    pub(super) fn new(seed: u64) -> Self {
        let mut jitter = Pcg64Mcg::seed_from_u64(seed);
        let probe_after = PROBE * jitter.random_range(0.5..1.0);
        Self { limit: 20.0, no_load: None, answers: 0.0, probe_after, jitter }
    }

    fn next(&self, in_flight: u32, latency: f64, no_load: f64, dropped: bool) -> f64 {
        let queue = (self.limit * (1.0 - no_load / latency)).ceil();
        let lg = lg(self.limit);
        if dropped {
            self.limit - lg
        } else if f64::from(in_flight) * 2.0 < self.limit {
            self.limit
        } else if queue <= lg {
            self.limit + 6.0 * lg
        } else if queue < 3.0 * lg {
            self.limit + lg
        } else if queue > 6.0 * lg {
            self.limit - lg
        } else {
            self.limit
        }
    }
}

impl Limit for Vegas {
    fn most(&self) -> u32 {
        self.limit as u32
    }

    fn learns(&mut self, in_flight: u32, answer: &Answered) {
        let latency = answer.latency.as_secs_f64().max(1e-9);
        self.answers += 1.0;
        if self.probe_after * self.limit <= self.answers {
            self.answers = 0.0;
            self.probe_after = PROBE * self.jitter.random_range(0.5..1.0);
            self.no_load = Some(latency);
            return;
        }
        match self.no_load {
            Some(no_load) if no_load <= latency => {
                let dropped = answer.refused() || answer.status.is_none();
                self.limit = self.next(in_flight, latency, no_load, dropped).clamp(1.0, MOST);
            }
            _ => self.no_load = Some(latency),
        }
    }
}

/// The decimal logarithm of a limit, cut to a whole number, of at least 1; the root of one that the table has not.
fn lg(limit: f64) -> f64 {
    if limit < 1_000.0 { limit.log10().trunc().max(1.0) } else { limit.sqrt().trunc() }
}

/// maxConcurrency.
const MOST: f64 = 1_000.0;

/// probeMultiplier.
const PROBE: f64 = 30.0;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use comity_core::time::Instant;

    use super::*;
    use crate::baselines::tests::answer;

    /// Vegas at a limit, with no load at 100 ms, after an answer of a request that was one of so many in flight.
    fn step(limit: f64, in_flight: u32, status: u16, millis: u64) -> f64 {
        let mut vegas = Vegas::new(1);
        (vegas.limit, vegas.no_load) = (limit, Some(0.1));
        vegas.learns(in_flight, &answer(Instant::ZERO, status, Duration::from_millis(millis)));
        vegas.limit
    }

    #[test]
    fn the_limit_follows_the_queue() {
        // lg 1: queue ⌈20 × (1 − 100/104)⌉ = 1, 2, 5, 7 and 6.
        assert!((step(20.0, 20, 200, 104) - 26.0).abs() < 1e-9);
        assert!((step(20.0, 20, 200, 110) - 21.0).abs() < 1e-9);
        assert!((step(20.0, 20, 200, 130) - 20.0).abs() < 1e-9);
        assert!((step(20.0, 20, 200, 150) - 19.0).abs() < 1e-9);
        assert!((step(20.0, 20, 200, 142) - 20.0).abs() < 1e-9);
        // lg 2: queue ⌈200 × (1 − 100/101)⌉ = 2.
        assert!((step(200.0, 200, 200, 101) - 212.0).abs() < 1e-9);
    }

    #[test]
    fn a_drop_lowers_it_and_a_limit_that_is_not_used_stays() {
        assert!((step(20.0, 20, 429, 101) - 19.0).abs() < 1e-9);
        assert!((step(200.0, 1, 503, 101) - 198.0).abs() < 1e-9);
        assert!((step(20.0, 9, 200, 101) - 20.0).abs() < 1e-9);
        assert!((step(1.0, 1, 429, 101) - 1.0).abs() < 1e-9);
        assert!((step(1_000.0, 900, 200, 100) - 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn the_least_latency_is_forgotten_after_15_to_30_times_the_limit() {
        let mut vegas = Vegas::new(5);
        let mut answers = 0;
        vegas.no_load = Some(0.001);
        while vegas.no_load == Some(0.001) {
            vegas.learns(1, &answer(Instant::ZERO, 200, Duration::from_millis(1)));
            vegas.learns(1, &answer(Instant::ZERO, 200, Duration::from_millis(2)));
            answers += 2;
            assert!(answers <= 602, "never forgotten");
        }
        assert!(answers >= 299, "forgotten after {answers}");
    }

    #[test]
    fn the_logarithm_is_cut_and_at_least_one() {
        for (limit, expected) in [(0.5, 1.0), (1.0, 1.0), (99.0, 1.0), (100.0, 2.0), (999.0, 2.0), (1_000.0, 31.0)] {
            assert!((lg(limit) - expected).abs() < 1e-9, "{limit}");
        }
    }
}
