//! The one file of the guard that reads a clock. Everything else takes the time as an argument (G9), or asks here for what
//! the runtime's timers go by. Tests pause tokio's clock, and this one follows it.

use std::sync::Arc;
use std::time::Duration;

use comity_core::time::Instant;
use comity_store::ReadClock;

/// The present, on the clock of tokio's timers.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// This process's own monotonic clock, a second after its origin: the origin means "never" to nobody.
pub(crate) fn of_this_process() -> ReadClock {
    let origin = now();
    Arc::new(move || {
        let since = now().saturating_duration_since(origin);
        Instant::ZERO.after(Duration::from_secs(1) + since)
    })
}
