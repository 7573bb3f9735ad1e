//! When a quota's window starts anew, in any of the ways it is written.

use core::time::Duration;

use crate::signal::date::{self, ServerClock};
use crate::signal::number;
use crate::time::Wall;

/// Time until a reset, rounded up to the millisecond: a number of seconds, a Unix time in seconds or milliseconds, a
/// span with units, an HTTP date or ISO 8601. A reset that has just been is zero. What is implausible in every reading
/// (more than [`LONGEST`] ahead or [`STALE`] ago) or cannot be read is `None`.
pub(in crate::signal) fn reset(text: &str, clock: &ServerClock<'_>) -> Option<Duration> {
    if let Some(number) = number::seconds(text) {
        return match date::epoch(number) {
            Some(date) if date < date::ERA => plausible(number),
            _ => [1, 1_000].into_iter().find_map(|unit| until(date::epoch(number::split(number, unit)?)?, clock)),
        };
    }
    match number::unit_span(text) {
        Some(span) => plausible(span),
        None => until(date::any_date(text, clock.now())?, clock),
    }
}

/// A span as a reset or a window may have it.
pub(super) fn plausible(span: Duration) -> Option<Duration> {
    (span <= LONGEST).then(|| number::whole_millis(span))
}

fn until(date: Wall, clock: &ServerClock<'_>) -> Option<Duration> {
    let now = clock.now();
    match date.since(now) {
        Some(span) => plausible(span),
        None => now.since(date).filter(|ago| *ago <= STALE).map(|_| Duration::ZERO),
    }
}

/// Windows of a month are advertised, longer ones are not met with.
const LONGEST: Duration = Duration::from_secs(32 * 86_400);

/// A reset further back than this is no reset but a number that means something else.
const STALE: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a24_milliseconds_are_told_from_seconds_and_the_implausible_is_ignored() {
        assert_eq!(at(1_562_287_940, "1562287945706"), millis(5_706));
        assert_eq!(at(1_562_287_940, "1562287945"), millis(5_000));
        // Years away by every reading; hours ago; as a span longer than any window.
        assert_eq!(at(1_700_000_000, "1562287945706"), None);
        assert_eq!(at(1_562_287_945 + 3_601, "1562287945"), None);
        assert_eq!(at(1_562_287_940, "99999999"), None);
        assert_eq!(at(1_562_287_940, &"9".repeat(300)), None);
    }

    #[test]
    fn a25_a_reset_just_past_is_zero() {
        assert_eq!(at(1_562_287_948, "1562287945"), Some(Duration::ZERO));
        assert_eq!(at(1_562_287_945 + 3_600, "1562287945"), Some(Duration::ZERO));
        assert_eq!(at(1_562_287_945, "0"), Some(Duration::ZERO));
    }

    #[test]
    fn a18_an_epoch_is_measured_against_the_answers_date() {
        for received in [1_568_784_203, 1_568_785_403] {
            let clock = ServerClock {
                received: Wall::from_secs(received),
                date: Some(b"Wed, 18 Sep 2019 05:33:23 GMT"),
                age: None,
            };
            assert_eq!(reset("1568784840", &clock), millis(37_000));
        }
    }

    #[test]
    fn a26_fractions_are_accepted() {
        assert_eq!(at(1_470_172_960, "1470173023.123"), millis(63_123));
        assert_eq!(at(1_470_172_960, "64.57"), millis(64_570));
    }

    #[test]
    fn a27_iso_8601_is_understood_and_other_strings_are_ignored() {
        assert_eq!(at(1_599_571_440, "2020-09-08T13:25:00.019685Z"), millis(60_020));
        assert_eq!(at(1_613_462_000, "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)"), None);
    }

    #[test]
    fn spans_with_units_and_http_dates_are_understood() {
        assert_eq!(at(1_568_784_803, "6m0s"), millis(360_000));
        assert_eq!(at(1_568_784_803, "Wed, 18 Sep 2019 05:34:00 GMT"), millis(37_000));
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        for text in ["", "-5", "never", "1:30", "null", ";w=60"] {
            assert_eq!(at(1_562_287_945, text), None, "{text}");
        }
    }

    fn at(received: i64, text: &str) -> Option<Duration> {
        reset(text, &ServerClock { received: Wall::from_secs(received), date: None, age: None })
    }

    fn millis(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }
}
