//! The adaptive policy: refusals teach the rate, latency teaches the concurrency, and both are remembered.

mod concurrency;
mod rate;

use core::time::Duration;

use self::concurrency::Concurrency;
use self::rate::Rate;
use super::bytes::{Reader, Writer};
use super::{Change, Fact, Outcome};
use crate::time::{Instant, nanos};

/// Where the policy begins and what it may not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// First interval.
    pub start: Duration,
    /// Never faster (A8).
    pub floor: Duration,
    /// Never slower.
    pub ceiling: Duration,
}

/// What was learned of one host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    rate: Rate,
    concurrency: Concurrency,
    /// The last change; only answers to requests started since count (A9).
    changed: Instant,
    /// The last request that was answered started then.
    last: Instant,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self { start: Duration::from_millis(250), floor: Duration::ZERO, ceiling: Duration::from_secs(60) }
    }
}

impl AdaptiveSettings {
    /// The same, begun at an interval that a person or a service set, and never faster.
    #[must_use]
    pub fn bounded_by(&self, interval: Duration) -> Self {
        Self { start: self.start.max(interval), floor: interval, ceiling: self.ceiling.max(interval) }
    }
}

impl Adaptive {
    /// A host nobody has asked yet.
    pub fn new(settings: &AdaptiveSettings) -> Self {
        Self { rate: Rate::new(settings), concurrency: Concurrency::new(), changed: Instant::ZERO, last: Instant::ZERO }
    }

    pub(super) fn within(&self, settings: &AdaptiveSettings) -> Self {
        let _ = settings;
        *self
    }

    pub(super) fn aged(&self, idle: Duration, settings: &AdaptiveSettings) -> Self {
        let _ = (idle, settings);
        *self
    }

    /// The learned interval.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.rate.interval())
    }

    /// The learned concurrency.
    pub fn in_flight(&self) -> u32 {
        if self.rate.is_refused() { 1 } else { u32::from(self.concurrency.most()) }
    }

    /// Whether the host answers in two ways: from a cache, and from what lies behind it.
    pub fn is_bimodal(&self) -> bool {
        false
    }

    /// The slow-moving floor of the latency (A5).
    pub fn latency_floor(&self) -> Option<Duration> {
        self.concurrency.base()
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        self.rate.write(out);
        self.concurrency.write(out);
        out.instant(self.changed);
        out.instant(self.last);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            rate: Rate::read(from)?,
            concurrency: Concurrency::read(from)?,
            changed: from.instant()?,
            last: from.instant()?,
        })
    }

    pub(super) fn shift(&mut self, shift: impl Fn(Instant) -> Instant) {
        self.rate.shift(&shift);
        self.concurrency.shift(&shift);
        self.changed = shift(self.changed);
        self.last = shift(self.last);
    }

    /// An exchange ended.
    pub fn taught(&mut self, now: Instant, fact: &Fact, settings: &AdaptiveSettings) -> Change {
        let before = (self.interval(), self.in_flight());
        if fact.started.since(self.last) > REST && self.last != Instant::ZERO && !self.rate.is_refused() {
            self.rate.resumed(fact.started);
            self.concurrency.restart(fact.started);
        }
        self.last = self.last.max(fact.started);
        match fact.outcome {
            Outcome::Refused { advised } => {
                if fact.started >= self.changed {
                    if !self.rate.is_refused() && !self.rate.is_cold() {
                        self.concurrency.refused(now);
                    }
                    self.rate.refused(fact.started, advised, settings);
                    self.concurrency.restart(now);
                    self.changed = now;
                }
            }
            Outcome::Served | Outcome::Neutral | Outcome::ServerError => {
                let latency = self.concurrency.base().map_or(0, nanos);
                if self.rate.admitted(now, fact.started, self.changed, latency, settings) {
                    self.concurrency.restart(now);
                    self.changed = now;
                } else if fact.outcome == Outcome::Served
                    && fact.started >= self.changed
                    && let Some(latency) = fact.latency
                {
                    self.concurrency.served(now, latency);
                }
            }
            Outcome::NoAnswer => {}
        }
        let after = (self.interval(), self.in_flight());
        if after.0 < before.0 || after.1 > before.1 {
            Change::Faster
        } else if after == before {
            Change::None
        } else {
            Change::Slower
        }
    }

    /// Whether nothing was learned that a new host would not start with.
    pub fn is_fresh(&self, settings: &AdaptiveSettings) -> bool {
        *self == Self::new(settings)
    }
}

const REST: Duration = Duration::from_secs(120);
