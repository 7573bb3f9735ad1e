//! What the answer to a request for robots.txt means before a byte of its body is read, and how long it keeps.

use std::time::Duration;

/// What the status of a robots.txt answer means (RFC 9309 §2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 2xx: the body is a robots.txt; read it with [`Robots::parse`](super::Robots::parse).
    Parse,
    /// The host has no robots.txt to show: everything is allowed. Its body, an error page, is not read.
    AllowAll,
    /// The host could not say: no page of it may be fetched for now, and robots.txt is to be asked for again later.
    /// The body is not read. No answer at all (a reset, a time-out, no such name) is this, too.
    NotNow,
    /// The robots.txt is elsewhere: follow, up to [`MAX_REDIRECTS`] times in a row and to other hosts as well. What is
    /// found there holds for the host first asked. When the redirects do not end, it is [`Answer::AllowAll`].
    Follow,
}

/// How many redirects in a row are followed to find a robots.txt (RFC 9309 §2.3.1.2).
pub const MAX_REDIRECTS: usize = 5;

impl Answer {
    /// The meaning of a status.
    ///
    /// - 429 and every 5xx are [`Answer::NotNow`], never "allow all": a host in trouble has not given leave. (They
    ///   also count as refusals for the pace, and a `Retry-After` holds; that is the caller's part.)
    /// - All other 4xx are [`Answer::AllowAll`]. 401 and 403 too: RFC 9309 §2.3.1.3 calls them "unavailable", as a
    ///   404 is. Older crawlers took them for "keep out"; but a host that means that says so in a robots.txt, and one that
    ///   hides everything behind a login answers 401 and 403 to our page requests, where they cost it little.
    /// - A status that no answer should have (1xx, 304 unasked for, 600 and up) is [`Answer::NotNow`].
    #[must_use]
    pub fn from_status(status: u16) -> Self {
        match status {
            200..=299 => Answer::Parse,
            301 | 302 | 303 | 307 | 308 => Answer::Follow,
            429 => Answer::NotNow,
            400..=499 => Answer::AllowAll,
            _ => Answer::NotNow,
        }
    }
}

/// How long an answer may be kept, from the value of its `Cache-Control` (several lines joined by commas).
///
/// `max-age` holds between one minute and 24 hours, the longest RFC 9309 §2.4 grants; without one it is 24 hours. An
/// answer that may not be stored, must be asked for anew each time, or has an unreadable `max-age` (RFC 9111 §4.2.1
/// calls that stale) is kept for the one minute, so that a run of requests to a host costs it one robots.txt and not
/// one each. Of several `max-age` the shortest holds; `s-maxage` is for shared caches and does not concern us.
///
/// ```
/// use comity_fetch::robots::lifetime;
/// use std::time::Duration;
///
/// assert_eq!(lifetime(Some("public, max-age=600")), Duration::from_secs(600));
/// assert_eq!(lifetime(None), Duration::from_secs(24 * 60 * 60));
/// ```
#[must_use]
pub fn lifetime(cache_control: Option<&str>) -> Duration {
    let directives = cache_control.unwrap_or_default().split(',');
    let shortest = directives.filter_map(directive_lifetime).min();
    shortest.unwrap_or(LIFETIME_MAX).clamp(LIFETIME_MIN, LIFETIME_MAX)
}

/// What one directive says of the lifetime, if anything.
fn directive_lifetime(directive: &str) -> Option<Duration> {
    let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
    let name = name.trim();
    if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
        return Some(Duration::ZERO);
    }
    if !name.eq_ignore_ascii_case("max-age") {
        return None;
    }
    let digits = value.trim().trim_matches('"');
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::ZERO);
    }
    // Digits that do not fit are a very long time.
    Some(digits.parse().map_or(LIFETIME_MAX, Duration::from_secs))
}

/// Below this, a run of requests would ask for robots.txt more often than the rules can change.
const LIFETIME_MIN: Duration = Duration::from_secs(60);
/// RFC 9309 §2.4: a cached version is not to be used for more than 24 hours.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b15_a_server_error_is_not_now_and_its_body_is_never_read() {
        for status in 500..=599 {
            assert_eq!(Answer::from_status(status), Answer::NotNow, "{status}");
        }
    }

    #[test]
    fn b16_too_many_requests_is_not_now_but_not_found_allows_all() {
        assert_eq!(Answer::from_status(429), Answer::NotNow);
        for status in [400, 401, 403, 404, 410, 418, 451, 499] {
            assert_eq!(Answer::from_status(status), Answer::AllowAll, "{status}");
        }
    }

    #[test]
    fn b16_no_status_but_a_client_error_allows_all() {
        for status in (0..=u16::MAX).filter(|status| !(400..=499).contains(status)) {
            assert_ne!(Answer::from_status(status), Answer::AllowAll, "{status}");
        }
    }

    #[test]
    fn only_a_success_is_read_and_only_a_redirect_followed() {
        let is = |wanted: Answer| (0..1000).filter(move |status| Answer::from_status(*status) == wanted);
        assert!(is(Answer::Parse).eq(200..=299));
        assert!(is(Answer::Follow).eq([301, 302, 303, 307, 308]));
    }

    #[test]
    fn a_lifetime_stays_between_a_minute_and_a_day() {
        let day = 24 * 60 * 60;
        let cases = [
            ("max-age=3600", 3600),
            ("public, Max-Age = \"120\"", 120),
            ("max-age=0", 60),
            ("max-age=604800", day),
            ("max-age=99999999999999999999999", day),
            ("max-age=600, max-age=300", 300),
            ("max-age=-1", 60),
            ("max-age=soon", 60),
            ("max-age", 60),
            ("no-store", 60),
            ("private=\"x\", no-cache, max-age=3600", 60),
            ("s-maxage=120", day),
            ("", day),
        ];
        for (header, expected) in cases {
            assert_eq!(lifetime(Some(header)), Duration::from_secs(expected), "{header}");
        }
        assert_eq!(lifetime(None), Duration::from_secs(day));
    }
}
