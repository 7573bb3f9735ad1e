//! What a person may set about connections.

use std::path::PathBuf;
use std::time::Duration;

use super::connect_to::ConnectTo;
use super::proxy::Proxies;
use super::resolve::Resolve;

/// Settings of a [`Client`](super::Client); every field has a default that needs no thought.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to connect instead, curl's `--connect-to`. SNI, certificate check and `Host` stay those of the URL.
    pub connect_to: Vec<ConnectTo>,
    /// Addresses that no resolver is asked for, curl's `--resolve`.
    pub resolve: Vec<Resolve>,
    /// Proxies and the hosts reached without one; none by default, the environment is read only by
    /// [`Proxies::from_env`].
    pub proxies: Proxies,
    /// Time from the first look-up to a connection ready for a request, TLS and tunnel included; 30 s by default.
    pub connect_timeout: Duration,
    /// A PEM file of certificates trusted beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate from anybody. Whoever sits on the line then reads and writes everything.
    pub danger_accept_invalid_certs: bool,
    /// Which versions of HTTP are offered.
    pub http_versions: HttpVersions,
    /// How many idle connections are kept, and how long.
    pub pool: PoolBounds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_to: Vec::new(),
            resolve: Vec::new(),
            proxies: Proxies::default(),
            connect_timeout: CONNECT_TIMEOUT,
            ca_file: None,
            danger_accept_invalid_certs: false,
            http_versions: HttpVersions::default(),
            pool: PoolBounds::default(),
        }
    }
}

/// Versions of HTTP a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersions {
    /// Over TLS what ALPN agrees on (RFC 7301), HTTP/2 preferred; in the clear HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
}

/// Bounds on the connections that wait for a next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBounds {
    /// Idle connections to one origin; 0 keeps none and shares no HTTP/2 connection. 64 by default.
    pub idle_per_host: usize,
    /// Idle connections in all; the one idle for longest makes room. 256 by default.
    pub idle_total: usize,
    /// A connection idle for longer is not used again; 60 s by default.
    pub idle_lifetime: Duration,
}

impl Default for PoolBounds {
    fn default() -> Self {
        Self { idle_per_host: 64, idle_total: 256, idle_lifetime: Duration::from_secs(60) }
    }
}

/// A value an option does not understand; says which, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} does not understand {value:?}: {allowed}")]
pub struct OptionError {
    pub(super) option: &'static str,
    pub(super) value: String,
    pub(super) allowed: &'static str,
}

impl OptionError {
    pub(super) fn new(option: &'static str, value: &str, allowed: &'static str) -> Self {
        Self { option, value: value.to_owned(), allowed }
    }
}

/// A client that cannot be built from its [`Options`].
#[derive(Debug, thiserror::Error)]
#[error("cannot take certificates from {}: {reason}", path.display())]
pub struct ClientError {
    pub(super) path: PathBuf,
    pub(super) reason: String,
}

/// Three lost SYNs (1 + 2 + 4 s) and a slow handshake fit in; a dead host does not hold its place for minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
