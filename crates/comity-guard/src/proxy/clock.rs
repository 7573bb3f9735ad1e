//! The one place of the proxy that reads a clock.

use tokio::time::Instant;

/// The present, on the clock of tokio's timers.
#[expect(clippy::disallowed_methods, reason = "time-outs are measured on the clock that the runtime's timers use")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
