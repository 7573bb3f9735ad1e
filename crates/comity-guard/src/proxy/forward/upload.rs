//! The body of a request on its way up, and how far it is.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};

use super::counters::Counters;
use crate::proxy::BoxError;
use crate::proxy::server::RequestBodyError;

/// A request's body; none where there is none to send.
pub(super) struct Upload<B> {
    body: Option<(B, Arc<Progress>)>,
    counters: Arc<Counters>,
}

/// How far a body is.
#[derive(Default)]
pub(super) struct Progress {
    frames: AtomicU64,
    /// More is waited for from the client.
    waiting: AtomicBool,
    over: AtomicBool,
    broken: AtomicBool,
    idle: AtomicBool,
}

impl Progress {
    /// Whether the upstream has all it can have, so that it is its turn; `seen` is what is remembered between two calls.
    pub(super) fn is_upstreams_turn(&self, seen: &mut u64) -> bool {
        let frames = self.frames.load(Ordering::Relaxed);
        let moved = std::mem::replace(seen, frames) != frames;
        self.over.load(Ordering::Relaxed) || !moved && !self.waiting.load(Ordering::Relaxed)
    }

    /// How a client is told that its request broke off; none when it did not.
    pub(super) fn fault(&self) -> Option<StatusCode> {
        let broken = self.broken.load(Ordering::Relaxed);
        let status =
            if self.idle.load(Ordering::Relaxed) { StatusCode::REQUEST_TIMEOUT } else { StatusCode::BAD_REQUEST };
        broken.then_some(status)
    }
}

impl<B: Body> Upload<B> {
    pub(super) fn new(body: B, counters: Arc<Counters>) -> Self {
        let body = (!body.is_end_stream()).then(|| (body, Arc::default()));
        Self { body, counters }
    }

    pub(super) fn none(counters: Arc<Counters>) -> Self {
        Self { body: None, counters }
    }

    pub(super) fn progress(&self) -> Option<Arc<Progress>> {
        self.body.as_ref().map(|(_, progress)| Arc::clone(progress))
    }
}

impl<B> Body for Upload<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some((body, progress)) = &mut this.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx).map_err(Into::into);
        progress.waiting.store(polled.is_pending(), Ordering::Relaxed);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                progress.frames.fetch_add(1, Ordering::Relaxed);
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                this.counters.bytes_up.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Poll::Ready(Some(Err(error))) => {
                let idle = matches!(error.downcast_ref(), Some(RequestBodyError::Idle));
                progress.idle.store(idle, Ordering::Relaxed);
                progress.broken.store(true, Ordering::Relaxed);
            }
            Poll::Ready(None) => progress.over.store(true, Ordering::Relaxed),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |(body, _)| body.size_hint())
    }
}

impl<B> Drop for Upload<B> {
    /// Of a body whose length was said, the end is not asked for.
    fn drop(&mut self) {
        if let Some((_, progress)) = &self.body {
            progress.over.store(true, Ordering::Relaxed);
        }
    }
}
