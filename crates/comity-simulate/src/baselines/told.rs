//! An oracle: it knows what the host serves in the long run, and keeps that rate. A bound, not a program.
//!
//! It starts at its rate from the first request and leaves a burst unused, so that a policy that learns and uses the burst
//! may serve more; on a fixed window it is never refused.

use core::time::Duration;

use comity_core::time::Instant;

use super::{ALWAYS, Answered, Baseline, Start, gate, seconds};

/// See the module.
#[derive(Debug)]
pub(super) struct Told {
    interval: Duration,
    most: u32,
    next: Instant,
}

impl Told {
    /// An oracle for a host that serves `capacity` requests a second; what is no rate means that it serves nothing.
    pub(super) fn new(capacity: f64, in_flight: u32) -> Self {
        let interval = if capacity > 0.0 { seconds(1.0 / capacity) } else { super::LONGEST };
        Self { interval, most: in_flight.max(1), next: Instant::ZERO }
    }
}

impl Baseline for Told {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, self.most, self.next)
    }

    fn started(&mut self, now: Instant) {
        // The interval counts from when the start was due, as a metronome's does, so that the rate is kept to the request.
        // A start more than an interval late counts from itself: what was not used is lost.
        let due = if now.since(self.next) < self.interval { self.next } else { now };
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

    #[test]
    fn it_keeps_the_rate_it_was_told_to_the_request() {
        let mut told = Told::new(8.0, 4);
        let mut starts = 0;
        for milli in 0..10_000 {
            let now = Instant::from_millis(milli);
            while told.may_start(now, 0) == Start::Now {
                told.started(now);
                starts += 1;
            }
        }
        assert_eq!(starts, 80);
        assert_eq!(told.interval(), Some(Duration::from_millis(125)));
    }

    #[test]
    fn what_is_no_rate_is_none() {
        for capacity in [f64::NAN, 0.0, -3.0, f64::MIN_POSITIVE] {
            assert_eq!(Told::new(capacity, 1).interval(), Some(super::super::LONGEST), "{capacity}");
        }
        assert_eq!(Told::new(f64::INFINITY, 1).interval(), Some(Duration::ZERO));
    }
}
