//! A world in virtual time: a table of scopes, the schedule, hosts that answer by a script, and a log of every start.
//!
//! Nothing sleeps. The clock steps to whatever comes next, an answer or the schedule's deadline. What must hold at every
//! step is checked at every step: a wait's instant is exact, nobody who could start waits, nobody overtakes without a
//! reason, and no limit in flight is passed.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use comity_core::limits::all::{self, Cells, Claim, Grant};
use comity_core::limits::{Cell, Limits, Member, Part, Route, ScopeId, Wait};
use comity_core::policy::Policy;
use comity_core::schedule::{Attempted, GiveUp, Replay, Schedule, Ticket, Verdict, Waiting, verdict};
use comity_core::signal::{Authoritative, Inferred, NoAnswer, Refusal, Signal};
use comity_core::time::Instant;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SEC: Duration = Duration::from_secs(1);

/// A world over a table of scopes.
pub(crate) struct World<C> {
    pub(crate) now: Instant,
    pub(crate) cells: C,
    pub(crate) schedule: Schedule,
    /// Every start, in order.
    pub(crate) starts: Vec<Start>,
    /// Every request's end, in order.
    pub(crate) ends: Vec<End>,
    /// What a host answers, and after how long.
    pub(crate) script: Box<dyn FnMut(&Start) -> Reply>,
    /// How late timers are, at most.
    pub(crate) late: Duration,
    /// The source of all that is random here.
    pub(crate) dice: Dice,
    /// Whether everything is checked at every step (dear where thousands wait).
    pub(crate) checked: bool,
    requests: BTreeMap<u64, Request>,
    tickets: BTreeMap<Ticket, u64>,
    flights: BTreeMap<(Instant, u64), Flight>,
    next_place: u64,
    next_flight: u64,
}

/// One start.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) at: Instant,
    pub(crate) id: u64,
    pub(crate) attempt: u32,
    pub(crate) cost: u32,
    pub(crate) route: Route,
}

/// A request's end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) at: Instant,
    pub(crate) id: u64,
    pub(crate) status: Option<u16>,
    pub(crate) gave_up: Option<GiveUp>,
}

/// An answer and how long it takes.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) after: Duration,
    pub(crate) signal: Signal,
}

/// A request to make.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) route: Route,
    pub(crate) cost: u32,
    pub(crate) replay: Replay,
}

#[derive(Clone, Debug)]
struct Request {
    ask: Ask,
    attempts: u32,
    ticket: Option<Ticket>,
    not_before: Instant,
}

#[derive(Clone, Debug)]
struct Flight {
    start: Start,
    grant: Grant,
    signal: Signal,
}

/// Numbers that a seed repeats.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }

    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

impl World<Vec<Cell>> {
    /// A world with these scopes; their numbers are their indices.
    pub(crate) fn of(limits: impl IntoIterator<Item = Limits>) -> Self {
        Self::new(limits.into_iter().map(|limits| Cell::new(Arc::new(limits))).collect())
    }
}

impl<C: Cells> World<C> {
    pub(crate) fn new(cells: C) -> Self {
        Self {
            now: Instant::from_millis(0),
            cells,
            schedule: Schedule::default(),
            starts: Vec::new(),
            ends: Vec::new(),
            script: Box::new(|_| reply(200, 100)),
            late: Duration::ZERO,
            dice: Dice::new(1),
            checked: true,
            requests: BTreeMap::new(),
            tickets: BTreeMap::new(),
            flights: BTreeMap::new(),
            next_place: 0,
            next_flight: 0,
        }
    }

    /// Hosts answer so.
    pub(crate) fn answering(mut self, script: impl FnMut(&Start) -> Reply + 'static) -> Self {
        self.script = Box::new(script);
        self
    }

    /// A GET for a route.
    pub(crate) fn ask(&mut self, route: &Route) -> u64 {
        self.ask_for(Ask { route: route.clone(), cost: 1, replay: Replay::default() })
    }

