//! What comes next.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use comity_core::time::Instant;

/// What is to come, in order; of two things at the same instant the one that was said first.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    said: u64,
}

/// Something that happens. Requests are named by their number among those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A request arrives at its host.
    Arrives(u32),
    /// Its answer arrives at our uplink.
    Uplink(u32),
    /// The answer's first byte, or that there is none, reaches the client.
    Answered(u32),
    /// A client has read an answer to its end.
    Read(u32),
}

impl Events {
    pub(super) fn push(&mut self, at: Instant, event: Event) {
        self.said += 1;
        self.heap.push(Reverse((at, self.said, event)));
    }

    /// When the next comes; [`Instant::FAR`] where none does.
    pub(super) fn next_at(&self) -> Instant {
        self.heap.peek().map_or(Instant::FAR, |Reverse((at, _, _))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse((_, _, event))| event)
    }
}
