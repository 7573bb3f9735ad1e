//! What stands behind a pacer's lock: the table of scopes and the waiting requests.

use std::collections::HashMap;
use std::sync::Arc;

use comity_core::limits::all::{Begin, Cells, Claim, Effects, Grant};
use comity_core::limits::{Because, Limits, Member, Part, Route, ScopeId, Wait};
use comity_core::schedule::{Attempted, Replay, Schedule, Ticket, Waiting};
use comity_core::scope::{Rules, Target};
use comity_core::signal::{Inferred, NoAnswer, Reading, Signal};
use comity_core::time::Instant;
use comity_core::uplink::Uplink;
use comity_store::{Lesson, Memory, OwnLimits, RouteError, Store};
use tokio::sync::oneshot;

use crate::error::Delay;
use crate::keeping::{Keeping, Outside, Room};
use crate::permit::Permit;

/// The state of a pacer. Nobody awaits while holding its lock.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) memory: Memory,
    pub(crate) store: Keeping,
    pub(crate) schedule: Schedule,
    pending: HashMap<Ticket, Pending, foldhash::fast::RandomState>,
    sets: Vec<Arc<Limits>>,
    next_place: u64,
    /// What all hosts have in common (A10).
    pub(crate) uplink: Uplink,
    /// Whether somebody may have been held back because the uplink is full, and when that last ended.
    held_back: bool,
    room_since: Instant,
    /// Hosts that were delayed for the first time, not told of yet: host, place and wait (P12).
    pub(crate) first_delays: Vec<(ScopeId, u64, Wait)>,
}

/// A waiting request.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) owner: Owner,
    pub(crate) request: Request,
    pub(crate) route: Route,
}

/// What is kept of a request from queue to settlement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) place: u64,
    pub(crate) cost: u32,
    pub(crate) replay: Replay,
    pub(crate) attempted: Attempted,
    pub(crate) queued: Instant,
}

/// Who gets the permit.
#[derive(Debug)]
pub(crate) enum Owner {
    /// A future that waits for it.
    Future(oneshot::Sender<Permit>),
    /// A line, which knows the request by a tag.
    Line(u64),
}

/// A request that was let start.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) owner: Owner,
    pub(crate) request: Request,
    pub(crate) route: Route,
    pub(crate) grant: Grant,
    pub(crate) waited_for: Option<Wait>,
}

impl Engine {
    pub(crate) fn new(memory: Memory, store: Keeping) -> Self {
        Self {
            memory,
            store,
            schedule: Schedule::default(),
            pending: HashMap::default(),
            sets: Vec::new(),
            next_place: FIRST_PLACE,
            uplink: Uplink::default(),
            held_back: false,
            room_since: Instant::ZERO,
            first_delays: Vec::new(),
        }
    }

    /// A fresh place in the order of arrival.
    pub(crate) fn place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    /// Equal limits share a set (T5).
    pub(crate) fn set_of(&mut self, limits: Limits) -> OwnLimits {
        let set = self.sets.iter().position(|known| **known == limits).unwrap_or_else(|| {
            self.sets.push(Arc::new(limits));
            self.sets.len() - 1
        });
        OwnLimits { set: set as u32, limits: Arc::clone(&self.sets[set]) }
    }

    pub(crate) fn route(
        &mut self,
        now: Instant,
        target: &Target<'_>,
        own: Option<&OwnLimits>,
    ) -> Result<Route, RouteError> {
        self.memory.route(now, target, own)
    }

    /// Lets a request start at once, if nobody waits before it and all its scopes let it.
    pub(crate) fn try_start(&mut self, now: Instant, route: &Route, cost: u32) -> Outside {
        if let Some(wait) = self.full(now) {
            return Outside::Answered(Err(wait));
        }
        if self.schedule.others_wait(route) {
            let wait = Wait {
                until: self.schedule.deadline().unwrap_or(Instant::FAR),
                scope: route.members()[0].scope,
                because: Because::Order,
            };
            return Outside::Answered(Err(wait));
        }
        let answer = self.store.claim(&mut self.memory, now, &Claim::at_once(route.members(), cost, now));
        if matches!(answer, Outside::Answered(Ok(_))) {
            self.starts(now);
        }
        answer
    }

