//! Where a pacer's claims are decided: in its memory alone, or by a store that it shares with other processes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use comity_core::limits::all::{Begin, Cells, Claim, Effects, Grant};
use comity_core::limits::{Member, ScopeId, Wait};
use comity_core::schedule::{Attempt, Schedule};
use comity_core::time::Instant;
use comity_store::{Asked, Claimed, Lesson, Memory, Shared, Standing, Store};

/// A pacer's store, and the claims it has not answered yet.
#[derive(Default)]
pub(crate) struct Keeping {
    shared: Option<Box<dyn Shared>>,
    asked: HashMap<u64, Asker, foldhash::fast::RandomState>,
    answered: VecDeque<(Attempt, Result<Grant, Wait>)>,
    /// Grants that lie ahead, by their start.
    ahead: BTreeMap<(Instant, u64), (Attempt, Grant)>,
    /// Answers for those that asked from outside the schedule.
    told: HashMap<u64, Result<Grant, Wait>, foldhash::fast::RandomState>,
    claims: u64,
    /// When to ask for news again at the latest.
    again: Option<Instant>,
}

/// How many requests may start now because of what all hosts have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) places: u32,
    /// What was held back until then was not due before.
    pub(crate) since: Instant,
}

/// Who waits for a late answer.
#[derive(Debug)]
enum Asker {
    Schedule(Box<Attempt>),
    Caller,
}

/// A claim made from outside the schedule.
pub(crate) enum Outside {
    Answered(Result<Grant, Wait>),
    /// The answer comes under this number.
    Later(u64),
}

impl Keeping {
    pub(crate) fn sharing(shared: Box<dyn Shared>) -> Self {
        Self { shared: Some(shared), ..Self::default() }
    }

