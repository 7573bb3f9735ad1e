//! Whether an answer refuses, for how long, and what it suggests otherwise.

use core::time::Duration;

use super::date::ServerClock;
use super::ratelimit;
use super::retry_after::RetryAfter;
use super::text::text;
use super::{Inferred, Quota, Reading};

/// Whether the answer refuses (behaviour T6): 429, 503, 405 with a valid Retry-After, and as configured. No other
/// status does, whatever its Retry-After: a 301 or a 202 speaks to the one who asked, not of the host's load.
pub(super) fn refuses<'a>(
    status: u16,
    headers: &(impl Iterator<Item = (&'a str, &'a [u8])> + Clone),
    retry_after: RetryAfter,
    reading: &Reading,
) -> bool {
    if reading.refuse_when.iter().any(|rule| rule.matches(status, headers.clone())) {
        return true;
    }
    if reading.never_refuse.contains(&status) {
        return false;
    }
    match status {
        429 | 503 => true,
        405 if retry_after.is_valid() => true,
        _ => reading.refuse_also.contains(&status),
    }
}

/// How long a refusal asks us to stay away. Retry-After comes first, then the configured headers, then the reset of an
/// exhausted quota, then the configured least wait.
pub(super) fn refusal_wait<'a>(
    headers: &(impl Iterator<Item = (&'a str, &'a [u8])> + Clone),
    retry_after: RetryAfter,
    quotas: &[Quota],
    clock: &ServerClock<'_>,
    reading: &Reading,
) -> Option<Duration> {
    retry_after
        .wait()
        .or_else(|| reading.reset_headers.iter().find_map(|name| configured_wait(name, headers.clone(), clock)))
        .or_else(|| reset_wait(quotas))
        .or(reading.min_refusal_wait)
}

/// What the answer suggests, without the server having said it (behaviour A11: client errors are neutral).
pub(super) fn inferred(status: u16, refused: bool) -> Inferred {
    match status {
        _ if refused => Inferred::Neutral,
        100..=399 => Inferred::Healthy,
        500..=599 => Inferred::ServerError,
        _ => Inferred::Neutral,
    }
}

/// The longest wait that fields of this name ask for.
fn configured_wait<'a>(
    wanted: &str,
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    clock: &ServerClock<'_>,
) -> Option<Duration> {
    headers
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
        .filter_map(|(_, value)| ratelimit::reset(text(value)?, clock))
        .max()
        .filter(|wait| !wait.is_zero())
}

/// The longest reset among the quotas known to be exhausted; where none is, among those that may be. A quota that has
/// requests left is not what refused us, and its reset is not the wait.
fn reset_wait(quotas: &[Quota]) -> Option<Duration> {
    let longest = |remaining: Option<u64>| {
        quotas
            .iter()
            .filter(|quota| quota.remaining == remaining)
            .filter_map(|quota| quota.resets_in)
            .max()
            .filter(|wait| !wait.is_zero())
    };
    longest(Some(0)).or_else(|| longest(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a11_client_errors_and_odd_statuses_are_neutral() {
        for status in [400, 401, 403, 404, 405, 410, 451, 0, 99, 600, 999] {
            assert_eq!(inferred(status, false), Inferred::Neutral, "{status}");
        }
        for status in [100, 200, 202, 204, 206, 301, 304] {
            assert_eq!(inferred(status, false), Inferred::Healthy, "{status}");
        }
        for status in [500, 502, 503, 504, 520, 599] {
            assert_eq!(inferred(status, false), Inferred::ServerError, "{status}");
        }
        assert_eq!(inferred(503, true), Inferred::Neutral);
    }

    #[test]
    fn t6_refusing_statuses_and_the_configured_ones() {
        let refused =
            |status, retry_after, reading: &Reading| refuses(status, &core::iter::empty(), retry_after, reading);
        let standard = Reading::default();
        let long = RetryAfter::Wait(Duration::from_secs(2));
        assert!(refused(429, RetryAfter::Absent, &standard));
        assert!(refused(503, RetryAfter::Absent, &standard));
        assert!(refused(405, long, &standard));
        for status in [200, 202, 301, 403, 404, 420, 500, 502, 504] {
            assert!(!refused(status, long, &standard), "{status}");
        }

        let own = Reading { refuse_also: vec![403, 420, 430], never_refuse: vec![503], ..Reading::default() };
        assert!(refused(403, RetryAfter::Absent, &own));
        assert!(refused(430, RetryAfter::Absent, &own));
        assert!(!refused(503, long, &own));
    }
}
