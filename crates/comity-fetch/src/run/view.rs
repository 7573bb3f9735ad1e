//! What can be seen while it runs.

use std::time::Duration;

use comity::{Because, Delay, Yielding};
use url::Url;

use super::attempt::now;
use super::job::Queued;
use super::status::{HostLine, SharedPace, Status};
use super::work::{Run, since};

impl Run<'_> {
    pub(super) fn status(&mut self) -> Status {
        let uplink = self.uplink();
        let mut waiting: Vec<&Queued> =
            self.queued.values().filter(|queued| queued.place.is_some()).take(MOST_LOOKED_AT).collect();
        waiting
            .sort_by_key(|queued| (std::cmp::Reverse(self.sites.get(queued.job.site).left), queued.job.tag.number()));
        let mut slowest: Vec<HostLine> = Vec::new();
        for queued in waiting {
            let host = queued.job.url.host_str().unwrap_or_default();
            if slowest.iter().any(|line| line.host == host) {
                continue;
            }
            let Some(delay) = queued.place.and_then(|place| self.line.delay(place)) else { continue };
            let because = self.because(&delay, &queued.job.url);
            let because = if delay.scope == host { because } else { format!("{} {because}", delay.scope) };
            let left = self.sites.get(queued.job.site).left + 1;
            slowest.push(HostLine { host: host.to_owned(), left, because, wait: delay.wait });
            if slowest.len() == SLOWEST {
                break;
            }
        }
        Status {
            total: self.total,
            counts: *self.tally.totals(),
            active: self.active,
            requests: self.requests,
            bytes: self.tally.bytes(),
            elapsed: since(self.started, now()),
            slowest,
            hosts_left: self.sites.len() - self.fresh as usize + self.queued.len(),
            shared: self.shared_pace(),
            uplink,
        }
    }

    /// Why a request waits; where it is a pace that was learned, from what.
    fn because(&self, delay: &Delay, url: &Url) -> String {
        let Because::Pace(pace) = delay.because else { return delay.because.to_string() };
        let scopes = self.pacer.explain(url).map_or_else(|_| Vec::new(), |explanation| explanation.scopes);
        let scope = scopes.into_iter().find(|scope| scope.name == delay.scope);
        match scope.and_then(|scope| scope.state.learned()) {
            Some(learned) => paced(pace, &learned),
            None => delay.because.to_string(),
        }
    }

    /// The limit above all hosts; a person is told once each time it is put on (A10).
    fn uplink(&mut self) -> Option<u32> {
        let yielding = self.pacer.yielding();
        let told = std::mem::replace(&mut self.uplink_told, yielding.is_some());
        if let Some(Yielding { limit, slow, hosts, .. }) = yielding
            && !told
        {
            self.observer.notice(&format!(
                "{slow} of {hosts} hosts slowed down or fell silent together: our own uplink, it seems; \
                 {limit} requests in flight at most for now"
            ));
        }
        yielding.map(|yielding| yielding.limit)
    }

    fn shared_pace(&self) -> Option<SharedPace> {
        let standing = self.pacer.standing()?;
        Some(SharedPace {
            lost_for: standing.lost.map(|(lost_for, _)| lost_for),
            place: standing.place,
            members: standing.members,
            losses: standing.losses,
            degraded: self.degraded,
        })
    }
}

/// A learned pace in a few digits, and what it was learned from.
fn paced(pace: Duration, learned: &str) -> String {
    let grain = if pace < Duration::from_millis(10) { 10_000 } else { 1_000_000 };
    let pace = Duration::from_nanos(u64::try_from(pace.as_nanos()).unwrap_or(u64::MAX) / grain * grain);
    format!("pace {pace:?}, {learned}")
}

/// Jobs in the line that are looked at for the slowest.
const MOST_LOOKED_AT: usize = 2_000;
const SLOWEST: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h06_a_learned_pace_says_what_it_was_learned_from() {
        let learned = "learned 9.8/s from two refusals, the last 3 min ago; next probe in 4 min";
        assert_eq!(paced(Duration::from_nanos(102_040_816), learned), format!("pace 102ms, {learned}"));
        assert_eq!(paced(Duration::from_nanos(2_040_816), learned), format!("pace 2.04ms, {learned}"));
    }
}
