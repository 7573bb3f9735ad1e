//! Dates as servers write them, and what time it was at the server when its answer arrived.

use core::time::Duration;

use jiff::Timestamp;
use jiff::fmt::{rfc2822, temporal};
use jiff::tz::TimeZone;

use super::number;
use super::text::text;
use crate::time::Wall;

/// What an answer tells about the server's clock.
///
/// Absolute times are measured against the answer's own `Date` (RFC 9110 §6.6.1), so that neither clock need be right.
/// An answer from a cache is older than that by its `Age` (RFC 9111 §5.1), which is believed only as far as our own
/// clock agrees that the answer is that old: neither a wrong cache nor a wrong clock can shorten a wait by itself.
/// A relative wait counts from the arrival and is never shortened for its age.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock<'a> {
    /// Our own clock at the arrival of the answer.
    pub(super) received: Wall,
    /// The answer's `Date`.
    pub(super) date: Option<&'a [u8]>,
    /// The answer's `Age`.
    pub(super) age: Option<&'a [u8]>,
}

impl ServerClock<'_> {
    /// The server's time at the arrival of the answer; ours where it sent no usable `Date`.
    pub(super) fn now(&self) -> Wall {
        let Some(date) = self.date.and_then(text).and_then(|date| http_date(date, self.received)) else {
            return self.received;
        };
        if date < ERA {
            return self.received;
        }
        let claimed = self.age.and_then(text).and_then(number::seconds).unwrap_or_default();
        let witnessed = self.received.since(date).unwrap_or_default();
        later(date, claimed.min(witnessed))
    }
}

/// A date in any of HTTP's three forms (RFC 9110 §5.6.7) or in ISO 8601 with a zone; `now` settles the century of years
/// with two digits. The weekday need not be right, and a fraction of a microsecond rounds up.
pub(super) fn any_date(text: &str, now: Wall) -> Option<Wall> {
    http_date(text, now).or_else(|| ISO_8601.parse_timestamp(text).ok().and_then(wall))
}

/// Seconds since the Unix epoch as a date.
pub(super) fn epoch(since_epoch: Duration) -> Option<Wall> {
    let micros = since_epoch.as_nanos().div_ceil(1_000);
    i64::try_from(micros).ok().map(Wall::from_micros)
}

/// Whether this is the name of a weekday, short or long.
pub(super) fn is_weekday(word: &str) -> bool {
    WEEKDAYS
        .iter()
        .any(|day| word.eq_ignore_ascii_case(day) || day.get(..3).is_some_and(|short| word.eq_ignore_ascii_case(short)))
}

/// IMF-fixdate, RFC 850 or asctime, each rewritten as the RFC 5322 date it means.
fn http_date(text: &str, now: Wall) -> Option<Wall> {
    // Most values that reach this are numbers.
    if !text.bytes().any(|byte| byte == b':') {
        return None;
    }
    let dated = match text.split_once(',') {
        Some((day, rest)) => is_weekday(day.trim()).then_some(rest)?,
        None => text,
    };
    let mut words = dated.split_ascii_whitespace();
    match [(); 6].map(|()| words.next()) {
        [Some(weekday), Some(month), Some(day), Some(time), Some(year), None] if is_weekday(weekday) => {
            rfc_5322(&format!("{day} {month} {year} {time} GMT"))
        }
        [Some(dashed), Some(time), Some(zone), None, ..] if dashed.contains('-') => {
            let (day, month_year) = dashed.split_once('-')?;
            let (month, year) = month_year.split_once('-')?;
            let with_year = |year: &str| rfc_5322(&format!("{day} {month} {year} {time} {zone}"));
            if year.len() == 4 { with_year(year) } else { in_century(year, now, with_year) }
        }
        _ => rfc_5322(dated.trim()),
    }
}

fn rfc_5322(text: &str) -> Option<Wall> {
    RFC_5322.parse_timestamp(text).ok().and_then(wall)
}

/// The year with these last two digits that is latest, yet not more than 50 years ahead (RFC 9110 §5.6.7).
fn in_century(year: &str, now: Wall, with_year: impl Fn(&str) -> Option<Wall>) -> Option<Wall> {
    let digits = year.len() == 2 && year.bytes().all(|byte| byte.is_ascii_digit());
    let two: i16 = digits.then(|| year.parse().ok())??;
    let today = Timestamp::from_microsecond(now.as_micros()).ok()?;
    let century = TimeZone::UTC.to_datetime(today).year() / 100 * 100;
    let horizon = later(now, FIFTY_YEARS);
    [century + 100, century, century - 100]
        .into_iter()
        .filter_map(|century| with_year(&format!("{:04}", century + two)))
        .find(|date| *date <= horizon)
}

fn wall(date: Timestamp) -> Option<Wall> {
    let micros = -(-date.as_nanosecond()).div_euclid(1_000);
    i64::try_from(micros).ok().map(Wall::from_micros)
}

