//! Monotonic instants and wall dates, as two types that cannot be mixed.

use core::fmt;
use core::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin its owner chose.
///
/// It never reads a clock and its arithmetic saturates: a wait that some server made absurd ends at [`Instant::FAR`],
/// never in a panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than anything that will happen (584 years).
    pub const FAR: Self = Self(u64::MAX);

    /// The instant so many nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant so many milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant and a span later, or [`Instant::FAR`].
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// This instant and a span earlier, or the origin.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// How long ago `earlier` was; zero where it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FAR { f.write_str("never") } else { write!(f, "{:?}", Duration::from_nanos(self.0)) }
    }
}

/// A span in nanoseconds, saturating (584 years).
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A date on the wall clock: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Wall(i64);

impl Wall {
    /// The date so many microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The date so many whole seconds after the Unix epoch, saturating.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How far this date lies after `other`; `None` where it does not.
    pub fn since(self, other: Self) -> Option<Duration> {
        u64::try_from(self.0.checked_sub(other.0)?).ok().map(Duration::from_micros)
    }
}
