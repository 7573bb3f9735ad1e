//! GNU Wget with a list of URLs, told to try refused ones again.
//!
//! Source: GNU Wget 1.21 manual, `--tries` (20 by default), `--retry-on-http-error` (429 and 503 are fatal without it) and
//! `--waitretry` (10 s by default): after the first failure of a file Wget waits a second, after the second two, and so on
//! up to that. It is serial, and knows neither Retry-After nor a rate; `--wait` is 0 by default.
//!
//! Measured: `wget -i list --retry-on-http-error=429,503`, the rest by default. Bucket of 10/s and 20: all 600 URLs got,
//! 45 refusals, 58.5 s. Bucket of 1/s and 5: 124 in 120 s, 115 refusals. Bucket of 100/s and 50: all 600, none refused, at
//! 43/s, since the next request starts when the last is answered. 4 workers of 200 ms: a quarter of what they serve.
//! Five hosts: all 600, 78 refusals, in about 118 s, since it is serial over all of them.

use core::time::Duration;

use comity_core::time::Instant;

use super::{Answered, Baseline, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Wget {
    next: Instant,
}

impl Wget {
    pub(super) fn new() -> Self {
        Self { next: Instant::ZERO }
    }
}

impl Baseline for Wget {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, 1, self.next)
    }

    fn started(&mut self, _now: Instant) {}

    fn answered(&mut self, now: Instant, answer: &Answered) {
        let failed = answer.refused() || answer.status.is_none();
        let wait =
            if failed && answer.tried < self.retries() { answer.tried.saturating_add(1).min(WAIT_RETRY) } else { 0 };
        self.next = now.after(Duration::from_secs(u64::from(wait)));
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn most_in_flight(&self) -> u32 {
        1
    }

    fn retries(&self) -> u32 {
        TRIES - 1
    }
}

/// `--tries`.
const TRIES: u32 = 20;

/// `--waitretry`, in seconds.
const WAIT_RETRY: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    #[test]
    fn waits_grow_by_a_second_with_each_failure_of_a_file_up_to_ten() {
        let mut wget = Wget::new();
        let now = Instant::from_millis(20);
        for (tried, wait) in [(0, 1), (1, 2), (8, 9), (9, 10), (15, 10)] {
            wget.answered(now, &Answered { tried, ..answer(Instant::ZERO, 429, Duration::from_millis(20)) });
            assert_eq!(wget.may_start(now, 0), Start::At(now.after(Duration::from_secs(wait))), "after {tried}");
        }
        assert_eq!(wget.retries(), 19);
    }

    #[test]
    fn it_is_serial_and_goes_on_at_once_after_a_file_or_one_given_up() {
        let mut wget = Wget::new();
        let now = Instant::from_millis(20);
        assert_eq!(wget.may_start(now, 1), Start::AfterAnswer);
        wget.answered(now, &answer(Instant::ZERO, 200, Duration::from_millis(20)));
        assert_eq!(wget.may_start(now, 0), Start::Now);
        wget.answered(now, &Answered { tried: 19, ..answer(Instant::ZERO, 429, Duration::from_millis(20)) });
        assert_eq!(wget.may_start(now, 0), Start::Now);
    }
}
