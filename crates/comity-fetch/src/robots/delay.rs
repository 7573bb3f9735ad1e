//! Reading the values of `Crawl-delay` and `Request-rate`. Neither is in RFC 9309; both are old and common.

use std::time::Duration;

/// Reads a `Crawl-delay` value: decimal seconds, as `10`, `0.5`, `.5` or `10.0`, with or without an `s` behind.
///
/// What is finer than a nanosecond is rounded up, and what is longer than 136 years is that. Anything else (`inf`,
/// `-1`, `1e3`, words) asks for nothing: `None`.
///
/// ```
/// use comity_fetch::robots::crawl_delay;
/// use std::time::Duration;
///
/// assert_eq!(crawl_delay("1.5"), Some(Duration::from_millis(1500)));
/// assert_eq!(crawl_delay("inf"), None);
/// ```
#[must_use]
pub fn crawl_delay(value: &str) -> Option<Duration> {
    let value = value.trim();
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &value[number.len()..];
    (seconds_per(unit)? == 1).then(|| decimal_seconds(number.trim_end())).flatten()
}

/// Reads a `Request-rate` value, `requests/period`, as the spacing between two requests, rounded up to a nanosecond.
///
/// The period is whole seconds, or minutes, hours or days with `m`, `h` or `d` behind. A time of day after it
/// (`30/1m 0900-1700`) is not looked at: the rate holds all day, which is the stricter reading. A bare number has
/// no period; it is read as one request in that many seconds and never as so many a second. No requests, no time, or
/// no number: `None`.
///
/// ```
/// use comity_fetch::robots::request_rate;
/// use std::time::Duration;
///
/// assert_eq!(request_rate("30/1m 0900-1700"), Some(Duration::from_secs(2)));
/// assert_eq!(request_rate("10"), Some(Duration::from_secs(10)));
/// ```
#[must_use]
pub fn request_rate(value: &str) -> Option<Duration> {
    let (requests, period) = value.split_once('/').unwrap_or(("1", value));
    let requests = whole(requests.trim())?;
    let period = period.split_whitespace().next()?;
    let number = period.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = whole(number)?.saturating_mul(seconds_per(&period[number.len()..])?).min(LONGEST_SECONDS);
    if requests == 0 || seconds == 0 {
        return None;
    }
    let spacing = (u128::from(seconds) * NANOS_PER_SECOND).div_ceil(u128::from(requests));
    u64::try_from(spacing).ok().map(Duration::from_nanos)
}

/// How many seconds a unit has; none written is seconds.
fn seconds_per(unit: &str) -> Option<u64> {
    match unit.to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => Some(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60),
        "h" | "hour" | "hours" => Some(60 * 60),
        "d" | "day" | "days" => Some(24 * 60 * 60),
        _ => None,
    }
}

/// `12`, `12.5`, `12.` or `.5`, rounded up to a nanosecond.
fn decimal_seconds(number: &str) -> Option<Duration> {
    let (seconds, fraction) = number.split_once('.').unwrap_or((number, ""));
    if seconds.is_empty() && fraction.is_empty() {
        return None;
    }
    let seconds = if seconds.is_empty() { 0 } else { whole(seconds)? };
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digit = |place: usize| u64::from(fraction.as_bytes().get(place).map_or(0, |digit| digit - b'0'));
    let nanos = (0..NANO_DIGITS).fold(0, |nanos, place| nanos * 10 + digit(place));
    let finer = fraction.bytes().skip(NANO_DIGITS).any(|digit| digit != b'0');
    Some(Duration::from_secs(seconds) + Duration::from_nanos(nanos + u64::from(finer)))
}

/// Decimal digits and nothing else; no more than [`LONGEST_SECONDS`].
fn whole(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // What does not fit in the integer is more than the most we count with.
    Some(digits.parse().unwrap_or(LONGEST_SECONDS).min(LONGEST_SECONDS))
}

/// No wait is longer, so that it can be added to any instant. What is too long to obey is decided elsewhere.
const LONGEST_SECONDS: u64 = u32::MAX as u64;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// Decimal places of a second that a `Duration` holds.
const NANO_DIGITS: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn b02_decimal_seconds() {
        let cases = [("0.5", 500), ("1.5", 1500), (".5", 500), ("10.0", 10_000), ("10.", 10_000), (" 3 ", 3000)];
        for (value, millis) in cases {
            assert_eq!(crawl_delay(value), Some(Duration::from_millis(millis)), "{value}");
        }
        assert_eq!(crawl_delay("0"), Some(Duration::ZERO));
        assert_eq!(crawl_delay("5s"), crawl_delay("5 seconds"));
        assert_eq!(crawl_delay("5 seconds"), Some(Duration::from_secs(5)));
    }

    #[test]
    fn b02_what_is_no_number_of_seconds_asks_for_nothing() {
        for value in ["", ".", "inf", "nan", "-1", "+1", "1e3", "0x10", "ten", "1.2.3", "1,5", "5m", "10 20", "٣"] {
            assert_eq!(crawl_delay(value), None, "{value}");
        }
    }

    #[test]
    fn b02_a_huge_delay_is_long_and_not_an_overflow() {
        let longest = Some(Duration::from_secs(LONGEST_SECONDS));
        assert_eq!(crawl_delay("99999999999999999999999999"), longest);
        assert_eq!(request_rate("1/99999999999999999999999999d"), longest);
    }

    #[test]
    fn b05_what_is_finer_than_a_nanosecond_is_rounded_up() {
        assert_eq!(crawl_delay("0.0000000001"), Some(Duration::from_nanos(1)));
        assert_eq!(crawl_delay("0.9999999999"), Some(Duration::from_secs(1)));
        assert_eq!(request_rate("3/10"), Some(Duration::from_nanos(3_333_333_334)));
    }

    #[test]
    fn b14_request_rates() {
        let cases =
            [("1/10", 10), ("1/10m", 600), ("30/1m 0900-1700", 2), ("1 / 2h", 7200), ("2/1d", 43_200), ("10", 10)];
        for (value, seconds) in cases {
            assert_eq!(request_rate(value), Some(Duration::from_secs(seconds)), "{value}");
        }
        for value in ["", "/", "0/10", "1/0", "0", "1/", "/10", "-1/10", "1/ten", "1.5/10", "1/10x", "a/b"] {
            assert_eq!(request_rate(value), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_not_and_never_a_panic(value in "\\PC{0,24}|[0-9./smhd ]{0,24}") {
            let longest = Duration::from_secs(LONGEST_SECONDS + 1);
            prop_assert!(crawl_delay(&value).is_none_or(|delay| delay <= longest));
            prop_assert!(request_rate(&value).is_none_or(|spacing| spacing <= longest));
        }

        #[test]
        fn a_rate_is_never_exceeded(requests in 1_u64..100_000, period in 1_u64..1_000_000) {
            let spacing = request_rate(&format!("{requests}/{period}")).unwrap();
            let total = spacing.as_nanos() * u128::from(requests);
            prop_assert!(total >= Duration::from_secs(period).as_nanos());
            prop_assert!(total < Duration::from_secs(period).as_nanos() + u128::from(requests));
        }
    }
}
