//! What follows a start, under the lock: the last look, the answer, the place given back; and what people say of a scope.

use std::time::Duration;

use comity_core::limits::all::{self, Begin, Cells as _, Effects, Grant};
use comity_core::limits::{Member, Part, ScopeId};
use comity_core::time::Instant;
use comity_store::{Lesson, Memory};

use crate::record::Slowed;
use crate::section::{Loaded, Section};
use crate::trouble::Trouble;

impl Section<'_> {
    /// Checks a late grant.
    pub(crate) fn begin(
        &mut self,
        memory: &mut Memory,
        members: &[Member],
        grant: &mut Grant,
    ) -> Result<Begin, Trouble> {
        let mut loaded = self.load_all(memory, members.iter().map(|member| member.scope))?;
        let begin = all::begin(memory, self.now, members, grant);
        self.store_all(memory, &mut loaded)?;
        Ok(begin)
    }

    /// Learns from an answer.
    pub(crate) fn learn(
        &mut self,
        memory: &mut Memory,
        members: &[Member],
        lesson: &Lesson<'_>,
    ) -> Result<Effects, Trouble> {
        let taught = members.iter().filter(|member| member.part != Part::Bound);
        let mut loaded = self.load_all(memory, taught.map(|member| member.scope))?;
        let before: Vec<(Duration, Instant)> = loaded.iter().map(|loaded| pace(memory, loaded.scope)).collect();
        let effects = all::learn(memory, self.now, members, lesson.grant, lesson.signal, lesson.latency);
        for (loaded, (from, paused)) in loaded.iter_mut().zip(before) {
            let (to, pause) = pace(memory, loaded.scope);
            if to > from || pause > paused {
                let (by, status) = (self.me.number(), lesson.signal.status);
                loaded.record.put_slowed(Some(Slowed { by, status, at: self.now, from, to }));
            }
        }
        self.store_all(memory, &mut loaded)?;
        Ok(effects)
    }

    /// Gives places back.
    pub(crate) fn release(
        &mut self,
        memory: &mut Memory,
        members: &[Member],
        grant: &Grant,
    ) -> Result<Effects, Trouble> {
        let mut loaded = self.load_all(memory, members.iter().map(|member| member.scope))?;
        for (member, loaded) in members.iter().zip(&mut loaded) {
            // From now on there is a place; where one was free before, since then.
            if memory.cell(loaded.scope).places_left(self.now, Part::Own) == Some(0) {
                loaded.record.put_freed_at(self.now);
            }
            self.side.give_places(member, grant.cost);
        }
        let effects = all::release(memory, members, grant);
        let stored = self.store_all(memory, &mut loaded);
        if stored.is_err() {
            // It is given back without the store instead.
            for member in members {
                self.side.take_places(member, grant.cost);
            }
        }
        stored.map(|()| effects)
    }

    /// What robots.txt declares.
    pub(crate) fn declare(&mut self, memory: &mut Memory, scope: ScopeId, delay: Duration) -> Result<(), Trouble> {
        let mut loaded = self.load_all(memory, [scope])?;
        let cell = memory.cell_mut(scope);
        if delay < cell.crawl_delay() {
            self.spread();
        }
        cell.set_crawl_delay(delay);
        self.store_all(memory, &mut loaded)
    }

    /// Forgets what was learned, for all.
    pub(crate) fn forget(&mut self, memory: &mut Memory, scopes: &[ScopeId]) -> Result<(), Trouble> {
        for scope in scopes {
            let mut loaded = self.load_all(memory, [*scope])?;
            memory.cell_mut(*scope).forget();
            for loaded in &mut loaded {
                loaded.record.put_forgets(loaded.record.forgets().wrapping_add(1));
                loaded.record.put_slowed(None);
                loaded.learned_elsewhere = None;
            }
            self.store_all(memory, &mut loaded)?;
        }
        self.spread();
        Ok(())
    }

    /// Tells the file what this process did without it, or all its places anew.
    pub(crate) fn tell(&mut self, memory: &mut Memory, scopes: &[ScopeId]) -> Result<(), Trouble> {
        for scope in scopes {
            // One that the memory dropped meanwhile mattered no more.
            if memory.kind(*scope).is_some() {
                let mut loaded = self.load_all(memory, [*scope])?;
                self.store_all(memory, &mut loaded)?;
            }
        }
        Ok(())
    }

    fn load_all(
        &mut self,
        memory: &mut Memory,
        scopes: impl IntoIterator<Item = ScopeId>,
    ) -> Result<Vec<Loaded>, Trouble> {
        let mut all = Vec::new();
        for scope in scopes {
            let mut loaded = Loaded::blank();
            self.load(memory, scope, &mut loaded)?;
            all.push(loaded);
        }
        Ok(all)
    }

    /// Writes them back. What stays in the memory counts this process's places alone: others' would keep a scope in it for
    /// ever, and hold this process back should the store be lost.
    pub(crate) fn store_all(&mut self, memory: &mut Memory, all: &mut [Loaded]) -> Result<(), Trouble> {
        let stored = all.iter_mut().try_for_each(|loaded| self.store(memory, loaded));
        for loaded in all {
            self.side.own(loaded.scope).put_into(memory.cell_mut(loaded.scope));
        }
        stored
    }
}

fn pace(memory: &Memory, scope: ScopeId) -> (Duration, Instant) {
    let cell = memory.cell(scope);
    (cell.interval(), cell.paused_until())
}
