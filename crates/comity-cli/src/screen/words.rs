//! Numbers as people read them.

use std::time::Duration;

use jiff::{SignedDuration, ZonedDateTime};

/// A span of time: `0.3 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn span(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0..10 if span.subsec_millis() == 0 => format!("{secs} s"),
        0 if span < Duration::from_millis(100) => format!("{} ms", span.as_millis()),
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..60 => format!("{secs} s"),
        60..3600 => pair(secs / 60, "min", secs % 60, "s"),
        3600..86_400 => pair(secs / 3600, "h", secs % 3600 / 60, "min"),
        _ => pair(secs / 86_400, "d", secs % 86_400 / 3600, "h"),
    }
}

/// When a wait is over: `in 0.3 s`, and for a long one `until 14:03`.
pub(crate) fn when(wait: Option<Duration>, now: &ZonedDateTime) -> String {
    let Some(wait) = wait else { return "when an answer comes".to_owned() };
    if wait < LONG_WAIT {
        return format!("in {}", span(wait));
    }
    let until = SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
    match until {
        Some(until) if until.date() == now.date() => format!("until {}", until.strftime("%H:%M")),
        Some(until) => format!("until {}", until.strftime("%Y-%m-%d %H:%M")),
        None => format!("in {}", span(wait)),
    }
}

/// Bytes: `0 B`, `999 B`, `1.2 kB`, `3.4 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    for unit in ["kB", "MB", "GB"] {
        size /= 1000.0;
        if size < 999.95 {
            return format!("{size:.1} {unit}");
        }
    }
    format!("{:.1} TB", size / 1000.0)
}

/// How many of something a second.
pub(crate) fn per_second(rate: f64) -> String {
    if rate == 0.0 {
        return "0/s".to_owned();
    }
    if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{rate:.0}/s") }
}

/// A number of things: `1 URL`, `2 URLs`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// A text that came from elsewhere, on one line and without anything a terminal would obey.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A text cut to so many characters, with an ellipsis where it was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn pair(whole: u64, unit: &str, rest: u64, rest_unit: &str) -> String {
    if rest == 0 { format!("{whole} {unit}") } else { format!("{whole} {unit} {rest} {rest_unit}") }
}

/// From here on a time of day says more than a number of seconds.
const LONG_WAIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (millis, text) in [
            (0, "0 s"),
            (48, "48 ms"),
            (300, "0.3 s"),
            (4_000, "4 s"),
            (12_345, "12 s"),
            (200_000, "3 min 20 s"),
            (3_600_000, "1 h"),
            (7_500_000, "2 h 5 min"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_long_wait_has_a_time_of_day() {
        let now: ZonedDateTime = "2026-11-30T13:48:00[UTC]".parse().unwrap();
        let after = |secs| when(Some(Duration::from_secs(secs)), &now);
        assert_eq!(after(12), "in 12 s");
        assert_eq!(after(900), "until 14:03");
        assert_eq!(after(86_400), "until 2026-12-01 13:48");
        assert_eq!(when(None, &now), "when an answer comes");
        assert!(when(Some(Duration::MAX), &now).starts_with("in "));
    }

    #[test]
    fn bytes_have_units() {
        for (size, text) in
            [(0, "0 B"), (999, "999 B"), (1_234, "1.2 kB"), (999_999, "1.0 MB"), (3_400_000_000_000, "3.4 TB")]
        {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn rates_and_counts() {
        assert_eq!((per_second(2.5), per_second(60.4), per_second(0.0)), ("2.5/s".into(), "60/s".into(), "0/s".into()));
        assert_eq!((count(1, "URL"), count(0, "URL")), ("1 URL".to_owned(), "0 URLs".to_owned()));
    }

    #[test]
    fn what_came_from_elsewhere_cannot_move_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\r\nc"), "a [2Jb  c");
        assert_eq!((cut("abcdef", 4), cut("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
    }
}
