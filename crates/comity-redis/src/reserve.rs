//! Starts that were reserved ahead, for requests that wait in this process already.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use comity_core::limits::Member;
use comity_core::limits::all::Grant;
use comity_core::time::Instant;

/// Reserved starts by route and cost.
#[derive(Default)]
pub(crate) struct Reserve {
    starts: HashMap<(Vec<Member>, u32), VecDeque<Grant>>,
}

/// What the reserve has for a claim.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// A start that is due.
    Due(Grant),
    /// One that is not yet.
    Ahead(Instant),
    Nothing,
}

impl Reserve {
    pub(crate) fn put(&mut self, members: &[Member], grant: Grant) {
        self.starts.entry((members.to_vec(), grant.cost)).or_default().push_back(grant);
    }

    pub(crate) fn find(&mut self, members: &[Member], cost: u32, now: Instant) -> Found {
        if self.starts.is_empty() {
            return Found::Nothing;
        }
        let key = (members.to_vec(), cost);
        let Some(queue) = self.starts.get_mut(&key) else { return Found::Nothing };
        match queue.front() {
            Some(grant) if grant.start > now => Found::Ahead(grant.start),
            Some(_) => {
                let due = queue.pop_front();
                if queue.is_empty() {
                    self.starts.remove(&key);
                }
                due.map_or(Found::Nothing, Found::Due)
            }
            None => Found::Nothing,
        }
    }

    /// Takes out what nobody used in time.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<(Vec<Member>, Grant)> {
        self.take(|_, grant| end(grant) < now)
    }

    /// Takes out what a pause of this scope has overtaken.
    pub(crate) fn take_of(&mut self, member: &Member) -> Vec<(Vec<Member>, Grant)> {
        self.take(|members, _| members.iter().any(|other| other.scope == member.scope))
    }

    pub(crate) fn take_all(&mut self) -> Vec<(Vec<Member>, Grant)> {
        self.take(|_, _| true)
    }

    /// When the first of them is too late.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.starts.values().filter_map(|queue| queue.front()).map(end).min()
    }

    fn take(&mut self, which: impl Fn(&[Member], &Grant) -> bool) -> Vec<(Vec<Member>, Grant)> {
        let mut taken = Vec::new();
        self.starts.retain(|(members, _), queue| {
            queue.retain(|grant| {
                let out = which(members, grant);
                if out {
                    taken.push((members.clone(), *grant));
                }
                !out
            });
            !queue.is_empty()
        });
        taken
    }
}

fn end(grant: &Grant) -> Instant {
    grant.start.after(grant.late_by.unwrap_or(UNSPACED))
}

/// How late an unspaced start may be used.
const UNSPACED: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use comity_core::limits::all::Origin;
    use comity_core::limits::{Part, ScopeId};

    #[test]
    fn a_reserved_start_is_found_when_it_is_due_and_is_void_when_late() {
        let members = [Member { scope: ScopeId(1), part: Part::Own }];
        let at = Instant::from_millis;
        let grant = |ms| Grant {
            start: at(ms),
            late_by: Some(Duration::from_millis(3)),
            cost: 1,
            trials: 0,
            from: Origin::Shared,
        };
        let mut reserve = Reserve::default();
        for ms in [110, 120, 130] {
            reserve.put(&members, grant(ms));
        }
        assert_eq!(reserve.find(&members, 1, at(100)), Found::Ahead(at(110)));
        assert_eq!(reserve.find(&members, 2, at(120)), Found::Nothing, "of another cost");
        assert_eq!(reserve.find(&members, 1, at(111)), Found::Due(grant(110)));
        assert_eq!(reserve.next_end(), Some(at(123)));
        assert_eq!(reserve.take_late(at(124)).len(), 1);
        assert_eq!(reserve.take_of(&members[0]).len(), 1);
        assert_eq!(reserve.find(&members, 1, at(200)), Found::Nothing);
    }
}
