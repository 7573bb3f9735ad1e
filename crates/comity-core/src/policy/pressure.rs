//! Pressure: near-free at first, slower while you keep hitting a host, free again after a rest (behaviours P4–P9).

use core::time::Duration;

use super::bytes::{Reader, Writer};
use super::{Change, Fact, Outcome};
use crate::time::Instant;

/// A host's pressure and the spacing its last navigation took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Where the drain clock stands.
    drained: Instant,
    pressure: u16,
    spacing_ms: u16,
}

impl Pressure {
    /// Tolerance τ of a burst (P5): `(burst − 1) × 20 ms`.
    pub fn tolerance(burst: u32) -> Duration {
        LEAST_SPACING * burst.saturating_sub(1)
    }

    /// As a store kept it: where the drain clock stands, the pressure, and the last spacing in milliseconds. `None` where no
    /// pressure is like that.
    pub fn kept(drained: Instant, pressure: u16, spacing_ms: u16) -> Option<Self> {
        let whole = pressure <= MOST_PRESSURE && u128::from(spacing_ms) <= MOST_SPACING.as_millis();
        whole.then_some(Self { drained, pressure, spacing_ms })
    }

    /// What [`Pressure::kept`] takes.
    pub fn to_keep(&self) -> (Instant, u16, u16) {
        (self.drained, self.pressure, self.spacing_ms)
    }

    /// The spacing the last navigation was charged.
    pub fn spacing(&self) -> Duration {
        Duration::from_millis(u64::from(self.spacing_ms))
    }

    /// The pressure at `now`.
    pub fn pressure(&self, now: Instant) -> u16 {
        let mut drained = *self;
        drained.drain(now);
        drained.pressure
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.instant(self.drained);
        out.u16(self.pressure);
        out.u16(self.spacing_ms);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Self::kept(from.instant()?, from.u16()?, from.u16()?)
    }

    pub(super) fn shift(&mut self, shift: impl Fn(Instant) -> Instant) {
        self.drained = shift(self.drained);
    }

    /// A navigation is booked that came to the head of its queue at `now`: it takes the spacing of the pressure before it, then adds its unit (P4, P6).
    pub fn started(&mut self, now: Instant) {
        self.drain(now);
        let spacing = LEAST_SPACING.saturating_mul(1 + u32::from(self.pressure) / 10).min(MOST_SPACING);
        self.spacing_ms = spacing.as_millis() as u16;
        self.add(1);
    }

    /// An answer came, or none (P6).
    pub fn taught(&mut self, now: Instant, fact: &Fact) -> Change {
        let units = match fact.outcome {
            Outcome::Refused { .. } => 50,
            Outcome::ServerError | Outcome::NoAnswer => 10,
            Outcome::Served | Outcome::Neutral => return Change::None,
        };
        self.drain(now);
        self.add(units);
        Change::Slower
    }

    /// Whether all is forgiven.
    pub fn is_fresh(&self, now: Instant) -> bool {
        self.pressure(now) == 0
    }

    fn add(&mut self, units: u16) {
        self.pressure = (self.pressure + units).min(MOST_PRESSURE);
    }

    /// One unit every 100 ms; the clock moves in whole steps, so that rounding loses nothing (P8).
    fn drain(&mut self, now: Instant) {
        let steps = now.since(self.drained).as_nanos() / DRAIN_STEP.as_nanos();
        if steps >= u128::from(self.pressure) {
            self.pressure = 0;
            self.drained = now;
        } else {
            self.pressure -= steps as u16;
            self.drained = self.drained.after(DRAIN_STEP * steps as u32);
        }
    }
}

const LEAST_SPACING: Duration = Duration::from_millis(20);
const MOST_SPACING: Duration = Duration::from_millis(1200);
const DRAIN_STEP: Duration = Duration::from_millis(100);
/// At 590 the spacing reaches its most.
const MOST_PRESSURE: u16 = 590;
