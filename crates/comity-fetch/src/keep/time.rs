//! Wall-clock times as the outputs write them.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use jiff::fmt::temporal::DateTimePrinter;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant of the wall clock, in whole milliseconds, written as RFC 3339 in UTC: `2026-03-01T12:00:00.250Z`.
///
/// Made from a [`SystemTime`] the caller read; nothing here reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    millis: i64,
}

impl Timestamp {
    /// `millis` milliseconds after 1970-01-01T00:00:00Z; what no four-digit year can hold is moved to the nearest that can.
    pub const fn from_millis(millis: i64) -> Self {
        let millis = if millis < EARLIEST {
            EARLIEST
        } else if millis > LATEST {
            LATEST
        } else {
            millis
        };
        Self { millis }
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.millis
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let millis = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(LATEST),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(EARLIEST, |millis| -millis),
        };
        Self::from_millis(millis)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_millisecond(self.millis).map_err(|_| fmt::Error)?;
        let mut text = String::with_capacity(24);
        PRINTER.print_timestamp(&timestamp, &mut text).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        let timestamp: jiff::Timestamp = text.parse().map_err(|_| NotATimestamp)?;
        Ok(Self::from_millis(timestamp.as_millisecond()))
    }
}

/// The text is no RFC 3339 time.
#[derive(Debug, thiserror::Error)]
#[error("not a time as RFC 3339 writes it")]
pub struct NotATimestamp;

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Always three digits, so that lines sort as text and the schema can say the shape.
static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// 0000-01-01T00:00:00Z and 9999-12-30T00:00:00Z: RFC 3339 has four digits for the year, and jiff ends a day early.
const EARLIEST: i64 = -62_167_219_200_000;
const LATEST: i64 = 253_402_128_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn is_written_with_three_digits_in_utc_and_read_back() {
        let time = Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_millis(1_772_366_400_250));
        assert_eq!(time.to_string(), "2026-03-01T12:00:00.250Z");
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!("2026-03-01T13:00:00.25+01:00".parse::<Timestamp>().unwrap(), time);
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    #[test]
    fn the_ends_of_time_can_be_written() {
        for end in [i64::MIN, i64::MAX] {
            let time = Timestamp::from_millis(end);
            assert_eq!(time.to_string().parse::<Timestamp>().unwrap(), time);
        }
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1);
        assert_eq!(Timestamp::from(before).to_string(), "1969-12-31T23:59:59.999Z");
    }
}
