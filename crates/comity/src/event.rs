//! What happens to requests, as it happens (T12).

use std::time::Duration;

use tokio::sync::broadcast;

use crate::error::Delay;

/// Something happened to a request.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, since the pacer was made.
    pub at: Duration,
    /// The host's scope.
    pub host: String,
    /// The request's place in the order of arrival.
    pub place: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a request.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// It waits.
    Queued {
        /// For what.
        delay: Delay,
    },
    /// It left the queue.
    Sent {
        /// Which attempt this is, from 1.
        attempt: u32,
        /// How long it waited.
        waited: Duration,
    },
    /// Headers came, or it failed.
    Settled {
        /// The status, if an answer came.
        status: Option<u16>,
        /// Whether it was a refusal.
        refused: bool,
    },
    /// It was refused and waits again.
    Retrying {
        /// How often it has been tried.
        attempts: u32,
    },
    /// The host is delayed for the first time (P12).
    FirstDelay {
        /// For what.
        delay: Delay,
    },
}

/// A subscription to events. Slow readers miss the oldest, and are told how many.
#[derive(Debug)]
pub struct Events(pub(crate) broadcast::Receiver<Event>);

impl Events {
    /// The next event; `Err(n)` where `n` were missed; `None` when the pacer is gone.
    pub async fn next(&mut self) -> Option<Result<Event, u64>> {
        match self.0.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Err(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// An event that is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        loop {
            match self.0.try_recv() {
                Ok(event) => return Some(event),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return None,
            }
        }
    }
}
