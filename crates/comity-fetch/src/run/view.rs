//! What can be seen while it runs.

use super::attempt::now;
use super::job::Queued;
use super::status::{HostLine, SharedPace, Status};
use super::work::{Run, since};

impl Run<'_> {
    pub(super) fn status(&self) -> Status {
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
            let because = if delay.scope == host {
                delay.because.to_string()
            } else {
                format!("{} {}", delay.scope, delay.because)
            };
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
        }
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

/// Jobs in the line that are looked at for the slowest.
const MOST_LOOKED_AT: usize = 2_000;
const SLOWEST: usize = 10;
