//! curl with several URLs, `--rate` and `--retry`.
//!
//! Source: curl 7.88 manual. `--rate`: a transfer does not start before so long after the last one started, in milliseconds,
//! and only when that one is done (curl is serial without `-Z`, and with it ignores the rate); above 1000/s there is no
//! limit. `--retry`: a 408, 429, 500, 502, 503 or 504 is tried again after one second, doubled each time up to ten minutes
//! (which five tries do not reach), by its own clock and not by the rate's; since 7.66 a Retry-After says when.
//!
//! Measured: `curl --rate 10/s --retry 5`, the answers written to files. Bucket of 10/s and 20, where that rate is the
//! answer: all 600 got, none refused, 60 s. Window of 60 a minute: 120 got of 600 in 120 s, 21 refusals (each pause doubles,
//! and a URL that is given up starts over at one second; with `--retry 10` there are 12). Told `--rate 1/s` there, it is
//! never refused. Five hosts: all 600, 42 refusals. (With `-o /dev/null` this version tries nothing again, since it cannot cut that file.)

use core::time::Duration;

use comity_core::time::Instant;

use super::{Answered, Baseline, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Curl {
    interval: Duration,
    next: Instant,
}

impl Curl {
    /// curl with this interval between starts, which it rounds to milliseconds: none below one.
    pub(super) fn new(interval: Duration) -> Self {
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        Self { interval: Duration::from_millis(millis), next: Instant::ZERO }
    }
}

impl Baseline for Curl {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, 1, self.next)
    }

    fn started(&mut self, now: Instant) {
        self.next = now.after(self.interval);
    }

    fn answered(&mut self, now: Instant, answer: &Answered) {
        let transient = matches!(answer.status, None | Some(408 | 429 | 500 | 502 | 503 | 504));
        if transient && answer.tried < RETRIES {
            let doubled = Duration::from_secs(1 << answer.tried);
            let advice = answer.retry_after.filter(|advice| !advice.is_zero());
            self.next = now.after(advice.unwrap_or(doubled));
        }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn most_in_flight(&self) -> u32 {
        1
    }

    fn retries(&self) -> u32 {
        RETRIES
    }
}

/// `--retry`, as it was measured. curl does not try again without it.
const RETRIES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    #[test]
    fn starts_are_an_interval_apart_and_serial() {
        let mut curl = Curl::new(Duration::from_micros(100_900));
        curl.started(Instant::ZERO);
        assert_eq!(curl.may_start(Instant::from_millis(20), 1), Start::AfterAnswer);
        assert_eq!(curl.may_start(Instant::from_millis(20), 0), Start::At(Instant::from_millis(100)));
        assert_eq!(Curl::new(Duration::from_micros(900)).interval(), Some(Duration::ZERO));
    }

    #[test]
    fn retries_double_from_a_second_five_times_and_obey_retry_after() {
        let mut curl = Curl::new(Duration::ZERO);
        let now = Instant::from_millis(20);
        for (tried, wait) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16)] {
            curl.answered(now, &Answered { tried, ..answer(Instant::ZERO, 503, Duration::from_millis(20)) });
            assert_eq!(curl.may_start(now, 0), Start::At(now.after(Duration::from_secs(wait))), "after {tried}");
        }
        let last = Answered { tried: 5, ..answer(Instant::ZERO, 503, Duration::from_millis(20)) };
        let mut given_up = Curl::new(Duration::ZERO);
        given_up.answered(now, &last);
        assert_eq!((given_up.retries(), given_up.may_start(now, 0)), (5, Start::Now));
        let retry_after = Some(Duration::from_secs(7));
        curl.answered(now, &Answered { retry_after, ..answer(Instant::ZERO, 429, Duration::from_millis(20)) });
        assert_eq!(curl.may_start(now, 0), Start::At(now.after(Duration::from_secs(7))));
    }

    #[test]
    fn what_is_not_transient_is_not_waited_for() {
        let mut curl = Curl::new(Duration::from_millis(100));
        for status in [200, 404, 501] {
            curl.started(Instant::ZERO);
            curl.answered(Instant::from_millis(20), &answer(Instant::ZERO, status, Duration::from_millis(20)));
            assert_eq!(curl.may_start(Instant::from_millis(100), 0), Start::Now, "{status}");
        }
    }
}
