//! Refusals alone teach (behaviours T7–T9): doubled when refused without advice, a tenth off for every other answer.

use core::time::Duration;

use super::bytes::{Reader, Writer};
use super::{Change, Fact, Outcome};
use crate::time::{Instant, nanos};

/// What refusals taught of one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Nanoseconds.
    interval: u64,
    /// The last doubling; only requests started since count (a burst refused together teaches once).
    changed: Instant,
}

impl Refused {
    /// The learned interval; zero where there is none.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval)
    }

    /// What is left of it after so long a rest.
    pub(super) fn aged(&self, idle: Duration, floor: Duration) -> Self {
        let interval = super::aged(self.interval, 0, idle);
        let interval = if interval < nanos(LEAST).max(nanos(floor)) { 0 } else { interval };
        Self { interval, ..*self }
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.interval);
        out.instant(self.changed);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { interval: from.u64()?, changed: from.instant()? })
    }

    pub(super) fn shift(&mut self, shift: impl Fn(Instant) -> Instant) {
        self.changed = shift(self.changed);
    }

    /// An exchange ended (T8). A time-out or network failure changes nothing (T9); a refusal that says for how long is a
    /// pause and nothing else (T7).
    pub fn taught(&mut self, now: Instant, fact: &Fact, floor: Duration) -> Change {
        if fact.started < self.changed {
            return Change::None;
        }
        match fact.outcome {
            Outcome::Refused { advice: Some(_) } | Outcome::NoAnswer => Change::None,
            Outcome::Refused { advice: None } => {
                self.changed = self.changed.max(now);
                let doubled = self.interval.max(nanos(floor)).saturating_mul(2);
                self.interval = doubled.max(nanos(FIRST_INTERVAL)).min(nanos(CEILING)).max(nanos(floor));
                Change::Slower
            }
            Outcome::Served | Outcome::Neutral | Outcome::ServerError => {
                if self.interval == 0 {
                    return Change::None;
                }
                self.interval = self.interval * 9 / 10;
                if self.interval < nanos(LEAST).max(nanos(floor)) {
                    self.interval = 0;
                }
                Change::Faster
            }
        }
    }
}

const FIRST_INTERVAL: Duration = Duration::from_millis(250);
const CEILING: Duration = Duration::from_secs(10);
const LEAST: Duration = Duration::from_millis(1);
