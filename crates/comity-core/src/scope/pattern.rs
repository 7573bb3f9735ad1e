//! What a rule is written for.

use core::fmt;
use core::num::NonZeroU16;

use super::host::{HostKey, HostKeyError, Target};

/// What a rule is written for: `*`, `*.example.org`, `example.org`, `example.org:8080`, `[::1]:8080`, each perhaps
/// narrowed by a path prefix (`example.org/api`) and by identity (`example.org#gold`, or `example.org#*` for every
/// identity by itself).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The hosts.
    pub site: Site,
    /// A part of them.
    pub narrowing: Narrowing,
}

/// The hosts a pattern names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// All hosts together (`*`).
    All,
    /// A domain's hosts together, apex included (`*.example.org`).
    Group(HostKey),
    /// One host.
    Host(HostKey),
}

/// The part of a host or group that a pattern is narrowed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Narrowing {
    /// Paths that begin with this, at a segment border.
    pub path: Option<Box<str>>,
    /// This identity, or (`*`) each identity by itself.
    pub identity: Option<Box<str>>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The host part.
    #[error("{0}")]
    Host(#[from] HostKeyError),
    /// The port.
    #[error("`{0}` is not a port: allowed are 1 to 65535")]
    Port(String),
    /// A `*` somewhere else than alone or as the first label.
    #[error("`{0}`: a `*` stands alone or as the first label of a domain name (`*.example.org`)")]
    Wildcard(String),
    /// A narrowing of `*`.
    #[error("`{0}`: `*` cannot be narrowed by path or identity")]
    NarrowedAll(String),
}

impl Pattern {
    /// Reads a pattern whose host part is normalised.
    ///
    /// # Errors
    /// Names the part that is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (rest, identity) = match text.split_once('#') {
            Some((rest, identity)) => (rest, Some(identity).filter(|i| !i.is_empty())),
            None => (text, None),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..]).filter(|path| *path != "/")),
            None => (rest, None),
        };
        let narrowing =
            Narrowing { path: path.map(|path| path.trim_end_matches('/').into()), identity: identity.map(Into::into) };
        let site = Self::site(authority)?;
        if site == Site::All && narrowing != Narrowing::default() {
            return Err(PatternError::NarrowedAll(text.to_owned()));
        }
        Ok(Self { site, narrowing })
    }

    /// Whether a host, by itself, is one of those named.
    pub fn covers_host(&self, name: &str, port: Option<u16>) -> bool {
        let target = Target { port, ..Target::host(name) };
        match &self.site {
            Site::All => true,
            Site::Group(domain) => {
                target.name().strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            Site::Host(host) => {
                host.as_str() == target.name()
                    || port.is_some() && HostKey::new(target.name(), port).is_ok_and(|key| key == *host)
            }
        }
    }

    fn site(authority: &str) -> Result<Site, PatternError> {
        if authority == "*" {
            return Ok(Site::All);
        }
        if let Some(domain) = authority.strip_prefix("*.") {
            if domain.contains('*') || Target::host(domain).is_ip_literal() || domain.contains(':') {
                return Err(PatternError::Wildcard(authority.to_owned()));
            }
            return Ok(Site::Group(HostKey::new(domain, None)?));
        }
        if authority.contains('*') {
            return Err(PatternError::Wildcard(authority.to_owned()));
        }
        let (name, port) = split_port(authority)?;
        Ok(Site::Host(HostKey::new(name, port)?))
    }
}

/// Splits `host:port`, minding brackets and bare IPv6 addresses.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), PatternError> {
    let port_at = match authority.rfind(']') {
        Some(end) => authority[end..].find(':').map(|at| end + at),
        None if authority.matches(':').count() == 1 => authority.find(':'),
        None => None,
    };
    let Some(at) = port_at else { return Ok((authority, None)) };
    let text = &authority[at + 1..];
    let port: NonZeroU16 = text.parse().map_err(|_| PatternError::Port(text.to_owned()))?;
    Ok((&authority[..at], Some(port.get())))
}

impl Narrowing {
    /// Whether a request is in this part.
    pub fn covers(&self, path: &str, identity: Option<&str>) -> bool {
        let path_covered = match &self.path {
            None => true,
            Some(prefix) => path
                .strip_prefix(&**prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with('?')),
        };
        let identity_covered = match &self.identity {
            None => true,
            Some(wanted) => identity.is_some_and(|given| **wanted == *"*" || **wanted == *given),
        };
        path_covered && identity_covered
    }

    /// Whether each identity has this part by itself.
    pub fn is_every_identity(&self) -> bool {
        self.identity.as_deref() == Some("*")
    }

    /// Whether nothing is narrowed.
    pub fn is_whole(&self) -> bool {
        self.path.is_none() && self.identity.is_none()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.site {
            Site::All => f.write_str("*")?,
            Site::Group(domain) => write!(f, "*.{domain}")?,
            Site::Host(host) => write!(f, "{host}")?,
        }
        f.write_str(self.narrowing.path.as_deref().unwrap_or_default())?;
        match &self.narrowing.identity {
            Some(identity) => write!(f, "#{identity}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_read_back_as_they_are_written() {
        for text in [
            "*",
            "*.example.org",
            "example.org",
            "example.org:8080",
            "192.0.2.1:80",
            "[2001:db8::1]:8080",
            "[::1]",
            "web.archive.org/save",
            "api.example.org#gold",
            "api.example.org/v1#*",
            "*.example.org/api",
        ] {
            assert_eq!(Pattern::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Pattern::parse("::1").unwrap().to_string(), "[::1]");
        assert_eq!(Pattern::parse("example.org/").unwrap().to_string(), "example.org");
    }

    #[test]
    fn f05_wildcards_on_addresses_and_odd_places_are_refused() {
        for bad in [
            "*.192.0.2.1",
            "*.[::1]",
            "a.*.org",
            "*x.org",
            "*.*.org",
            "*/path",
            "*#id",
            "example.org:0",
            "example.org:99999",
            "exa mple.org",
            "",
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_prefix_ends_at_a_segment_border() {
        let save = Narrowing { path: Some("/save".into()), identity: None };
        assert!(save.covers("/save", None) && save.covers("/save/x", None) && save.covers("/save?u=1", None));
        assert!(!save.covers("/saved", None) && !save.covers("/", None));
    }
}
