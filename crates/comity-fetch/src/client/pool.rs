//! Connections that wait for a next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2::SendRequest;

use super::http1::Http1;
use super::options::PoolBounds;
use super::origin::Way;
use super::shelf::Shelf;

/// A connection for one request: an HTTP/1.1 one whole, of an HTTP/2 one a share.
pub(super) enum Link {
    Http1(Box<Http1>),
    Http2(Http2),
}

/// A share of an HTTP/2 connection.
#[derive(Clone)]
pub(super) struct Http2 {
    pub(super) way: Arc<Way>,
    pub(super) sender: SendRequest<Full<Bytes>>,
}

impl Link {
    pub(super) fn way(&self) -> &Arc<Way> {
        match self {
            Self::Http1(connection) => &connection.way,
            Self::Http2(share) => &share.way,
        }
    }

    /// Whether a request can be sent on it now.
    pub(super) fn is_ready(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_ready(),
            Self::Http2(share) => !share.sender.is_closed(),
        }
    }
}

/// All idle HTTP/1.1 connections of a client, and a share of each HTTP/2 one.
///
/// No task sweeps it: what is too old is closed at the next use.
pub(super) struct Pool {
    bounds: PoolBounds,
    shelf: Mutex<Shelf<Link>>,
}

impl Pool {
    pub(super) fn new(bounds: PoolBounds) -> Self {
        Self { bounds, shelf: Mutex::new(Shelf::default()) }
    }

    /// A connection for `key` that can take a request; the one used last goes first, it is the likeliest to live.
    pub(super) fn take(&self, key: &str, now: Instant) -> Option<Link> {
        loop {
            let mut shelf = self.lock();
            let (mut link, since) = shelf.pop(key)?;
            let fresh = now.saturating_duration_since(since) <= self.bounds.idle_lifetime;
            if let Link::Http2(share) = &link
                && fresh
                && !share.sender.is_closed()
            {
                // Back under the same lock: whoever comes meanwhile must find it, not open another.
                shelf.push(Arc::clone(&share.way.key), Link::Http2(share.clone()), now);
                return Some(link);
            }
            // Looking at the socket, and closing it, is no work for under the lock.
            drop(shelf);
            if fresh && link.is_ready() {
                return Some(link);
            }
        }
    }

    /// Keeps `link` for a next request, within the bounds.
    pub(super) fn put(&self, link: Link, now: Instant) {
        let mut shelf = self.lock();
        shelf.push(Arc::clone(&link.way().key), link, now);
        let over = shelf.shrink(&self.bounds, now);
        drop(shelf);
        drop(over);
    }

    fn lock(&self) -> MutexGuard<'_, Shelf<Link>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
