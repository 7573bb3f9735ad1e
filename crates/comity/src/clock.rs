//! The one file of the workspace that reads the clock.
//!
//! Everything else takes the time as an argument. Tests pause tokio's clock, and everything here follows it.

use comity_core::time::{Instant, Wall};
use comity_store::ReadClock;

/// A monotonic clock: this process's own, with its origin at its making, or that of a store which others share.
#[derive(Clone)]
pub struct Clock {
    source: Source,
    started: Instant,
}

#[derive(Clone)]
enum Source {
    Own { origin: tokio::time::Instant },
    Store(ReadClock),
}

impl Clock {
    /// A clock that starts now, a second after its own origin: the origin means "never" to nobody.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn start() -> Self {
        let second = std::time::Duration::from_secs(1);
        let origin = tokio::time::Instant::now() - second;
        Self { source: Source::Own { origin }, started: Instant::ZERO.after(second) }
    }

    /// A store's clock.
    pub fn of_store(read: ReadClock) -> Self {
        Self { started: read(), source: Source::Store(read) }
    }

    /// How long after this clock was made an instant is.
    pub fn since_start(&self, at: Instant) -> std::time::Duration {
        at.since(self.started)
    }

    /// The time now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn now(&self) -> Instant {
        match &self.source {
            Source::Own { origin } => {
                Instant::ZERO.after(tokio::time::Instant::now().saturating_duration_since(*origin))
            }
            Source::Store(read) => read(),
        }
    }

    /// The same instant for tokio's timers; `None` for one that never comes.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn to_tokio(&self, at: Instant) -> Option<tokio::time::Instant> {
        if at == Instant::FAR {
            return None;
        }
        match &self.source {
            Source::Own { origin } => origin.checked_add(at.since(Instant::ZERO)),
            Source::Store(read) => tokio::time::Instant::now().checked_add(at.since(read())),
        }
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("started", &self.started).finish_non_exhaustive()
    }
}

/// The wall clock's date.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn wall() -> Wall {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Wall::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
