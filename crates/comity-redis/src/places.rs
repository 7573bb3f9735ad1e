//! Places that come back: of requests that ended, and of starts reserved ahead that nobody uses.

use comity_core::limits::all::{self, Cells, Effects, Grant, Origin};
use comity_core::limits::{Member, Route};
use comity_core::time::Instant;
use comity_store::Memory;

use crate::redis::Redis;

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
