//! A store of a test.

use std::time::Duration;

use comity_core::limits::{Pause, Restart, Snapshot, Tally};
use comity_core::policy::Policy;
use comity_core::time::Instant;
use comity_store::{Known, Listing, Lowered, MemberInfo, Readable, StoreError};

use super::seen::Clocks;

/// The store's clock at the reading.
pub(crate) const NOW: Instant = Instant::from_millis(1_000_000_000);

/// A store that knows what it was given.
#[derive(Debug)]
pub(crate) struct Fake {
    /// What it knows.
    pub(crate) listing: Listing,
    /// Whether it is gone.
    pub(crate) gone: bool,
}

impl Readable for Fake {
    fn list(&mut self) -> Result<Listing, StoreError> {
        if self.gone { Err(StoreError::OutOfReach("gone".to_owned())) } else { Ok(self.listing.clone()) }
    }

    fn forget_by_name(&mut self, name: Option<&str>) -> Result<usize, StoreError> {
        if self.gone {
            return Err(StoreError::OutOfReach("gone".to_owned()));
        }
        let before = self.listing.scopes.len();
        self.listing.scopes.retain(|known| name.is_some_and(|name| name != known.name));
        Ok(before - self.listing.scopes.len())
    }
}

/// The clocks at the reading.
pub(crate) fn clocks() -> Clocks {
    Clocks::new(NOW, "2026-11-30T13:48:00[UTC]".parse().unwrap())
}

/// So many seconds before the reading.
pub(crate) fn ago(secs: u64) -> Instant {
    NOW.before(Duration::from_secs(secs))
}

/// A scope that was asked 5 s ago.
pub(crate) fn known(name: &str) -> Known {
    let state =
        Snapshot { last_start: ago(5), learned: Policy::Aimd(Default::default()).fresh(), ..Snapshot::default() };
    Known {
        name: name.to_owned(),
        state,
        interval: Duration::from_secs(1),
        most_in_flight: Some(1),
        next_start: ago(4),
        places: Vec::new(),
        waiting: Vec::new(),
        lowered: None,
    }
}

/// A scope that refused, asked for 30 s, and is waited for.
pub(crate) fn refused(name: &str) -> Known {
    let mut known = known(name);
    let until = NOW.after(Duration::from_secs(12));
    known.state.pause = Pause::kept(until, Restart::Due, 0);
    known.next_start = until;
    known.state.tally = Tally {
        refusals_with_advice: 2,
        refusals_without_advice: 1,
        last_refusal: Some(429),
        last_wait: Some(Duration::from_secs(30)),
        last_refused: ago(18),
        ..Tally::default()
    };
    known.waiting = vec!["one:1".to_owned(), "two:22".to_owned()];
    known.lowered = Some(Lowered {
        by: "two:22".to_owned(),
        status: Some(429),
        at: ago(18),
        from: Duration::from_millis(500),
        to: Duration::from_secs(1),
    });
    known
}

/// A scope with its only place taken.
pub(crate) fn busy(name: &str) -> Known {
    let mut known = known(name);
    known.state.in_flight = 1;
    known.places = vec![("one:1".to_owned(), 1)];
    known
}

/// A scope whose pace the adaptive policy learns.
pub(crate) fn adaptive(name: &str) -> Known {
    let mut known = known(name);
    known.state.learned = Policy::Adaptive(Default::default()).fresh();
    known.most_in_flight = Some(64);
    known
}

/// A scope asked an hour ago.
pub(crate) fn idle(name: &str) -> Known {
    let mut known = known(name);
    known.state.last_start = ago(3600);
    known
}

/// A store with two members.
pub(crate) fn listing(scopes: Vec<Known>) -> Listing {
    let member = |id: &str, seen| MemberInfo { id: id.to_owned(), joined: ago(200), seen };
    let members = vec![member("two:22", ago(2)), member("one:1", ago(1))];
    Listing { place: "a store".to_owned(), now: NOW, scopes, members }
}
