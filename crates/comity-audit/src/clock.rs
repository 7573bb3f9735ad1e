//! The auditor's own clock: nothing that is judged here may have a say in what time it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time since an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[expect(clippy::disallowed_methods, reason = "the witness keeps a clock of its own")]
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Time since the origin.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Returns at `at`, not before it: sleeps most of the way and spins the rest, so that a busy machine's timer is not
    /// mistaken for the pacer.
    #[expect(clippy::disallowed_methods, reason = "this is the measuring instrument; it has a thread to itself")]
    pub(crate) fn wait_until(&self, at: Duration) {
        let left = at.saturating_sub(self.now());
        if left > SPIN {
            std::thread::sleep(left - SPIN);
        }
        while self.now() < at {
            std::hint::spin_loop();
        }
    }
}

/// The wall clock, in whole seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "answers carry a Date, and only the wall clock knows it")]
pub(crate) fn wall_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A date as HTTP writes it (RFC 9110 section 5.6.7); a second outside the calendar becomes its first.
pub(crate) fn http_date(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_default()
}

/// The last stretch of a wait, spent spinning: longer than a timer is usually late (about 1 ms).
const SPIN: Duration = Duration::from_micros(1500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_http_writes_it() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(i64::MAX), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn a_wait_ends_at_its_instant_and_not_before() {
        let clock = Clock::start();
        let at = clock.now() + Duration::from_millis(3);
        clock.wait_until(at);
        assert!(clock.now() >= at);
    }
}