    pub(crate) fn ask_many(&mut self, route: &Route, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.ask(route)).collect()
    }

    pub(crate) fn ask_for(&mut self, ask: Ask) -> u64 {
        self.next_place += 1;
        let id = self.next_place;
        self.requests.insert(id, Request { ask, attempts: 0, ticket: None, not_before: self.now });
        self.enqueue(id, None);
        self.pump();
        id
    }

    /// A request is given up by its caller: one that waits leaves, one in flight gives its places back.
    pub(crate) fn cancel(&mut self, id: u64) -> bool {
        if let Some(key) = self.flights.iter().find(|(_, f)| f.start.id == id).map(|(key, _)| *key) {
            let Some(flight) = self.flights.remove(&key) else { return false };
            self.requests.remove(&id);
            let members = flight.start.route.members();
            let effects = all::release(&mut self.cells, members, &flight.grant);
            self.schedule.effects(members, effects);
            self.pump();
            return true;
        }
        let Some(request) = self.requests.remove(&id) else { return false };
        let Some(ticket) = request.ticket else { return false };
        self.tickets.remove(&ticket);
        assert!(self.schedule.cancel(ticket), "request {id} waits");
        assert!(!self.schedule.cancel(ticket), "and is cancelled once");
        self.pump();
        true
    }

    /// Steps to whatever comes next, no later than `end`. False when nothing does.
    pub(crate) fn step(&mut self, end: Instant) -> bool {
        let answer = self.flights.first_key_value().map(|((at, _), _)| *at);
        let late = Duration::from_nanos(self.dice.below(self.late.as_nanos() as u64 + 1));
        let wake = self.schedule.deadline().map(|at| if at > self.now { at.after(late) } else { self.now });
        let Some(next) = [answer, wake].into_iter().flatten().min().filter(|at| *at <= end) else {
            self.now = self.now.max(end);
            return false;
        };
        assert!(next != Instant::FAR, "a timer that never comes is none");
        self.now = self.now.max(next);
        while let Some(flight) = self.flights.first_entry()
            && flight.key().0 <= self.now
        {
            let flight = flight.remove();
            self.settle(flight);
        }
        self.pump();
        true
    }

    pub(crate) fn run_until(&mut self, end: Instant) {
        while self.step(end) {}
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        self.run_until(self.now.after(span));
    }

    /// Until nobody waits and nothing is in flight, and at most a day.
    pub(crate) fn run(&mut self) {
        let end = self.now.after(Duration::from_secs(86_400));
        while (self.waiting() > 0 || !self.flights.is_empty()) && self.step(end) {}
        assert_eq!((self.waiting(), self.flights.len()), (0, 0), "all come to an end within a day");
    }

    pub(crate) fn waiting(&self) -> usize {
        self.tickets.len()
    }

    pub(crate) fn flying(&self) -> Vec<u64> {
        self.flights.values().map(|flight| flight.start.id).collect()
    }

    pub(crate) fn waiting_ids(&self) -> Vec<u64> {
        self.tickets.values().copied().collect()
    }

    pub(crate) fn wait_of(&self, id: u64) -> Option<Wait> {
        self.schedule.wait_of(self.requests.get(&id)?.ticket?)
    }

    /// When these scopes' requests started, in milliseconds.
    pub(crate) fn times(&self, scope: ScopeId) -> Vec<u64> {
        self.starts.iter().filter(|start| falls_under(&start.route, scope)).map(|start| millis(start.at)).collect()
    }

    /// Which requests started, in order.
    pub(crate) fn order(&self) -> Vec<u64> {
        self.starts.iter().map(|start| start.id).collect()
    }

    /// The routes of those that wait change.
    pub(crate) fn reroute(&mut self, mut to: impl FnMut(&C, &Route) -> Route) {
        let cells = &self.cells;
        self.schedule.reroute(|route| to(cells, route));
        for id in self.tickets.values() {
            if let Some(request) = self.requests.get_mut(id) {
                request.ask.route = to(cells, &request.ask.route);
            }
        }
        self.pump();
    }

    fn enqueue(&mut self, id: u64, after: Option<Duration>) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let not_before = after.map(|after| self.now.after(after));
        let waiting = Waiting { route: request.ask.route.clone(), cost: request.ask.cost, place: id, not_before };
        let ticket = self.schedule.enqueue(self.now, waiting);
        request.ticket = Some(ticket);
        request.not_before = not_before.unwrap_or(self.now);
        self.tickets.insert(ticket, id);
    }

    fn settle(&mut self, flight: Flight) {
        let Flight { start, grant, signal } = flight;
        let members = start.route.members();
        let latency = signal.status.map(|_| self.now.since(start.at));
        let effects = all::settle(&mut self.cells, self.now, members, &grant, &signal, latency);
        self.schedule.effects(members, effects);
        let Some(request) = self.requests.get(&start.id) else { return };
        let attempted = Attempted { attempts: request.attempts };
        let limits = Arc::clone(self.cells.cell(members[0].scope).limits());
        let gave_up = match verdict(&limits, &signal, request.ask.replay, attempted) {
            Verdict::Retry { after } => return self.enqueue(start.id, after),
            Verdict::Done => None,
            Verdict::GiveUp(why) => Some(why),
        };
        self.requests.remove(&start.id);
        self.ends.push(End { at: self.now, id: start.id, status: signal.status, gave_up });
    }

    /// Lets start whatever may.
    pub(crate) fn pump(&mut self) {
        while let Some(attempt) = self.schedule.next(self.now) {
            let id = self.tickets[&attempt.ticket];
            let members = attempt.route.members();
            let claim = Claim { members, cost: attempt.cost, asked: attempt.asked, due: attempt.due };
            if self.checked && all::decide(&self.cells, self.now, &claim).is_ok() {
                self.check_order(id);
            }
            match all::claim(&mut self.cells, self.now, &claim) {
                Err(wait) => {
                    self.check_exact(&claim, &wait);
                    self.schedule.must_wait(&attempt, wait);
                }
                Ok(grant) => {
                    assert!(self.schedule.started(&attempt), "request {id} was waiting");
                    if self.checked {
                        self.check_in_flight(members, attempt.cost);
                    }
                    self.begin(id, &attempt.route, grant);
                }
            }
        }
        if self.checked {
            self.check_live();
        }
    }

    fn begin(&mut self, id: u64, route: &Route, grant: Grant) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.attempts += 1;
        if let Some(ticket) = request.ticket.take() {
            self.tickets.remove(&ticket);
        }
        let start = Start { at: self.now, id, attempt: request.attempts, cost: grant.cost, route: route.clone() };
        let Reply { after, signal } = (self.script)(&start);
        self.starts.push(start.clone());
        self.next_flight += 1;
        self.flights.insert((self.now.after(after), self.next_flight), Flight { start, grant, signal });
    }

    /// Not admitted before the instant it was told, admitted at it if nothing happens.
    fn check_exact(&self, claim: &Claim<'_>, wait: &Wait) {
        assert!(wait.until > self.now, "a wait ends later than now");
        if wait.until == Instant::FAR {
            return;
        }
        let before = all::decide(&self.cells, wait.until.before(Duration::from_nanos(1)), claim);
        assert_eq!(before.map_err(|wait| wait.until), Err(wait.until), "{wait:?}: not sooner");
        assert_eq!(all::decide(&self.cells, wait.until, claim), Ok(()), "{wait:?}: and not later");
    }

    /// Nothing overtakes without reason: of two heads that could both start, the earlier place goes first.
    fn check_order(&self, id: u64) {
        let route = &self.requests[&id].ask.route;
        let heads = self.heads();
        for (n, (earlier, head)) in heads.iter().enumerate().take_while(|(_, (place, _))| *place < id) {
            let shares = route.members().iter().any(|m| falls_under(&head.ask.route, m.scope));
            let could = self.could_start(head) && !self.is_behind(head, &heads[..n]);
            assert!(!(shares && could), "{id} overtakes {earlier}, which could start");
            assert!(head.ask.route != *route, "{id} overtakes {earlier} in its own queue");
        }
    }

    /// Nobody waits who could start, except behind one that has waited longer on a scope of theirs.
    fn check_live(&self) {
        let heads = self.heads();
        for (n, (id, head)) in heads.iter().enumerate() {
            assert!(
                !self.could_start(head) || self.is_behind(head, &heads[..n]),
                "{id} could start at {:?} and waits: {:?}",
                self.now,
                self.wait_of(*id)
            );
        }
    }

    fn could_start(&self, head: &Request) -> bool {
        let claim = Claim::at_once(head.ask.route.members(), head.ask.cost, self.now);
        all::decide(&self.cells, self.now, &claim).is_ok()
    }

    /// Whether one that has waited longer is held back by a scope of this one. (A scope that holds one back lets another
    /// only where that one costs less.)
    fn is_behind(&self, head: &Request, earlier: &[(u64, &Request)]) -> bool {
        earlier.iter().any(|(_, earlier)| {
            earlier.ask.route.members().iter().filter(|member| falls_under(&head.ask.route, member.scope)).any(
                |member| {
                    let claim = Claim::at_once(core::slice::from_ref(member), earlier.ask.cost, self.now);
                    all::decide(&self.cells, self.now, &claim).is_err()
                },
            )
        })
    }

    fn check_in_flight(&self, members: &[Member], cost: u32) {
        for member in members.iter().filter(|member| member.part != Part::Learned) {
            let cell = self.cells.cell(member.scope);
            let flying: u32 = self
                .flights
                .values()
                .filter(|f| f.start.route.members().iter().any(|m| m.scope == member.scope && m.part != Part::Learned))
                .map(|f| f.start.cost)
                .sum();
            assert_eq!(cell.in_flight(), flying + cost, "places taken are requests in flight");
            if let Some(most) = cell.limits().in_flight {
                assert!(flying == 0 || flying + cost <= most.get(), "{} of {most} in flight", flying + cost);
            }
        }
    }

    /// The first waiting request of every route, those that waited longest first.
    fn heads(&self) -> Vec<(u64, &Request)> {
        let mut seen: Vec<&Route> = Vec::new();
        let mut heads = Vec::new();
        for (id, request) in &self.requests {
            if request.ticket.is_none() || request.not_before > self.now || seen.contains(&&request.ask.route) {
                continue;
            }
            seen.push(&request.ask.route);
            heads.push((*id, request));
        }
        heads
    }
}

