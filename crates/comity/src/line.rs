//! A line: very many waiting requests without a future each.

use std::sync::Arc;

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
/// ([`Settled::Requeued`](crate::Settled::Requeued)).
#[derive(Debug)]
pub struct Line {
    pacer: Pacer,
}

impl Line {
    pub(crate) fn new(pacer: Pacer) -> Self {
        Self { pacer }
    }

    /// A request joins the line. `Ok(Some(delay))` where the table of hosts is full: push it again later.
    ///
    /// # Errors
    /// When the URL has no host.
    pub fn push(&self, ask: &Ask<'_>, tag: u64) -> Result<Option<Delay>, AcquireError> {
        let inner = &self.pacer.inner;
        let now = inner.now();
        let mut engine = inner.engine();
        let route = match engine.route(now, &ask.target(), self.pacer.own()) {
            Ok(route) => route,
            Err(RouteError::Host(error)) => return Err(AcquireError::host(ask.url, &error)),
            Err(RouteError::Full(wait)) => return Ok(Some(engine.delay(now, &wait))),
        };
        let place = ask.place.unwrap_or_else(|| engine.place());
        let pending = Pending { owner: Owner::Line(tag), request: request(ask, place, now, 0), route };
        engine.enqueue(now, pending, None);
        drop(engine);
        inner.changed.notify_one();
        Ok(None)
    }

    /// Waits until the next request may start. Pending for ever while none is in the line.
    pub async fn next(&mut self) -> (u64, Permit) {
        let inner = Arc::clone(&self.pacer.inner);
        loop {
            let now = inner.now();
            let deadline = {
                let mut engine = inner.engine();
                match engine.next_start(now) {
                    Some(start) => {
                        drop(engine);
                        if let Some(ours) = inner.hand_over(start) {
                            return ours;
                        }
                        continue;
                    }
                    None => engine.schedule.deadline(),
                }
            };
            match deadline.and_then(|at| inner.clock().to_tokio(at)) {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, inner.changed.notified()).await;
                }
                None => inner.changed.notified().await,
            }
        }
    }

    /// Gives a permit up that would be used too late, and puts its request back in its place.
    pub fn again(&self, permit: Permit) {
        let inner = &self.pacer.inner;
        if let Some(held) = permit.give_up_held() {
            inner.again_in_line(held);
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
}
