//! Fixed window: so many requests in a window of time, then none until it ends.

use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::{Law, Left, Standing, Verdict, secs};
use super::said::{ModelError, Said, within};
use super::spread::Spread;

/// `kind = "window"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowSettings {
    /// Requests a window allows.
    pub(super) count: u64,
    /// Its length.
    pub(super) span: Said,
    /// What begins one.
    #[serde(default)]
    pub(super) begins: Begins,
    /// With `begins = "clock"`: when the first one begins, modulo the span.
    pub(super) phase: Option<Said>,
}

/// What begins a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Begins {
    /// The first request after the last one ended.
    #[default]
    First,
    /// The clock: windows follow each other without a gap.
    Clock,
}

impl WindowSettings {
    pub(super) fn build(&self) -> Result<FixedWindow, ModelError> {
        let count = within("count", self.count, 1, MOST_COUNTED)?;
        let span = self.span.some_span("span")?;
        match (self.begins, &self.phase) {
            (Begins::First, None) => Ok(FixedWindow { count, span, begins: Begins::First, ends: 0, used: 0 }),
            (Begins::First, Some(phase)) => Err(ModelError::value("phase", phase, "none without begins = \"clock\"")),
            (Begins::Clock, phase) => {
                let phase = phase.as_ref().map_or(Ok(0), |phase| phase.span("phase"))? % span;
                Ok(FixedWindow { count, span, begins: Begins::Clock, ends: phase, used: 0 })
            }
        }
    }
}

/// A fixed window.
#[derive(Clone, Debug)]
pub(super) struct FixedWindow {
    count: u64,
    span: u64,
    begins: Begins,
    /// When the window that was last counted in ends.
    ends: u64,
    used: u64,
}

impl FixedWindow {
    /// When a window that is asked at `now`, after the last one ended, ends.
    fn next_end(&self, now: u64) -> u64 {
        let late = match self.begins {
            Begins::First => 0,
            Begins::Clock => (now - self.ends) % self.span,
        };
        (now - late).saturating_add(self.span)
    }

    fn used_and_end(&self, now: u64) -> (u64, u64) {
        if now < self.ends { (self.used, self.ends) } else { (0, self.next_end(now)) }
    }
}

impl Law for FixedWindow {
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict {
        (self.used, self.ends) = self.used_and_end(now);
        if self.used >= self.count {
            return Verdict::Refused;
        }
        self.used += 1;
        Verdict::Served { after: latency.draw(rng), waited: None }
    }

    fn standing(&self, now: u64) -> Standing {
        let (used, ends) = self.used_and_end(now);
        let remaining = self.count - used;
        let left = Left { limit: self.count, window: self.span, remaining, resets_in: ends - now };
        Standing { lets_in: if remaining > 0 { 0 } else { ends - now }, left: Some(left) }
    }

    /// `count / span`.
    fn rate(&self, _: &Spread) -> f64 {
        self.count as f64 / secs(self.span)
    }

    /// What is left of the window at `from`, and `count` for each that begins before `to`; where requests begin them, one
    /// begins at the instant the last one ends.
    fn takes_all(&mut self, from: u64, to: u64, _: &Spread) -> f64 {
        if from >= to {
            return 0.0;
        }
        let (used, ends) = self.used_and_end(from);
        let more = to.saturating_sub(ends).div_ceil(self.span);
        (self.used, self.ends) = (self.count, ends.saturating_add(more.saturating_mul(self.span)));
        (self.count - used) as f64 + more as f64 * self.count as f64
    }
}

/// More in one window is no limit.
const MOST_COUNTED: u64 = 1_000_000_000;
