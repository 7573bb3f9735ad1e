//! What came from the store, and what follows from it.

use core::time::Duration;

use comity_core::limits::{Member, Part, ScopeId, Share, Wait};
use comity_core::time::Instant;
use comity_store::Memory;

use crate::connect::Failure;
use crate::link::Arrived;
use crate::members::Sign;
use crate::redis::{Came, Redis, UnderWay, Waiting};
use crate::script::{Answer, unpack};

impl Redis {
    /// The store is lost: from here on alone.
    pub(crate) fn lose(&mut self, memory: &mut Memory, now: Instant, why: &str) {
        if self.is_lost() {
            return;
        }
        self.alone.lost(memory, now, &self.place.address(), why);
        self.mirror.epoch += 1;
        for (members, grant) in self.reserve.take_all() {
            self.give_back_reserved(memory, &members, grant.cost);
        }
        self.mirror.count_places(memory, true);
        self.all_changed = true;
        let mut under_way: Vec<(u64, UnderWay)> = core::mem::take(&mut self.under_way).into_iter().collect();
        under_way.sort_unstable_by_key(|(id, _)| *id);
        for (_, under_way) in under_way {
            match under_way {
                UnderWay::Claim(pending) => self.claim_failed(memory, now, &pending),
                UnderWay::Report(report) => self.touched(memory, "report", &report.scopes()),
                UnderWay::Other { op, scopes } => self.touched(memory, op, &scopes),
            }
        }
    }

    /// The store may not have heard this: it is told once it is back.
    pub(crate) fn touched(&mut self, memory: &Memory, op: &str, scopes: &[ScopeId]) {
        for scope in scopes.iter().filter(|scope| memory.kind(**scope).is_some()) {
            let known = self.mirror.known(memory, *scope);
            known.touched = true;
            known.forgotten |= op == "forget";
            known.declared |= op == "declare";
        }
    }

    /// The store answers an error for this scope: it goes alone for a while, and the others with the store.
    pub(crate) fn refused(&mut self, memory: &Memory, now: Instant, scope: ScopeId, why: &str) {
        if memory.kind(scope).is_some() && self.mirror.set_apart(memory, scope, now.after(APART)) {
            let key = self.mirror.known(memory, scope).key.clone().unwrap_or_default();
            tracing::warn!(
                "{} cannot use the record {key} ({why}): this process goes on with its part of that limit alone, and all else is shared",
                self.place.address()
            );
        }
    }

    /// Which of a call's scopes it is that the store answers an error for shows when each is told alone.
    fn other_refused(&mut self, memory: &Memory, now: Instant, op: &'static str, scopes: &[ScopeId], why: &str) {
        if let [scope] = scopes {
            return self.refused(memory, now, *scope, why);
        }
        for scope in scopes.iter().filter(|scope| memory.kind(**scope).is_some()) {
            if op == "forget" {
                self.tell_forgotten(memory, now, &[*scope]);
            } else {
                self.send_places(memory, now, "hold", &[(Member { scope: *scope, part: Part::Own }, None)]);
            }
        }
    }

    fn find(&mut self, memory: &mut Memory, now: Instant) {
        if !self.is_lost() {
            return;
        }
        self.alone.found(memory, now, &self.place.address());
        self.mirror.count_places(memory, false);
        self.all_changed = true;
        // What was learned meanwhile is everybody's.
        let (mut touched, mut forgotten, mut declared) = (Vec::new(), Vec::new(), Vec::new());
        for (scope, known) in self.mirror.each().filter(|(scope, known)| known.is_in(memory, *scope)) {
            if known.forgotten {
                forgotten.push(scope);
            } else if known.touched && known.key.is_some() {
                touched.push((Member { scope, part: Part::Own }, None));
            }
            if known.declared {
                declared.push(scope);
            }
        }
        self.tell_forgotten(memory, now, &forgotten);
        self.send_places(memory, now, "hold", &touched);
        for scope in declared {
            self.tell_delay(memory, now, scope);
        }
    }

    fn hear(&mut self, sign: Sign, sent: Instant, came: Instant) {
        if sign.clock == 0 {
            return;
        }
        self.name = self.me.id();
        self.mirror.clock.hear(sign.clock, sent, came);
        if let Some(members) = core::num::NonZeroU32::new(sign.members) {
            self.alone.heard(members, sign.rank, self.mirror.clock.phase());
            self.share = Share::of_members(members, sign.rank, self.mirror.clock.phase());
        }
        self.cluster = sign.cluster;
        self.heard_generation(sign.generation, sign.born);
    }

    pub(crate) fn heard_generation(&mut self, generation: Option<String>, born: Option<i64>) {
        if generation.is_none() {
            return;
        }
        if generation != self.generation {
            if self.generation.is_some() {
                tracing::warn!(
                    "the shared pace at {} has lost its state: hosts are asked no sooner than this process remembers",
                    self.place.address()
                );
                self.mirror.epoch += 1;
            }
            self.generation = generation;
        }
        self.born = born;
    }

