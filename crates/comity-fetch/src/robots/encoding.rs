//! One spelling for a path, so that a rule and a request compare byte by byte (RFC 9309 §2.2.2).
//!
//! - Unreserved characters stand for themselves: `%7E` becomes `~`.
//! - So do the reserved ones that mean the same encoded or not (`:` `@` `!` `'` `(` `)` `,` `;` `[` `]`). `/` `?` `#`
//!   `&` `=` `+` stay as they were written: `%2F` is no path separator, `%26` no separator of a query.
//! - Everything else is percent-encoded with capital digits; `*` and `$` too where they are no wildcard and no end mark,
//!   as RFC 9309 §2.2.3 has it: the rule `/a%2Ab` is for the path `/a*b`.
//! - In a query `%2F` and `/` are the same, as the table of RFC 9309 §2.2.2 shows. A rule is in a query after its own `?`;
//!   a rule without one is compared as a path only, for there we cannot tell.

use std::borrow::Cow;

/// The rule's path as it is compared: `*` is a wildcard, `$` at the end is the end mark.
pub(super) fn pattern(written: &[u8]) -> String {
    let text = spell(written, true);
    match unify_query(&text) {
        Some(unified) => unified,
        None => text,
    }
}

/// A request's path and query in the two spellings that rules are compared with.
#[derive(Debug)]
pub(super) struct Path<'a> {
    /// For rules without a `?`.
    text: Cow<'a, str>,
    /// For rules with one; `None` where it would be the same.
    unified: Option<String>,
}

impl<'a> Path<'a> {
    pub(super) fn new(written: &'a str) -> Self {
        let written = written.split('#').next().unwrap_or_default();
        let plain = written.starts_with('/') && written.bytes().all(|byte| stays(byte) && byte != b'%');
        if plain {
            return Path { text: Cow::Borrowed(written), unified: None };
        }
        let mut text = spell(written.as_bytes(), false);
        if !text.starts_with('/') {
            text.insert(0, '/');
        }
        let unified = unify_query(&text);
        Path { text: Cow::Owned(text), unified }
    }

    /// The spelling that a rule with or without a `?` is compared with.
    pub(super) fn spelled(&self, rule_has_query: bool) -> &str {
        match &self.unified {
            Some(unified) if rule_has_query => unified,
            _ => &self.text,
        }
    }

    pub(super) fn is_robots_txt(&self) -> bool {
        self.text == "/robots.txt"
    }
}

/// Encodes and decodes what needs it, the same way wherever it stands.
fn spell(written: &[u8], is_pattern: bool) -> String {
    let mut text = String::with_capacity(written.len());
    let mut at = 0;
    while let Some(&byte) = written.get(at) {
        let encoded = if byte == b'%' { encoded_byte(&written[at + 1..]) } else { None };
        let is_last = at + 1 == written.len();
        match (byte, encoded) {
            (_, Some(byte)) if is_unreserved(byte) || is_same_encoded(byte) => text.push(char::from(byte)),
            (_, Some(byte)) => push_encoded(&mut text, byte),
            (b'*', _) if is_pattern => text.push('*'),
            (b'$', _) if is_pattern && is_last => text.push('$'),
            _ if stays(byte) => text.push(char::from(byte)),
            _ => push_encoded(&mut text, byte),
        }
        at += if encoded.is_some() { 3 } else { 1 };
    }
    text
}

/// The text with every `%2F` of its query written as `/`, if it has any.
fn unify_query(text: &str) -> Option<String> {
    let (path, query) = text.split_at(text.find('?')?);
    query.contains("%2F").then(|| format!("{path}{}", query.replace("%2F", "/")))
}

/// The byte that the two digits after a `%` stand for; `None` when they are no such digits.
fn encoded_byte(after_percent: &[u8]) -> Option<u8> {
    let digit = |place: usize| char::from(*after_percent.get(place)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

fn push_encoded(text: &mut String, byte: u8) {
    text.push('%');
    text.push(char::from(HEX_DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(HEX_DIGITS[usize::from(byte & 15)]));
}

/// Whether a byte stands for itself in our spelling. A `%` that encodes nothing does.
fn stays(byte: u8) -> bool {
    is_unreserved(byte) || is_same_encoded(byte) || b"/?#&=+%".contains(&byte)
}

/// RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Reserved in RFC 3986 §2.2, but in an HTTP path without a meaning that encoding would take away.
fn is_same_encoded(byte: u8) -> bool {
    b":@!'(),;[]".contains(&byte)
}

const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_are_spelled_equally() {
        let cases = [
            ("/a%3cd.html", "/a%3Cd.html"),
            ("/%7ejoe/index.html", "/~joe/index.html"),
            ("/foo/bar/ツ", "/foo/bar/%e3%83%84"),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
            ("/a%3Ab", "/a:b"),
            ("/a b", "/a%20b"),
            ("/a*b$", "/a%2ab%24"),
            ("", "/"),
            ("?q", "/?q"),
            ("/a#part", "/a"),
        ];
        for (one, other) in cases {
            assert_eq!(Path::new(one).text, Path::new(other).text, "{one} {other}");
        }
    }

    #[test]
    fn different_paths_stay_different() {
        for (one, other) in [("/a%2fb", "/a/b"), ("/a?b", "/a%3Fb"), ("/a%", "/a%25"), ("/a+b", "/a%2Bb")] {
            assert_ne!(Path::new(one).text, Path::new(other).text, "{one} {other}");
        }
    }

    #[test]
    fn in_a_query_an_encoded_slash_is_a_slash() {
        let raw = Path::new("/foo/bar?baz=https://foo.bar");
        let encoded = Path::new("/foo/bar?baz=https%3A%2f%2Ffoo.bar");
        assert_eq!(raw.spelled(true), encoded.spelled(true));
        assert_eq!(pattern(b"/foo/bar?baz=https%3A%2F%2Ffoo.bar"), raw.spelled(true));
        assert_ne!(Path::new("/a%2Fb?c").spelled(true), Path::new("/a/b?c").spelled(true));
    }

    #[test]
    fn a_pattern_keeps_its_wildcards_and_its_end_mark() {
        assert_eq!(pattern(b"/*.php$"), "/*.php$");
        assert_eq!(pattern(b"/a$b%2A*%24"), "/a%24b%2A*%24");
        assert_eq!(pattern(b"/caf\xe9"), "/caf%E9");
    }
}
