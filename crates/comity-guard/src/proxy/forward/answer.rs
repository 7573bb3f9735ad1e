//! The body of an answer on its way down.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::counters::{Counters, count};
use super::http1::Http1;
use super::pool::Pool;
use crate::proxy::{BoxError, Inflight, clock};

/// The body of an answer: the upstream's, as it arrives, or a short text of the proxy's own.
///
/// Whoever reads it drives an HTTP/1.1 connection to the upstream. Read to its end, that is kept for a next request;
/// dropped before, it is closed, or the HTTP/2 stream reset: the upstream learns that nobody listens any more.
pub struct AnswerBody<B: Body<Data = Bytes> + Send + Unpin + 'static>
where
    B::Error: Into<BoxError>,
{
    from: From<B>,
    inflight: Option<Inflight>,
}

enum From<B: Body<Data = Bytes> + Send + Unpin + 'static>
where
    B::Error: Into<BoxError>,
{
    Proxy(Option<Bytes>),
    Upstream(Down<B>),
}

/// What comes from the upstream.
struct Down<B: Body<Data = Bytes> + Send + Unpin + 'static>
where
    B::Error: Into<BoxError>,
{
    incoming: Incoming,
    /// The connection, where nobody else drives it.
    connection: Option<Box<Http1<B>>>,
    pool: Arc<Pool<B>>,
    counters: Arc<Counters>,
    idle: Duration,
    waiting: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> AnswerBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    pub(super) fn text(text: &'static str) -> Self {
        let text = (!text.is_empty()).then_some(Bytes::from_static(text.as_bytes()));
        Self { from: From::Proxy(text), inflight: None }
    }

    pub(super) fn new(
        incoming: Incoming,
        connection: Option<Box<Http1<B>>>,
        pool: &Arc<Pool<B>>,
        counters: &Arc<Counters>,
        idle: Duration,
        inflight: Option<Inflight>,
    ) -> Self {
        let (pool, counters) = (Arc::clone(pool), Arc::clone(counters));
        let mut down = Down { incoming, connection, pool, counters, idle, waiting: None, timer: None };
        let mut inflight = inflight;
        if down.incoming.is_end_stream() {
            down.give_back(&mut Context::from_waker(Waker::noop()));
            inflight = None;
        }
        Self { from: From::Upstream(down), inflight }
    }

    /// Holds `inflight` until the body is over.
    pub(super) fn holding(mut self, inflight: Option<Inflight>) -> Self {
        self.inflight = inflight;
        self
    }
}

impl<B> Down<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    /// Lets the connection note the end of the message, and keeps it if it goes on.
    fn give_back(&mut self, cx: &mut Context<'_>) {
        if let Some(mut connection) = self.connection.take()
            && connection.drive(cx).is_pending()
        {
            self.pool.keep(connection);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut next = Pin::new(&mut self.incoming).poll_frame(cx);
        if next.is_pending()
            && let Some(connection) = &mut self.connection
        {
            if connection.drive(cx).is_ready() {
                self.connection = None;
            }
            next = Pin::new(&mut self.incoming).poll_frame(cx);
        }
        match next {
            Poll::Pending => self.wait(cx),
            Poll::Ready(Some(Ok(frame))) => {
                self.waiting = None;
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.counters.bytes_down.fetch_add(bytes as u64, Ordering::Relaxed);
                if self.incoming.is_end_stream() {
                    self.give_back(cx);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                count(&self.counters.broken_answers);
                self.connection = None;
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                self.give_back(cx);
                Poll::Ready(None)
            }
        }
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let due = *self.waiting.get_or_insert_with(clock::now) + self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        while timer.as_mut().poll(cx).is_ready() {
            if clock::now() >= due {
                count(&self.counters.broken_answers);
                self.connection = None;
                return Poll::Ready(Some(Err("the upstream fell silent within its answer".into())));
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<B> Body for AnswerBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let polled = match &mut this.from {
            From::Proxy(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            From::Upstream(down) => down.poll(cx),
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.inflight = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Proxy(text) => text.is_none(),
            From::Upstream(down) => down.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Proxy(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            From::Upstream(down) => down.incoming.size_hint(),
        }
    }
}
