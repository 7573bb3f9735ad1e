//! One limit, whichever algorithm it is, and how it is said in words.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::bucket::micros;
use super::parameter::ParameterError;
use super::{Bucket, FixedWindow, LeakyBucket, TokenBucket};
use crate::time::Instant;

/// What one key may do. Its [`Display`](fmt::Display) says in words what a client will see.
///
/// ```
/// # use comity_core::guard::{Limit, TokenBucket};
/// # use core::time::Duration;
/// let limit = Limit::from(TokenBucket::rate(1, Duration::from_secs(60), 20)?);
/// assert_eq!(limit.to_string(), "20 at once, then 1 per 60 s");
/// # Ok::<(), comity_core::guard::ParameterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// A burst, then a rate (G1).
    Bucket(TokenBucket),
    /// So many in each window.
    Window(FixedWindow),
    /// A rate at which requests start; some wait for their turn.
    Leaky(LeakyBucket),
}

/// A limit under the name by which all who share it know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLimit {
    name: Arc<str>,
    limit: Limit,
}

/// A cost that can never be paid (G2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request cannot cost {cost}: allowed is from 1 to {most}, the most this limit lets in at once")]
pub struct CostError {
    /// What it was to cost.
    pub cost: u32,
    /// The most that the limit lets in at once.
    pub most: u32,
}

impl Limit {
    /// What is remembered of a key that was never seen.
    #[inline]
    pub fn fresh(&self, now: Instant) -> Bucket {
        match self {
            Self::Bucket(limit) => Bucket::full(now, limit),
            Self::Window(limit) => limit.fresh(now),
            Self::Leaky(_) => Bucket { tokens: 0, last: micros(now) },
        }
    }

    /// The most that it lets in at once: what a request may cost.
    #[inline]
    pub fn capacity(&self) -> u32 {
        match self {
            Self::Bucket(limit) => limit.capacity(),
            Self::Window(limit) => limit.count(),
            Self::Leaky(limit) => limit.burst() + 1,
        }
    }

    /// The count and the span of time in which it comes back: the quota and the window of RateLimit-Policy.
    pub fn rate(&self) -> (u32, Duration) {
        match self {
            Self::Bucket(limit) => (limit.refill(), limit.interval()),
            Self::Window(limit) => (limit.count(), limit.per()),
            Self::Leaky(limit) => (1, limit.spacing()),
        }
    }

    /// Whether a request may cost so much.
    ///
    /// # Errors
    /// The cost is nothing, or more than this limit ever lets in at once (G2).
    #[inline]
    pub fn check_cost(&self, cost: u32) -> Result<(), CostError> {
        check_cost(cost, self.capacity())
    }

    /// Brings a bucket up to `now`. It changes no verdict.
    #[inline]
    pub fn refill(&self, now: Instant, bucket: &mut Bucket) {
        match self {
            Self::Bucket(limit) => bucket.refill(now, limit),
            Self::Window(limit) => limit.refill(now, bucket),
            Self::Leaky(_) => {}
        }
    }

    /// How long after `now` a request of this cost is let in; `None` where it is now. For a bucket brought up to `now`.
    #[inline]
    pub fn retry(&self, now: Instant, bucket: &Bucket, cost: u32) -> Option<Duration> {
        match self {
            Self::Bucket(limit) => bucket.retry(now, limit, cost),
            Self::Window(limit) => limit.retry(now, bucket, cost),
            Self::Leaky(limit) => limit.retry(now, bucket, cost),
        }
    }

    /// When a request let in at `now` starts: later where requests wait for their turn.
    #[inline]
    pub fn start(&self, now: Instant, bucket: &Bucket) -> Instant {
        match self {
            Self::Bucket(_) | Self::Window(_) => now,
            Self::Leaky(limit) => limit.start(now, bucket),
        }
    }

    /// Charges a request that [`Limit::retry`] lets in.
    #[inline]
    pub fn charge(&self, now: Instant, bucket: &mut Bucket, cost: u32) {
        match self {
            Self::Bucket(_) | Self::Window(_) => bucket.tokens = bucket.tokens.saturating_sub(cost),
            Self::Leaky(limit) => limit.charge(now, bucket, cost),
        }
    }

