//! A limit of what is in flight, learned from the answers, and nothing else: no rate, and nothing is tried again.

use core::time::Duration;
use std::collections::VecDeque;

use comity_core::time::Instant;

use super::{Answered, Baseline, Start, gate};

/// How such a limit is learned.
pub(super) trait Limit: core::fmt::Debug + Send {
    /// Requests in flight at most.
    fn most(&self) -> u32;

    /// A request is answered that was one of so many in flight when it started.
    fn learns(&mut self, in_flight: u32, answer: &Answered);
}

/// A pace that such a limit makes.
#[derive(Debug)]
pub(super) struct Limited<L> {
    limit: L,
    flights: Flights,
}

/// How many were in flight when each request that still is was started; in the order of their starts.
#[derive(Debug, Default)]
struct Flights(VecDeque<(Instant, u32)>);

impl<L> Limited<L> {
    pub(super) fn new(limit: L) -> Self {
        Self { limit, flights: Flights::default() }
    }
}

impl<L: Limit> Baseline for Limited<L> {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        gate(now, in_flight, self.limit.most(), now)
    }

    fn started(&mut self, now: Instant) {
        self.flights.started(now);
    }

    fn answered(&mut self, _now: Instant, answer: &Answered) {
        let in_flight = self.flights.answered(answer.started);
        self.limit.learns(in_flight, answer);
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn most_in_flight(&self) -> u32 {
        self.limit.most()
    }

    fn retries(&self) -> u32 {
        0
    }
}

impl Flights {
    /// A request starts.
    fn started(&mut self, now: Instant) {
        let with_it = u32::try_from(self.0.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.0.push_back((now, with_it));
    }

    /// The request that started then is answered: how many were in flight at its start, itself included. Most answers come in
    /// the order of the starts, so that it is found at once.
    fn answered(&mut self, started: Instant) -> u32 {
        let place = self.0.iter().position(|(at, _)| *at == started);
        place.and_then(|place| self.0.remove(place)).map_or(1, |(_, with_it)| with_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_told_the_number_at_its_start() {
        let mut flights = Flights::default();
        let at = Instant::from_millis;
        flights.started(at(1));
        flights.started(at(2));
        flights.started(at(3));
        assert_eq!(flights.answered(at(2)), 2);
        flights.started(at(4));
        assert_eq!((flights.answered(at(4)), flights.answered(at(3)), flights.answered(at(1))), (3, 3, 1));
        assert_eq!(flights.answered(at(9)), 1);
    }

    #[test]
    fn no_more_start_than_the_limit_lets() {
        #[derive(Debug)]
        struct Counts(u32);
        impl Limit for Counts {
            fn most(&self) -> u32 {
                self.0
            }

            fn learns(&mut self, in_flight: u32, _answer: &Answered) {
                self.0 += in_flight;
            }
        }
        let mut limited = Limited::new(Counts(2));
        let at = Instant::from_millis;
        assert_eq!(limited.may_start(at(1), 1), Start::Now);
        assert_eq!(limited.may_start(at(1), 2), Start::AfterAnswer);
        limited.started(at(1));
        limited.started(at(2));
        limited.answered(at(9), &crate::baselines::tests::answer(at(2), 200, Duration::from_millis(7)));
        assert_eq!((limited.most_in_flight(), limited.retries(), limited.interval()), (4, 0, None));
    }
}
