//! The one file of the command that reads clocks.

use std::time::Instant;

use jiff::Timestamp;

/// The present, for measuring.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The date and the time of day.
pub(super) fn wall() -> Timestamp {
    Timestamp::now()
}
