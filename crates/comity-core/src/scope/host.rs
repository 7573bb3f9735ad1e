//! The party we are polite to.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// A normalised host name (A-label, lower case, no trailing dot) or IP literal, with a port where that port is a host of
/// its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey(Box<str>);

/// Why a text is no host key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a normalised host name: lower-case ASCII labels up to 63 characters, or an IP address")]
pub struct HostKeyError(pub String);

/// Where a request goes, in the parts the rules look at. The edge that has the URL makes it; names arrive normalised by
/// the WHATWG URL rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Normalised host as in a URL: `example.org`, `192.0.2.1`, `[2001:db8::1]`. One trailing dot is tolerated.
    pub host: &'a str,
    /// The port, where it is not the scheme's default.
    pub port: Option<u16>,
    /// The path, with its leading slash.
    pub path: &'a str,
    /// The caller's identity (the name of an API key, say), where the service counts by it.
    pub identity: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// A target without port, path or identity.
    pub const fn host(host: &'a str) -> Self {
        Self { host, port: None, path: "/", identity: None }
    }

    /// The target a host key names.
    pub fn of_key(key: &'a str) -> Self {
        let bracket = key.rfind(']').unwrap_or(0);
        match key[bracket..].rfind(':') {
            Some(at) => Self { port: key[bracket + at + 1..].parse().ok(), ..Self::host(&key[..bracket + at]) },
            None => Self::host(key),
        }
    }

    /// The host without a trailing dot (field case F04).
    pub fn name(&self) -> &'a str {
        match self.host.strip_suffix('.') {
            Some(name) if !name.is_empty() => name,
            _ => self.host,
        }
    }

    /// Whether this is the machine itself, judged by the name asked for (behaviour P3): `localhost`, `*.localhost`,
    /// 127.0.0.0/8 and `[::1]`.
    pub fn is_loopback(&self) -> bool {
        let name = self.name();
        if name == "localhost" || name.ends_with(".localhost") {
            return true;
        }
        match literal(name) {
            Some(Literal::V4(address)) => address.is_loopback(),
            Some(Literal::V6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// Whether the host is an IP literal.
    pub fn is_ip_literal(&self) -> bool {
        literal(self.name()).is_some()
    }
}

impl HostKey {
    /// Longest name taken, the limit of the DNS (RFC 1035 §2.3.4).
    const LONGEST: usize = 253;

    /// A host key from a normalised name and, where that port is a host of its own, its port.
    ///
    /// # Errors
    /// When the name is empty, too long, or has characters that a normalised name cannot have.
    pub fn new(name: &str, port: Option<u16>) -> Result<Self, HostKeyError> {
        let name = Target::host(name).name();
        let text = if let Some(literal) = literal(name) {
            match literal {
                Literal::V4(address) => address.to_string(),
                Literal::V6(address) => format!("[{address}]"),
            }
        } else if is_name(name) {
            name.to_owned()
        } else {
            return Err(HostKeyError(name.to_owned()));
        };
        Ok(Self(match port {
            Some(port) => format!("{text}:{port}").into(),
            None => text.into(),
        }))
    }

    /// The key as text: `example.org`, `example.org:8080`, `[2001:db8::1]:8080`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

enum Literal {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

/// An IP literal, an IPv6 address with or without its brackets.
fn literal(name: &str) -> Option<Literal> {
    let first = *name.as_bytes().first()?;
    if first == b'[' {
        let inner = name.strip_prefix('[')?.strip_suffix(']')?;
        return Ipv6Addr::from_str(inner).ok().map(Literal::V6);
    }
    // A name that ends in a digit may be an address; anything else is none, which spares the parse.
    if name.contains(':') {
        return Ipv6Addr::from_str(name).ok().map(Literal::V6);
    }
    if !name.as_bytes().last()?.is_ascii_digit() {
        return None;
    }
    Ipv4Addr::from_str(name).ok().map(Literal::V4)
}

fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    name.len() <= HostKey::LONGEST && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, port: Option<u16>) -> String {
        HostKey::new(name, port).unwrap().to_string()
    }

    #[test]
    fn f04_a_trailing_dot_is_the_same_host() {
        assert_eq!(key("example.com.", None), key("example.com", None));
        assert!(HostKey::new(".", None).is_err());
    }

    #[test]
    fn f05_ip_literals_are_canonical_with_or_without_brackets() {
        assert_eq!(key("[2001:db8:0:0::1]", Some(8080)), "[2001:db8::1]:8080");
        assert_eq!(key("2001:db8:0:0::1", Some(8080)), "[2001:db8::1]:8080");
        assert_eq!(key("::1", None), "[::1]");
        assert_eq!(key("192.0.2.1", Some(2888)), "192.0.2.1:2888");
    }

    #[test]
    fn a_name_that_was_not_normalised_is_refused() {
        for bad in ["Example.org", "exämple.org", "a b.org", "", "a..b", "-/"] {
            assert!(HostKey::new(bad, None).is_err(), "{bad}");
        }
        assert!(HostKey::new(&"a".repeat(64), None).is_err());
    }

    #[test]
    fn p3_loopback_is_judged_by_the_name_asked_for() {
        for yes in ["localhost", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert!(Target::host(yes).is_loopback(), "{yes}");
        }
        for no in ["localhost.example.org", "128.0.0.1", "[::2]", "notlocalhost", "127.0.0.1.example.org"] {
            assert!(!Target::host(no).is_loopback(), "{no}");
        }
    }
}
