//! The pieces of colon-separated options: hosts, ports, IPv6 literals in brackets.

use std::net::IpAddr;

use url::Host;

/// Splits the first field off `text` at a colon outside brackets; `None` as the rest when there is no colon.
pub(super) fn field(text: &str) -> Option<(&str, Option<&str>)> {
    let bracketed = if text.starts_with('[') { text.find(']')? + 1 } else { 0 };
    match text[bracketed..].find(':') {
        Some(0) => Some((&text[..bracketed], Some(&text[bracketed + 1..]))),
        Some(colon) if bracketed == 0 => Some((&text[..colon], Some(&text[colon + 1..]))),
        None if bracketed == 0 || bracketed == text.len() => Some((text, None)),
        _ => None,
    }
}

/// A host as a URL would hold it: lower case, A-labels, addresses as addresses. `None` for what no URL can name.
pub(super) fn host(text: &str) -> Option<Host<String>> {
    Host::parse(text).ok()
}

/// A port a connection can be made to.
pub(super) fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok().filter(|port| *port != 0) } else { None }
}

/// An IP address, with or without brackets.
pub(super) fn ip(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().filter(IpAddr::is_ipv6),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_ends_at_a_colon_outside_brackets() {
        assert_eq!(field("a:b:c"), Some(("a", Some("b:c"))));
        assert_eq!(field("[::1]:80"), Some(("[::1]", Some("80"))));
        assert_eq!(field("[::1]"), Some(("[::1]", None)));
        assert_eq!(field(""), Some(("", None)));
        assert_eq!(field("[::1"), None);
        assert_eq!(field("[::1]x:80"), None);
    }

    #[test]
    fn ports_are_digits_between_1_and_65535() {
        assert_eq!(port("65535"), Some(65535));
        for nonsense in ["", "0", "65536", "+80", "-1", "http"] {
            assert_eq!(port(nonsense), None, "{nonsense}");
        }
    }
}
