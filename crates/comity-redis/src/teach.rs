//! What an answer teaches, told to the store: what the script can add up, it adds; what only a policy understands is
//! computed here and set if nobody set it since.

use comity_core::limits::all::{self, Cells, Effects};
use comity_core::limits::{Member, Part, Restart, ScopeId, Snapshot};
use comity_core::policy::{Fact, Learned, Outcome};
use comity_core::signal::{Inferred, Signal};
use comity_core::time::Instant;
use comity_store::{Lesson, Memory};

use crate::connect::Failure;
use crate::redis::{Came, Redis, UnderWay};
use crate::script::{Answer, Learnt, Said, Scope, Taught};
use crate::state::{Counted, FAR, to_text, wait_micros};

/// A report that has no answer yet.
pub(crate) struct Report {
    taught: Vec<(Member, Taught)>,
    fact: Fact,
    tries: u8,
}

impl Report {
    pub(crate) fn scopes(&self) -> Vec<ScopeId> {
        self.taught.iter().map(|(member, _)| member.scope).collect()
    }
}

impl Redis {
    pub(crate) fn teach(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        members: &[Member],
        lesson: &Lesson<'_>,
    ) -> Effects {
        let Lesson { grant, signal, latency } = *lesson;
        let before: Vec<Snapshot> = members.iter().map(|member| memory.cell(member.scope).snapshot()).collect();
        let effects = all::learn(memory, now, members, grant, signal, latency);
        let fact = Fact { started: grant.start, outcome: Outcome::of(signal), latency };
        let mut taught: Vec<(Member, Taught)> = Vec::new();
        let mut narrowest = true;
        for (member, before) in members.iter().zip(&before).filter(|(member, _)| member.part != Part::Bound) {
            let first = core::mem::take(&mut narrowest);
            if self.mirror.known(memory, member.scope).key.is_none() {
                continue;
            }
            let started = self.started(memory, member.scope, grant.start);
            let lesson = self.lesson(memory, *member, before, signal, &fact, first);
            if let Some(lesson) = lesson {
                if lesson.wait.is_some() {
                    self.void_of(memory, now, member);
                }
                taught.push((*member, Taught { started: Some(started), ..lesson }));
            }
        }
        if self.is_lost() {
            for (member, _) in taught {
                self.mirror.known(memory, member.scope).touched = true;
            }
        } else if !taught.is_empty() {
            self.report(memory, now, &taught, fact, 0);
        }
        effects
    }

    /// What one scope is taught; `None` where it is nothing new.
    fn lesson(
        &mut self,
        memory: &Memory,
        member: Member,
        before: &Snapshot,
        signal: &Signal,
        fact: &Fact,
        narrowest: bool,
    ) -> Option<Taught> {
        let cell = memory.cell(member.scope);
        let limits = cell.limits();
        let mut taught = Taught { st: signal.status, ..Taught::default() };
        let (mut counted, mut news) = (Counted::default(), false);
        if let Some(refusal) = &signal.authoritative.refusal {
            let limit = limits.retry_after_limit;
            match refusal.wait {
                Some(wait) => {
                    counted.ra = 1;
                    counted.gu = u32::from(wait > limit);
                }
                None => counted.rw = 1,
            }
            (counted.st, counted.wa) = (Some(refusal.status), refusal.wait.map(wait_micros));
            match (refusal.wait, limits.reading.min_refusal_wait) {
                (Some(wait), Some(least)) if wait == least => {
                    (taught.wait, taught.grow) = (Some(wait_micros(least)), Some(wait_micros(least)));
                    taught.limit = Some(wait_micros(limit));
                }
                (Some(wait), _) => taught.wait = Some(wait_micros(wait.min(limit))),
                (None, _) => {}
            }
        } else if !matches!(signal.inferred, Inferred::NoAnswer(_)) {
            taught.served = before.pause.restart() != Restart::Free || before.pause.repeats() > 0;
            news |= taught.served;
        }
        match fact.outcome {
            Outcome::NoAnswer => counted.na = 1,
            Outcome::ServerError => counted.se = 1,
            _ => {}
        }
        if counted != Counted::default() {
            taught.n = Some(counted);
            (news, taught.by) = (true, true);
        }
        if narrowest {
            let said = signal.authoritative.quotas.iter().find_map(|quota| {
                let (left, resets) = (quota.remaining?, quota.resets_in?);
                (!resets.is_zero()).then(|| Said {
                    li: quota.limit.map(|limit| limit.min(FAR.unsigned_abs())),
                    wi: quota.window.map(wait_micros),
                    re: left.min(FAR.unsigned_abs()),
                    rs: wait_micros(resets),
                    hold: wait_micros(limits.quota_hold_limit),
                })
            });
            news |= said.is_some();
            taught.q = said;
        }
        match cell.learned() {
            Learned::Nothing => {}
            Learned::Pressure(_) => {
                taught.un = match fact.outcome {
                    Outcome::Refused { .. } => Some(50),
                    Outcome::ServerError | Outcome::NoAnswer => Some(10),
                    Outcome::Served | Outcome::Neutral => None,
                };
                news |= taught.un.is_some();
            }
            learned if *learned == before.learned => {}
            learned => {
                let learned = *learned;
                taught.nb = Some(self.learnt(memory, member.scope, &learned));
                news = true;
            }
        }
        news.then_some(taught)
    }

