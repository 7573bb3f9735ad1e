//! The adaptive policy: refusals teach the rate, latency teaches the concurrency, and both are remembered.

use core::time::Duration;

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
    interval: u64,
    in_flight: u16,
    changed: Instant,
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
        Self { interval: nanos(settings.start), in_flight: 4, changed: Instant::ZERO }
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
        Duration::from_nanos(self.interval)
    }

    /// The learned concurrency.
    pub fn in_flight(&self) -> u32 {
        u32::from(self.in_flight)
    }

    /// Whether the host answers in two ways: from a cache, and from what lies behind it.
    pub fn is_bimodal(&self) -> bool {
        false
    }

    /// The slow-moving floor of the latency (A5).
    pub fn latency_floor(&self) -> Option<Duration> {
        None
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.interval);
        out.u16(self.in_flight);
        out.instant(self.changed);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { interval: from.u64()?, in_flight: from.u16()?, changed: from.instant()? })
    }

    pub(super) fn shift(&mut self, shift: impl Fn(Instant) -> Instant) {
        self.changed = shift(self.changed);
    }

    /// An exchange ended.
    pub fn taught(&mut self, now: Instant, fact: &Fact, settings: &AdaptiveSettings) -> Change {
        if fact.started < self.changed {
            return Change::None;
        }
        match fact.outcome {
            Outcome::Refused { .. } => {
                self.interval = (self.interval * 2).min(nanos(settings.ceiling));
                self.changed = now;
                Change::Slower
            }
            Outcome::Served => {
                self.interval = (self.interval / 100 * 99).max(nanos(settings.floor));
                Change::Faster
            }
            _ => Change::None,
        }
    }

    /// Whether nothing was learned that a new host would not start with.
    pub fn is_fresh(&self, settings: &AdaptiveSettings) -> bool {
        *self == Self::new(settings)
    }
}

impl Adaptive {
    /// What it has to say for itself.
    pub fn said(&self, now: Instant) -> super::Said {
        let _ = now;
        super::Said {
            rate: None,
            concurrency: Some(self.in_flight()),
            why: super::Why::Searching,
            last_refused: (self.changed != Instant::ZERO).then_some(self.changed),
            next_probe: None,
            bimodal: self.is_bimodal(),
            refusals: 0,
        }
    }
}
