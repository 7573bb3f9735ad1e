//! "N per window", as a setting of its own (G24): no burst, and nothing comes back before the window ends.

use core::time::Duration;

use super::Bucket;
use super::bucket::micros;
use super::parameter::{self, ParameterError};
use crate::time::Instant;

/// At most `count` in each window of `per`. A window begins with the first request that is let in after the one before
/// ended, so that nobody can wait for a boundary that all know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    count: u32,
    /// In microseconds.
    per: u64,
}

impl FixedWindow {
    /// At most `count` in each window of `per`.
    ///
    /// # Errors
    /// When one of them is not above zero, or absurd (G5).
    pub fn new(count: i64, per: Duration) -> Result<Self, ParameterError> {
        Ok(Self { count: parameter::count("count", count)?, per: parameter::span("window", per)? })
    }

    /// Requests a window.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A window's length.
    pub fn per(&self) -> Duration {
        Duration::from_micros(self.per)
    }

    pub(super) fn fresh(&self, now: Instant) -> Bucket {
        Bucket { tokens: self.count, last: micros(now) }
    }

    /// A window that has ended is followed by one that begins with the next request.
    pub(super) fn refill(&self, now: Instant, bucket: &mut Bucket) {
        if self.full_at(bucket) <= micros(now) {
            *bucket = self.fresh(now);
        }
        bucket.tokens = bucket.tokens.min(self.count);
    }

    pub(super) fn retry(&self, now: Instant, bucket: &Bucket, cost: u32) -> Option<Duration> {
        let ends = bucket.last.saturating_add(self.per);
        (bucket.tokens < cost).then(|| Duration::from_micros(ends.saturating_sub(micros(now))))
    }

    pub(super) fn full_at(&self, bucket: &Bucket) -> u64 {
        if bucket.tokens >= self.count { bucket.last } else { bucket.last.saturating_add(self.per) }
    }
}
