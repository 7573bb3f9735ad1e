//! Numbers and spans as servers write them, read exactly: waits round up, counts round down, nothing overflows.

use core::time::Duration;

/// A decimal number of seconds (`5`, `0.493`, `.5`, `10.`), rounded up to the nanosecond. A number too large to hold is
/// [`Duration::MAX`]; signs, exponents and anything else are `None`.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = decimal(text)?;
    Some(Duration::from_secs(saturating(whole)).saturating_add(fraction_of_a_second(fraction)))
}

/// A span of numbers with units, as Go prints them: `105.712425ms`, `1m30s`, `6m0s`. Rounded up to the nanosecond,
/// saturating.
pub(super) fn unit_span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |byte| !matches!(byte, b'0'..=b'9' | b'.'));
        let (unit, after) = split_where(after, |byte| !byte.is_ascii_alphabetic());
        let number = seconds(number)?;
        let part = match unit {
            "d" => number.saturating_mul(86_400),
            "h" => number.saturating_mul(3_600),
            "m" => number.saturating_mul(60),
            "s" => number,
            "ms" => divided(number, 1_000),
            "us" => divided(number, 1_000_000),
            "ns" => divided(number, 1_000_000_000),
            _ => return None,
        };
        sum = sum.saturating_add(part);
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

/// A count, its fraction dropped (`598.0`); `None` where it is no number or does not fit.
pub(super) fn count(text: &str) -> Option<u64> {
    let (whole, _) = decimal(text)?;
    if whole.is_empty() { Some(0) } else { whole.parse().ok() }
}

/// A span as so many equal parts, each rounded up to the nanosecond; `None` for no parts.
pub(super) fn split(span: Duration, parts: u64) -> Option<Duration> {
    (parts > 0).then(|| divided(span, u128::from(parts)))
}

/// A span rounded up to the whole millisecond, the grain of timers.
pub(super) fn whole_millis(span: Duration) -> Duration {
    match span.subsec_nanos() % NANOS_A_MILLI {
        0 => span,
        over => span.saturating_add(Duration::from_nanos(u64::from(NANOS_A_MILLI - over))),
    }
}

/// The digits before and after the point, of which there are some.
fn decimal(text: &str) -> Option<(&str, &str)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let some = !whole.is_empty() || !fraction.is_empty();
    (some && digits(whole) && digits(fraction)).then_some((whole, fraction))
}

fn saturating(digits: &str) -> u64 {
    digits.bytes().fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

fn fraction_of_a_second(digits: &str) -> Duration {
    let mut places = digits.bytes().map(|digit| u64::from(digit - b'0'));
    let nanos = (0..9).fold(0, |sum, _| sum * 10 + places.next().unwrap_or(0));
    let beyond = places.any(|digit| digit > 0);
    Duration::from_nanos(nanos + u64::from(beyond))
}

fn divided(span: Duration, by: u128) -> Duration {
    let nanos = span.as_nanos().div_ceil(by);
    let secs = u64::try_from(nanos / NANOS_A_SECOND).unwrap_or(u64::MAX);
    Duration::from_secs(secs).saturating_add(Duration::from_nanos((nanos % NANOS_A_SECOND) as u64))
}

/// `text` before and from the first byte that satisfies `end`.
fn split_where(text: &str, end: impl Fn(u8) -> bool) -> (&str, &str) {
    let at = text.bytes().position(end).unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

const NANOS_A_MILLI: u32 = 1_000_000;
const NANOS_A_SECOND: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_and_round_up_past_the_nanosecond() {
        assert_eq!(seconds("0.493"), Some(Duration::from_millis(493)));
        assert_eq!(seconds(".5"), Some(Duration::from_millis(500)));
        assert_eq!(seconds("10."), Some(Duration::from_secs(10)));
        assert_eq!(seconds("0.0000000001"), Some(Duration::from_nanos(1)));
        assert_eq!(seconds("1.9999999999"), Some(Duration::from_secs(2)));
        assert_eq!(seconds("0007.0"), Some(Duration::from_secs(7)));
    }

    #[test]
    fn numbers_too_large_to_hold_saturate() {
        assert_eq!(seconds(&"9".repeat(400)), Some(Duration::from_secs(u64::MAX)));
        assert!(seconds(&format!("{}.9999999999", u64::MAX)).is_some());
        assert!(unit_span(&format!("{0}h{0}h", u64::MAX)).is_some());
        assert_eq!(count("18446744073709551616"), None);
        assert_eq!(whole_millis(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", ".", "-1", "-1.5", "+5", "1e3", "inf", "NaN", "1.2.3", "0x10", "5 s", "1_000"] {
            assert_eq!(seconds(text), None, "{text}");
            assert_eq!(count(text), None, "{text}");
        }
        for text in ["", "5", "ms", "5x", "1m30", "-1s", "5 ms", "1..5s"] {
            assert_eq!(unit_span(text), None, "{text}");
        }
    }

    #[test]
    fn spans_with_units_are_summed() {
        assert_eq!(unit_span("105.712425ms"), Some(Duration::from_nanos(105_712_425)));
        assert_eq!(unit_span("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(unit_span("1h0m0.5s"), Some(Duration::from_millis(3_600_500)));
        assert_eq!(unit_span("0.0000001ms"), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn counts_drop_their_fraction() {
        assert_eq!(count("598.0"), Some(598));
        assert_eq!(count("0.9"), Some(0));
        assert_eq!(count(".9"), Some(0));
    }
}
