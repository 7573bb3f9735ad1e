//! A claim's way: this process's own scopes, then one call a slot, then the start that is the latest of them.

use core::time::Duration;

use comity_core::limits::all::{self, Cells, Claim, Grant, Origin};
use comity_core::limits::{Because, Member, Part, Route, ScopeId, Share, Snapshot, Wait};
use comity_core::time::Instant;
use comity_store::{Asked, Claimed, Memory, OnFailure};

use crate::connect::Failure;
use crate::redis::{Came, Redis, UnderWay};
use crate::reserve::Found;
use crate::script::Answer;
use crate::state::{FAR, instant, span};

/// A claim that has no answer yet.
pub(crate) struct Pending {
    id: u64,
    members: Vec<Member>,
    cost: u32,
    asked: Instant,
    due: Instant,
    /// Further starts that would be used.
    want: u32,
    /// The members by slots, the one that is asked, and how often it was.
    groups: Vec<Vec<usize>>,
    at: usize,
    tries: u8,
    /// What this process's own scopes were before, and are after its charge.
    own: Vec<(Member, Snapshot, Snapshot)>,
    trials: u16,
    /// Until when it may be used: where several let it start, as long as each of them lets it.
    end: Option<Instant>,
    start: Instant,
    starts: Vec<(ScopeId, i64)>,
}

impl Pending {
    fn group(&self) -> &[usize] {
        self.groups.get(self.at).map_or(&[], Vec::as_slice)
    }

    fn as_claim(&self) -> Claim<'_> {
        Claim { members: &self.members, cost: self.cost, asked: self.asked, due: self.due }
    }

    fn late_by(&self) -> Option<Duration> {
        self.end.map(|end| end.since(self.start))
    }

    fn usable(&mut self, start: Instant, late_by: Option<Duration>) {
        let end = late_by.map(|late_by| start.after(late_by));
        self.end = [self.end, end].into_iter().flatten().min();
    }
}

impl Redis {
    pub(crate) fn start_claim(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        claim: &Claim<'_>,
        asked: Asked,
    ) -> Claimed {
        self.check_link(memory, now);
        if self.is_lost() {
            return Claimed::Now(self.claim_alone(memory, now, claim));
        }
        if let Some(wait) = self.alone.turn(memory, now, claim) {
            return Claimed::Now(Err(wait));
        }
        self.void_reserved(memory, now);
        match self.reserve.find(claim.members, claim.cost, now) {
            Found::Due(grant) => return Claimed::Now(Ok(grant)),
            Found::Ahead(until) => {
                let scope = claim.members[0].scope;
                let because = Because::Interval(memory.cell(scope).interval());
                return Claimed::Now(Err(Wait { until, scope, because }));
            }
            Found::Nothing => {}
        }
        if claim.members.iter().any(|member| self.mirror.known(memory, member.scope).apart > now) {
            return Claimed::Now(self.claim_apart(memory, now, claim));
        }
        let mut groups = self.groups(memory, claim.members.iter().map(|member| member.scope));
        let (mut own, mut places) = (Vec::new(), Vec::new());
        for (n, member) in claim.members.iter().enumerate() {
            if self.mirror.known(memory, member.scope).key.is_none() {
                own.push(*member);
                places.push(n);
            }
        }
        if groups.is_empty() {
            return Claimed::Now(all::claim(memory, now, claim));
        }
        // What will be refused is asked first: then it has cost nobody anything.
        if groups.len() > 1 {
            let mirrored = |group: &Vec<usize>| {
                let free = |n: &usize| {
                    let member = claim.members[*n];
                    memory.cell(member.scope).free_since(now, claim.cost, member.part)
                };
                group.iter().map(free).max()
            };
            groups.sort_by_key(|group| core::cmp::Reverse(mirrored(group)));
        }
        let mut pending = Pending {
            id: asked.id,
            members: claim.members.to_vec(),
            cost: claim.cost,
            asked: claim.asked,
            due: claim.due,
            want: self.want(&groups, own.is_empty(), asked.waiting),
            groups,
            at: 0,
            tries: 0,
            own: Vec::new(),
            trials: 0,
            end: None,
            start: now,
            starts: Vec::new(),
        };
        if !own.is_empty() {
            let before: Vec<Snapshot> = own.iter().map(|member| memory.cell(member.scope).snapshot()).collect();
            match all::claim(memory, now, &Claim { members: &own, ..*claim }) {
                Ok(grant) => {
                    for (n, place) in places.iter().enumerate() {
                        pending.trials |= (grant.trials >> n & 1) << place;
                    }
                    pending.usable(now, grant.late_by);
                }
                Err(wait) => {
                    // What the others were when they were last heard of may hold it longer.
                    let wait = all::decide(memory, now, claim).err().unwrap_or(wait);
                    self.waits(now, &wait);
                    return Claimed::Now(Err(wait));
                }
            }
            let after = own.iter().map(|member| memory.cell(member.scope).snapshot());
            pending.own = own.iter().copied().zip(before).zip(after).map(|((m, b), a)| (m, b, a)).collect();
        }
        memory.pin(&Route::from(pending.members.clone()));
        self.ask(memory, now, pending);
        Claimed::Later
    }