/// A scope's own route.
pub(crate) fn host(scope: u32) -> Route {
    Route::Host(Member { scope: ScopeId(scope), part: Part::Own })
}

/// A host in groups that its answers teach.
pub(crate) fn grouped(scopes: &[u32]) -> Route {
    Route::from(scopes.iter().map(|s| Member { scope: ScopeId(*s), part: Part::Own }).collect::<Vec<_>>())
}

pub(crate) fn falls_under(route: &Route, scope: ScopeId) -> bool {
    route.members().iter().any(|member| member.scope == scope)
}

pub(crate) fn millis(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000
}

pub(crate) fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// No limit and nothing learned.
pub(crate) fn free() -> Limits {
    Limits::none()
}

/// So many milliseconds between two starts.
pub(crate) fn every(ms: u64) -> Limits {
    Limits { interval: MS * ms as u32, ..Limits::none() }
}

/// So many in flight.
pub(crate) fn places(n: u32) -> Limits {
    Limits { in_flight: NonZeroU32::new(n), ..Limits::none() }
}

/// Refusals teach.
pub(crate) fn taught_by_refusals() -> Limits {
    Limits { policy: Policy::refusal(), ..Limits::none() }
}

pub(crate) fn signal(status: u16) -> Signal {
    let refuses = matches!(status, 429 | 503);
    let inferred = match status {
        _ if refuses => Inferred::Neutral,
        ..=399 => Inferred::Healthy,
        400..=499 => Inferred::Neutral,
        _ => Inferred::ServerError,
    };
    let refusal = refuses.then_some(Refusal { status, wait: None });
    Signal { status: Some(status), authoritative: Authoritative { refusal, quotas: Vec::new() }, inferred }
}

