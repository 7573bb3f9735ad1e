//! What proxies wrote of whom they forward for: `X-Forwarded-For` and `Forwarded` (RFC 7239), read from right to left.
//!
//! Each proxy appends to the right, so only what stands there was written by one we may trust; everything left of it is
//! whatever the client sent. Reading starts at the right end and never looks further left than the entry it is asked
//! for: nothing a client writes can change how a proxy's own entry is read, not even an unbalanced quote.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};

/// Which field the trusted proxies write. Only one is read: a proxy that sets one passes the other on as the client sent
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedField {
    /// `X-Forwarded-For: client, proxy, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy` (RFC 7239).
    Forwarded,
}

/// The addresses in a field, from the last to the first; it ends at the first entry that names none: malformed,
/// `unknown`, obfuscated, or too long.
pub(super) fn addresses(field: ForwardedField, headers: &HeaderMap) -> impl Iterator<Item = IpAddr> {
    let lines = headers.get_all(field.name());
    lines.iter().rev().flat_map(move |line| Entries::new(line.as_bytes(), field)).map_while(move |entry| match field {
        ForwardedField::XForwardedFor => node(entry?),
        ForwardedField::Forwarded => element(entry?),
    })
}

impl ForwardedField {
    /// The field's name.
    pub fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => FORWARDED,
        }
    }
}

/// The comma-separated entries of one line, from the last to the first. `None` stands for one that cannot be read; nothing
/// follows it.
struct Entries<'a> {
    rest: Option<&'a [u8]>,
    field: ForwardedField,
}

impl<'a> Entries<'a> {
    fn new(line: &'a [u8], field: ForwardedField) -> Self {
        Self { rest: Some(line), field }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let quotes = self.field == ForwardedField::Forwarded;
        let Some(starts) = entry_start(rest, quotes) else { return Some(None) };
        self.rest = starts.checked_sub(1).and_then(|comma| rest.get(..comma));
        Some(rest.get(starts..).map(<[u8]>::trim_ascii))
    }
}

/// Where the last entry of a line starts. Commas inside quoted strings separate nothing (RFC 9110 section 5.6.4).
/// `None` where the entry is longer than any address needs, or a quoted string in it has no beginning.
fn entry_start(line: &[u8], quotes: bool) -> Option<usize> {
    let mut quoted = false;
    let first = line.len().saturating_sub(LONGEST_ENTRY);
    for at in (first..line.len()).rev() {
        match line.get(at) {
            Some(b',') if !quoted => return Some(at + 1),
            Some(b'"') if quotes && !(quoted && is_escaped(line, at)) => quoted = !quoted,
            _ => {}
        }
    }
    (first == 0 && !quoted).then_some(0)
}

/// Whether an odd number of backslashes stands before this place.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line.get(at.saturating_sub(LONGEST_ENTRY)..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The address in an element of `Forwarded`: its one `for` parameter (RFC 7239 section 4).
fn element(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = element;
    while !rest.is_empty() {
        let (pair, after) = split_outside_quotes(rest);
        rest = after;
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (pair.get(..equals)?, pair.get(equals + 1..)?);
        if !name.trim_ascii().eq_ignore_ascii_case(b"for") {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(node(value)?);
    }
    found
}

/// What stands before and after the first semicolon that is not inside a quoted string.
fn split_outside_quotes(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, &[])
}

/// The address of a node (RFC 7239 section 6), quoted or not: `192.0.2.1`, `192.0.2.1:443`, `[2001:db8::1]`,
/// `"[2001:db8::1]:443"`, and IPv6 without brackets as `X-Forwarded-For` has it. `None` for `unknown`, `_obfuscated` and
/// whatever else.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let text = match text.strip_prefix('"') {
        // Nothing in an address needs escaping, so a backslash fails below.
        Some(inner) => inner.strip_suffix('"')?.trim(),
        None => text,
    };
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(())?;
        return address.parse().ok().map(IpAddr::V6);
    }
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (address, port) = text.split_once(':')?;
    is_port(port).then_some(())?;
    address.parse().ok().map(IpAddr::V4)
}

