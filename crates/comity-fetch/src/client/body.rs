//! The body of an answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::failure::Failure;
use super::http1::Http1;
use super::origin::Way;
use super::pool::Link;
use super::ready::Shared;

/// The body of an answer, as it arrives. Whoever reads it drives the connection.
///
/// Read to its end, the connection is kept for a next request; dropped before, an HTTP/1.1 connection is closed and an
/// HTTP/2 stream is reset.
pub struct ResponseBody {
    incoming: Incoming,
    way: Arc<Way>,
    /// The connection, where nobody else drives it.
    connection: Option<Box<Http1>>,
    client: Arc<Shared>,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, way: Arc<Way>, connection: Option<Box<Http1>>, client: Arc<Shared>) -> Self {
        let mut body = Self { incoming, way, connection, client };
        if body.incoming.is_end_stream() {
            body.give_back(&mut Context::from_waker(std::task::Waker::noop()));
        }
        body
    }

    /// Lets the connection note the end of the message, and keeps it if it goes on.
    fn give_back(&mut self, cx: &mut Context<'_>) {
        if let Some(mut connection) = self.connection.take()
            && !connection.drive(cx)
        {
            self.client.keep(Link::Http1(connection));
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.get_mut();
        let mut next = Pin::new(&mut this.incoming).poll_frame(cx);
        if next.is_pending()
            && let Some(connection) = &mut this.connection
        {
            if connection.drive(cx) {
                this.connection = None;
            }
            next = Pin::new(&mut this.incoming).poll_frame(cx);
        }
        match next {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => {
                if this.incoming.is_end_stream() {
                    this.give_back(cx);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.connection = None;
                Poll::Ready(Some(Err(Failure::of_body(&this.way.origin.place, error))))
            }
            Poll::Ready(None) => {
                this.give_back(cx);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").field("from", &self.way.origin.place).finish_non_exhaustive()
    }
}