    /// Further starts to ask for: as many as wait here, and no more than leave the others their turns (X8). None where nobody
    /// could say that a pause has overtaken them.
    fn want(&self, groups: &[Vec<usize>], all_shared: bool, waiting: u32) -> u32 {
        if groups.len() != 1 || !all_shared || !self.listening {
            return 0;
        }
        (MOST_AHEAD / self.alone.members().max(1)).min(waiting.saturating_sub(1))
    }

    /// Asks the store about the scopes of one slot.
    fn ask(&mut self, memory: &mut Memory, now: Instant, pending: Pending) {
        let (mut arguments, mut keys) = (Vec::new(), Vec::new());
        for n in pending.group() {
            let member = pending.members[*n];
            arguments.push(self.mirror.argument(memory, now, member));
            let known = self.mirror.known(memory, member.scope);
            keys.extend(known.key.clone());
            known.asks(member.part, pending.cost);
        }
        let first = pending.group().first().map(|n| pending.members[*n].scope);
        let clock = first.map_or(self.mirror.clock, |scope| self.mirror.known(memory, scope).clock);
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(FAR).min(FAR);
        let (keys, mut call) = self.call("claim", now, arguments, keys);
        call.cost = Some(pending.cost);
        call.asked = Some(micros(now.since(pending.asked)));
        // What another slot let start is not counted from further back here as well.
        call.due = Some(micros(if pending.at == 0 { now.since(pending.due) } else { Duration::ZERO }));
        call.later = (pending.at > 0).then(|| micros(pending.end.map_or(LEAST_AHEAD, |end| end.since(now))));
        call.want = pending.want;
        call.far = micros((clock.took() * 2).clamp(LEAST_AHEAD, MOST_FAR));
        let id = self.next_call();
        self.send(id, now, keys, &call, UnderWay::Claim(Box::new(pending)));
    }

