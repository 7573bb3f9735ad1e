//! Numbers as people read them.

use std::time::Duration;

use jiff::{SignedDuration, ZonedDateTime};

/// A span of time: `0.3 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`, `more than a century`.
pub(crate) fn span(span: Duration) -> String {
    let secs = span.as_secs();
    if span > CENTURY {
        return "more than a century".to_owned();
    }
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

/// When a wait is over: `in 0.3 s`, and for a long one `until 14:03 CET`, with the date where that is another day.
pub(crate) fn when(wait: Option<Duration>, now: &ZonedDateTime) -> String {
    let Some(wait) = wait else { return "when an answer comes".to_owned() };
    if wait < LONG_WAIT || wait > CENTURY {
        return format!("in {}", span(wait));
    }
    let until = SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
    match until {
        Some(until) if until.date() == now.date() => format!("until {} {}", until.strftime("%H:%M"), zone(&until)),
        Some(until) => format!("until {} {}", until.strftime("%Y-%m-%d %H:%M"), zone(&until)),
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

/// A text cut in its middle to so many characters: hosts of one service differ at both ends.
pub(crate) fn middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let end = kept / 2;
    text.chars().take(kept - end).chain(['…']).chain(text.chars().skip(length - end)).take(width).collect()
}

/// A text cut to so many characters after a whole word, so that no number loses digits; nothing where no word fits.
pub(crate) fn cut_words(text: &str, width: usize) -> Option<String> {
    if text.chars().count() <= width {
        return Some(text.to_owned());
    }
    let mut ends = text.match_indices(' ').map(|(at, _)| &text[..at]);
    let kept = ends.rfind(|kept| !kept.is_empty() && kept.chars().count() + 2 <= width)?;
    Some(format!("{kept} …"))
}

/// A zone as people name it (`CET`), or its offset where it has no such name.
fn zone(at: &ZonedDateTime) -> String {
    let name = at.strftime("%Z").to_string();
    let named = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    if named { name } else { at.strftime("%:z").to_string() }
}

fn pair(whole: u64, unit: &str, rest: u64, rest_unit: &str) -> String {
    if rest == 0 { format!("{whole} {unit}") } else { format!("{whole} {unit} {rest} {rest_unit}") }
}

/// From here on a time of day says more than a number of seconds.
const LONG_WAIT: Duration = Duration::from_secs(60);

/// Beyond this, digits say nothing more.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

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
            (5_903, "5.9 s"),
            (u64::MAX, "more than a century"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_long_wait_has_a_time_of_day() {
        let now: ZonedDateTime = "2026-11-30T13:48:00[UTC]".parse().unwrap();
        let after = |secs| when(Some(Duration::from_secs(secs)), &now);
        assert_eq!(after(12), "in 12 s");
        assert_eq!(after(900), "until 14:03 UTC");
        assert_eq!(after(86_400), "until 2026-12-01 13:48 UTC", "tomorrow has a date");
        assert_eq!(when(None, &now), "when an answer comes");
        assert_eq!(when(Some(Duration::MAX), &now), "in more than a century");
        let abroad: ZonedDateTime = "2026-11-30T13:48:00[+05:45]".parse().unwrap();
        assert_eq!(when(Some(Duration::from_secs(900)), &abroad), "until 14:03 +05:45");
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
    }

    #[test]
    fn what_is_too_long_is_cut_where_it_hurts_least() {
        let cut = |width| middle("a-long-name.example", width);
        assert_eq!(
            [cut(40), cut(19), cut(10), cut(1), cut(0)],
            ["a-long-name.example", "a-long-name.example", "a-lon…mple", "…", ""]
        );
        let cut = |width| cut_words("1234 in flight", width);
        assert_eq!(
            [cut(14), cut(13), cut(8), cut(5)].map(Option::unwrap_or_default),
            ["1234 in flight", "1234 in …", "1234 …", ""]
        );
    }
}
