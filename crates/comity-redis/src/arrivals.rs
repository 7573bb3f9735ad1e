//! What came from the store, and what follows from it.

use core::time::Duration;

use comity_core::limits::{Member, Part, ScopeId, Wait};
use comity_core::time::Instant;
use comity_store::Memory;

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
    }

    fn find(&mut self, memory: &mut Memory, now: Instant) {
        if !self.is_lost() {
            return;
        }
        self.alone.found(memory, now, &self.place.address());
        self.mirror.count_places(memory, false);
        self.all_changed = true;
        // What was learned meanwhile is everybody's.
        let touched: Vec<(Member, Option<i64>)> = self
            .mirror
            .each()
            .filter(|(scope, known)| known.touched && known.key.is_some() && known.is_in(memory, *scope))
            .map(|(scope, _)| (Member { scope, part: Part::Own }, None))
            .collect();
        self.send_places(memory, now, "hold", &touched);
    }

    fn hear(&mut self, sign: Sign, sent: Instant, came: Instant) {
        if sign.clock == 0 {
            return;
        }
        self.name = self.me.id();
        self.mirror.clock.hear(sign.clock, sent, came);
        if let Some(members) = core::num::NonZeroU32::new(sign.members) {
            self.alone.heard(members, sign.rank, self.mirror.clock.phase());
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
                    unpack::<Answer>(&bytes).ok_or_else(|| "an answer that is none of this store's".to_owned())
                });
                if let Ok(answer) = &answer {
                    self.heard_generation(answer.g.clone(), answer.gb);
                }
                match under_way {
                    UnderWay::Claim(pending) => self.claim_answered(memory, now.max(came.at), came, *pending, answer),
                    UnderWay::Report(report) => self.report_answered(memory, now.max(came.at), came, &report, answer),
                    UnderWay::Other(scopes) => match answer {
                        Ok(answer) => self.restore(memory, came, &scopes, &answer),
                        Err(why) => self.lose(memory, came.at, &why),
                    },
                }
            }
            Arrived::Down(why) => self.lose(memory, now, &why),
            Arrived::Up => self.find(memory, now),
            Arrived::Beat { sent, came, sign } => self.hear(sign, sent, came),
            Arrived::Woken(key) => {
                if let Some(scope) = self.mirror.scope_at(&key) {
                    self.changed.push(scope);
                    self.waits.remove(&scope);
                }
            }
            Arrived::Listening(listening) => {
                self.listening = listening;
                self.all_changed |= listening;
            }
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
                if known.key.is_some() && (known.own > 0 || known.told > 0) {
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