    /// The store that is shared, if any is.
    pub(crate) fn shared(&mut self) -> Option<&mut dyn Shared> {
        // A plain `as_deref_mut` would tie the trait object's lifetime to the borrow.
        match &mut self.shared {
            Some(shared) => Some(&mut **shared),
            None => None,
        }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    pub(crate) fn standing(&self) -> Option<Standing> {
        self.shared.as_ref().map(|shared| shared.standing())
    }

    /// The next answer there is: of an attempt asked for earlier, or of the next one that the schedule names.
    pub(crate) fn next_answer(
        &mut self,
        memory: &mut Memory,
        schedule: &mut Schedule,
        now: Instant,
        room: Room,
    ) -> Option<(Attempt, Result<Grant, Wait>)> {
        self.hear(memory, schedule, now);
        loop {
            if let Some(answered) = self.answered.pop_front() {
                return Some(answered);
            }
            if let Some(entry) = self.ahead.first_entry()
                && entry.key().0 <= now
            {
                let (attempt, grant) = entry.remove();
                return Some((attempt, Ok(grant)));
            }
            if self.is_full(now, room.places) {
                return None;
            }
            let mut attempt = schedule.next(now)?;
            attempt.due = attempt.due.max(room.since);
            let claim =
                Claim { members: attempt.route.members(), cost: attempt.cost, asked: attempt.asked, due: attempt.due };
            let Some(shared) = &mut self.shared else {
                let answer = memory.claim(now, &claim);
                return Some((attempt, answer));
            };
            self.claims += 1;
            let asked = Asked { id: self.claims, waiting: attempt.waiting };
            match shared.claim(memory, now, &claim, asked) {
                Claimed::Now(answer) => self.take(now, asked.id, Asker::Schedule(Box::new(attempt)), answer),
                Claimed::Later => {
                    self.asked.insert(asked.id, Asker::Schedule(Box::new(attempt)));
                }
            }
        }
    }

    /// Starts that a shared store was asked for, or has granted, and that nobody has got yet.
    fn under_way(&self, now: Instant) -> usize {
        if self.shared.is_none() {
            return 0;
        }
        let soon = now.after(SOON);
        self.asked.len() + self.answered.len() + self.ahead.range(..(soon, u64::MAX)).count()
    }

    /// Whether nobody may start now, whatever the schedule says.
    pub(crate) fn is_full(&self, now: Instant, places: u32) -> bool {
        places != u32::MAX && self.under_way(now) >= places as usize
    }

    /// A claim from outside the schedule.
    pub(crate) fn claim(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>) -> Outside {
        let Some(shared) = &mut self.shared else { return Outside::Answered(memory.claim(now, claim)) };
        self.claims += 1;
        match shared.claim(memory, now, claim, Asked { id: self.claims, waiting: 1 }) {
            Claimed::Now(answer) => Outside::Answered(answer),
            Claimed::Later => {
                self.asked.insert(self.claims, Asker::Caller);
                Outside::Later(self.claims)
            }
        }
    }

    /// The answer to such a claim, once it is there.
    pub(crate) fn told(&mut self, id: u64) -> Option<Result<Grant, Wait>> {
        self.told.remove(&id)
    }

    /// Takes what came from the store.
    pub(crate) fn hear(&mut self, memory: &mut Memory, schedule: &mut Schedule, now: Instant) {
        let Some(shared) = &mut self.shared else { return };
        let news = shared.news(memory, now);
        self.again = news.again;
        for scope in news.changed {
            schedule.wake_scope(scope);
        }
        if news.all_changed {
            schedule.wake_all();
        }
        for (id, answer) in news.answers {
            if let Some(asker) = self.asked.remove(&id) {
                self.take(now, id, asker, answer);
            }
        }
    }

    fn take(&mut self, now: Instant, id: u64, asker: Asker, answer: Result<Grant, Wait>) {
        match (asker, answer) {
            (Asker::Schedule(attempt), Ok(grant)) if grant.start > now => {
                self.ahead.insert((grant.start, id), (*attempt, grant));
            }
            (Asker::Schedule(attempt), answer) => self.answered.push_back((*attempt, answer)),
            (Asker::Caller, answer) => {
                self.told.insert(id, answer);
            }
        }
    }

    /// Whether no grant waits to be handed over or given back.
    pub(crate) fn is_idle(&self) -> bool {
        self.answered.is_empty() && self.ahead.is_empty()
    }

    /// When to look again if nothing happens until then; `scheduled` is when the schedule wants to be asked.
    pub(crate) fn deadline(&self, scheduled: Option<Instant>, now: Instant) -> Option<Instant> {
        if !self.answered.is_empty() {
            return Some(Instant::ZERO);
        }
        let ahead = self.ahead.first_key_value().map(|((at, _), _)| *at);
        // However far the next start is: a clock that ran on while the machine slept is noticed within a second (E06).
        let awake = self.is_shared().then(|| now.after(LOOK_AGAIN));
        [scheduled, ahead, self.again, awake].into_iter().flatten().min()
    }

    pub(crate) fn begin(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
        match &mut self.shared {
            Some(shared) => shared.begin(memory, now, members, grant),
            None => memory.begin(now, members, grant),
        }
    }

    pub(crate) fn learn(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        members: &[Member],
        lesson: &Lesson<'_>,
    ) -> Effects {
        match &mut self.shared {
            Some(shared) => shared.learn(memory, now, members, lesson),
            None => memory.learn(now, members, lesson.grant, lesson.signal, lesson.latency),
        }
    }

    pub(crate) fn release(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &Grant) -> Effects {
        match &mut self.shared {
            Some(shared) => shared.release(memory, now, members, grant),
            None => memory.release(now, members, grant),
        }
    }

    pub(crate) fn declare(&mut self, memory: &mut Memory, now: Instant, scope: ScopeId, crawl_delay: Duration) {
        match &mut self.shared {
            Some(shared) => shared.declare(memory, now, scope, crawl_delay),
            None => memory.cell_mut(scope).set_crawl_delay(crawl_delay),
        }
    }

    pub(crate) fn forget(&mut self, memory: &mut Memory, now: Instant, scopes: &[ScopeId]) {
        match &mut self.shared {
            Some(shared) => shared.forget(memory, now, scopes),
            None => scopes.iter().for_each(|scope| memory.cell_mut(*scope).forget()),
        }
    }
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeping").field("shared", &self.standing()).field("asked", &self.asked.len()).finish()
    }
}

/// A start that lies ahead no farther than this takes its place in flight already.
const SOON: Duration = Duration::from_secs(1);
/// How long a pacer that shares a store sleeps at most while somebody waits.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
