//! Refusals alone teach (behaviours T7–T9): doubled when refused without advice, a tenth off for every other answer.

use core::time::Duration;

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

    /// An exchange ended (T8). A time-out or network failure changes nothing (T9); a refusal that says for how long is a
    /// pause and nothing else (T7).
    pub fn taught(&mut self, now: Instant, fact: &Fact, floor: Duration) -> Change {
        if fact.started < self.changed {
            return Change::None;
        }
        match fact.outcome {
            Outcome::Refused { advised: true } | Outcome::NoAnswer => Change::None,
            Outcome::Refused { advised: false } => {
                self.changed = now;
                self.interval = (self.interval * 2).max(nanos(FIRST_INTERVAL)).min(nanos(CEILING)).max(nanos(floor));
                Change::Slower
            }
            Outcome::Served | Outcome::Neutral | Outcome::ServerError => {
                if self.interval == 0 {
                    return Change::None;
                }
                self.interval = self.interval * 9 / 10;
                if self.interval < nanos(LEAST) {
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
