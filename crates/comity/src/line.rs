//! A line: very many waiting requests without a future each.

use std::sync::Arc;

use comity_core::schedule::Ticket;
use comity_core::time::Instant;
use comity_store::RouteError;

use crate::ask::Ask;
use crate::engine::{Owner, Pending};
use crate::error::{AcquireError, Delay};
use crate::pacer::{Pacer, request};
use crate::permit::Permit;

/// A line of waiting requests for a scheduler of its own, such as a crawler: a waiting request costs some bytes, no task
/// and no timer.
///
/// The scheduler pushes requests with a tag and asks [`Line::next`] whose turn it is; a start is only ever charged when it
/// asks, so a scheduler that is busy loses no slot. A refused request comes back by itself under its tag
/// ([`Settled::Requeued`](crate::Settled::Requeued(_))).
#[derive(Debug)]
pub struct Line {
    pacer: Pacer,
}

/// A request's name in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InLine(pub(crate) Ticket);

impl Line {
    pub(crate) fn new(pacer: Pacer) -> Self {
        Self { pacer }
    }

    /// A request joins the line. The inner error where the table of hosts is full: push it again later.
    ///
    /// # Errors
    /// When the URL has no host.
    pub fn push(&self, ask: &Ask<'_>, tag: u64) -> Result<Result<InLine, Delay>, AcquireError> {
        self.push_under(&self.pacer, ask, tag)
    }

    /// A request joins the line under a caller's own limits: `pacer` is one that [`Pacer::with_limits`] made of this line's.
    ///
    /// # Errors
    /// As [`Line::push`].
    pub fn push_under(&self, pacer: &Pacer, ask: &Ask<'_>, tag: u64) -> Result<Result<InLine, Delay>, AcquireError> {
        let inner = &self.pacer.inner;
        let now = inner.now();
        let mut engine = inner.engine();
        let route = match engine.route(now, &ask.target(), pacer.own()) {
            Ok(route) => route,
            Err(RouteError::Host(error)) => return Err(AcquireError::host(ask.url, &error)),
            Err(RouteError::Full(wait)) => return Ok(Err(engine.delay(now, &wait))),
        };
        let place = ask.place.unwrap_or_else(|| engine.place());
        let pending = Pending { owner: Owner::Line(tag), request: request(ask, place, now, 0), route };
        let ticket = engine.enqueue(now, pending, ask.after.map(|span| now.after(span)));
        Ok(Ok(InLine(ticket)))
    }

    /// A request leaves the line (T11). False where it was not in it any more.
    pub fn remove(&self, place: InLine) -> bool {
        self.pacer.inner.engine().cancel(place.0).is_some()
    }

    /// What a request in the line waits for, as far as is known.
    pub fn delay(&self, place: InLine) -> Option<Delay> {
        self.pacer.inner.delay_of(place.0)
    }

    /// The next request that may start now, if any.
    pub fn try_next(&mut self) -> Option<(u64, Permit)> {
        self.step().ok()
    }

    /// Waits until the next request may start. Pending for ever while none is in the line. Cancelling it loses nothing.
    pub async fn next(&mut self) -> (u64, Permit) {
        loop {
            let deadline = match self.step() {
                Ok(started) => return started,
                Err(deadline) => deadline,
            };
            let inner = &self.pacer.inner;
            match deadline.and_then(|at| inner.clock().to_tokio(at)) {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, inner.changed.notified()).await;
                }
                None => inner.changed.notified().await,
            }
        }
    }

    /// Requests in the line.
    pub fn len(&self) -> usize {
        self.pacer.waiting()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next start, or when to look again.
    fn step(&mut self) -> Result<(u64, Permit), Option<Instant>> {
        let inner = Arc::clone(&self.pacer.inner);
        let now = inner.now();
        loop {
            let mut engine = inner.engine();
            let start = engine.next_start(now);
            inner.tell_first_delays(&mut engine, now);
            let Some(start) = start else { return Err(engine.deadline(now)) };
            drop(engine);
            if let Some(ours) = inner.hand_over(start) {
                return Ok(ours);
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.pacer.inner.line_closed();
    }
}
