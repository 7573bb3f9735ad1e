//! The right to have one request in flight.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use comity_core::limits::all::{Grant, Origin};
use comity_core::limits::{Route, Wait};
use comity_core::schedule::{GiveUp, Ticket};
use tokio::sync::oneshot;

use crate::answer::Answer;
use crate::counted;
use crate::engine::Request;
use crate::error::AcquireError;
use crate::inner::Inner;
use crate::line::InLine;

/// The right to have one request in flight. Dropped unsettled it is cancelled: the place comes free, the slot is lost, and
/// nothing is learned.
#[derive(Debug)]
#[must_use = "a permit dropped unsettled cancels its start"]
pub struct Permit {
    inner: Arc<Inner>,
    /// `None` for a request that is not paced.
    held: Option<Held>,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) route: Route,
    pub(crate) grant: Grant,
    pub(crate) request: Request,
    pub(crate) tag: Option<u64>,
    pub(crate) waited_for: Option<Box<Wait>>,
}

/// A place in flight, held while the body of a settled request is read.
#[derive(Debug)]
#[must_use = "a place dropped is given back"]
pub struct Place {
    inner: Arc<Inner>,
    held: Held,
}

/// Whether a permit may still be used, asked right before the request is written (decision 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Write the request now.
    Go,
    /// It is used so late that it would close the gap to the next start: give it up and claim again
    /// ([`Permit::again`]).
    TooLate,
}

/// What becomes of a request after an attempt.
#[derive(Debug)]
pub enum Settled {
    /// It ends with what it got.
    Done,
    /// It was refused and waits again, ahead of those that came after it.
    Retry(Waiting),
    /// The same for a request of a [`Line`](crate::Line): the line will name it again.
    Requeued(InLine),
    /// It was refused and ends with the refusal it got.
    GiveUp(GiveUp),
}

/// A request that waits for its turn. Dropping it costs nobody anything (T11).
#[derive(Debug)]
#[must_use = "a waiting request does nothing unless it is awaited"]
pub struct Waiting {
    inner: Arc<Inner>,
    ticket: Option<Ticket>,
    permit: oneshot::Receiver<Permit>,
    limit: Option<Limit>,
}

#[derive(Debug)]
struct Limit {
    span: Duration,
    timer: Pin<Box<tokio::time::Sleep>>,
}

impl Permit {
    pub(crate) fn new(inner: Arc<Inner>, held: Option<Held>) -> Self {
        Self { inner, held }
    }

    /// When the request was let start, as the time since the pacer was made.
    pub fn started(&self) -> Duration {
        self.held.as_ref().map_or(Duration::ZERO, |held| self.inner.clock().since_start(held.grant.start))
    }

    /// How long the request waited before this start.
    pub fn waited(&self) -> Duration {
        self.held.as_ref().map_or(Duration::ZERO, |held| held.grant.start.since(held.request.queued))
    }

    /// What it waited for, where it waited.
    pub fn waited_for(&self) -> Option<crate::error::Delay> {
        Some(self.inner.in_words(self.held.as_ref()?.waited_for.as_deref()?))
    }

    /// Who else this start's pace was kept with: nobody, all who share a store, or nobody because the store was out of reach.
    pub fn origin(&self) -> Origin {
        self.held.as_ref().map_or(Origin::Local, |held| held.grant.from)
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.held.as_ref().map_or(1, |held| held.request.attempted.attempts)
    }

    /// Its place in the order of arrival.
    pub fn place(&self) -> Option<u64> {
        self.held.as_ref().map(|held| held.request.place)
    }

    /// Asks right before the request is written whether the permit may still be used. A connection that took long to open
    /// makes a start late; where nobody else started meanwhile the host's clocks are set to now and the request goes.
    pub fn begin(&mut self) -> Begin {
        match &mut self.held {
            Some(held) => self.inner.begin(held),
            None => Begin::Go,
        }
    }

    /// Gives the permit up and waits for the next start, in the same place of the order.
    pub fn again(mut self) -> Waiting {
        let held = self.held.take();
        self.inner.again(held)
    }

    /// Tells how the attempt ended. A refusal teaches the host before the request gives up its place (T8), and one that is
    /// tried again is back in the queue before anybody else can take its turn (T10).
    pub fn settle(mut self, answer: &Answer<'_>) -> Settled {
        let Some(held) = &self.held else { return Settled::Done };
        let settled = self.inner.settle(held, answer, false);
        // What was settled is not cancelled when this permit is dropped.
        self.held = None;
        settled
    }

    /// As [`Permit::settle`], for a caller to whom a body that is being read is in flight too: the place is kept until the
    /// returned [`Place`] is dropped. A request that is tried again gives it up at once.
    pub fn settle_holding(mut self, answer: &Answer<'_>) -> (Settled, Option<Place>) {
        let Some(held) = &self.held else { return (Settled::Done, None) };
        let settled = self.inner.settle(held, answer, true);
        let ends = matches!(settled, Settled::Done | Settled::GiveUp(_));
        let held = self.held.take().filter(|_| ends);
        let place = held.map(|held| Place { inner: Arc::clone(&self.inner), held });
        (settled, place)
    }

    /// Gives up a permit of a [`Line`](crate::Line) that would be used too late: the line will name its request again, in
    /// the same place of the order.
    pub fn requeue(mut self) -> Option<InLine> {
        self.held.take().map(|held| self.inner.again_in_line(held))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.inner.release(&held);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.release(&self.held);
    }
}

impl Waiting {
    pub(crate) fn new(
        inner: Arc<Inner>,
        ticket: Option<Ticket>,
        permit: oneshot::Receiver<Permit>,
        limit: Option<Duration>,
    ) -> Self {
        let limit = limit.map(|span| Limit { span, timer: Box::pin(tokio::time::sleep(span)) });
        Self { inner, ticket, permit, limit }
    }

    /// What it waits for, as far as is known.
    pub fn delay(&self) -> Option<crate::error::Delay> {
        self.inner.delay_of(self.ticket?)
    }
}

impl Future for Waiting {
    type Output = Result<Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Poll::Ready(permit) = Pin::new(&mut self.permit).poll(cx) {
                self.ticket = None;
                let Ok(mut permit) = permit else { return Poll::Ready(Err(AcquireError::Closed)) };
                if permit.begin() == Begin::Go {
                    return Poll::Ready(Ok(permit));
                }
                // This task was woken too late to use its start: the slot is lost, the place is kept.
                let mut again = permit.again();
                self.ticket = again.ticket.take();
                std::mem::swap(&mut self.permit, &mut again.permit);
                continue;
            }
            let Some(limit) = &mut self.limit else { return Poll::Pending };
            let span = limit.span;
            ready!(limit.timer.as_mut().poll(cx));
            let delay = self.ticket.take().and_then(|ticket| {
                let delay = self.inner.delay_of(ticket);
                self.inner.cancel(ticket);
                delay
            });
            // The permit may have come in the same instant: then it counts.
            if let Ok(permit) = self.permit.try_recv() {
                return Poll::Ready(Ok(permit));
            }
            counted::queue_timed_out();
            return Poll::Ready(Err(match delay {
                Some(delay) => AcquireError::QueueTimeout { waited: span, delay },
                None => AcquireError::Closed,
            }));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.inner.cancel(ticket);
        }
    }
}
