//! Crawlee for Python with its per-domain throttling.
//!
//! Source: crawlee 1.11 `request_loaders/_throttling_request_manager.py` (the rule and its defaults),
//! `_autoscaling/autoscaled_pool.py` and `_types.py` (concurrency), `crawlers/_basic/_basic_crawler.py` (a throttled
//! request is given back without counting a retry).
//!
//! - A 429 pauses the domain: for its Retry-After where that is more than nothing, else for 2 s, doubled at each next one;
//!   a minute at most. Those that come during a pause are of the same burst and change nothing. The doubling starts over
//!   when the domain, once free again, has been quiet for as long as the pause was.
//! - Requests in flight: 10 at first, every ten seconds a twentieth more where nine tenths are used, up to the number a
//!   person gives (100 by default). The machine's own load, which would lower it, is not modelled.
//! - A 503 is an error like any other and tried again three times; only a 429 pauses.
//!
//! Only domains that a person lists are throttled. Without that Crawlee changes its session and asks again at once, ten
//! times: 60 URLs got and 5400 refusals in 14 s on a window of 60 a minute.
//!
//! Measured: `HttpCrawler` with a `ThrottlingRequestManager` for the host, on a window of 60 a minute, 120 s. With one in
//! flight (`ConcurrencySettings(max_concurrency=1, desired_concurrency=1)`): 120 got, 6 refusals, one for each pause of 2,
//! 4, 8, 16, 32 and 2 s. With the default concurrency: 120 got and 60 refusals, ten at each of the same six.

use core::time::Duration;

use comity_core::time::Instant;

use super::{ALWAYS, Again, Answered, Baseline, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Crawlee {
    desired: u32,
    most: u32,
    in_flight: u32,
    scaled: Instant,
    paused: Instant,
    /// From here on a 429 is the first of a new series.
    forgotten: Instant,
    series: u32,
    throttled: bool,
}

impl Crawlee {
    pub(super) fn new(in_flight: u32) -> Self {
        let most = in_flight.max(1);
        Self {
            desired: FIRST.min(most),
            most,
            in_flight: 0,
            scaled: Instant::ZERO,
            paused: Instant::ZERO,
            forgotten: Instant::ZERO,
            series: 0,
            throttled: false,
        }
    }

    /// What the pool does every ten seconds.
    fn scale(&mut self, now: Instant) {
        if now.since(self.scaled) < SCALE_EVERY {
            return;
        }
        self.scaled = now;
        if self.in_flight >= self.desired.saturating_mul(9) / 10 {
            self.desired = self.desired.saturating_add(self.desired.div_ceil(20)).min(self.most);
        }
    }
}

impl Baseline for Crawlee {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        self.in_flight = in_flight;
        self.scale(now);
        gate(now, in_flight, self.desired, self.paused)
    }

    fn started(&mut self, _now: Instant) {}

    fn answered(&mut self, now: Instant, answer: &Answered) {
        self.throttled = answer.status == Some(429);
        if !self.throttled || now < self.paused {
            return;
        }
        self.series = if now >= self.forgotten { 1 } else { self.series.saturating_add(1) };
        let doubled = FIRST_PAUSE.saturating_mul(1 << (self.series - 1).min(20));
        let advice = answer.retry_after.filter(|advice| !advice.is_zero());
        let pause = advice.unwrap_or(doubled).min(LONGEST_PAUSE);
        self.paused = now.after(pause);
        self.forgotten = self.paused.after(pause);
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn most_in_flight(&self) -> u32 {
        self.desired
    }

    fn retries(&self) -> u32 {
        if self.throttled { ALWAYS } else { RETRIES }
    }

    fn again(&self) -> Again {
        Again::Last
    }
}

/// desired_concurrency.
const FIRST: u32 = 10;

const SCALE_EVERY: Duration = Duration::from_secs(10);

/// base_delay.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// max_delay.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// max_request_retries.
const RETRIES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    fn refused(crawlee: &mut Crawlee, second: u64) -> Start {
        let now = Instant::from_millis(second * 1_000);
        crawlee.answered(now, &answer(now, 429, Duration::from_millis(20)));
        crawlee.may_start(now, 0)
    }

    fn at(second: u64) -> Start {
        Start::At(Instant::from_millis(second * 1_000))
    }

    #[test]
    fn pauses_double_from_2_seconds_to_a_minute() {
        let mut crawlee = Crawlee::new(10);
        let mut now = 100;
        for pause in [2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(refused(&mut crawlee, now), at(now + pause));
            now += pause;
        }
    }

    #[test]
    fn refusals_of_one_burst_are_one() {
        let mut crawlee = Crawlee::new(10);
        assert_eq!(refused(&mut crawlee, 10), at(12));
        assert_eq!(refused(&mut crawlee, 11), at(12));
        assert_eq!(refused(&mut crawlee, 12), at(16));
    }

    #[test]
    fn a_quiet_domain_is_forgiven() {
        let mut crawlee = Crawlee::new(10);
        refused(&mut crawlee, 10);
        // Free at 12; the next series begins at 14.
        assert_eq!(refused(&mut crawlee, 13), at(17));
        assert_eq!(refused(&mut crawlee, 21), at(23));
    }

    #[test]
    fn retry_after_is_obeyed_up_to_a_minute() {
        for (advice, until) in [(7, 7), (0, 2), (3_600, 60)] {
            let mut crawlee = Crawlee::new(10);
            let retry_after = Some(Duration::from_secs(advice));
            crawlee.answered(
                Instant::ZERO,
                &Answered { retry_after, ..answer(Instant::ZERO, 429, Duration::from_millis(20)) },
            );
            assert_eq!(crawlee.may_start(Instant::ZERO, 0), at(until), "{advice}");
        }
    }

    #[test]
    fn concurrency_grows_by_a_twentieth_every_ten_seconds_where_it_is_used() {
        let mut crawlee = Crawlee::new(12);
        assert_eq!(crawlee.may_start(Instant::ZERO, 10), Start::AfterAnswer);
        for (second, in_flight, desired) in [(10, 9, 11), (15, 11, 11), (20, 8, 11), (30, 9, 12), (40, 12, 12)] {
            crawlee.may_start(Instant::from_millis(second * 1_000), in_flight);
            assert_eq!(crawlee.most_in_flight(), desired, "at {second}");
        }
        assert_eq!(Crawlee::new(1).most_in_flight(), 1);
    }

    #[test]
    fn only_a_429_is_tried_for_ever() {
        let mut crawlee = Crawlee::new(1);
        crawlee.answered(Instant::ZERO, &answer(Instant::ZERO, 503, Duration::from_millis(20)));
        assert_eq!((crawlee.retries(), crawlee.may_start(Instant::ZERO, 0)), (3, Start::Now));
        crawlee.answered(Instant::ZERO, &answer(Instant::ZERO, 429, Duration::from_millis(20)));
        assert_eq!(crawlee.retries(), ALWAYS);
    }
}