    pub(crate) fn claim_answered(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        came: Came,
        mut pending: Pending,
        answer: Result<Answer, Failure>,
    ) {
        let scopes: Vec<ScopeId> = pending.group().iter().map(|n| pending.members[*n].scope).collect();
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                match failure {
                    Failure::Lost(why) => self.lose(memory, now, &why),
                    // It may be another's of them: the next claim that has another narrowest scope shows it.
                    Failure::Refused(why) => self.refused(memory, now, scopes[0], &why),
                }
                return self.claim_failed(memory, now, &pending);
            }
        };
        self.no_longer_out(memory, &pending);
        if answer.lost || answer.age {
            if answer.lost {
                self.mirror.epoch += 1;
            } else {
                self.restore(memory, came, &scopes, &answer);
            }
            pending.tries += 1;
            if pending.tries < MOST_TRIES {
                return self.ask(memory, now, pending);
            }
            self.undo(memory, now, &pending);
            let wait = Wait { until: now.after(ASK_AGAIN), scope: scopes[0], because: Because::Order };
            self.answers.push((pending.id, Err(wait)));
            return;
        }
        if answer.ok {
            for n in pending.group() {
                let member = pending.members[*n];
                let known = self.mirror.known(memory, member.scope);
                known.takes(member.part, pending.cost, 1 + answer.ahead.len() as u32);
                known.tells();
            }
        }
        self.restore(memory, came, &scopes, &answer);
        if let Some(till) = answer.till.filter(|_| !answer.ok) {
            self.undo(memory, now, &pending);
            let wait = self.wait(memory, &scopes, till, &answer);
            self.waits(now, &wait);
            self.answers.push((pending.id, Err(wait)));
            return;
        }
        for scope in &scopes {
            self.waits.remove(scope);
        }
        for (bit, n) in pending.group().to_vec().into_iter().enumerate() {
            pending.trials |= ((answer.tr >> bit & 1) as u16) << n;
        }
        let clock = self.mirror.known(memory, scopes[0]).clock;
        let start = clock.local(instant(answer.at));
        pending.start = if pending.at == 0 { start } else { pending.start.max(start) };
        pending.usable(start, answer.late.map(span));
        pending.starts.extend(scopes.iter().map(|scope| (*scope, answer.at)));
        pending.at += 1;
        pending.tries = 0;
        if pending.at < pending.groups.len() {
            return self.ask(memory, now, pending);
        }
        self.granted(memory, &pending, &answer);
    }

    /// The store has no answer to it.
    pub(crate) fn claim_failed(&mut self, memory: &mut Memory, now: Instant, pending: &Pending) {
        self.no_longer_out(memory, pending);
        self.undo(memory, now, pending);
        let claim = pending.as_claim();
        let lost = self.is_lost();
        let alone = if lost { self.claim_alone(memory, now, &claim) } else { self.claim_apart(memory, now, &claim) };
        self.answers.push((pending.id, alone));
    }

    /// The places it asked for are not asked for any more.
    fn no_longer_out(&mut self, memory: &Memory, pending: &Pending) {
        for n in pending.group() {
            let member = pending.members[*n];
            self.mirror.known(memory, member.scope).asks_no_more(member.part, pending.cost);
        }
    }

    /// The last of its scopes let it start.
    fn granted(&mut self, memory: &mut Memory, pending: &Pending, answer: &Answer) {
        let start = self.keep_start(pending.start, pending.starts.clone());
        let Pending { cost, trials, .. } = *pending;
        let late_by = pending.late_by();
        let grant = Grant { start, late_by, cost, trials, from: Origin::Shared };
        self.answers.push((pending.id, Ok(grant)));
        for (at, late) in &answer.ahead {
            let scope = pending.members[0].scope;
            let start = self.mirror.known(memory, scope).clock.local(instant(*at));
            let starts = pending.members.iter().map(|member| (member.scope, *at)).collect();
            let start = self.keep_start(start, starts);
            let late_by = (*late >= 0).then(|| span(*late));
            memory.pin(&Route::from(pending.members.clone()));
            self.reserve.put(&pending.members, Grant { start, late_by, cost, trials: 0, from: Origin::Shared });
        }
    }

    /// Until when, on this process's clock, and because of what.
    fn wait(&mut self, memory: &Memory, scopes: &[ScopeId], till: i64, answer: &Answer) -> Wait {
        let scope = scopes.get(answer.n).copied().unwrap_or(scopes[0]);
        let clock = self.mirror.known(memory, scope).clock;
        let limits = memory.cell(scope).limits();
        let more = answer.more.unwrap_or(0);
        let because = match answer.why.as_deref() {
            Some("i") => Because::Interval(if more > 0 { span(more) } else { limits.interval }),
            Some("w") => match usize::try_from(more).ok().and_then(|n| limits.windows.get(n)) {
                Some(window) => Because::Window(*window),
                None => Because::Order,
            },
            Some("f") => Because::InFlight(limits.in_flight.map_or(0, core::num::NonZeroU32::get)),
            Some("n") => Because::Concurrency(u32::try_from(more).unwrap_or(u32::MAX)),
            Some("p") => Because::Pace(span(more)),
            Some("c") => Because::CrawlDelay(span(more)),
            Some("z") => Because::Pause,
            Some("a") => Because::AfterPause,
            Some("q") => Because::Quota { remaining: more.unsigned_abs() },
            _ => Because::Order,
        };
        let until = if till >= FAR { Instant::FAR } else { clock.local(instant(till)) };
        Wait { until, scope, because }
    }

    fn claim_alone(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>) -> Result<Grant, Wait> {
        let mut grant = self.alone.claim(memory, now, claim)?;
        let starts = claim.members.iter().map(|member| {
            let clock = self.mirror.known(memory, member.scope).clock;
            (member.scope, crate::state::micros(clock.store(grant.start)))
        });
        let starts = starts.collect();
        grant.start = self.keep_start(grant.start, starts);
        for member in claim.members {
            let known = self.mirror.known(memory, member.scope);
            known.touched = true;
            if known.key.is_some() {
                known.takes(member.part, claim.cost, 1);
            }
        }
        memory.pin(&Route::from(claim.members.to_vec()));
        Ok(grant)
    }

    /// A claim without the store while the store is there, because it cannot use a record.
    fn claim_apart(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>) -> Result<Grant, Wait> {
        if self.settings.on_failure == OnFailure::Share {
            memory.set_share(self.share);
        }
        let answer = self.claim_alone(memory, now, claim);
        memory.set_share(Share::WHOLE);
        answer
    }

    /// A claim that does not start: what it has of its scopes is given back.
    fn undo(&mut self, memory: &mut Memory, now: Instant, pending: &Pending) {
        memory.unpin(&Route::from(pending.members.clone()));
        for (member, before, after) in &pending.own {
            let cell = memory.cell_mut(member.scope);
            if cell.snapshot() == *after && member.part != Part::Learned {
                cell.restore(before);
            } else {
                // Others started since: the slot is lost, the places are not.
                let grant =
                    Grant { start: pending.start, late_by: None, cost: pending.cost, trials: 0, from: Origin::Local };
                all::release(memory, core::slice::from_ref(member), &grant);
            }
        }
        let granted: Vec<usize> = pending.groups[..pending.at].concat();
        let mut places = Vec::new();
        for n in granted {
            let member = pending.members[n];
            let trial = pending.trials >> n & 1 == 1;
            let started = pending.starts.iter().find(|(scope, _)| *scope == member.scope).map(|(_, at)| *at);
            self.mirror.known(memory, member.scope).gives(member.part, pending.cost);
            places.push((member, started.filter(|_| trial)));
        }
        if !places.is_empty() && !self.is_lost() {
            self.send_places(memory, now, "release", &places);
        }
    }
}

