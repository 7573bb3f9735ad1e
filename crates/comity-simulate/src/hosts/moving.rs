//! Rates and limits that are replaced by others at given times.

use super::law::secs;
use super::site::Part;

/// A rate that changes at given times: requests a second, and since when. The first begins with the world.
#[derive(Clone, Debug)]
pub(super) struct Phases(Box<[(u64, f64)]>);

impl Phases {
    /// In order.
    pub(super) fn new(phases: impl IntoIterator<Item = (u64, f64)>) -> Self {
        Self(phases.into_iter().collect())
    }

    /// Requests between two instants: each rate times as long as it holds.
    pub(super) fn between(&self, from: u64, to: u64) -> f64 {
        let ends = self.0.iter().skip(1).map(|(since, _)| *since).chain([u64::MAX]);
        let phases = self.0.iter().zip(ends);
        phases.map(|((since, rate), ends)| rate * secs(to.min(ends).saturating_sub(from.max(*since)))).sum()
    }

    /// The rate at an instant, and when it ends.
    pub(super) fn at(&self, now: u64) -> (f64, u64) {
        let next = self.0.partition_point(|(since, _)| *since <= now);
        let rate = next.checked_sub(1).and_then(|current| self.0.get(current)).map_or(0.0, |(_, rate)| *rate);
        (rate, self.0.get(next).map_or(u64::MAX, |(since, _)| *since))
    }
}

/// What replaces a limit, and when. A new one begins afresh, as a limiter does that is started anew with other settings.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    /// The long-run rates of all of them, the first limit's too.
    rates: Phases,
    /// Those still to come, the next one last.
    coming: Vec<(u64, Part)>,
}

impl Changes {
    /// `coming` is in order and replaces `first`.
    pub(super) fn new(first: &Part, mut coming: Vec<(u64, Part)>) -> Self {
        let later = coming.iter().map(|(at, part)| (*at, part.rate()));
        let rates = Phases::new([(0, first.rate())].into_iter().chain(later));
        coming.reverse();
        Self { rates, coming }
    }

    /// Puts the limit in force that is at that time.
    pub(super) fn apply(&mut self, now: u64, part: &mut Part) {
        while self.next() <= now
            && let Some((_, next)) = self.coming.pop()
        {
            *part = next;
        }
    }

    /// When the next change is.
    pub(super) fn next(&self) -> u64 {
        self.coming.last().map_or(u64::MAX, |(at, _)| *at)
    }

    /// What all of them serve in the long run, each while it is in force.
    pub(super) fn rates(&self) -> &Phases {
        &self.rates
    }
}
