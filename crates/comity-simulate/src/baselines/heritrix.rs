//! Heritrix.
//!
//! Source: Heritrix 3 `engine/…/postprocessor/DispositionProcessor.java` (defaults and formula) and the wiki's page
//! "Politeness parameters": one request at a time to a server, and after each a wait of delayFactor (5) times what that
//! fetch took, between minDelayMs (3 s) and maxDelayMs (30 s). Whatever status comes is a fetch that succeeded
//! (`engine/…/frontier/AbstractFrontier.java` tries again only what got no answer, after retryDelaySeconds, 900, up to
//! maxRetries, 30): a refusal costs its URL and is heard by nobody, and there is no word of Retry-After.

use core::time::Duration;

use comity_core::time::Instant;

use super::{Answered, Baseline, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Heritrix {
    delay: Duration,
    next: Instant,
}

impl Heritrix {
    pub(super) fn new() -> Self {
        Self { delay: LEAST, next: Instant::ZERO }
    }
}

impl Baseline for Heritrix {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, 1, self.next)
    }

    fn started(&mut self, _now: Instant) {}

    fn answered(&mut self, now: Instant, answer: &Answered) {
        let wait = if answer.status.is_some() {
            self.delay = answer.latency.saturating_mul(FACTOR).clamp(LEAST, MOST);
            self.delay
        } else {
            RETRY_DELAY
        };
        self.next = now.after(wait);
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.delay)
    }

    fn most_in_flight(&self) -> u32 {
        1
    }

    fn retries(&self) -> u32 {
        0
    }
}

/// delayFactor.
const FACTOR: u32 = 5;

/// minDelayMs.
const LEAST: Duration = Duration::from_secs(3);

/// maxDelayMs.
const MOST: Duration = Duration::from_secs(30);

/// retryDelaySeconds.
const RETRY_DELAY: Duration = Duration::from_secs(900);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    #[test]
    fn it_waits_five_times_the_last_fetch_between_3_and_30_seconds() {
        let mut heritrix = Heritrix::new();
        let now = Instant::from_millis(100_000);
        for (latency, wait) in [(20, 3_000), (600, 3_000), (800, 4_000), (5_900, 29_500), (9_000, 30_000)] {
            heritrix.answered(now, &answer(Instant::ZERO, 200, Duration::from_millis(latency)));
            let until = now.after(Duration::from_millis(wait));
            assert_eq!(heritrix.may_start(now, 0), Start::At(until), "{latency} ms");
            assert_eq!(heritrix.may_start(until, 0), Start::Now);
            assert_eq!(heritrix.may_start(until, 1), Start::AfterAnswer);
        }
    }

    #[test]
    fn a_refusal_is_an_answer_like_any_other() {
        let mut heritrix = Heritrix::new();
        let retry_after = Some(Duration::from_secs(60));
        let refusal = Answered { retry_after, ..answer(Instant::ZERO, 503, Duration::from_secs(2)) };
        heritrix.answered(Instant::from_millis(2_000), &refusal);
        assert_eq!(heritrix.may_start(Instant::from_millis(12_000), 0), Start::Now);
        assert_eq!(heritrix.retries(), 0);
    }

    #[test]
    fn no_answer_snoozes_the_queue() {
        let mut heritrix = Heritrix::new();
        let silence = Answered { status: None, ..answer(Instant::ZERO, 0, Duration::from_secs(2)) };
        heritrix.answered(Instant::ZERO, &silence);
        assert_eq!(heritrix.may_start(Instant::ZERO, 0), Start::At(Instant::from_millis(900_000)));
    }
}
