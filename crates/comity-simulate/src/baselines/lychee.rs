//! lychee, the link checker.
//!
//! Source: lychee 0.24 `--help` (the defaults) and lychee-lib `src/ratelimit/host/host.rs`, `src/checker/website.rs`.
//!
//! - Each host has 10 places (`--host-concurrency`) and a start each 50 ms (`--host-request-interval`).
//! - Each host has a back-off: 0.5 s from a 429, doubled by each further one up to 30 s; 0.2 s more from a 5xx, up to 10 s;
//!   at least a Retry-After, of a minute at most; none from a success. Who gets a place waits what it is at that moment, in
//!   its place.
//! - A request that was refused gives its place back, rests for a second (`--retry-wait-time`), doubled at each try, and
//!   queues again; three times (`--max-retries`).
//!
//! 128 in all (`--max-concurrency`) are on their way over all hosts, resting ones included; that is not modelled.
//!
//! Measured: the defaults. Bucket of 10/s and 20: 571 to 576 of 600 URLs got, 506 or 507 refusals, 57 s. Bucket of 1/s and
//! 5: 124 in 120 s, 402 to 419 refusals. 4 workers of 200 ms: 99 % of what they serve.
//! Five hosts: 564 of 600, 312 refusals.

use core::time::Duration;

use comity_core::time::Instant;

use super::{Again, Answered, Baseline, Start};

/// See the module.
#[derive(Debug)]
pub(super) struct Lychee {
    /// When each free place may be used.
    places: Vec<Instant>,
    next: Instant,
    back_off: Duration,
    rest: Duration,
}

impl Lychee {
    pub(super) fn new() -> Self {
        Self {
            places: vec![Instant::ZERO; PLACES],
            next: Instant::ZERO,
            back_off: Duration::ZERO,
            rest: Duration::ZERO,
        }
    }
}

impl Baseline for Lychee {
    fn may_start(&mut self, now: Instant, _in_flight: u32) -> Start {
        match self.places.iter().min() {
            None => Start::AfterAnswer,
            Some(place) if now < self.next.max(*place) => Start::At(self.next.max(*place)),
            Some(_) => Start::Now,
        }
    }

    fn started(&mut self, now: Instant) {
        self.next = now.after(INTERVAL);
        if let Some(first) = (0..self.places.len()).min_by_key(|place| self.places[*place]) {
            self.places.swap_remove(first);
        }
    }

    fn answered(&mut self, now: Instant, answer: &Answered) {
        self.back_off = match answer.status {
            Some(200..=299) => Duration::ZERO,
            Some(429) if self.back_off.is_zero() => FIRST_BACK_OFF,
            Some(429) => self.back_off.saturating_mul(2).min(LONGEST_BACK_OFF),
            Some(500..=599) => (self.back_off + SERVER_ERROR).min(LONGEST_AFTER_ERRORS),
            _ => self.back_off,
        };
        if let Some(advice) = answer.retry_after {
            self.back_off = self.back_off.max(advice.min(LONGEST_ADVICE));
        }
        self.rest = RETRY_WAIT * (1 << answer.tried.min(RETRIES));
        if self.places.len() < PLACES {
            self.places.push(now.after(self.back_off));
        }
    }

    fn interval(&self) -> Option<Duration> {
        Some(INTERVAL)
    }

    fn most_in_flight(&self) -> u32 {
        PLACES as u32
    }

    fn retries(&self) -> u32 {
        RETRIES
    }

    fn again(&self) -> Again {
        Again::Rested(self.rest)
    }
}

/// `--host-concurrency`.
const PLACES: usize = 10;

/// `--host-request-interval`.
const INTERVAL: Duration = Duration::from_millis(50);

/// `--max-retries`.
const RETRIES: u32 = 3;

/// `--retry-wait-time`.
const RETRY_WAIT: Duration = Duration::from_secs(1);

const FIRST_BACK_OFF: Duration = Duration::from_millis(500);

const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);

/// What a 5xx adds.
const SERVER_ERROR: Duration = Duration::from_millis(200);

const LONGEST_AFTER_ERRORS: Duration = Duration::from_secs(10);

const LONGEST_ADVICE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    fn back_off(lychee: &mut Lychee, status: u16) -> u128 {
        lychee.answered(Instant::ZERO, &answer(Instant::ZERO, status, Duration::from_millis(20)));
        lychee.back_off.as_millis()
    }

    #[test]
    fn the_back_off_doubles_grows_and_ends() {
        let mut lychee = Lychee::new();
        let doubled: Vec<_> = (0..8).map(|_| back_off(&mut lychee, 429)).collect();
        assert_eq!(doubled, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(back_off(&mut lychee, 404), 30_000);
        assert_eq!(back_off(&mut lychee, 200), 0);
        assert_eq!((back_off(&mut lychee, 503), back_off(&mut lychee, 500)), (200, 400));
        let retry_after = Some(Duration::from_secs(3_600));
        lychee.answered(
            Instant::ZERO,
            &Answered { retry_after, ..answer(Instant::ZERO, 429, Duration::from_millis(20)) },
        );
        assert_eq!(lychee.back_off, Duration::from_secs(60));
    }

    #[test]
    fn ten_places_and_a_start_each_50_milliseconds() {
        let mut lychee = Lychee::new();
        let mut now = Instant::ZERO;
        for start in 0..10 {
            assert_eq!(lychee.may_start(now, start), Start::Now);
            lychee.started(now);
            if start < 9 {
                now = now.after(Duration::from_millis(50));
                assert_eq!(lychee.may_start(now.before(Duration::from_nanos(1)), start + 1), Start::At(now));
            }
        }
        assert_eq!(lychee.may_start(now.after(Duration::from_secs(9)), 10), Start::AfterAnswer);
    }

    #[test]
    fn a_place_that_was_refused_waits_the_back_off_and_the_others_do_not() {
        let mut lychee = Lychee::new();
        for start in 0..10 {
            lychee.started(Instant::from_millis(start * 50));
        }
        let now = Instant::from_millis(1_000);
        lychee.answered(now, &answer(Instant::ZERO, 429, Duration::from_millis(20)));
        assert_eq!(lychee.may_start(now, 9), Start::At(Instant::from_millis(1_500)));
        lychee.answered(now, &answer(Instant::ZERO, 200, Duration::from_millis(20)));
        assert_eq!(lychee.may_start(now, 8), Start::Now);
    }

    #[test]
    fn a_refused_request_rests_1_2_and_4_seconds() {
        let mut lychee = Lychee::new();
        for (tried, rest) in [(0, 1), (1, 2), (2, 4)] {
            lychee
                .answered(Instant::ZERO, &Answered { tried, ..answer(Instant::ZERO, 429, Duration::from_millis(20)) });
            assert_eq!(lychee.again(), Again::Rested(Duration::from_secs(rest)));
        }
    }
}
