//! Retry-After (RFC 9110 §10.2.3) in every form it is met with.

use core::time::Duration;

use super::date::{self, ServerClock};
use super::number;
use super::text::{elements, text};
use crate::time::Wall;

/// What the Retry-After fields of an answer say together. The largest of several is the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetryAfter {
    /// There is none.
    Absent,
    /// There is one, and it says nothing to go by.
    NoAdvice(Why),
    /// Stay away so long from the arrival of the answer; rounded up to the millisecond, never zero. It can be
    /// [`Duration::MAX`]: whoever obeys it has a limit.
    Wait(Duration),
}

/// Why a Retry-After gives no advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Neither a number nor a date: negative, empty, not visible ASCII, too long.
    Junk,
    /// A time that has passed.
    Past,
    /// Zero.
    Zero,
}

impl RetryAfter {
    /// The wait it asks for.
    pub fn wait(self) -> Option<Duration> {
        match self {
            Self::Wait(span) => Some(span),
            Self::Absent | Self::NoAdvice(_) => None,
        }
    }

    /// Whether it is there and well-formed, as zero and past times are (they make a 405 a refusal: behaviour T6).
    pub fn is_valid(self) -> bool {
        !matches!(self, Self::Absent | Self::NoAdvice(Why::Junk))
    }
}

/// Several fields, and lists in one, are read alike: the longest valid value wins.
pub(super) fn read(values: &[&[u8]], clock: &ServerClock<'_>) -> RetryAfter {
    values.iter().map(|value| read_field(value, clock)).max().unwrap_or(RetryAfter::Absent)
}

fn read_field(value: &[u8], clock: &ServerClock<'_>) -> RetryAfter {
    let junk = RetryAfter::NoAdvice(Why::Junk);
    let Some(list) = text(value) else { return junk };
    elements(list).map(|element| read_element(element, clock)).max().unwrap_or(junk)
}

fn read_element(element: &str, clock: &ServerClock<'_>) -> RetryAfter {
    if let Some(number) = number::seconds(element) {
        return match epoch_near_now(number, clock) {
            Some((date, now)) => until(date, now),
            None if number.is_zero() => RetryAfter::NoAdvice(Why::Zero),
            None => RetryAfter::Wait(number::whole_millis(number)),
        };
    }
    let now = clock.now();
    match date::any_date(element, now) {
        Some(date) => until(date, now),
        None => RetryAfter::NoAdvice(Why::Junk),
    }
}

fn until(date: Wall, now: Wall) -> RetryAfter {
    match date.since(now) {
        Some(span) if !span.is_zero() => RetryAfter::Wait(number::whole_millis(span)),
        _ => RetryAfter::NoAdvice(Why::Past),
    }
}

/// The date, and the server's now, where a number is plainly a Unix time in seconds or milliseconds.
fn epoch_near_now(number: Duration, clock: &ServerClock<'_>) -> Option<(Wall, Wall)> {
    // Smaller numbers are spans, and most are: the clock need not be asked.
    date::epoch(number).filter(|date| *date >= date::ERA)?;
    let now = clock.now();
    let near = |date: &Wall| *date >= date::ERA && apart(*date, now) <= NEAR;
    [Some(number), number::split(number, 1_000)]
        .into_iter()
        .flatten()
        .filter_map(date::epoch)
        .find(near)
        .map(|date| (date, now))
}

fn apart(one: Wall, other: Wall) -> Duration {
    one.since(other).or_else(|| other.since(one)).unwrap_or(Duration::MAX)
}