pub(crate) fn refused_for(status: u16, wait: Duration) -> Signal {
    Signal {
        status: Some(status),
        authoritative: Authoritative { refusal: Some(Refusal { status, wait: Some(wait) }), quotas: Vec::new() },
        inferred: Inferred::Neutral,
    }
}

pub(crate) fn no_answer() -> Signal {
    Signal::no_answer(NoAnswer::Reset)
}

pub(crate) fn reply(status: u16, after_ms: u64) -> Reply {
    Reply { after: Duration::from_millis(after_ms), signal: signal(status) }
}

pub(crate) fn reply_with(signal: Signal, after_ms: u64) -> Reply {
    Reply { after: Duration::from_millis(after_ms), signal }
}

/// The law: in any window `w` at most `burst + (w + late) ÷ interval` starts.
pub(crate) fn assert_envelope(starts: &[Instant], interval: Duration, burst: u32, late: Duration) {
    if interval.is_zero() {
        return;
    }
    for (i, first) in starts.iter().enumerate() {
        for (j, last) in starts.iter().enumerate().skip(i) {
            let window = last.since(*first) + late;
            let allowed = u128::from(burst) + window.as_nanos() / interval.as_nanos();
            assert!(((j - i + 1) as u128) <= allowed, "{} starts within {window:?}, every {interval:?}", j - i + 1);
        }
    }
}
