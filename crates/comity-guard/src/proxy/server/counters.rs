//! What a server counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the server began, and what is going on now (those named `active_…`).
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections open now.
    pub active_connections: AtomicU64,
    /// Times that the bound on connections made accepting wait.
    pub accept_waits: AtomicU64,
    /// Errors of accepting, such as too many open files.
    pub accept_errors: AtomicU64,
    /// TLS handshakes that failed or took too long.
    pub handshake_errors: AtomicU64,
    /// Requests whose head was read.
    pub requests: AtomicU64,
    /// Requests whose answer is not written yet.
    pub active_requests: AtomicU64,
    /// Requests whose answer was not written whole: the client went, or the answer broke off.
    pub abandoned: AtomicU64,
    /// Answers made while the client had not sent its whole body.
    pub early_answers: AtomicU64,
    /// Panics and errors of the service, answered with 500.
    pub faults: AtomicU64,
    /// Connections closed because a head did not come in time.
    pub slow_heads: AtomicU64,
    /// Request bodies that stood still for too long.
    pub slow_bodies: AtomicU64,
    /// Connections closed because the client took nothing of its answer.
    pub stalled_readers: AtomicU64,
    /// Bytes read from clients, after TLS.
    pub bytes_in: AtomicU64,
    /// Bytes written to clients, before TLS.
    pub bytes_out: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn uncount(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}
