//! The times of access logs, in all their spellings, and how fine each is.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// A time, and the grain it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Nanoseconds since the Unix epoch.
    pub(super) nanos: u64,
    /// The true time is less than so many nanoseconds away.
    pub(super) resolution: u64,
}

impl Stamp {
    /// Reads seconds, milliseconds, microseconds or nanoseconds since the Unix epoch (told apart by size), RFC 3339 and
    /// ISO 8601, or the Common Log Format's time; in brackets or not.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('[').unwrap_or(text);
        let text = text.strip_suffix(']').unwrap_or(text).trim();
        if text.len() > MOST_BYTES || !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        epoch(text).or_else(|| dated(text))
    }

    /// The time at which something began that ended now. Both were rounded, so their difference may be off by both.
    pub(super) fn less(self, lasted: Lasted) -> Self {
        match self.nanos.checked_sub(lasted.nanos) {
            Some(nanos) if lasted.nanos < LONGEST_ANSWER => {
                Self { nanos, resolution: self.resolution + lasted.resolution }
            }
            _ => self,
        }
    }
}

/// How long something took, and the grain it was written with; both in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lasted {
    nanos: u64,
    resolution: u64,
}

impl Lasted {
    /// Reads a decimal number of seconds.
    pub(super) fn seconds(text: &str) -> Option<Self> {
        let (nanos, resolution) = decimal(text, SECOND)?;
        Some(Self { nanos, resolution })
    }

    /// Reads a whole number of nanoseconds.
    pub(super) fn nanoseconds(text: &str) -> Option<Self> {
        Some(Self { nanos: text.parse().ok()?, resolution: 1 })
    }
}

/// A number since the Unix epoch. What is less than a hundred million is no time but, say, a duration.
fn epoch(text: &str) -> Option<Stamp> {
    let whole: u64 = text.split_once('.').map_or(text, |(whole, _)| whole).parse().ok()?;
    let unit = match whole {
        0..100_000_000 => return None,
        100_000_000..100_000_000_000 => SECOND,
        100_000_000_000..100_000_000_000_000 => SECOND / 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => SECOND / 1_000_000,
        _ => 1,
    };
    let (nanos, resolution) = decimal(text, unit)?;
    Some(Stamp { nanos, resolution })
}

/// A decimal number of units, and the place of its last digit; both in nanoseconds.
fn decimal(text: &str, unit: u64) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if ![whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let fraction = fraction.get(..9).unwrap_or(fraction);
    let place = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let parts = u64::try_from(u128::from(parts) * u128::from(unit) / u128::from(place)).ok()?;
    let nanos = whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(parts)?;
    Some((nanos, (unit / place).max(1)))
}

/// A date with a time to the second or finer; without an offset it is UTC.
fn dated(text: &str) -> Option<Stamp> {
    let timestamp = if text.as_bytes().get(2) == Some(&b'/') { common(text) } else { iso(text) }?;
    let nanos = u64::try_from(timestamp.as_nanosecond()).ok()?;
    let digits = text
        .split_once(['.', ','])
        .map_or(0, |(_, fraction)| fraction.bytes().take_while(u8::is_ascii_digit).count().min(9));
    let resolution = SECOND / 10_u64.pow(u32::try_from(digits).ok()?);
    Some(Stamp { nanos, resolution })
}

/// `10/Oct/2000:13:55:36 -0700`, and with a fraction of the second.
fn common(text: &str) -> Option<Timestamp> {
    if let Ok(time) = strtime::parse("%d/%b/%Y:%H:%M:%S%.f %z", text) {
        return time.to_timestamp().ok();
    }
    utc(strtime::parse("%d/%b/%Y:%H:%M:%S%.f", text).ok()?.to_datetime().ok()?)
}

/// `2000-10-10T20:55:36Z` and its kin.
fn iso(text: &str) -> Option<Timestamp> {
    // A time to the minute would need a grain nobody could be judged by.
    if text.as_bytes().get(16) != Some(&b':') {
        return None;
    }
    text.parse().ok().or_else(|| utc(text.replace('/', "-").parse().ok()?))
}

fn utc(time: DateTime) -> Option<Timestamp> {
    TimeZone::UTC.to_timestamp(time).ok()
}

const SECOND: u64 = 1_000_000_000;
/// The longest spelling of a time has 35 bytes.
const MOST_BYTES: usize = 64;
/// An answer that took longer than a day was in another unit.
const LONGEST_ANSWER: u64 = 86_400 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 971_211_336 * SECOND;

    #[test]
    fn every_spelling_is_one_time() {
        for (text, nanos, resolution) in [
            ("10/Oct/2000:13:55:36 -0700", 0, SECOND),
            ("[10/Oct/2000:13:55:36 -0700]", 0, SECOND),
            ("[10/Oct/2000:20:55:36]", 0, SECOND),
            ("10/Oct/2000:13:55:36.123 -0700", 123_000_000, 1_000_000),
            ("10/Oct/2000:13:55:36.123456 -0700", 123_456_000, 1_000),
            ("971211336", 0, SECOND),
            ("971211336.123", 123_000_000, 1_000_000),
            ("[971211336.123]", 123_000_000, 1_000_000),
            ("971211336.1234567", 123_456_700, 100),
            ("971211336.12345678987", 123_456_789, 1),
            ("971211336123", 123_000_000, 1_000_000),
            ("971211336123.5", 123_500_000, 100_000),
            ("971211336123456", 123_456_000, 1_000),
            ("971211336123456789", 123_456_789, 1),
            ("2000-10-10T20:55:36Z", 0, SECOND),
            ("2000-10-10T13:55:36-07:00", 0, SECOND),
            ("2000-10-10T13:55:36-0700", 0, SECOND),
            ("2000-10-10T20:55:36.123Z", 123_000_000, 1_000_000),
            ("2000-10-10 20:55:36.5", 500_000_000, 100_000_000),
            ("2000-10-10 20:55:36,123", 123_000_000, 1_000_000),
            ("2000/10/10 20:55:36.123", 123_000_000, 1_000_000),
            ("2000-10-10T20:55:36.123456789Z", 123_456_789, 1),
        ] {
            assert_eq!(Stamp::parse(text), Some(Stamp { nanos: AT + nanos, resolution }), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "-",
            "0.003",
            "12",
            "99999999",
            "10/Oct/2000",
            "10/Foo/2000:13:55:36 -0700",
            "1969-12-31T23:59:59Z",
            "2000-10-10T20:55Z",
            "2000-10-10",
            "971211336.12x",
            "99999999999999999999999",
            "+971211336",
            "\u{661}\u{662}",
            "971211336.-1",
            "32/Oct/2000:13:55:36 -0700",
            "1e9",
        ] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_beginning_is_as_coarse_as_its_end_and_its_length_together() {
        let end = Stamp { nanos: AT, resolution: 1_000_000 };
        let lasted = Lasted::seconds("0.250").unwrap();
        assert_eq!(end.less(lasted), Stamp { nanos: AT - 250_000_000, resolution: 2_000_000 });
        assert_eq!(end.less(Lasted::nanoseconds("7").unwrap()), Stamp { nanos: AT - 7, resolution: 1_000_001 });
        assert_eq!(end.less(Lasted::seconds("90000").unwrap()), end);
        assert_eq!((Lasted::seconds("-"), Lasted::seconds("-1.0"), Lasted::nanoseconds("1.5")), (None, None, None));
    }
}
