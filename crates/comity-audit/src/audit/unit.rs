//! Times and texts as a program reads them (`…_ms`, a number) and as a person does.

use std::time::Duration;

use serde::Serializer;

/// Milliseconds, to the microsecond.
pub(super) fn ms<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_micros() as f64 / 1000.0)
}

/// Milliseconds, or `null`.
pub(super) fn some_ms<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => ms(span, to),
        None => to.serialize_none(),
    }
}

/// Seconds, or `null`.
pub(super) fn some_secs<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => to.serialize_f64(span.as_secs_f64()),
        None => to.serialize_none(),
    }
}

/// `0.4 ms`, `494.7 ms`, `12.3 s`.
pub(super) fn words(span: Duration) -> String {
    if span < LONG { format!("{:.1} ms", span.as_secs_f64() * 1000.0) } else { format!("{:.1} s", span.as_secs_f64()) }
}

/// A text that came from elsewhere: its first so many characters, without anything a terminal would obey.
pub(super) fn clean(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// From here on, milliseconds say nothing more.
const LONG: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_elsewhere_cannot_move_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\nc", 7), "a [2Jb ");
    }

    #[test]
    fn spans_are_read_in_the_unit_that_fits() {
        let micros = |micros| words(Duration::from_micros(micros));
        assert_eq!([micros(49), micros(494_650), micros(12_345_678)], ["0.0 ms", "494.6 ms", "12.3 s"]);
    }
}
