//! How fast a run is of late, and how long the rest will take.

use std::collections::VecDeque;
use std::time::Duration;

use comity_fetch::Status;

use super::view::done;

/// Looks back over the last seconds: the mean of a whole run says nothing about a rest that is one slow host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// When, and how many URLs were done then; at most one a second.
    seen: VecDeque<(Duration, u64)>,
    now: (Duration, u64),
    rest: u64,
}

impl Meter {
    /// Takes in where the run is.
    pub(crate) fn note(&mut self, status: &Status) {
        self.now = (status.elapsed, done(&status.counts));
        self.rest = status.total.saturating_sub(self.now.1);
        if self.seen.back().is_none_or(|(at, _)| status.elapsed.saturating_sub(*at) >= GRAIN) {
            self.seen.push_back(self.now);
        }
        while self.seen.get(1).is_some_and(|(at, _)| status.elapsed.saturating_sub(*at) >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// URLs done a second, of late.
    pub(crate) fn rate(&self) -> f64 {
        let (time, count) = self.of_late();
        if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
    }

    /// How long the rest takes at that rate; nothing before it means something.
    pub(crate) fn left(&self) -> Option<Duration> {
        let (time, count) = self.of_late();
        if self.rest == 0 || count < ENOUGH_DONE || time < ENOUGH_TIME {
            return None;
        }
        let left = Duration::try_from_secs_f64(self.rest as f64 / self.rate()).ok()?;
        Some(Duration::from_secs(left.as_secs().max(1)))
    }

    fn of_late(&self) -> (Duration, u64) {
        let (since, before) = self.seen.front().copied().unwrap_or_default();
        (self.now.0.saturating_sub(since), self.now.1.saturating_sub(before))
    }
}

const WINDOW: Duration = Duration::from_secs(30);
const GRAIN: Duration = Duration::from_secs(1);

/// Below these an estimate jumps about.
const ENOUGH_DONE: u64 = 3;
const ENOUGH_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use comity_fetch::keep::Counts;

    fn noted(of: impl Fn(u64) -> u32, secs: u64) -> Meter {
        let mut meter = Meter::default();
        for tenth in 0..=secs * 10 {
            let counts = Counts { fetched: of(tenth), ..Counts::default() };
            let elapsed = Duration::from_millis(tenth * 100);
            meter.note(&Status { total: 1000, counts, elapsed, ..Status::default() });
        }
        meter
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        // 900 in the first 9 s, then one every 10 s.
        let of = |tenth: u64| u32::try_from(if tenth <= 90 { tenth * 10 } else { 900 + (tenth - 90) / 100 }).unwrap();
        assert_eq!(noted(of, 9).rate(), 100.0);
        let late = noted(of, 99);
        assert!((0.09..0.11).contains(&late.rate()), "{}", late.rate());
        let left = late.left().unwrap().as_secs();
        assert!((820..1010).contains(&left), "{left}");
        assert!(late.seen.len() <= 32);
    }

    #[test]
    fn an_estimate_waits_until_it_means_something() {
        assert_eq!(noted(|tenth| tenth as u32, 4).left(), None, "too early");
        assert_eq!(noted(|_| 2, 60).left(), None, "nothing moves");
        assert!(noted(|tenth| tenth as u32, 6).left().is_some());
        assert_eq!(noted(|_| 1000, 60).left(), None, "all done");
        assert_eq!((Meter::default().rate(), Meter::default().left()), (0.0, None));
    }
}
