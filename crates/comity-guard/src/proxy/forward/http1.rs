//! An HTTP/1.1 connection that whoever uses it drives, without a task of its own: no request hops between tasks.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::dial::Stream;
use super::failure::{Failure, Kind};
use super::upload::Upload;
use crate::proxy::BoxError;

/// One connection: at most one request at a time on it.
pub(super) struct Http1<B: Body<Data = Bytes> + Unpin + 'static>
where
    B::Error: Into<BoxError>,
{
    sender: SendRequest<Upload<B>>,
    connection: Connection<TokioIo<Stream>, Upload<B>>,
}

/// A request that got no answer, and the request itself where none of it was written.
pub(super) struct Unanswered<B> {
    pub(super) failure: Failure,
    pub(super) unsent: Option<Request<Upload<B>>>,
}

impl<B> Http1<B>
where
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    pub(super) async fn over(stream: Stream) -> Result<Box<Self>, Failure> {
        let mut settings = Builder::new();
        settings.max_header_size(HEAD_BYTES).max_buf_size(HEAD_BYTES);
        let (sender, connection) = settings.handshake(TokioIo::new(stream)).await.map_err(Failure::of_http)?;
        Ok(Box::new(Self { sender, connection }))
    }

    /// Does what reading and writing is possible now. Ready when the connection is over; not to be called again then.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.connection.poll_without_shutdown(cx)
    }

    /// Whether a request can be sent now: not closed by the far end, and done with the one before.
    pub(super) fn is_ready(&mut self) -> bool {
        // Nobody has to be woken: what is found now decides, and the next poll registers its own waker.
        self.drive(&mut Context::from_waker(Waker::noop())).is_pending() && self.sender.is_ready()
    }

    /// Sends `request` and waits for the head of the answer. The connection comes back while it lives, or when it is
    /// the client's and the upstream's from now on (101).
    pub(super) async fn send(
        mut self: Box<Self>,
        request: Request<Upload<B>>,
    ) -> Result<(Response<Incoming>, Option<Box<Self>>), Unanswered<B>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let mut alive = Some(self);
        let mut over = false;
        let outcome = poll_fn(|cx| {
            // Driving first: the first poll writes the head.
            if !over && let Some(connection) = &mut alive {
                over = connection.drive(cx).is_ready();
            }
            let polled = answer.as_mut().poll(cx);
            if polled.is_ready() || !over {
                return polled.map(Some);
            }
            // Dropped, a connection says what became of a request it had not begun.
            alive = None;
            match answer.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => Poll::Ready(None),
            }
        });
        match outcome.await {
            Some(Ok(response)) => {
                let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
                Ok((response, alive.filter(|_| !over || switched)))
            }
            Some(Err(mut error)) => {
                let unsent = error.take_message();
                Err(Unanswered { failure: Failure::of_http(error.into_error()), unsent })
            }
            None => {
                let failure = Failure::new(Kind::ConnectionTerminated, "the connection closed before an answer");
                Err(Unanswered { failure, unsent: None })
            }
        }
    }

    /// The stream after 101, and what was read of it already.
    pub(super) fn into_stream(self) -> (Stream, Bytes) {
        let parts = self.connection.into_parts();
        (parts.io.into_inner(), parts.read_buf)
    }
}

/// Bound on the head of an answer. That on its fields is hyper's own, 100: any other is slower by 3 % of a request.
const HEAD_BYTES: usize = 64 * 1024;
