//! Counts what the pacer says it let start.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use comity::{Event, EventKind, Events};

/// Starts and refusals by host.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts(Arc<Mutex<HashMap<String, Believed>>>);

/// What the pacer said of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Believed {
    /// Requests that left the queue.
    pub(super) starts: u64,
    /// Of those, refused ones.
    pub(super) refusals: u64,
}

impl Starts {
    /// Counts from now on, in a task that ends with the pacer.
    pub(super) fn count(mut events: Events) -> Self {
        let starts = Self::default();
        let counted = starts.clone();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Ok(event) = event {
                    counted.note(&event);
                }
            }
        });
        starts
    }

    /// What was counted so far.
    pub(super) fn so_far(&self) -> HashMap<String, Believed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, event: &Event) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let host = hosts.entry(event.host.clone()).or_default();
        match event.kind {
            EventKind::Sent { .. } => host.starts += 1,
            EventKind::Settled { refused: true, .. } => host.refusals += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn starts_and_refusals_are_counted_by_host() {
        let starts = Starts::default();
        let event = |host: &str, kind| Event { at: Duration::ZERO, host: host.to_owned(), place: 0, kind };
        for refused in [true, false, false] {
            starts.note(&event("a.example", EventKind::Sent { attempt: 1, waited: Duration::ZERO }));
            starts.note(&event("a.example", EventKind::Settled { status: Some(429), refused }));
        }
        starts.note(&event("b.example", EventKind::Retrying { attempts: 1 }));
        assert_eq!(starts.so_far()["a.example"], Believed { starts: 3, refusals: 1 });
        assert_eq!(starts.so_far()["b.example"], Believed::default());
    }
}
