//! The token bucket (G1, G2), and what is remembered of a key.

use core::time::Duration;

use super::parameter::{self, ParameterError};
use super::{CostError, limit};
use crate::time::Instant;

/// At most `capacity` at once, then `refill` more at the end of each `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    capacity: u32,
    refill: u32,
    /// In microseconds.
    interval: u64,
}

/// What is remembered of one key under one limit: two plain numbers.
///
/// Under a [`TokenBucket`] the tokens it has, and the end of the refill step that was counted last; under a
/// [`FixedWindow`](super::FixedWindow) what is left of the window, and its beginning; under a
/// [`LeakyBucket`](super::LeakyBucket) the instant at which the next may start, and no tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bucket {
    /// Tokens.
    pub tokens: u32,
    /// In microseconds on the clock of whoever keeps it.
    pub last: u64,
}

impl TokenBucket {
    /// A bucket of `capacity` tokens that gets `refill` back at the end of each `interval`.
    ///
    /// # Errors
    /// When one of them is not above zero, or absurd (G5).
    pub fn new(capacity: i64, refill: i64, interval: Duration) -> Result<Self, ParameterError> {
        Ok(Self {
            capacity: parameter::count("capacity", capacity)?,
            refill: parameter::count("refill", refill)?,
            interval: parameter::span("interval", interval)?,
        })
    }

    /// A bucket of `burst` tokens that gets `count` back in `per`, in steps as small as can be counted: one at a time up to
    /// 1,000 a second. What cannot be divided is rounded to the slower side, by a thousandth at most.
    ///
    /// # Errors
    /// As [`TokenBucket::new`], and when `count` in `per` is less than one in a century or more than a billion a
    /// millisecond.
    pub fn rate(count: i64, per: Duration, burst: i64) -> Result<Self, ParameterError> {
        let count = parameter::count("rate", count)?;
        let span = u128::from(parameter::span("per", per)?);
        let capacity = parameter::count("burst", burst)?;
        let refill = (u128::from(count) * FINEST_STEP).div_ceil(span).max(1);
        let interval = (span * refill).div_ceil(u128::from(count));
        match (u32::try_from(refill), u64::try_from(interval)) {
            (Ok(refill @ ..=1_000_000_000), Ok(interval @ ..=parameter::LONGEST)) => {
                Ok(Self { capacity, refill, interval })
            }
            _ => Err(parameter::rate_error(count, per, "from 1 in a century to 1000000000 in a millisecond")),
        }
    }

    /// The most tokens it holds: what may come at once.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Tokens that come back at the end of each interval.
    pub fn refill(&self) -> u32 {
        self.refill
    }

    /// Between two refills.
    pub fn interval(&self) -> Duration {
        Duration::from_micros(self.interval)
    }
}

impl Bucket {
    /// One that nothing was taken from.
    pub fn full(now: Instant, limit: &TokenBucket) -> Self {
        Self { tokens: limit.capacity, last: micros(now) }
    }

    /// Takes `cost` tokens, or says how long to wait for them (G2). Either way the refill steps until `now` are counted.
    ///
    /// # Errors
    /// The cost is nothing, or more than the bucket ever holds.
    pub fn take(&mut self, now: Instant, limit: &TokenBucket, cost: u32) -> Result<Result<(), Duration>, CostError> {
        limit::check_cost(cost, limit.capacity)?;
        self.refill(now, limit);
        let retry = self.retry(now, limit, cost);
        if retry.is_none() {
            self.tokens -= cost;
        }
        Ok(retry.map_or(Ok(()), Err))
    }

    /// Counts the refill steps that ended until `now`; the rest of a step is kept (G1).
    #[inline]
    pub fn refill(&mut self, now: Instant, limit: &TokenBucket) {
        let steps = micros(now).saturating_sub(self.last) / limit.interval;
        let tokens = steps.saturating_mul(u64::from(limit.refill)).saturating_add(u64::from(self.tokens));
        self.tokens = u32::try_from(tokens).unwrap_or(u32::MAX).min(limit.capacity);
        // No more than lies between `last` and now.
        self.last += steps * limit.interval;
    }

    /// How long after `now` a cost that does not fit would: `None` where it does. The steps until `now` are counted.
    #[inline]
    pub(super) fn retry(&self, now: Instant, limit: &TokenBucket, cost: u32) -> Option<Duration> {
        let missing = cost.checked_sub(self.tokens).filter(|missing| *missing > 0)?;
        let in_steps = u64::from(missing.div_ceil(limit.refill)).saturating_mul(limit.interval);
        let at_its_rate = match u64::from(missing).checked_mul(limit.interval) {
            Some(product) => product.div_ceil(u64::from(limit.refill)),
            None => wide_rate(missing, limit),
        };
        let step_ends = self.last.saturating_add(in_steps);
        Some(Duration::from_micros(at_its_rate.max(step_ends.saturating_sub(micros(now)))))
    }

    /// When it is full again, if nothing more is taken. From then on it is as good as new.
    #[inline]
    pub(super) fn full_at(&self, limit: &TokenBucket) -> u64 {
        let missing = limit.capacity.saturating_sub(self.tokens);
        self.last.saturating_add(u64::from(missing.div_ceil(limit.refill)).saturating_mul(limit.interval))
    }
}

/// How long `missing` tokens take at the bucket's rate, where the product is more than 64 bits hold. Their division takes
/// several times as long.
#[cold]
fn wide_rate(missing: u32, limit: &TokenBucket) -> u64 {
    let product = u128::from(missing) * u128::from(limit.interval);
    u64::try_from(product.div_ceil(u128::from(limit.refill))).unwrap_or(u64::MAX)
}

/// An instant in whole microseconds.
#[inline]
pub(super) fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1000
}

/// Refill steps are no shorter than this, in microseconds, so that rounding one up costs a thousandth at most.
const FINEST_STEP: u128 = 1000;
