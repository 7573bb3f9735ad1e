//! Field values as text: bounded, visible ASCII or nothing; and lists whose commas may belong to dates.

use core::iter;

use super::date;

/// A field value as trimmed text; `None` where it is longer than [`MOST_BYTES`] or not visible ASCII (with spaces and
/// tabs, RFC 9110 §5.5 without obs-text).
pub(super) fn text(value: &[u8]) -> Option<&str> {
    if value.len() > MOST_BYTES || !value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return None;
    }
    str::from_utf8(value).ok().map(str::trim)
}

/// The members of a comma-separated list, trimmed, the empty ones left out. The comma after the weekday of a date
/// separates nothing.
pub(super) fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(list);
    iter::from_fn(move || {
        let (element, after) = first_element(rest?);
        rest = after;
        Some(element.trim())
    })
    .filter(|element| !element.is_empty())
}

/// The list up to its first separating comma, and what follows that.
fn first_element(list: &str) -> (&str, Option<&str>) {
    let Some((first, after)) = list.split_once(',') else { return (list, None) };
    if !date::is_weekday(first.trim()) {
        return (first, Some(after));
    }
    match after.find(',') {
        Some(more) => {
            let end = first.len() + 1 + more;
            (list.get(..end).unwrap_or(list), list.get(end + 1..))
        }
        None => (list, None),
    }
}

/// The longest field value that is read. The longest of the known dialects are a few hundred bytes.
pub(super) const MOST_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_what_is_not_visible_ascii_is_no_text() {
        for value in [&b"\xC2\xB2"[..], "٣٠".as_bytes(), b"3\0", b"30\xA0", b"30\x7F", b"3\n0"] {
            assert_eq!(text(value), None);
        }
        assert_eq!(text(b"\t 2.5 "), Some("2.5"));
    }

    #[test]
    fn a_value_longer_than_the_bound_is_not_read() {
        assert_eq!(text(&[b'1'; MOST_BYTES]).map(str::len), Some(MOST_BYTES));
        assert_eq!(text(&[b'1'; MOST_BYTES + 1]), None);
    }

    #[test]
    fn the_comma_of_a_date_separates_nothing() {
        let list = "5,, Thu, 13 Aug 2026 15:37:13 GMT ,Sunday, 21-Jun-26 07:28:00 GMT, 30,";
        let read: Vec<_> = elements(list).collect();
        assert_eq!(read, ["5", "Thu, 13 Aug 2026 15:37:13 GMT", "Sunday, 21-Jun-26 07:28:00 GMT", "30"]);
    }
}
