//! The one file of this crate that reads the clock.

use comity_core::time::Instant;

/// A monotonic clock whose origin lies so far back that what a store remembers from before this process has an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: std::time::Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place of the crate that reads the clock")]
    pub(crate) fn start() -> Self {
        Self { began: std::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        BEGINNING.after(self.began.elapsed())
    }
}

/// 400 days: longer than any state is kept.
const BEGINNING: Instant = Instant::from_millis(400 * 86_400_000);