    /// What was learned, to be set in place of what this process takes for the last.
    fn learnt(&mut self, memory: &Memory, scope: ScopeId, learned: &Learned) -> Learnt {
        let version = self.mirror.new_version();
        let known = self.mirror.known(memory, scope);
        let was = known.version.replace(version.clone());
        let there = guarded(learned, |at| known.clock.store(at));
        Learnt { was, b: to_text(&there), i: wait_micros(learned.interval()), cn: learned.in_flight(), v: version }
    }

    fn report(&mut self, memory: &Memory, now: Instant, taught: &[(Member, Taught)], fact: Fact, tries: u8) {
        for group in self.groups(memory, taught.iter().map(|(member, _)| member.scope)) {
            let id = self.next_call();
            let (mut arguments, mut keys, mut told) = (Vec::new(), Vec::new(), Vec::new());
            for n in group {
                let (member, lesson) = &taught[n];
                let argument = self.mirror.argument(memory, now, *member);
                let known = self.mirror.known(memory, member.scope);
                known.tells();
                known.mutated = id;
                keys.extend(known.key.clone());
                told.push(taught[n].clone());
                arguments.push(Scope { taught: Some(lesson.clone()), ..argument });
            }
            let (keys, call) = self.call("report", now, arguments, keys);
            self.send(id, now, keys, &call, UnderWay::Report(Box::new(Report { taught: told, fact, tries })));
        }
    }

    pub(crate) fn report_answered(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        came: Came,
        report: &Report,
        answer: Result<Answer, Failure>,
    ) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(Failure::Lost(why)) => {
                self.touched(memory, "report", &report.scopes());
                return self.lose(memory, now, &why);
            }
            Err(Failure::Refused(why)) => {
                if let [taught] = &report.taught[..] {
                    return self.refused(memory, now, taught.0.scope, &why);
                }
                // Which of them it is shows when each is taught alone.
                for taught in report.taught.iter().filter(|(member, _)| memory.kind(member.scope).is_some()) {
                    self.report(memory, now, core::slice::from_ref(taught), report.fact, report.tries);
                }
                return;
            }
        };
        let scopes = report.scopes();
        if answer.stale.is_empty() {
            return self.restore(memory, came, &scopes, &answer);
        }
        let mut again = Vec::new();
        for (n, ((member, lesson), record)) in report.taught.iter().zip(&answer.s).enumerate() {
            if memory.kind(member.scope).is_none() {
                continue;
            }
            if !answer.stale.contains(&n) {
                self.mirror.restore(memory, came.call, member.scope, record);
                continue;
            }
            let Some(state) = crate::state::State::read(&record.s) else { continue };
            let limits = memory.cell(member.scope).limits().clone();
            let known = self.mirror.known(memory, member.scope);
            let mut learned = *memory.cell(member.scope).learned();
            if known.rebased.is_none() || known.rebased != state.bv {
                // Others taught it since: what they did is where this goes on from.
                learned = guarded(&state.learned(Some(&limits.policy)), |at| known.clock.local(at));
                known.rebased.clone_from(&state.bv);
                known.version.clone_from(&state.bv);
            }
            learned.taught(now, &report.fact, &limits.policy);
            let cell = memory.cell_mut(member.scope);
            let snapshot = Snapshot { learned, ..cell.snapshot() };
            cell.restore(&snapshot);
            if report.tries < MOST_TRIES {
                let nb = Some(self.learnt(memory, member.scope, &learned));
                again.push((*member, Taught { started: lesson.started, nb, ..Taught::default() }));
            }
        }
        if !again.is_empty() {
            self.report(memory, now, &again, report.fact, report.tries + 1);
        }
    }
}

/// On another clock; "never" and the origin stay what they are.
fn guarded(learned: &Learned, shift: impl Fn(Instant) -> Instant) -> Learned {
    learned.shifted(|at| if at == Instant::ZERO || at == Instant::FAR { at } else { shift(at) })
}

/// How often a lesson is told again because others taught meanwhile; the next one teaches as well.
const MOST_TRIES: u8 = 5;