    pub(crate) fn arrived(&mut self, memory: &mut Memory, now: Instant, arrived: Arrived) {
        match arrived {
            Arrived::Answer { id, sent, came, result } => {
                let came = Came { call: id, sent, at: if self.given_times { sent } else { came } };
                let Some(under_way) = self.under_way.remove(&id) else { return };
                let answer = result.and_then(|bytes| {
                    let unreadable = || Failure::Refused("an answer that is none of this store's".to_owned());
                    unpack::<Answer>(&bytes).ok_or_else(unreadable)
                });
                if let Ok(answer) = &answer {
                    self.heard_generation(answer.g.clone(), answer.gb);
                }
                match under_way {
                    UnderWay::Claim(pending) => self.claim_answered(memory, now.max(came.at), came, *pending, answer),
                    UnderWay::Report(report) => self.report_answered(memory, now.max(came.at), came, &report, answer),
                    UnderWay::Other { op, scopes } => match answer {
                        Ok(answer) => self.restore(memory, came, &scopes, &answer),
                        Err(Failure::Refused(why)) => self.other_refused(memory, came.at, op, &scopes, &why),
                        Err(Failure::Lost(why)) => {
                            self.touched(memory, op, &scopes);
                            self.lose(memory, came.at, &why);
                        }
                    },
                }
            }
            Arrived::Down(why) => self.lose(memory, now, &why),
            Arrived::Up => self.find(memory, now),
            Arrived::Beat { sent, came, sign } => self.hear(sign, sent, came),
            Arrived::Woken(key) => self.woken(memory, now, &key),
            Arrived::Listening(listening) => {
                self.listening = listening;
                self.all_changed |= listening;
            }
        }
    }

    /// Others changed a record; where its key follows a mark, they paused it.
    fn woken(&mut self, memory: &mut Memory, now: Instant, word: &str) {
        let (key, paused) = word.strip_prefix(PAUSED).map_or((word, false), |key| (key, true));
        let Some(scope) = self.mirror.scope_at(key) else { return };
        self.changed.push(scope);
        self.waits.remove(&scope);
        if paused && !self.is_lost() && memory.kind(scope).is_some() {
            let member = Member { scope, part: Part::Own };
            self.void_of(memory, now, &member);
            // What was let start already asks this process's memory before it leaves.
            self.send_places(memory, now, "hold", &[(member, None)]);
        }
    }

    /// Takes the records of an answer.
    pub(crate) fn restore(&mut self, memory: &mut Memory, came: Came, scopes: &[ScopeId], answer: &Answer) {
        for (scope, record) in scopes.iter().zip(&answer.s) {
            if memory.kind(*scope).is_none() {
                continue;
            }
            self.mirror.known(memory, *scope).clock.hear(answer.t, came.sent, came.at);
            self.mirror.clock.hear(answer.t, came.sent, came.at);
            if self.mirror.restore(memory, came.call, *scope, record).is_none() {
                tracing::debug!("a record of {} cannot be read", self.place.address());
            }
        }
    }

    /// Somebody waits in this scope: when to ask again, where only others can end it.
    pub(crate) fn waits(&mut self, now: Instant, wait: &Wait) {
        if wait.until != Instant::FAR && (self.listening || wait.until.since(now) <= LONGEST_LOOK || self.given_times) {
            return;
        }
        let waiting = self.waits.entry(wait.scope).or_insert(Waiting { began: now, again: now, told: false });
        let waited = now.since(waiting.began);
        waiting.again = now.after((waited / 8).clamp(SHORTEST_LOOK, LONGEST_LOOK));
        waiting.told = false;
    }

    pub(crate) fn look_again(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        let changed = &mut self.changed;
        self.waits.retain(|scope, waiting| {
            if waiting.again <= now {
                if waiting.told {
                    return false;
                }
                waiting.told = true;
                waiting.again = now.after(LONGEST_LOOK * 4);
                changed.push(*scope);
            } else if !waiting.told {
                next = Some(next.map_or(waiting.again, |at: Instant| at.min(waiting.again)));
            }
            true
        });
        next
    }

    /// Says that places are still held, where they are held long; and what they are, where that was not said.
    pub(crate) fn renew(&mut self, memory: &mut Memory, now: Instant) {
        if now < self.next_renewal || self.is_lost() || self.given_times {
            return;
        }
        self.next_renewal = now.after(self.settings.lease / 4);
        let mut scopes = core::mem::take(&mut self.untold);
        scopes.extend(self.starts.values().flatten().map(|(scope, _)| *scope));
        let mut held: Vec<(Member, Option<i64>)> = Vec::new();
        for scope in scopes {
            if memory.kind(scope).is_some() {
                let known = self.mirror.known(memory, scope);
                if known.key.is_some() && known.holds_any() {
                    held.push((Member { scope, part: Part::Own }, None));
                }
            }
        }
        self.send_places(memory, now, "hold", &held);
    }
}

/// Those that wait for what only others can bring look again after an eighth of their wait, but no sooner and no later.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(40);
/// How long a scope whose record cannot be used is not asked for.
const APART: Duration = Duration::from_secs(1);
/// What the script puts before the key of a record that was paused.
const PAUSED: &str = "paused ";