/// A Unix time in a Retry-After is one a server means to come soon; five years allow for clocks that are wrong.
/// As a span, a number of this size would be thirty years and more.
const NEAR: Duration = Duration::from_secs(5 * 366 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a02_fractions_of_a_second_are_read_and_never_shortened() {
        for (value, millis) in [("0.493", 493), ("0.129", 129), ("0.314", 314), ("0.1290001", 130)] {
            assert_eq!(at_noon(value), wait(millis));
        }
    }

    #[test]
    fn a03_spaces_are_ignored_and_a_date_under_a_second_ahead_is_waited_for() {
        assert_eq!(at_noon("1.5"), wait(1_500));
        assert_eq!(at_noon("0.4"), wait(400));
        assert_eq!(at_noon(" 2.5 "), wait(2_500));
        let received = Wall::from_micros(NOON * 1_000_000 + 600_000);
        let clock = ServerClock { received, date: None, age: None };
        assert_eq!(read(&[b"Sun, 21 Jun 2026 12:00:01 GMT"], &clock), wait(400));
    }

    #[test]
    fn a05_negative_values_are_no_advice() {
        assert_eq!(at_noon("-1"), RetryAfter::NoAdvice(Why::Junk));
        assert_eq!(at_noon("-1.5"), RetryAfter::NoAdvice(Why::Junk));
    }

    #[test]
    fn a07_zero_and_past_are_no_advice_each_with_its_reason() {
        assert_eq!(at_noon("0"), RetryAfter::NoAdvice(Why::Zero));
        assert_eq!(at_noon("0.000"), RetryAfter::NoAdvice(Why::Zero));
        assert_eq!(at_noon("Sun, 21 Jun 2026 12:00:00 GMT"), RetryAfter::NoAdvice(Why::Past));
        assert_eq!(at_noon("Sun, 21 Jun 2026 11:00:00 GMT"), RetryAfter::NoAdvice(Why::Past));
        for junk in ["", " ", ",", "soon", "inf", "NaN", "1e3", "5 s"] {
            assert_eq!(at_noon(junk), RetryAfter::NoAdvice(Why::Junk), "{junk:?}");
        }
    }

    #[test]
    fn a08_a_huge_value_is_a_very_long_wait() {
        assert_eq!(at_noon("9999999999"), wait(9_999_999_999_000));
        assert_eq!(at_noon(&"9".repeat(100)), RetryAfter::Wait(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn a10_weeks_are_kept_whole() {
        assert_eq!(at_noon("2200000"), wait(2_200_000_000));
        assert_eq!(at_noon("2147483"), wait(2_147_483_000));
    }

    #[test]
    fn a12_bytes_that_are_not_visible_ascii_are_no_advice() {
        for value in [&b"\xC2\xB2"[..], "٣".as_bytes(), b"3\0", b"\xB2"] {
            assert_eq!(read(&[value], &NOON_CLOCK), RetryAfter::NoAdvice(Why::Junk));
        }
    }

    #[test]
    fn a15_a_two_digit_year_is_this_century() {
        assert_eq!(at_noon("Sunday, 21-Jun-26 12:01:00 GMT"), wait(60_000));
    }

    #[test]
    fn a17_a_date_is_honoured_to_the_second() {
        let received = Wall::from_secs(1_786_635_433 - 10);
        let clock = ServerClock { received, date: None, age: None };
        for zone in ["GMT", "UTC", "-0000", "+0000"] {
            let value = format!("Thu, 13 Aug 2026 15:37:13 {zone}");
            assert_eq!(read(&[value.as_bytes()], &clock), wait(10_000), "{zone}");
        }
    }

    #[test]
    fn a18_a_date_is_measured_against_the_answers_own() {
        let sent = 1_568_784_803;
        for received in [sent - 600, sent + 600] {
            let clock = ServerClock {
                received: Wall::from_secs(received),
                date: Some(b"Wed, 18 Sep 2019 05:33:23 GMT"),
                age: None,
            };
            assert_eq!(read(&[b"Wed, 18 Sep 2019 05:34:00 GMT"], &clock), wait(37_000));
            assert_eq!(read(&[b"1568784840"], &clock), wait(37_000));
        }
    }

    #[test]
    fn a18_a_relative_wait_is_never_shortened_for_its_age() {
        let clock = ServerClock { date: Some(b"Sun, 21 Jun 2026 11:00:00 GMT"), age: Some(b"3600"), ..NOON_CLOCK };
        assert_eq!(read(&[b"120"], &clock), wait(120_000));
        assert_eq!(read(&[b"Sun, 21 Jun 2026 12:02:00 GMT"], &clock), wait(120_000));
    }

    #[test]
    fn a19_longest_valid_value_wins() {
        assert_eq!(read(&[b"5", b"30"], &NOON_CLOCK), wait(30_000));
        assert_eq!(read(&[b"30", b"5"], &NOON_CLOCK), wait(30_000));
        assert_eq!(at_noon("5, 30"), wait(30_000));
        assert_eq!(at_noon("5, Sun, 21 Jun 2026 12:01:00 GMT, 7"), wait(60_000));
        assert_eq!(read(&[b"junk", b"5", b"\xFF"], &NOON_CLOCK), wait(5_000));
        assert_eq!(at_noon("junk, 5"), wait(5_000));
        assert_eq!(at_noon("0, junk"), RetryAfter::NoAdvice(Why::Zero));
    }

    #[test]
    fn digits_that_are_a_unix_time_near_now_are_read_as_one() {
        assert_eq!(at_noon(&format!("{}", NOON + 90)), wait(90_000));
        assert_eq!(at_noon(&format!("{}.25", NOON + 90)), wait(90_250));
        assert_eq!(at_noon(&format!("{}", (NOON + 90) * 1_000 + 1)), wait(90_001));
        assert_eq!(at_noon(&format!("{}", NOON - 90)), RetryAfter::NoAdvice(Why::Past));
        let far = NOON + 6 * 366 * 86_400;
        assert_eq!(at_noon(&format!("{far}")), RetryAfter::Wait(Duration::from_secs(far as u64)));
    }

    #[test]
    fn a_clock_at_its_origin_takes_no_small_number_for_a_unix_time() {
        let clock = ServerClock { received: Wall::from_secs(0), date: None, age: None };
        assert_eq!(read(&[b"60"], &clock), wait(60_000));
    }

    fn at_noon(value: &str) -> RetryAfter {
        read(&[value.as_bytes()], &NOON_CLOCK)
    }

    fn wait(millis: u64) -> RetryAfter {
        RetryAfter::Wait(Duration::from_millis(millis))
    }

    /// 2026-06-21T12:00:00Z.
    const NOON: i64 = 1_782_043_200;
    const NOON_CLOCK: ServerClock<'_> = ServerClock { received: Wall::from_secs(NOON), date: None, age: None };
}
