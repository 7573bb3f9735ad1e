//! The lines of a robots.txt that say something.

/// One line. Values are as written, without blanks around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    UserAgent(&'a [u8]),
    Allow(&'a [u8]),
    Disallow(&'a [u8]),
    CrawlDelay(&'a [u8]),
    RequestRate(&'a [u8]),
    /// Nothing at all, not even a comment.
    Blank,
    /// A comment, a key that is not ours, or what no one can read.
    Other,
}

/// The lines of a body; each ends with CR, LF or CRLF.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut rest = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        rest = after.strip_prefix(b"\r\n").or_else(|| after.get(1..)).unwrap_or_default();
        Some(read(line))
    })
}

fn read(line: &[u8]) -> Line<'_> {
    if line.trim_ascii().is_empty() {
        return Line::Blank;
    }
    let said = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
    let Some((key, value)) = key_and_value(said) else {
        return Line::Other;
    };
    let mut plain = [0; LONGEST_KEY];
    match plain_key(key, &mut plain) {
        b"useragent" => Line::UserAgent(value),
        b"allow" => Line::Allow(value),
        b"disallow" | b"dissallow" | b"disalow" | b"dissalow" | b"diasllow" | b"disallaw" => Line::Disallow(value),
        b"crawldelay" => Line::CrawlDelay(value),
        b"requestrate" => Line::RequestRate(value),
        _ => Line::Other,
    }
}

/// Key and value at the first colon; without one, two words are key and value.
fn key_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(colon) = line.iter().position(|byte| *byte == b':') {
        return Some((&line[..colon], line[colon + 1..].trim_ascii()));
    }
    let blank = line.iter().position(u8::is_ascii_whitespace)?;
    let value = line[blank..].trim_ascii_start();
    (!value.iter().any(u8::is_ascii_whitespace)).then_some((&line[..blank], value))
}

/// The key in small letters, without hyphens, underscores and blanks; empty when it is too long to be one of ours.
fn plain_key<'k>(key: &[u8], plain: &'k mut [u8; LONGEST_KEY]) -> &'k [u8] {
    let mut length = 0;
    for byte in key.iter().filter(|byte| !matches!(byte, b'-' | b'_' | b' ' | b'\t')) {
        let Some(place) = plain.get_mut(length) else {
            return &[];
        };
        *place = byte.to_ascii_lowercase();
        length += 1;
    }
    &plain[..length]
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// `requestrate`.
const LONGEST_KEY: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_cr_lf_or_both() {
        let read: Vec<_> =
            lines(b"\xef\xbb\xbfUser-agent: a\rAllow: /x\nDisallow: /y\r\n\r\n  \nSitemap: /s\n").collect();
        let expected =
            [Line::UserAgent(b"a"), Line::Allow(b"/x"), Line::Disallow(b"/y"), Line::Blank, Line::Blank, Line::Other];
        assert_eq!(read, expected);
    }

    #[test]
    fn keys_are_read_as_people_write_them() {
        for key in ["User-agent:", "USER-AGENT :", "useragent:", "user agent:", "\tUser_Agent:", "User-Agent"] {
            let line = format!("{key} bot # who");
            assert_eq!(lines(line.as_bytes()).next(), Some(Line::UserAgent(b"bot")), "{key}");
        }
        for line in ["Disallow /x", "Disallow\t/x", "disalow:/x", "Dissallow : /x#y"] {
            assert_eq!(lines(line.as_bytes()).next(), Some(Line::Disallow(b"/x")), "{line}");
        }
    }

    #[test]
    fn what_is_no_line_of_ours_is_passed_over() {
        for line in [
            "# only words",
            "Disallow everything here",
            "<p>Allow",
            "Disallowed: /x",
            "x-requestrates: 1/2",
            ":",
            "\u{0}",
        ] {
            assert_eq!(lines(line.as_bytes()).next(), Some(Line::Other), "{line}");
        }
    }

    #[test]
    fn an_empty_value_and_one_with_blanks_are_values() {
        assert_eq!(lines(b"Disallow:").next(), Some(Line::Disallow(b"")));
        assert_eq!(lines(b"Disallow: /a b ").next(), Some(Line::Disallow(b"/a b")));
        assert_eq!(lines(b"Disallow: /a:b").next(), Some(Line::Disallow(b"/a:b")));
    }
}
