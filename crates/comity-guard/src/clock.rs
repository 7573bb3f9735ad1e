//! The one file of the guard that reads a clock. Everything else takes the time as an argument (G9).

use std::sync::Arc;
use std::time::Duration;

use comity_core::time::Instant;
use comity_store::ReadClock;

/// This process's own monotonic clock, a second after its origin: the origin means "never" to nobody. Tests pause tokio's
/// clock, and this one follows it.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub(crate) fn of_this_process() -> ReadClock {
    let origin = tokio::time::Instant::now();
    Arc::new(move || {
        let since = tokio::time::Instant::now().saturating_duration_since(origin);
        Instant::ZERO.after(Duration::from_secs(1) + since)
    })
}