/// A port, or an obfuscated one (RFC 7239 section 6).
fn is_port(text: &str) -> bool {
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let hidden = text.strip_prefix('_').is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    });
    digits || hidden
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// An element with `for`, `by`, `host` and `proto`, a host of 253 bytes, and room to spare. A longer one is not read, so
/// that a field of 64 KB costs no more than a few entries.
const LONGEST_ENTRY: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: ForwardedField, lines: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(field.name(), line.parse().unwrap());
        }
        addresses(field, &headers).map(|address| address.to_string()).collect()
    }

    fn x(line: &str) -> Vec<String> {
        read(ForwardedField::XForwardedFor, &[line])
    }

    fn f(line: &str) -> Vec<String> {
        read(ForwardedField::Forwarded, &[line])
    }

    #[test]
    fn g12_ports_and_brackets_are_taken_off() {
        let expected = ["10.0.0.1", "2001:db8::1", "203.0.113.7"];
        assert_eq!(x("203.0.113.7:54321, [2001:DB8::0001]:443, 10.0.0.1"), expected);
        assert_eq!(f("for=203.0.113.7:54321, for=\"[2001:DB8::0001]:443\", For=\"10.0.0.1\""), expected);
        assert_eq!(x("2001:db8::1,\t 192.0.2.1"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(f("for=\"[2001:db8::1]:_port\";proto=https;by=203.0.113.43"), ["2001:db8::1"]);
    }

    #[test]
    fn lines_are_one_list_read_from_the_last() {
        assert_eq!(
            read(ForwardedField::XForwardedFor, &["192.0.2.1, 192.0.2.2", "192.0.2.3"]),
            ["192.0.2.3", "192.0.2.2", "192.0.2.1"]
        );
    }

    #[test]
    fn reading_ends_at_what_names_no_address() {
        for left in
            ["unknown", "_hidden", "example.org", "1.2.3", "01.2.3.4", "1.2.3.4:", "1.2.3.4:port", "[::1", "[::1]x"]
        {
            assert_eq!(x(&format!("192.0.2.9, {left}, 192.0.2.1")), ["192.0.2.1"], "{left}");
            assert_eq!(f(&format!("for=192.0.2.9, for=\"{left}\", for=192.0.2.1")), ["192.0.2.1"], "{left}");
        }
        assert_eq!(x("192.0.2.9, , 192.0.2.1"), ["192.0.2.1"], "an empty entry is malformed too");
        for left in ["for", "by=192.0.2.3", "for=1.2.3.4;for=1.2.3.5", "for=\"1.2.3.4\\\"", "=1.2.3.4", "fe80::1%eth0"]
        {
            assert_eq!(f(&format!("for=192.0.2.9, {left}, for=192.0.2.1")), ["192.0.2.1"], "{left}");
        }
    }

    #[test]
    fn a_clients_open_quote_does_not_swallow_the_proxys_entry() {
        for spoof in ["for=\"192.0.2.9", "\"", "for=\"\\", "\\\"", "for=\"a,b", "for=\"[::1]\"\""] {
            assert_eq!(
                f(&format!("{spoof}, for=203.0.113.9")).first().map(String::as_str),
                Some("203.0.113.9"),
                "{spoof}"
            );
            assert_eq!(
                f(&format!("{spoof}, for=\"[2001:db8::9]\"")).first().map(String::as_str),
                Some("2001:db8::9"),
                "{spoof}"
            );
        }
    }

    #[test]
    fn commas_and_semicolons_inside_quotes_separate_nothing() {
        assert_eq!(f("for=192.0.2.1;host=\"a,b;for=1.2.3.4\", for=192.0.2.2"), ["192.0.2.2", "192.0.2.1"]);
        assert_eq!(f("for=192.0.2.1;x=\"a\\\",\\\\\""), ["192.0.2.1"]);
    }

    #[test]
    fn the_work_is_bounded_however_long_the_field_is() {
        let long = format!("{}192.0.2.1", "x".repeat(64 * 1024));
        assert_eq!(x(&long), [""; 0]);
        assert_eq!(x(&format!("{long}, 192.0.2.2")), ["192.0.2.2"]);
        assert_eq!(f(&format!("{}, for=192.0.2.2", "\\\"".repeat(32 * 1024))), ["192.0.2.2"]);
    }
}