    /// How many more of cost 1 are let in at `now`. For a bucket brought up to `now`.
    #[inline]
    pub fn remaining(&self, now: Instant, bucket: &Bucket) -> u32 {
        match self {
            Self::Bucket(_) | Self::Window(_) => bucket.tokens,
            Self::Leaky(limit) => limit.remaining(now, bucket),
        }
    }

    /// The instant from which on the bucket is as good as new and need not be remembered (G8), in microseconds.
    #[inline]
    pub fn full_at(&self, bucket: &Bucket) -> u64 {
        match self {
            Self::Bucket(limit) => bucket.full_at(limit),
            Self::Window(limit) => limit.full_at(bucket),
            Self::Leaky(_) => bucket.last,
        }
    }

    /// Whether a bucket is as good as new at `now`: whoever drops it lets in no more than the limit allows.
    pub fn is_full(&self, now: Instant, bucket: &Bucket) -> bool {
        self.full_at(bucket) <= micros(now)
    }
}

impl NamedLimit {
    /// A limit and its name.
    ///
    /// # Errors
    /// The name is empty, longer than 64 bytes or has other characters than letters, digits and `-_./*:`. Names become keys
    /// of stores and words of headers.
    pub fn new(name: &str, limit: Limit) -> Result<Self, ParameterError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./*:".contains(&byte);
        if name.is_empty() || name.len() > MOST_NAME || !name.bytes().all(plain) {
            let value = format!("`{}`", name.escape_debug());
            let allowed = "from 1 to 64 of letters, digits and -_./*:";
            return Err(ParameterError { parameter: "name", value, allowed });
        }
        Ok(Self { name: name.into(), limit })
    }

    /// The name.
    #[inline]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limit.
    #[inline]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }
}

/// A wait as Retry-After says it: whole seconds, rounded up, at least one (G6).
pub fn retry_after(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[inline]
pub(super) fn check_cost(cost: u32, most: u32) -> Result<(), CostError> {
    if (1..=most).contains(&cost) { Ok(()) } else { Err(CostError { cost, most }) }
}

impl From<TokenBucket> for Limit {
    fn from(limit: TokenBucket) -> Self {
        Self::Bucket(limit)
    }
}

impl From<FixedWindow> for Limit {
    fn from(limit: FixedWindow) -> Self {
        Self::Window(limit)
    }
}

impl From<LeakyBucket> for Limit {
    fn from(limit: LeakyBucket) -> Self {
        Self::Leaky(limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(limit) => {
                let (refill, interval) = (limit.refill(), limit.interval());
                write!(f, "{} at once, then {refill} per {}", limit.capacity(), Span(interval))?;
                match per_second(interval) {
                    Some(steps) => write!(f, " ({}/s)", u64::from(refill).saturating_mul(steps)),
                    None => Ok(()),
                }
            }
            Self::Window(limit) => {
                write!(
                    f,
                    "at most {} in each window of {}, and no more before it ends",
                    limit.count(),
                    Span(limit.per())
                )
            }
            Self::Leaky(limit) => {
                write!(
                    f,
                    "1 per {}; {} more at once wait for their turn, the rest is refused",
                    Span(limit.spacing()),
                    limit.burst()
                )
            }
        }
    }
}

/// A span in the unit in which it is a whole number; whole seconds stay seconds, as in headers.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_micros() {
            micros if micros.is_multiple_of(1_000_000) => write!(f, "{} s", micros / 1_000_000),
            micros if micros.is_multiple_of(1000) => write!(f, "{} ms", micros / 1000),
            micros => write!(f, "{micros} µs"),
        }
    }
}

/// Steps a second, where a second is a whole number of more than one.
fn per_second(interval: Duration) -> Option<u64> {
    let micros = u64::try_from(interval.as_micros()).ok().filter(|micros| *micros < 1_000_000)?;
    1_000_000u64.is_multiple_of(micros).then_some(1_000_000 / micros)
}

const MOST_NAME: usize = 64;
