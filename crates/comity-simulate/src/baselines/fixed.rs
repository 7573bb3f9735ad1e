//! One interval and a number in flight, whatever is answered.
//!
//! Source: none; the plain loop with a sleep that most scripts are. It hears neither refusals nor Retry-After, and tries a
//! refused request again in its next turn.

use core::time::Duration;

use comity_core::time::Instant;

use super::{ALWAYS, Answered, Baseline, Start, gate};

/// See the module.
#[derive(Debug)]
pub(super) struct Fixed {
    interval: Duration,
    most: u32,
    next: Instant,
    beat: Beat,
}

/// From when an interval counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// From each start, as a loop with a sleep does.
    Starts,
    /// From when the start was due, as a metronome does, so that the rate is kept to the request. A start more than an interval
    /// late counts from itself: what was not used is lost.
    Metronome,
}

impl Fixed {
    pub(super) fn new(interval: Duration, in_flight: u32, beat: Beat) -> Self {
        Self { interval, most: in_flight.max(1), next: Instant::ZERO, beat }
    }
}

impl Baseline for Fixed {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, self.most, self.next)
    }

    fn started(&mut self, now: Instant) {
        let on_time = self.beat == Beat::Metronome && now.since(self.next) < self.interval;
        let due = if on_time { self.next } else { now };
        self.next = due.after(self.interval);
    }

    fn answered(&mut self, _now: Instant, _answer: &Answered) {}

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn most_in_flight(&self) -> u32 {
        self.most
    }

    fn retries(&self) -> u32 {
        ALWAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    #[test]
    fn starts_are_an_interval_apart_whatever_is_answered() {
        let mut fixed = Fixed::new(Duration::from_millis(100), 2, Beat::Starts);
        assert_eq!(fixed.may_start(Instant::ZERO, 0), Start::Now);
        fixed.started(Instant::ZERO);
        fixed.answered(Instant::from_millis(20), &answer(Instant::ZERO, 429, Duration::from_millis(20)));
        assert_eq!(fixed.may_start(Instant::from_millis(99), 0), Start::At(Instant::from_millis(100)));
        assert_eq!(fixed.may_start(Instant::from_millis(100), 1), Start::Now);
        assert_eq!(fixed.may_start(Instant::from_millis(100), 2), Start::AfterAnswer);
    }
}
