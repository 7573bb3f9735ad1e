//! Connections to the one upstream: those kept, the shared one, new ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::counters::{Counters, count};
use super::dial::Dial;
use super::failure::{Failure, Kind};
use super::http1::Http1;
use super::settings::Settings;
use super::upload::Upload;
use crate::proxy::{BoxError, clock};

/// A connection to send one request on.
pub(super) enum Link<B: Body<Data = Bytes> + Unpin + 'static>
where
    B::Error: Into<BoxError>,
{
    Http1(Box<Http1<B>>),
    Http2(http2::SendRequest<Upload<B>>),
}

/// The connections.
pub(super) struct Pool<B: Body<Data = Bytes> + Unpin + 'static>
where
    B::Error: Into<BoxError>,
{
    dial: Dial,
    counters: Arc<Counters>,
    connect_within: Duration,
    most: usize,
    idle_within: Duration,
    /// The last one put back is the first one taken, so that those too many grow old.
    idle: Mutex<Vec<(Box<Http1<B>>, Instant)>>,
    shared: Mutex<Option<http2::SendRequest<Upload<B>>>>,
    /// Held by whoever opens a connection that all may share.
    opening: tokio::sync::Mutex<()>,
    http1_agreed: AtomicBool,
    swept: AtomicBool,
}

impl<B> Pool<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(dial: Dial, settings: &Settings, counters: Arc<Counters>) -> Self {
        Self {
            dial,
            counters,
            connect_within: settings.connect_within,
            most: settings.idle_connections,
            idle_within: settings.idle_within,
            idle: Mutex::new(Vec::new()),
            shared: Mutex::new(None),
            opening: tokio::sync::Mutex::new(()),
            http1_agreed: AtomicBool::new(false),
            swept: AtomicBool::new(false),
        }
    }

    /// A connection kept from before, or the shared one.
    pub(super) fn kept(&self) -> Option<Link<B>> {
        while let Some((mut connection, since)) = self.pop() {
            if clock::now().saturating_duration_since(since) < self.idle_within && connection.is_ready() {
                return Some(Link::Http1(connection));
            }
        }
        let mut shared = self.shared.lock();
        if shared.as_ref().is_some_and(http2::SendRequest::is_closed) {
            *shared = None;
        }
        shared.clone().map(Link::Http2)
    }

    fn pop(&self) -> Option<(Box<Http1<B>>, Instant)> {
        self.idle.lock().pop()
    }

    /// A new connection; of those that all can share, one at a time is opened.
    pub(super) async fn open(&self) -> Result<Link<B>, Failure> {
        let opened = tokio::time::timeout(self.connect_within, self.open_in_turn()).await;
        opened.unwrap_or_else(|elapsed| Err(Failure::new(Kind::ConnectionTimeout, elapsed)))
    }

    async fn open_in_turn(&self) -> Result<Link<B>, Failure> {
        let shareable = self.dial.is_http2() || self.dial.may_agree_on_http2();
        if !shareable || self.http1_agreed.load(Ordering::Relaxed) {
            return self.dial_one().await;
        }
        let _turn = self.opening.lock().await;
        if let Some(shared) = self.shared.lock().clone().filter(|shared| !shared.is_closed()) {
            return Ok(Link::Http2(shared));
        }
        self.dial_one().await
    }

    async fn dial_one(&self) -> Result<Link<B>, Failure> {
        let (stream, is_http2) = self.dial.dial().await?;
        count(&self.counters.connections);
        if !is_http2 {
            self.http1_agreed.store(true, Ordering::Relaxed);
            return Ok(Link::Http1(Http1::over(stream).await?));
        }
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(SILENCE)
            .keep_alive_timeout(PONG_WITHIN)
            .max_header_list_size(HEAD_LIST)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = handshake.map_err(Failure::of_http)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the upstream ended");
            }
        });
        *self.shared.lock() = Some(sender.clone());
        Ok(Link::Http2(sender))
    }

    /// Keeps a connection for a later request, if it can take one and there is room.
    pub(super) fn keep(self: &Arc<Self>, mut connection: Box<Http1<B>>) {
        if !connection.is_ready() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < self.most {
            idle.push((connection, clock::now()));
        }
        drop(idle);
        if !self.swept.swap(true, Ordering::Relaxed) {
            self.sweep();
        }
    }

    /// Closes what was kept for too long, as long as there is a pool.
    fn sweep(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        let within = self.idle_within;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(within.max(LEAST_SWEEP)).await;
                let Some(pool) = pool.upgrade() else { return };
                let now = clock::now();
                let mut idle = pool.idle.lock();
                let old = idle.partition_point(|(_, since)| now.saturating_duration_since(*since) >= within);
                let old: Vec<_> = idle.drain(..old).collect();
                drop(idle);
                drop(old);
            }
        });
    }
}

/// A shared connection with requests on it that is silent for this long is asked for a sign of life (RFC 9113, 6.7).
const SILENCE: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);

const HEAD_LIST: u32 = 64 * 1024;

/// Sweeping costs next to nothing, but not more often.
const LEAST_SWEEP: Duration = Duration::from_millis(100);
