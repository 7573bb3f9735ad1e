//! The body of a request, as a service reads it.

use std::fmt;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::counters::count;
use super::life::Life;
use crate::proxy::{BoxError, clock};

/// The body of a request. It may be dropped unread: what is left of it is then dealt with by the server.
pub struct RequestBody {
    incoming: Option<Incoming>,
    life: Arc<Life>,
    http1: bool,
    /// Set while more is waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, life: Arc<Life>) -> Self {
        let http1 = life.http1.load(Ordering::Relaxed);
        let incoming = (!incoming.is_end_stream()).then_some(incoming);
        if http1 {
            life.body_open.store(incoming.is_some(), Ordering::Relaxed);
        }
        Self { incoming, life, http1, timer: None }
    }

    fn over(&mut self) {
        if self.incoming.take().is_some() && self.http1 {
            self.life.body_ends();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let this = self.get_mut();
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        // The first look at a body tells a client that asked to send it.
        this.life.expects.store(false, Ordering::Relaxed);
        match Pin::new(&mut *incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.timer = None;
                if incoming.is_end_stream() {
                    this.over();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                this.over();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                this.incoming = None;
                Poll::Ready(Some(Err(RequestBodyError::Broken(error.into()))))
            }
            Poll::Pending if this.life.body_is_cut_off(cx) => {
                this.incoming = None;
                Poll::Ready(Some(Err(RequestBodyError::Broken(io::Error::from(io::ErrorKind::UnexpectedEof).into()))))
            }
            Poll::Pending => {
                let within = this.life.bounds.body_idle;
                let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(clock::now() + within)));
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                count(&this.life.counters.slow_bodies);
                this.incoming = None;
                this.life.unread.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(RequestBodyError::Idle)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take()
            && self.http1
        {
            *self.life.rest.lock() = Some(incoming);
            self.life.has_rest.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

/// Why a request's body cannot be read on: the client's doing, either way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestBodyError {
    /// Nothing more of it came in time ([`Bounds::body_idle`](super::Bounds::body_idle)).
    #[error("the rest of the request did not come in time")]
    Idle,
    /// The client went, or what it sent cannot be read.
    #[error("the request broke off")]
    Broken(#[source] BoxError),
}
