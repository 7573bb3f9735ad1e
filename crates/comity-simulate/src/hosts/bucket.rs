//! Token bucket: a token comes every interval, so many are kept, and each request takes one.

use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::{Law, Left, SECOND, Standing, Verdict};
use super::said::{ModelError, Said, within};
use super::spread::Spread;

/// `kind = "bucket"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BucketSettings {
    /// Tokens that come: `"10/s"`.
    pub(super) rate: Said,
    /// Tokens it holds, and holds at the beginning.
    pub(super) burst: u64,
}

impl BucketSettings {
    pub(super) fn build(&self) -> Result<Bucket, ModelError> {
        Ok(Bucket::new(self.rate.interval("rate")?, within("burst", self.burst, 1, MOST_KEPT)?))
    }
}

/// A token bucket, kept as the instant at which it would be full again: exact to the nanosecond.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    interval: u64,
    /// The time an empty one takes to be full.
    fill: u64,
    full_at: u64,
}

impl Bucket {
    /// A full one: a token every `interval` nanoseconds, `burst` of them kept.
    pub(super) fn new(interval: u64, burst: u64) -> Self {
        Self { interval, fill: interval.saturating_mul(burst), full_at: 0 }
    }

    /// Takes a token if there is one.
    pub(super) fn takes(&mut self, now: u64) -> bool {
        let there = self.lacks(now) == 0;
        if there {
            self.full_at = self.full_at.max(now).saturating_add(self.interval);
        }
        there
    }

    /// How long until there is a token.
    pub(super) fn lacks(&self, now: u64) -> u64 {
        self.full_at.saturating_sub(now.saturating_add(self.fill - self.interval))
    }

    /// How long until it is full.
    pub(super) fn fills_in(&self, now: u64) -> u64 {
        self.full_at.saturating_sub(now)
    }

    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// Tokens at an instant, and what comes until another: `tokens(from) + rate × (to − from)`. None are left.
    pub(super) fn empties(&mut self, from: u64, to: u64) -> f64 {
        let kept = self.fill.saturating_sub(self.fills_in(from));
        let comes = to.saturating_sub(from);
        self.full_at = to.max(from).saturating_add(self.fill);
        (kept as f64 + comes as f64) / self.interval as f64
    }

    /// How things stand. Where it fills within a second, the window told is a second, so that limit and window together
    /// tell the rate.
    pub(super) fn left(&self, now: u64) -> Left {
        let fills_in = self.fills_in(now);
        let window = self.fill.max(SECOND);
        Left {
            limit: window / self.interval,
            window,
            remaining: self.fill.saturating_sub(fills_in) / self.interval,
            resets_in: fills_in,
        }
    }
}

impl Law for Bucket {
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict {
        match self.takes(now) {
            true => Verdict::Served { after: latency.draw(rng), waited: None },
            false => Verdict::Refused,
        }
    }

    fn standing(&self, now: u64) -> Standing {
        Standing { lets_in: self.lacks(now), left: Some(self.left(now)) }
    }

    /// `rate`.
    fn rate(&self, _: &Spread) -> f64 {
        SECOND as f64 / self.interval as f64
    }

    /// `tokens(from) + rate × (to − from)`. A part of a token counts, so that spans that follow each other add up.
    fn takes_all(&mut self, from: u64, to: u64, _: &Spread) -> f64 {
        self.empties(from, to)
    }
}

/// A burst of more is no limit.
const MOST_KEPT: u64 = 1_000_000;
