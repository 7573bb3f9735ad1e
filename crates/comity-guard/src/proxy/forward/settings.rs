//! Where requests are sent, and how.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;

/// The one server that requests are passed on to: `http://host:port`, `https://host:port` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub(super) place: Place,
    pub(super) tls: bool,
    /// Its name and port as `Host` and `:authority` have them.
    pub(super) authority: HeaderValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Tcp {
        host: String,
        port: u16,
    },
    #[cfg(unix)]
    Unix(PathBuf),
}

impl FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        let wrong = |reason| UpstreamError { text: text.to_owned(), reason };
        #[cfg(unix)]
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(wrong("the path of a socket is absolute, as in unix:/run/app.sock"));
            }
            let authority = HeaderValue::from_static("localhost");
            return Ok(Self { place: Place::Unix(path.into()), tls: false, authority });
        }
        let uri: Uri = text.parse().map_err(|_| wrong("it is no URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it begins with http://, https:// or unix:/")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it holds a user name, which would be sent nowhere"));
        }
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(wrong("it holds a path; requests keep the path they came with"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("it is no URL"))?;
        Ok(Self { place: Place::Tcp { host, port }, tls, authority })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp { .. } => {
                let scheme = if self.tls { "https" } else { "http" };
                write!(f, "{scheme}://{}", self.authority.to_str().unwrap_or_default())
            }
            #[cfg(unix)]
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A text that names no upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot be an upstream: {reason}")]
pub struct UpstreamError {
    text: String,
    reason: &'static str,
}

/// Which HTTP is spoken with the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/1.1; within TLS HTTP/2 where the upstream agrees to it.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, also without TLS (prior knowledge).
    Http2,
}

/// How requests are passed on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Which HTTP is spoken.
    pub protocol: Protocol,
    /// How long a new connection may take, with its TLS handshake (504 after).
    pub connect_within: Duration,
    /// How long the upstream may take from the end of the request to the head of its answer (504 after).
    pub first_byte_within: Duration,
    /// How long the upstream may say nothing within the body of an answer. Never a bound on the whole.
    pub answer_idle: Duration,
    /// Whether `Host` is passed on as it came; otherwise it is the upstream's.
    pub keep_host: bool,
    /// The name in `Via` and `Proxy-Status`: a token.
    pub name: &'static str,
    /// HTTP/1.1 connections kept for later requests, and …
    pub idle_connections: usize,
    /// … for how long.
    pub idle_within: Duration,
    /// Tunnels (after an upgrade) at once; 503 beyond.
    pub tunnels: usize,
    /// How long a tunnel may be silent.
    pub tunnel_idle: Duration,
    /// A PEM file of certificates to trust beside the system's, for `https` upstreams.
    pub ca_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            protocol: Protocol::Auto,
            connect_within: Duration::from_secs(5),
            first_byte_within: Duration::from_secs(60),
            answer_idle: Duration::from_secs(300),
            keep_host: true,
            name: "comity-guard",
            idle_connections: 256,
            idle_within: Duration::from_secs(60),
            tunnels: 1024,
            tunnel_idle: Duration::from_secs(300),
            ca_file: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_are_read_and_written() {
        for text in ["http://127.0.0.1:3000", "https://example.org", "http://[::1]:80", "unix:/run/app.sock"] {
            assert_eq!(text.parse::<Upstream>().unwrap().to_string(), text);
        }
        let v6: Upstream = "http://[::1]:80/".parse().unwrap();
        assert_eq!(v6.place, Place::Tcp { host: "::1".to_owned(), port: 80 });
        assert_eq!("https://a".parse::<Upstream>().unwrap().place, Place::Tcp { host: "a".to_owned(), port: 443 });
    }

    #[test]
    fn what_is_no_upstream_is_told_why() {
        for (text, reason) in [
            ("127.0.0.1:3000", "it"),
            ("ftp://a", "it begins with http://"),
            ("http://a/b", "it holds a path"),
            ("http://u:p@a", "it holds a user name"),
            ("unix:run", "the path of a socket is absolute"),
            ("", "it is no URL"),
        ] {
            let error = text.parse::<Upstream>().unwrap_err().to_string();
            assert!(error.contains(&format!("cannot be an upstream: {reason}")), "{error}");
        }
    }
}
