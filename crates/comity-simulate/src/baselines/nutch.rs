//! Apache Nutch's fetcher.
//!
//! Source: Nutch 1.20 `conf/nutch-default.xml` and `src/java/org/apache/nutch/fetcher/FetchItemQueue.java`,
//! `FetchItemQueues.java`: one thread a queue (fetcher.threads.per.queue), 5 s (fetcher.server.delay) between the end of a
//! fetch and the next. A refusal is an exception of its queue; the delay that doubles with exceptions
//! (fetcher.exceptions.per.queue.delay) is off unless configured, and so it is here. A URL that was refused is left to a
//! later round, days away. (From the release after 1.21 on a queue is dropped for the round after five exceptions: a crawl
//! that is over rather than a pace, and not modelled.)

use core::time::Duration;

use comity_core::time::Instant;

use super::{Answered, Baseline, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Nutch {
    next: Instant,
}

impl Nutch {
    pub(super) fn new() -> Self {
        Self { next: Instant::ZERO }
    }
}

impl Baseline for Nutch {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, 1, self.next)
    }

    fn started(&mut self, _now: Instant) {}

    fn answered(&mut self, now: Instant, _answer: &Answered) {
        self.next = now.after(SERVER_DELAY);
    }

    fn interval(&self) -> Option<Duration> {
        Some(SERVER_DELAY)
    }

    fn most_in_flight(&self) -> u32 {
        1
    }

    fn retries(&self) -> u32 {
        0
    }
}

/// fetcher.server.delay.
const SERVER_DELAY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    #[test]
    fn five_seconds_from_the_end_of_a_fetch_to_the_next() {
        let mut nutch = Nutch::new();
        assert_eq!(nutch.may_start(Instant::ZERO, 0), Start::Now);
        nutch.started(Instant::ZERO);
        assert_eq!(nutch.may_start(Instant::from_millis(5_000), 1), Start::AfterAnswer);
        nutch.answered(Instant::from_millis(1_200), &answer(Instant::ZERO, 429, Duration::from_millis(1_200)));
        assert_eq!(nutch.may_start(Instant::from_millis(6_199), 0), Start::At(Instant::from_millis(6_200)));
        assert_eq!(nutch.may_start(Instant::from_millis(6_200), 0), Start::Now);
    }
}