fn later(date: Wall, span: Duration) -> Wall {
    let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    Wall::from_micros(date.as_micros().saturating_add(micros))
}

/// 2001-09-09, a thousand million seconds after the Unix epoch. A server that says it is earlier has a clock that was
/// never set; and a smaller number is a span, not a date.
pub(super) const ERA: Wall = Wall::from_secs(1_000_000_000);

const FIFTY_YEARS: Duration = Duration::from_secs(50 * 31_556_952);
const RFC_5322: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new().relaxed_weekday(true);
const ISO_8601: temporal::DateTimeParser = temporal::DateTimeParser::new();
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Wall> {
        any_date(text, Wall::from_secs(NOW))
    }

    #[test]
    fn a15_two_digit_years_lie_at_most_fifty_years_ahead() {
        assert_eq!(read("Sunday, 21-Jun-26 07:28:00 GMT"), Some(Wall::from_secs(NOW + 60)));
        assert_eq!(read("Friday, 21-Jun-75 07:27:00 GMT"), read("2075-06-21T07:27:00Z"));
        assert_eq!(read("Tuesday, 21-Jun-77 07:27:00 GMT"), read("1977-06-21T07:27:00Z"));
        let at_the_turn = any_date("Friday, 01-Jan-00 00:00:10 GMT", epoch_of("2099-12-31T23:59:50Z"));
        assert_eq!(at_the_turn, Some(epoch_of("2100-01-01T00:00:10Z")));
    }

    #[test]
    fn a17_every_form_and_zone_that_means_utc_is_read_as_utc() {
        let expected = Some(epoch_of("2026-08-13T15:37:13Z"));
        for text in [
            "Thu, 13 Aug 2026 15:37:13 GMT",
            "Thu, 13 Aug 2026 15:37:13 UTC",
            "Thu, 13 Aug 2026 15:37:13 +0000",
            "Thu, 13 Aug 2026 15:37:13 -0000",
            "Thu, 13 Aug 2026 16:37:13 +0100",
            "13 Aug 2026 15:37:13 GMT",
            "Mon, 13 Aug 2026 15:37:13 GMT",
            "thu, 13 aug 2026 15:37:13 gmt",
            "Thursday, 13-Aug-26 15:37:13 GMT",
            "Thu, 13-Aug-2026 15:37:13 GMT",
            "Thu Aug 13 15:37:13 2026",
            "2026-08-13T15:37:13Z",
            "2026-08-13T17:37:13+02:00",
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read("Sun, 6 Nov 1994 08:49:37 GMT"), Some(Wall::from_secs(784_111_777)));
        assert_eq!(read("Sun Nov  6 08:49:37 1994"), Some(Wall::from_secs(784_111_777)));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "12",
            "Thu",
            "Thu,",
            "Thu, 32 Aug 2026 15:37:13 GMT",
            "Thu, 13 Aug 2026 25:37:13 GMT",
            "Someday, 13 Aug 2026 15:37:13 GMT",
            "Sunday, 21-Jun-6 07:28:00 GMT",
            "Sunday, 21-Jun--6 07:28:00 GMT",
            "Sunday, 21-Jun-+6 07:28:00 GMT",
            "2026-08-13T15:37:13",
            "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a18_age_counts_only_as_far_as_our_clock_agrees() {
        let now = |received: i64, age: &str| {
            let date = b"Sun, 21 Jun 2026 07:27:00 GMT";
            ServerClock { received: Wall::from_secs(received), date: Some(date), age: Some(age.as_bytes()) }.now()
        };
        assert_eq!(now(NOW + 30, "20"), Wall::from_secs(NOW + 20));
        assert_eq!(now(NOW + 30, "40"), Wall::from_secs(NOW + 30));
        assert_eq!(now(NOW - 600, "40"), Wall::from_secs(NOW));
        assert_eq!(now(NOW + 30, "-40"), Wall::from_secs(NOW));
    }

    #[test]
    fn a18_without_a_usable_date_our_clock_is_taken() {
        for date in [None, Some(&b"junk"[..]), Some(b"Thu, 01 Jan 1970 00:00:07 GMT"), Some(b"\xFF")] {
            let clock = ServerClock { received: Wall::from_secs(NOW), date, age: Some(b"7") };
            assert_eq!(clock.now(), Wall::from_secs(NOW));
        }
    }

    #[test]
    fn fractions_of_a_microsecond_round_up() {
        assert_eq!(read("2026-06-21T07:27:00.0000001Z"), Some(Wall::from_micros(NOW * 1_000_000 + 1)));
        assert_eq!(epoch(Duration::from_nanos(1)), Some(Wall::from_micros(1)));
        assert_eq!(epoch(Duration::MAX), None);
    }

    fn epoch_of(iso: &str) -> Wall {
        iso.parse::<Timestamp>().ok().and_then(wall).unwrap()
    }

    /// 2026-06-21T07:27:00Z.
    const NOW: i64 = 1_782_026_820;
}
