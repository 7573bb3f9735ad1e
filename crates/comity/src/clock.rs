//! The one file of the workspace that reads the clock.
//!
//! Everything else takes the time as an argument. Tests pause tokio's clock, and everything here follows it.

use comity_core::time::{Instant, Wall};

/// A monotonic clock with its origin at its making.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock that starts now, a second after its own origin: the origin means "never" to nobody.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn start() -> Self {
        Self { origin: tokio::time::Instant::now() - std::time::Duration::from_secs(1) }
    }

    /// The time now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn now(&self) -> Instant {
        Instant::ZERO.after(tokio::time::Instant::now().saturating_duration_since(self.origin))
    }

    /// The same instant for tokio's timers; `None` for one that never comes.
    pub fn to_tokio(&self, at: Instant) -> Option<tokio::time::Instant> {
        if at == Instant::FAR {
            return None;
        }
        self.origin.checked_add(at.since(Instant::ZERO))
    }
}

/// The wall clock's date.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn wall() -> Wall {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Wall::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
