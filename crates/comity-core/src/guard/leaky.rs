//! The leaky bucket: what comes too fast is let in later instead of refused (field case G25).

use core::time::Duration;

use super::Bucket;
use super::bucket::micros;
use super::parameter::{self, ParameterError};
use crate::time::Instant;

/// One start each `spacing`; up to `burst` more wait for theirs, and what comes beyond them is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    /// In microseconds.
    spacing: u64,
    burst: u32,
}

impl LeakyBucket {
    /// `count` starts per `per`, evenly spaced, rounded to the slower side by less than a microsecond; `burst` may wait.
    ///
    /// # Errors
    /// When a parameter is below zero, `count` or `per` is zero, or the rate is above 10,000 a second: spacings under a
    /// tenth of a millisecond are beyond any timer (G5).
    pub fn new(count: i64, per: Duration, burst: i64) -> Result<Self, ParameterError> {
        let count = parameter::count("rate", count)?;
        let spacing = parameter::span("per", per)?.div_ceil(u64::from(count));
        let burst = parameter::count_or_none("burst", burst)?;
        if spacing < LEAST_SPACING {
            return Err(parameter::rate_error(count, per, "at most 10000 a second where requests are delayed"));
        }
        Ok(Self { spacing, burst })
    }

    /// Between two starts.
    pub fn spacing(&self) -> Duration {
        Duration::from_micros(self.spacing)
    }

    /// Requests that may wait for their start.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// When a request let in at `now` starts.
    pub(super) fn start(&self, now: Instant, bucket: &Bucket) -> Instant {
        now.max(Instant::from_nanos(bucket.last.saturating_mul(1000)))
    }

    pub(super) fn retry(&self, now: Instant, bucket: &Bucket, cost: u32) -> Option<Duration> {
        let room = self.product(self.burst + 1).saturating_sub(self.product(cost));
        let over = self.ahead(now, bucket).checked_sub(room).filter(|over| *over > 0)?;
        Some(Duration::from_micros(over))
    }

    pub(super) fn charge(&self, now: Instant, bucket: &mut Bucket, cost: u32) {
        bucket.last = bucket.last.max(micros(now)).saturating_add(self.product(cost));
    }

    /// How many more are let in at `now`.
    pub(super) fn remaining(&self, now: Instant, bucket: &Bucket) -> u32 {
        let free = self.product(self.burst + 1).saturating_sub(self.ahead(now, bucket)) / self.spacing;
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    fn ahead(&self, now: Instant, bucket: &Bucket) -> u64 {
        bucket.last.saturating_sub(micros(now))
    }

    fn product(&self, count: u32) -> u64 {
        self.spacing.saturating_mul(u64::from(count))
    }
}

const LEAST_SPACING: u64 = 100;
