//! An HTTP/1.1 connection that whoever uses it drives, without a task of its own.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};

use super::failure::{Failure, FailureKind, HEAD_BYTES, HEAD_FIELDS, Request};
use super::origin::Way;
use super::stream::Io;

/// One connection: at most one request at a time on it.
pub(super) struct Http1 {
    pub(super) way: Arc<Way>,
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<Io, Full<Bytes>>,
}

impl Http1 {
    pub(super) async fn over(io: Io, way: Arc<Way>) -> Result<Box<Self>, Failure> {
        let handshake = settings().handshake(io).await;
        let (sender, connection) =
            handshake.map_err(|error| Failure::of_exchange(&way.origin.place, error, None).never_sent())?;
        Ok(Box::new(Self { way, sender, connection }))
    }

    /// Does what reading and writing is possible now. True when the connection is over.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        match Pin::new(&mut self.connection).poll(cx) {
            Poll::Pending => false,
            Poll::Ready(outcome) => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, place = self.way.origin.place, "a connection ended");
                }
                true
            }
        }
    }

    /// Whether a request can be sent now: not closed by the far end, and done with the one before.
    pub(super) fn is_ready(&mut self) -> bool {
        // Nobody has to be woken: what is found now decides, and the next poll registers its own waker.
        !self.drive(&mut Context::from_waker(Waker::noop())) && self.sender.is_ready()
    }

    /// Sends `request` and waits for the head of the answer. The connection comes back while it lives.
    pub(super) async fn send(
        mut self: Box<Self>,
        request: Request,
    ) -> Result<(Response<Incoming>, Option<Box<Self>>), Failure> {
        let way = Arc::clone(&self.way);
        let mut answer = pin!(self.sender.try_send_request(request));
        let mut alive = Some(self);
        let outcome = poll_fn(|cx| {
            // Driving first: the first poll writes the head. A connection that is over is dropped at once, which
            // answers with its error, or with the request when that was not begun.
            if alive.as_mut().is_some_and(|connection| connection.drive(cx)) {
                alive = None;
            }
            match answer.as_mut().poll(cx) {
                Poll::Pending if alive.is_none() => Poll::Ready(None),
                other => other.map(Some),
            }
        });
        let place = &way.origin.place;
        match outcome.await {
            Some(Ok(response)) => Ok((response, alive)),
            Some(Err(mut error)) => {
                let unsent = error.take_message();
                Err(Failure::of_exchange(place, error.into_error(), unsent))
            }
            None => Err(Failure::new(FailureKind::Reset, format!("{place} broke off before it answered"))),
        }
    }
}

/// How every HTTP/1.1 connection is set up.
pub(super) fn settings() -> Builder {
    let mut settings = Builder::new();
    settings.max_headers(HEAD_FIELDS).max_header_size(HEAD_BYTES).max_buf_size(HEAD_BYTES);
    settings
}