    /// A claim from outside the schedule that a store answered late.
    pub(crate) fn told(&mut self, now: Instant, claim: u64) -> Option<Result<Grant, Wait>> {
        let answer = self.store.told(claim)?;
        if answer.is_ok() {
            self.starts(now);
        }
        Some(answer)
    }

    /// A request starts that did not wait.
    fn starts(&mut self, now: Instant) {
        self.uplink.started();
        self.held_back |= self.full(now).is_some();
    }

    pub(crate) fn begin(&mut self, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
        self.store.begin(&mut self.memory, now, members, grant)
    }

    /// Learns from a host's answer; those that wait and may go sooner are asked anew. What is our own uplink's and not the
    /// host's teaches nothing (A10).
    pub(crate) fn learn(&mut self, now: Instant, members: &[Member], host: ScopeId, lesson: &Lesson<'_>) {
        let ours;
        let mut lesson = *lesson;
        if self.watch(now, host, &lesson) {
            lesson.latency = None;
            if matches!(lesson.signal.inferred, Inferred::NoAnswer(_)) {
                ours = Signal::no_answer(NoAnswer::Uplink);
                lesson.signal = &ours;
            }
        }
        let effects = self.store.learn(&mut self.memory, now, members, &lesson);
        self.schedule.effects(members, effects);
    }

    /// Gives places back; those that wait for one are asked anew.
    pub(crate) fn release(&mut self, now: Instant, members: &[Member], grant: &Grant) {
        self.uplink.ended();
        let effects: Effects = self.store.release(&mut self.memory, now, members, grant);
        self.schedule.effects(members, effects);
    }

