//! Places in flight: whose they are, and how they come back when requests end or starts reserved ahead are not used.

use comity_core::limits::all::{self, Cells, Effects, Grant, Origin};
use comity_core::limits::{Member, Part, Route};
use comity_core::time::Instant;
use comity_store::Memory;

use crate::mirror::Known;
use crate::redis::Redis;

/// Requests in flight at one scope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    /// This process's own, those it asked for, those of others.
    pub(crate) own: u32,
    pub(crate) out: u32,
    pub(crate) others: u32,
    /// What was last told of its own.
    told: u32,
}

impl Places {
    /// All that are in flight, as far as is known.
    pub(crate) fn all(&self) -> u32 {
        self.own.saturating_add(self.others)
    }
}

impl Known {
    /// A request asks to start, at this cost.
    pub(crate) fn asks(&mut self, part: Part, cost: u32) {
        let (places, cost) = self.of(part, cost);
        places.out = places.out.saturating_add(cost);
    }

    /// It has its answer.
    pub(crate) fn asks_no_more(&mut self, part: Part, cost: u32) {
        let (places, cost) = self.of(part, cost);
        places.out = places.out.saturating_sub(cost);
    }

    /// So many requests start.
    pub(crate) fn takes(&mut self, part: Part, cost: u32, times: u32) {
        let (places, cost) = self.of(part, cost);
        places.own = places.own.saturating_add(cost.saturating_mul(times));
    }

    /// One has ended.
    pub(crate) fn gives(&mut self, part: Part, cost: u32) {
        let (places, cost) = self.of(part, cost);
        places.own = places.own.saturating_sub(cost);
    }

    /// The store is told what it holds.
    pub(crate) fn tells(&mut self) {
        for places in [&mut self.places, &mut self.guests] {
            places.told = places.own;
        }
    }

    /// Whether it holds any, or the store was told so.
    pub(crate) fn holds_any(&self) -> bool {
        [self.places, self.guests].iter().any(|places| places.own > 0 || places.told > 0)
    }

    /// Under limits that a caller brought it is one request, whatever it costs.
    fn of(&mut self, part: Part, cost: u32) -> (&mut Places, u32) {
        match part {
            Part::Learned => (&mut self.guests, 1),
            Part::Own | Part::Bound => (&mut self.places, cost),
        }
    }
}

impl Redis {
    pub(crate) fn give_back(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        members: &[Member],
        grant: &Grant,
    ) -> Effects {
        let effects = all::release(memory, members, grant);
        let mut told = Vec::new();
        for (n, member) in members.iter().enumerate() {
            let trial = grant.trials >> n & 1 == 1;
            let started = self.started(memory, member.scope, grant.start);
            let limited = memory.cell(member.scope).places_left(now, member.part).is_some();
            let known = self.mirror.known(memory, member.scope);
            if known.key.is_none() {
                continue;
            }
            known.gives(member.part, grant.cost);
            // Where nobody counts places, what they are is told with the next claim, or by and by.
            let counted = known.raw.mf.is_some() || known.raw.cn.is_some();
            if trial || limited || counted || !known.raw.o.is_empty() {
                told.push((*member, trial.then_some(started)));
            } else {
                self.untold.insert(member.scope);
            }
        }
        if grant.from != Origin::Local {
            memory.unpin(&Route::from(members.to_vec()));
        }
        self.starts.remove(&grant.start.as_nanos());
        if !told.is_empty() && !self.is_lost() {
            self.send_places(memory, now, "release", &told);
        }
        effects
    }

    /// Gives back what was reserved and is not used.
    pub(crate) fn give_back_reserved(&mut self, memory: &mut Memory, members: &[Member], cost: u32) {
        for member in members {
            self.mirror.known(memory, member.scope).gives(member.part, cost);
        }
        memory.unpin(&Route::from(members.to_vec()));
    }

    pub(crate) fn void_reserved(&mut self, memory: &mut Memory, now: Instant) {
        let late = self.reserve.take_late(now);
        self.void(memory, now, late);
    }

    /// A pause has overtaken what was reserved there.
    pub(crate) fn void_of(&mut self, memory: &mut Memory, now: Instant, member: &Member) {
        let overtaken = self.reserve.take_of(member);
        self.void(memory, now, overtaken);
    }

    fn void(&mut self, memory: &mut Memory, now: Instant, void: Vec<(Vec<Member>, Grant)>) {
        for (members, grant) in void {
            self.starts.remove(&grant.start.as_nanos());
            self.give_back_reserved(memory, &members, grant.cost);
            let counted = |member: &&Member| memory.cell(member.scope).places_left(now, member.part).is_some();
            let told: Vec<_> = members.iter().filter(counted).map(|member| (*member, None)).collect();
            if !told.is_empty() && !self.is_lost() {
                self.send_places(memory, now, "release", &told);
            }
        }
    }
}
