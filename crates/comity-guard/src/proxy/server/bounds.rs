//! How long and how much: the bounds of a server.

use std::time::Duration;

/// The bounds within which a [`Server`](super::Server) serves. The defaults suit a server that faces the internet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's head (431 beyond). At least 8 KiB.
    pub head_bytes: usize,
    /// Fields in a request's head (431 beyond).
    pub head_fields: usize,
    /// From the first byte of a request (and from the start of a connection) until its head, or the TLS handshake, is
    /// complete.
    pub head_within: Duration,
    /// How long a connection without a request is kept.
    pub idle: Duration,
    /// How long a request's body may stand still while the service waits for more of it.
    pub body_idle: Duration,
    /// How long a client may take nothing of an answer that is ready for it.
    pub write_idle: Duration,
    /// How long a client that closed its side, and maybe its whole connection, is still worked for. The two cannot be
    /// told apart until something is written.
    pub half_closed: Duration,
    /// How much of a body that nobody wants is still read so that the connection can be kept, and …
    pub rest_bytes: u64,
    /// … for how long; also for how long a connection that is closing drops what still arrives, so that the answer is
    /// not lost to a reset.
    pub rest_within: Duration,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// How long what is in flight may go on after the server was told to end.
    pub ending: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 10_000,
            head_bytes: 32 * 1024,
            head_fields: 100,
            head_within: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body_idle: Duration::from_secs(30),
            write_idle: Duration::from_secs(30),
            half_closed: Duration::from_secs(3),
            rest_bytes: 64 * 1024,
            rest_within: Duration::from_secs(1),
            streams: 128,
            ending: Duration::from_secs(30),
        }
    }
}

impl Bounds {
    /// The bytes hyper may be told: it refuses, by a panic, to work with less.
    pub(super) fn head_bytes(&self) -> usize {
        self.head_bytes.max(LEAST_HEAD)
    }
}

const LEAST_HEAD: usize = 8 * 1024;
