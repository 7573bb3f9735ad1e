//! The body of an answer, as the server writes it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use super::counters::{count, uncount};
use super::life::Life;
use crate::proxy::BoxError;

/// One request from its head to the end of its answer. Dropped before that, the answer was abandoned.
pub(super) struct Open {
    life: Arc<Life>,
    complete: bool,
}

impl Open {
    pub(super) fn new(life: Arc<Life>) -> Self {
        life.request_begins();
        count(&life.counters.requests);
        count(&life.counters.active_requests);
        Self { life, complete: false }
    }

    pub(super) fn life(&self) -> &Arc<Life> {
        &self.life
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        uncount(&self.life.counters.active_requests);
        if !self.complete {
            count(&self.life.counters.abandoned);
        }
        self.life.request_ends();
    }
}

/// The body of an answer, or the small one that is written in the place of none.
pub(super) struct ResponseBody<B> {
    body: Option<B>,
    open: Open,
    /// An error to come: what was written before it is sent first.
    broken: Option<BoxError>,
    /// HTTP/2: since when a frame has been in the hands of a reader who does not ask for the next.
    handed: Option<Arc<AtomicU64>>,
}

impl<B: Body> ResponseBody<B> {
    /// `unwritten` says that HTTP writes no body here, whatever there is (an answer to HEAD, 204, 304).
    pub(super) fn new(body: Option<B>, mut open: Open, unwritten: bool) -> Self {
        let over = body.as_ref().is_none_or(Body::is_end_stream);
        open.complete = over || unwritten;
        let handed = (!over && !open.life.http1.load(Ordering::Relaxed)).then(|| {
            let handed = Arc::new(AtomicU64::new(0));
            open.life.streams.lock().push(Arc::clone(&handed));
            handed
        });
        Self { body, open, broken: None, handed }
    }
}

impl<B> ResponseBody<B> {
    /// hyper drops what it has not flushed when a body fails; so it hears of the failure one poll later.
    fn breaks<T>(&mut self, error: BoxError, cx: &mut Context<'_>) -> Poll<T> {
        self.body = None;
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.get_mut();
        if let Some(error) = this.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut *body).poll_frame(cx))) {
            Ok(polled) => polled,
            Err(_) => {
                count(&this.open.life.counters.faults);
                return this.breaks("the service panicked within the body".into(), cx);
            }
        };
        if let Some(handed) = &this.handed {
            let since = if polled.is_pending() { 0 } else { this.open.life.age() };
            handed.store(since, Ordering::Relaxed);
        }
        let polled = match polled {
            Poll::Ready(Some(Err(error))) => return this.breaks(error.into(), cx),
            polled => polled.map_err(Into::into),
        };
        match &polled {
            Poll::Ready(None) => this.open.complete = true,
            Poll::Ready(Some(Ok(frame))) => {
                // Of a body whose length was said, the end is not asked for.
                let last = frame.is_trailers() || body.is_end_stream() || body.size_hint().exact() == Some(0);
                this.open.complete |= last;
            }
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) => body.size_hint(),
            None if self.broken.is_some() => SizeHint::default(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        if let Some(handed) = &self.handed {
            self.open.life.streams.lock().retain(|other| !Arc::ptr_eq(other, handed));
        }
    }
}
