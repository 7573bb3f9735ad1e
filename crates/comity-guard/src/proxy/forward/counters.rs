//! What passing on counts.

use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::Kind;

/// Counts since the proxy began.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that the upstream answered.
    pub answered: AtomicU64,
    /// Requests refused because of what they are (400, 417, 501), or for want of a tunnel (503).
    pub refused: AtomicU64,
    /// Requests whose body broke off or stood still (400, 408).
    pub broken_requests: AtomicU64,
    /// Connections opened to the upstream.
    pub connections: AtomicU64,
    /// Requests that went over a connection used before.
    pub reused: AtomicU64,
    /// Requests sent once more because a kept connection turned out to be closed.
    pub retried: AtomicU64,
    /// Answers that broke off within their body.
    pub broken_answers: AtomicU64,
    /// Tunnels begun.
    pub tunnels: AtomicU64,
    /// Bytes of request bodies sent.
    pub bytes_up: AtomicU64,
    /// Bytes of answers' bodies received.
    pub bytes_down: AtomicU64,
    failures: [AtomicU64; Kind::ALL.len()],
}

impl Counters {
    /// Requests answered with 502 or 504, each kind by its name in `Proxy-Status` (RFC 9209, 2.3).
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Kind::ALL.iter().zip(&self.failures).map(|(kind, count)| (kind.name(), count.load(Ordering::Relaxed)))
    }

    pub(super) fn failed(&self, kind: Kind) {
        if let Some(counter) = self.failures.get(kind as usize) {
            count(counter);
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