    /// Takes what came from a shared store.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.store.hear(&mut self.memory, &mut self.schedule, now);
    }

    /// Whether nobody waits, and no grant is left over from one who did.
    pub(crate) fn is_idle(&self) -> bool {
        self.schedule.is_empty() && self.store.is_idle()
    }

    /// When to look again if nothing happens until then; `None` while it is idle.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.is_idle() {
            return None;
        }
        let full = self.store.is_full(now, self.uplink.room(now));
        let scheduled = if full { self.uplink.ends(now) } else { self.schedule.deadline() };
        self.store.deadline(scheduled, now)
    }

    pub(crate) fn enqueue(&mut self, now: Instant, pending: Pending, not_before: Option<Instant>) -> Ticket {
        self.memory.pin(&pending.route);
        let ticket = self.schedule.enqueue(
            now,
            Waiting {
                route: pending.route.clone(),
                cost: pending.request.cost,
                place: pending.request.place,
                not_before,
            },
        );
        self.pending.insert(ticket, pending);
        ticket
    }

    /// How many requests may start now, of all hosts together.
    fn room(&mut self, now: Instant) -> Room {
        let places = self.uplink.room(now);
        if self.store.is_full(now, places) {
            self.held_back = true;
        } else if std::mem::take(&mut self.held_back) {
            self.room_since = now;
        }
        Room { places, since: self.room_since }
    }

    /// The next request that may start now.
    pub(crate) fn next_start(&mut self, now: Instant) -> Option<Started> {
        loop {
            let room = self.room(now);
            let (attempt, answer) = self.store.next_answer(&mut self.memory, &mut self.schedule, now, room)?;
            match answer {
                Err(wait) => {
                    let host = host_of(attempt.route.members());
                    if self.memory.notice(host) {
                        let place = self.pending.get(&attempt.ticket).map_or(0, |pending| pending.request.place);
                        self.first_delays.push((host, place, wait));
                    }
                    self.schedule.must_wait(&attempt, wait);
                }
                Ok(grant) => {
                    self.uplink.started();
                    let waited = self.schedule.started(&attempt);
                    if let (true, Some(pending)) = (waited, self.pending.remove(&attempt.ticket)) {
                        self.memory.unpin(&pending.route);
                        let Pending { owner, mut request, route } = pending;
                        request.attempted.attempts += 1;
                        return Some(Started { owner, request, route, grant, waited_for: attempt.waited_for });
                    }
                    self.release(now, attempt.route.members(), &grant);
                }
            }
        }
    }

    /// Every request of a line leaves it: the line is gone, and nobody would use its starts.
    pub(crate) fn cancel_line(&mut self) {
        let of_line = |(ticket, pending): (&Ticket, &Pending)| match pending.owner {
            Owner::Line(_) => Some(*ticket),
            Owner::Future(_) => None,
        };
        let tickets: Vec<Ticket> = self.pending.iter().filter_map(of_line).collect();
        for ticket in tickets {
            self.cancel(ticket);
        }
    }

    /// A request waits no more.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> Option<Pending> {
        self.schedule.cancel(ticket);
        let pending = self.pending.remove(&ticket)?;
        self.memory.unpin(&pending.route);
        Some(pending)
    }

    /// Other rules from now on; those that wait are asked anew under them.
    pub(crate) fn set_rules(&mut self, rules: Arc<Rules>) {
        self.memory.set_rules(rules);
        let memory = &mut self.memory;
        self.schedule.reroute(|route| memory.reroute(route));
        for pending in self.pending.values_mut() {
            let route = memory.reroute(&pending.route);
            memory.unpin(&pending.route);
            memory.pin(&route);
            pending.route = route;
        }
    }

    /// What holds for a request's retries: of the host, or where a narrower scope or its caller says more, that.
    pub(crate) fn retry_limits(&self, members: &[Member], host: ScopeId) -> Limits {
        let mut limits = Limits::clone(self.memory.cell(host).limits());
        for member in members.iter().rev() {
            let own = self.memory.cell(member.scope).limits();
            let says = |field| own.source(field).is_some();
            if says("retries") {
                limits.retries = own.retries;
            }
            if says("retry_after_limit") {
                limits.retry_after_limit = own.retry_after_limit;
            }
            if says("retry_unsafe_503") {
                limits.retry_unsafe_503 = own.retry_unsafe_503;
            }
            if says("retry_statuses") {
                limits.retry_statuses.clone_from(&own.retry_statuses);
            }
        }
        limits
    }

    /// How answers are read: as the narrowest scope says that says anything of it.
    pub(crate) fn reading(&self, members: &[Member], taught: ScopeId) -> &Reading {
        let reading = |scope: ScopeId| &*self.memory.cell(scope).limits().reading;
        if members.len() > 1 {
            let plain = Reading::default();
            if let Some(member) = members.iter().find(|member| *reading(member.scope) != plain) {
                return reading(member.scope);
            }
        }
        reading(taught)
    }

    /// Why a waiting request waits.
    pub(crate) fn delay_of(&self, now: Instant, ticket: Ticket) -> Option<Delay> {
        if let Some(wait) = self.full(now)
            && self.schedule.is_due(now, ticket)
        {
            return Some(self.delay(now, &wait));
        }
        self.schedule.wait_of(ticket).map(|wait| self.delay(now, &wait))
    }

    /// A wait in words for people.
    pub(crate) fn delay(&self, now: Instant, wait: &Wait) -> Delay {
        Delay {
            wait: (wait.until != Instant::FAR).then(|| wait.until.since(now)),
            scope: match (self.memory.inspect(wait.scope), wait.because) {
                (_, Because::Uplink(_)) => "all hosts".to_owned(),
                (Some((name, _)), _) => name.to_owned(),
                (None, _) => "this table".to_owned(),
            },
            because: wait.because,
        }
    }
}

/// The scope a request is told under: the narrowest that its answer teaches.
pub(crate) fn host_of(members: &[Member]) -> ScopeId {
    members.iter().find(|member| member.part != Part::Bound).unwrap_or(&members[0]).scope
}

/// Below it is room for the places a scheduler gives out itself.
const FIRST_PLACE: u64 = 1 << 48;
