//! Scrapy with its AutoThrottle extension.
//!
//! Source: Scrapy 2.19 documentation, "AutoThrottle extension" (the algorithm), "Settings" (defaults) and "RetryMiddleware";
//! where the documentation is silent `scrapy/extensions/throttle.py`, `core/downloader/__init__.py` and
//! `settings/default_settings.py` of that release.
//!
//! - The delay starts at AUTOTHROTTLE_START_DELAY (5 s) and becomes, at each answer, the mean of itself and the target,
//!   which is latency ÷ AUTOTHROTTLE_TARGET_CONCURRENCY (1.0); a target above the delay is taken at once. It stays between
//!   DOWNLOAD_DELAY (0) and AUTOTHROTTLE_MAX_DELAY (60 s). An answer other than 200 cannot lower it.
//! - Each wait is the delay drawn anew between a half and one and a half of it (DOWNLOAD_DELAY_JITTER 0.5), counted from
//!   the last start. When the wait is over another is drawn, and the start waits on where that one is longer.
//! - CONCURRENT_REQUESTS_PER_DOMAIN is 8.
//! - 429, 503 and their like are tried again twice (RETRY_TIMES), after the others (RETRY_PRIORITY_ADJUST is −1), and
//!   without another wait. Retry-After is not read.
//!
//! Measured: these defaults with AUTOTHROTTLE_ENABLED. On a bucket of 10/s and 20, 600 URLs: 385 to 438 got with 774 to
//! 927 refusals in two runs on different machines. AutoThrottle follows the latency that Scrapy itself sees, 23 to 33 ms
//! there where the server took 20, and every millisecond of it changes how many of three tries the bucket refuses.
//! Five hosts: 432 of 600, 582 refusals.

use core::time::Duration;

use comity_core::time::Instant;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Again, Answered, Baseline, Start, seconds};

/// See the module.
#[derive(Debug)]
pub(super) struct Scrapy {
    /// Seconds.
    delay: f64,
    last: Option<Instant>,
    /// When the drawn wait ends.
    until: Instant,
    jitter: Pcg64Mcg,
}

impl Scrapy {
    pub(super) fn new(seed: u64) -> Self {
        Self { delay: START, last: None, until: Instant::ZERO, jitter: Pcg64Mcg::seed_from_u64(seed) }
    }
}

impl Baseline for Scrapy {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        let Some(last) = self.last else { return Start::Now };
        if in_flight >= MOST {
            return Start::AfterAnswer;
        }
        if now >= self.until {
            let wait = self.delay * self.jitter.random_range(1.0 - JITTER..1.0 + JITTER);
            self.until = last.after(seconds(wait));
        }
        if now < self.until { Start::At(self.until) } else { Start::Now }
    }

    fn started(&mut self, now: Instant) {
        self.last = Some(now);
    }

    fn answered(&mut self, _now: Instant, answer: &Answered) {
        if answer.status.is_none() {
            return;
        }
        let target = answer.latency.as_secs_f64() / TARGET_CONCURRENCY;
        let next = f64::midpoint(self.delay, target).max(target).min(LONGEST);
        if answer.status == Some(200) || next > self.delay {
            self.delay = next;
        }
    }

    fn interval(&self) -> Option<Duration> {
        Some(seconds(self.delay))
    }

    fn most_in_flight(&self) -> u32 {
        MOST
    }

    fn retries(&self) -> u32 {
        2
    }

    fn again(&self) -> Again {
        Again::Last
    }
}

/// AUTOTHROTTLE_START_DELAY, in seconds.
const START: f64 = 5.0;

/// AUTOTHROTTLE_TARGET_CONCURRENCY.
const TARGET_CONCURRENCY: f64 = 1.0;

/// AUTOTHROTTLE_MAX_DELAY, in seconds.
const LONGEST: f64 = 60.0;

/// DOWNLOAD_DELAY_JITTER: the share of the delay by which a wait differs from it at most.
const JITTER: f64 = 0.5;

/// CONCURRENT_REQUESTS_PER_DOMAIN.
const MOST: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    fn after(status: u16, latency: Duration, scrapy: &mut Scrapy) -> f64 {
        scrapy.answered(Instant::from_millis(400), &answer(Instant::ZERO, status, latency));
        scrapy.delay
    }

    #[test]
    fn the_delay_is_the_mean_of_itself_and_the_target() {
        let mut scrapy = Scrapy::new(1);
        // (5 + 0.4) ÷ 2, then (2.7 + 0.4) ÷ 2.
        assert!((after(200, Duration::from_millis(400), &mut scrapy) - 2.7).abs() < 1e-9);
        assert!((after(200, Duration::from_millis(400), &mut scrapy) - 1.55).abs() < 1e-9);
    }

    #[test]
    fn a_target_above_the_delay_is_taken_at_once_and_never_more_than_a_minute() {
        let mut scrapy = Scrapy::new(1);
        assert!((after(200, Duration::from_secs(9), &mut scrapy) - 9.0).abs() < 1e-9);
        assert!((after(200, Duration::from_secs(900), &mut scrapy) - 60.0).abs() < 1e-9);
        assert!((after(503, Duration::MAX, &mut scrapy) - 60.0).abs() < 1e-9);
    }

    #[test]
    fn a_refusal_can_raise_the_delay_but_not_lower_it() {
        let mut scrapy = Scrapy::new(1);
        assert!((after(429, Duration::from_millis(5), &mut scrapy) - 5.0).abs() < 1e-9);
        assert!((after(429, Duration::from_secs(7), &mut scrapy) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_wait_is_between_a_half_and_one_and_a_half_of_the_delay_and_differs() {
        let mut waits = Vec::new();
        for seed in 0..50 {
            let mut scrapy = Scrapy::new(seed);
            assert_eq!(scrapy.may_start(Instant::ZERO, 0), Start::Now);
            scrapy.started(Instant::ZERO);
            let mut now = Instant::ZERO;
            while let Start::At(at) = scrapy.may_start(now, 1) {
                now = at;
            }
            assert!((2_500_000_000..7_500_000_000).contains(&now.as_nanos()), "{now:?}");
            waits.push(now.as_nanos());
        }
        waits.sort_unstable();
        assert!(waits[49] - waits[0] > 1_000_000_000, "waits hardly differ: {waits:?}");
    }

    #[test]
    fn eight_are_in_flight_at_most() {
        let mut scrapy = Scrapy::new(1);
        scrapy.started(Instant::ZERO);
        assert_eq!(scrapy.may_start(Instant::from_millis(60_000), 8), Start::AfterAnswer);
        assert_eq!(scrapy.may_start(Instant::from_millis(60_000), 7), Start::Now);
    }
}
