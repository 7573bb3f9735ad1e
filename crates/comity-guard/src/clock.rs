//! The one file of the guard that reads a clock. Everything else takes the time as an argument (G9).

use std::sync::Arc;

use comity_core::time::Instant;
use comity_store::ReadClock;

/// This process's own monotonic clock, a second after its origin: the origin means "never" to nobody. Tests pause tokio's
/// clock, and this one follows it.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub(crate) fn of_this_process() -> ReadClock {
    let origin = tokio::time::Instant::now();
    Arc::new(move || {
        let since = tokio::time::Instant::now().saturating_duration_since(origin);
        // 584 years of nanoseconds fit.
        Instant::from_nanos(
            (1 + since.as_secs()).saturating_mul(1_000_000_000).saturating_add(u64::from(since.subsec_nanos())),
        )
    })
}
