//! aria2 with a list of URLs.
//!
//! Source: aria2 1.36 manual, `-j` (5 downloads at once, the default), `-x` (one connection to a server for each),
//! `-m` and `--retry-wait` (0 by default; a 503 is tried again only where it is more); `src/HttpSkipResponseCommand.cc` for
//! what the manual does not say: a 429, as every other status from 400 on but 404 and 503, ends its download at once.
//!
//! Measured: the defaults (`aria2c -i list`). On a bucket of 10/s and 20, 600 URLs: 46 or 47 got, all others refused, in
//! 2.6 s.

use core::time::Duration;

use comity_core::time::Instant;

use super::{Answered, Baseline, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Aria2;

impl Aria2 {
    pub(super) fn new() -> Self {
        Self
    }
}

impl Baseline for Aria2 {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, MOST, now)
    }

    fn started(&mut self, _now: Instant) {}

    fn answered(&mut self, _now: Instant, _answer: &Answered) {}

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn most_in_flight(&self) -> u32 {
        MOST
    }

    fn retries(&self) -> u32 {
        0
    }
}

/// `--max-concurrent-downloads`.
const MOST: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    #[test]
    fn five_at_once_and_a_refusal_changes_nothing() {
        let mut aria2 = Aria2::new();
        aria2.answered(Instant::ZERO, &answer(Instant::ZERO, 429, Duration::from_millis(20)));
        assert_eq!(aria2.may_start(Instant::ZERO, 4), Start::Now);
        assert_eq!(aria2.may_start(Instant::ZERO, 5), Start::AfterAnswer);
        assert_eq!(aria2.retries(), 0);
    }
}