/// Starts asked for ahead by all members together: so each has two turns in a hundred starts (X8).
const MOST_AHEAD: u32 = 50;
/// How far ahead they may lie: where the way to the store is long, two of its round trips.
const LEAST_AHEAD: Duration = Duration::from_millis(100);
const MOST_FAR: Duration = Duration::from_secs(1);
/// How often a claim is asked again because the store lost a record, or one was old.
const MOST_TRIES: u8 = 4;
const ASK_AGAIN: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_2_a_start_of_several_slots_is_used_no_later_than_each_lets_it() {
        let (ms, at) = (Duration::from_millis, |ms: u64| Instant::from_millis(1000 + ms));
        let mut pending = Pending {
            id: 1,
            members: Vec::new(),
            cost: 1,
            asked: at(0),
            due: at(0),
            want: 0,
            groups: Vec::new(),
            at: 0,
            tries: 0,
            own: Vec::new(),
            trials: 0,
            end: None,
            start: at(0),
            starts: Vec::new(),
        };
        pending.usable(at(0), None);
        assert_eq!(pending.late_by(), None, "no spacing holds");
        pending.usable(at(0), Some(ms(10)));
        pending.start = at(8);
        pending.usable(at(8), Some(ms(50)));
        assert_eq!(pending.late_by(), Some(ms(2)), "10 ms after the first of them, not after the last");
    }
}
