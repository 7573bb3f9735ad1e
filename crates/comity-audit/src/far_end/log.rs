//! What arrived, and when.

use std::sync::Mutex;
use std::time::Duration;

use super::lock;

/// One request, as the far end received it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When the first byte of the request's head was read, since the far end started.
    pub at: Duration,
    /// When the head of the answer was about to be written; `None` while there is none.
    pub answered: Option<Duration>,
    /// The status given; `None` while there is none, and for a request that was never answered.
    pub status: Option<u16>,
    /// How long it waited in the host's queue before a worker took it; `None` where no queue let it in.
    pub queued: Option<Duration>,
    /// The connection it came on, counted from the far end's start.
    pub connection: u64,
    /// The host asked for: lower case, without port or trailing dot.
    pub host: String,
    /// The method, as sent.
    pub method: String,
    /// The path, as sent.
    pub path: String,
    /// What followed the first `?`.
    pub query: Option<String>,
    /// Every header field in the order sent, names in lower case; bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// The body, or its first 64 KiB.
    pub body: Vec<u8>,
    /// Length of the whole body in bytes.
    pub body_length: u64,
}

impl Arrival {
    /// The first field of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Path and query, as sent.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

/// The arrivals so far, bounded.
#[derive(Debug, Default)]
pub(super) struct Log {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    arrivals: Vec<Arrival>,
    /// How many were cleared before the first that is kept, so that a ticket of a cleared one finds nothing.
    cleared: usize,
    overflowed: u64,
}

/// Finds a recorded arrival again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket(Option<usize>);

impl Log {
    pub(super) fn record(&self, arrival: Arrival) -> Ticket {
        let mut kept = lock(&self.kept);
        if kept.arrivals.len() >= MAX_ARRIVALS {
            kept.overflowed += 1;
            return Ticket(None);
        }
        kept.arrivals.push(arrival);
        Ticket(Some(kept.cleared + kept.arrivals.len() - 1))
    }

    /// Adds to a recorded arrival what became known later.
    pub(super) fn amend(&self, ticket: Ticket, amend: impl FnOnce(&mut Arrival)) {
        let mut kept = lock(&self.kept);
        let index = ticket.0.and_then(|number| number.checked_sub(kept.cleared));
        if let Some(arrival) = index.and_then(|index| kept.arrivals.get_mut(index)) {
            amend(arrival);
        }
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = lock(&self.kept).arrivals.clone();
        // Two connections may be stamped in one order and recorded in the other.
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }

    pub(super) fn kept(&self) -> usize {
        lock(&self.kept).arrivals.len()
    }

    pub(super) fn clear(&self) {
        let mut kept = lock(&self.kept);
        kept.cleared += kept.arrivals.len();
        kept.arrivals.clear();
    }

    pub(super) fn overflowed(&self) -> u64 {
        lock(&self.kept).overflowed
    }
}

/// Arrivals kept: about 100 MB with a browser's headers.
const MAX_ARRIVALS: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Arrival {
        Arrival { at: Duration::from_millis(millis), ..Arrival::default() }
    }

    #[test]
    fn arrivals_come_out_in_order_of_arrival() {
        let log = Log::default();
        log.record(at(2));
        log.record(at(1));
        let times: Vec<_> = log.arrivals().iter().map(|arrival| arrival.at.as_millis()).collect();
        assert_eq!(times, [1, 2]);
    }

    #[test]
    fn a_ticket_amends_its_own_arrival_and_none_after_a_clear() {
        let log = Log::default();
        let first = log.record(at(1));
        let second = log.record(at(2));
        log.amend(second, |arrival| arrival.status = Some(204));
        assert_eq!(log.arrivals().iter().map(|arrival| arrival.status).collect::<Vec<_>>(), [None, Some(204)]);

        log.clear();
        log.record(at(3));
        log.amend(first, |arrival| arrival.status = Some(500));
        assert_eq!(log.arrivals(), [at(3)]);
    }

    #[test]
    fn what_the_log_has_no_room_for_is_counted() {
        let log = Log::default();
        for _ in 0..MAX_ARRIVALS {
            log.record(at(1));
        }
        let lost = log.record(at(2));
        log.amend(lost, |arrival| arrival.status = Some(200));
        assert_eq!((log.arrivals().len(), log.overflowed()), (MAX_ARRIVALS, 1));
    }
}
