//! Our own policies: the real schedule over the real store in memory, driven as the library drives them.

use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{Cells, Claim};
use comity_core::limits::{Gcra, Limits, Member, Pause, Route, SNAPSHOT_BYTES, ScopeId, Snapshot};
use comity_core::schedule::{Attempted, Replay, Schedule, Ticket, Verdict, Waiting, verdict};
use comity_core::scope::{Rules, Target};
use comity_core::signal::{Inferred, NoAnswer, Reading, Signal, read_when};
use comity_core::time::Instant;
use comity_store::{Lesson, Memory, MemorySettings, RouteError, Store};
use hashbrown::HashMap;

use super::guard::Guard;
use super::work::Work;
use super::{Answer, Fate, Start};
use crate::hosts::wall;
use crate::outcome::Sample;

/// What a store keeps of a host between two runs, in its own bytes.
pub(crate) type Kept = Option<Box<[u8; SNAPSHOT_BYTES]>>;

/// Clients of ours that share one store.
#[derive(Debug)]
pub(crate) struct Ours {
    memory: Memory,
    schedule: Schedule,
    /// What all hosts have in common: the clients are one process.
    guard: Guard,
    /// What the store's clock shows when the world begins.
    origin: Duration,
    routes: Vec<Route>,
    clients: Range<u32>,
    pending: HashMap<Ticket, Pending>,
    work: Work,
    workers_free: u64,
    next_place: u64,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Pending {
    host: u32,
    client: u32,
    tried: u32,
    place: u64,
}

/// How clients of ours begin.
#[derive(Debug)]
pub(crate) struct Beginning<'a> {
    /// What holds for every host.
    pub(crate) limits: Limits,
    /// The hosts' names.
    pub(crate) names: &'a [String],
    /// Which clients they are.
    pub(crate) clients: Range<u32>,
    /// URLs each has of each host.
    pub(crate) urls: Option<u64>,
    /// Workers each has over all hosts.
    pub(crate) workers: Option<u32>,
    /// Whether their uplink is guarded.
    pub(crate) guarded: bool,
    /// What is remembered of each host, where anything is.
    pub(crate) kept: &'a [Kept],
    /// How long ago the run ended that taught it began.
    pub(crate) since: Duration,
}

impl Ours {
    /// Clients that have not asked for anything yet.
    ///
    /// # Errors
    /// When a host's name is none.
    pub(crate) fn new(beginning: Beginning<'_>) -> Result<Self, RouteError> {
        let Beginning { limits, names, clients, urls, workers, guarded, kept, since } = beginning;
        let mut memory = Memory::new(Arc::new(Rules::builder(limits).build()), MemorySettings::default());
        let mut routes = Vec::with_capacity(names.len());
        for name in names {
            routes.push(memory.route(Instant::ZERO, &Target::of_key(name), None)?);
        }
        for (route, kept) in routes.iter().zip(kept) {
            if let Some(state) = kept.as_ref().and_then(|bytes| Snapshot::from_bytes(bytes).ok()) {
                memory.cell_mut(scope_of(route)).restore(&rested(state));
            }
        }
        let mut ours = Self {
            memory,
            schedule: Schedule::default(),
            guard: Guard::new(guarded),
            origin: ORIGIN + since,
            work: Work::new(urls, routes.len() * clients.len()),
            routes,
            workers_free: workers.map_or(u64::MAX, |workers| u64::from(workers) * clients.len() as u64),
            clients,
            pending: HashMap::new(),
            next_place: 0,
        };
        for _ in 0..WAITING {
            for host in 0..ours.routes.len() as u32 {
                for client in ours.clients.clone() {
                    ours.ask(Instant::ZERO, host, client);
                }
            }
        }
        Ok(ours)
    }

    /// Lets start what may.
    pub(crate) fn pump(&mut self, now: Instant, starts: &mut Vec<Start>) {
        let at = now.after(self.origin);
        while self.workers_free > 0
            && let Some(room_since) = self.guard.room(at)
            && let Some(attempt) = self.schedule.next(at)
        {
            let due = attempt.due.max(room_since);
            let claim = Claim { members: attempt.route.members(), cost: attempt.cost, asked: attempt.asked, due };
            match self.memory.claim(at, &claim) {
                Err(wait) => self.schedule.must_wait(&attempt, wait),
                Ok(grant) => {
                    self.guard.started();
                    self.schedule.started(&attempt);
                    let Some(Pending { host, client, tried, place }) = self.pending.remove(&attempt.ticket) else {
                        continue;
                    };
                    self.workers_free -= 1;
                    starts.push(Start { host, client, tried, place, grant: Some(grant) });
                    self.ask(now, host, client);
                }
            }
        }
    }

    /// When to pump again. A start is only ever charged when there is a worker for it.
    pub(crate) fn wake(&self, now: Instant) -> Instant {
        let full_until = self.guard.full_until(now.after(self.origin));
        match full_until.or_else(|| self.schedule.deadline()) {
            Some(at) if self.workers_free > 0 && at != Instant::FAR => at.before(self.origin),
            _ => Instant::FAR,
        }
    }

    /// A request ends: its answer teaches, its place comes free, and where it was refused it may wait again.
    pub(crate) fn answered(&mut self, now: Instant, start: &Start, answer: &Answer<'_>) -> Fate {
        let Some(grant) = &start.grant else { return Fate::GivenUp };
        let at = now.after(self.origin);
        let route = self.routes[start.host as usize].clone();
        let members = route.members();
        let signal = self.signal(now, scope_of(&route), answer);
        let latency = answer.status.is_ok().then(|| now.since(answer.started));
        self.learn(at, members, &Lesson { grant, signal: &signal, latency });
        let limits = self.memory.cell(scope_of(&route)).limits();
        let attempted = Attempted { attempts: start.tried + 1 };
        let verdict = verdict(limits, &signal, Replay::default(), attempted);
        self.guard.ended();
        let effects = self.memory.release(at, members, grant);
        self.schedule.effects(members, effects);
        match verdict {
            Verdict::Retry { after } => {
                let Start { host, client, place, .. } = *start;
                self.enqueue(at, Pending { host, client, tried: start.tried + 1, place }, after);
                Fate::Again
            }
            Verdict::Done if answer.status.is_ok_and(|status| status < 400) => Fate::Got,
            _ => Fate::GivenUp,
        }
    }

    pub(crate) fn worker_free(&mut self) {
        self.workers_free = self.workers_free.saturating_add(1);
    }

    /// The state of the pace at a host.
    pub(crate) fn sample(&self, now: Instant, host: u32) -> Sample {
        let cell = self.memory.cell(scope_of(&self.routes[host as usize]));
        let most = [cell.limits().in_flight.map(|most| most.get()), cell.learned().in_flight()];
        Sample {
            at: seconds(now),
            interval: cell.interval().as_secs_f64(),
            in_flight: cell.in_flight(),
            most_in_flight: most.into_iter().flatten().min().unwrap_or(u32::MAX),
        }
    }

    /// What was learned of a host, in the policy's own words, and whether it answers in two ways.
    pub(crate) fn learned(&self, now: Instant, host: u32) -> (String, bool) {
        let at = now.after(self.origin);
        let cell = self.memory.cell(scope_of(&self.routes[host as usize]));
        match cell.learned().said(at) {
            Some(said) => (said.in_words(at), said.bimodal),
            None => (format!("interval {:?}", cell.interval()), false),
        }
    }

    /// What the store keeps of every host that was asked.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let keep = |route: &Route| {
            let cell = self.memory.cell(scope_of(route));
            (cell.last_start() != Instant::ZERO).then(|| Box::new(cell.snapshot().to_bytes()))
        };
        self.routes.iter().map(keep).collect()
    }

    /// Another URL of a host comes to wait, where one is left.
    fn ask(&mut self, now: Instant, host: u32, client: u32) {
        let list = host as usize * self.clients.len() + (client - self.clients.start) as usize;
        if self.work.take(list) {
            self.next_place += 1;
            let place = self.next_place;
            self.enqueue(now.after(self.origin), Pending { host, client, tried: 0, place }, None);
        }
    }

    fn enqueue(&mut self, at: Instant, pending: Pending, after: Option<Duration>) {
        let waiting = Waiting {
            route: self.routes[pending.host as usize].clone(),
            cost: 1,
            place: pending.place,
            not_before: after.map(|span| at.after(span)),
        };
        let ticket = self.schedule.enqueue(at, waiting);
        self.pending.insert(ticket, pending);
    }

    /// What is our own uplink's and not the host's teaches nothing (A10).
    fn learn(&mut self, at: Instant, members: &[Member], lesson: &Lesson<'_>) {
        let ours = Signal::no_answer(NoAnswer::Uplink);
        let mut lesson = *lesson;
        if self.guard.is_ours(at, &self.memory, members[0].scope, &lesson) {
            lesson.latency = None;
            if matches!(lesson.signal.inferred, Inferred::NoAnswer(_)) {
                lesson.signal = &ours;
            }
        }
        let effects = self.memory.learn(at, members, lesson.grant, lesson.signal, lesson.latency);
        self.schedule.effects(members, effects);
    }

    fn signal(&self, now: Instant, host: ScopeId, answer: &Answer<'_>) -> Signal {
        let reading: &Reading = &self.memory.cell(host).limits().reading;
        match answer.status {
            Ok(status) => {
                let fields = answer.fields.iter().map(|(name, value)| (*name, value.as_bytes()));
                read_when(status, fields, || wall(now), reading)
            }
            Err(why) => Signal::no_answer(why),
        }
    }
}

/// A state after a rest: what was learned, and nothing that a rest ends.
fn rested(state: Snapshot) -> Snapshot {
    Snapshot {
        spacing: Gcra::default(),
        pace: Gcra::default(),
        pause: Pause::default(),
        in_flight: 0,
        quota: None,
        ..state
    }
}

fn scope_of(route: &Route) -> ScopeId {
    route.members()[0].scope
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

/// No store's clock shows zero: to the core that is "never".
const ORIGIN: Duration = Duration::from_secs(86_400);
/// Requests each client has waiting at each host. One waits while another starts, so that a queue never runs dry; more
/// would be seen by nobody.
const WAITING: usize = 2;

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use comity_core::policy::Policy;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn answer(started: u64, status: u16) -> Answer<'static> {
        Answer { started: at(started), status: Ok(status), fields: &[] }
    }

    /// One client of one host, with one request in flight.
    fn ours(policy: Policy, kept: &[Kept], since: Duration) -> Ours {
        let limits = Limits { policy, in_flight: Some(NonZeroU32::MIN), ..Limits::none() };
        let names = ["api.example".to_owned()];
        let beginning =
            Beginning { limits, names: &names, clients: 0..1, urls: None, workers: None, guarded: true, kept, since };
        Ours::new(beginning).unwrap()
    }

    fn pumped(ours: &mut Ours, ms: u64) -> Vec<Start> {
        let mut starts = Vec::new();
        ours.pump(at(ms), &mut starts);
        starts
    }

    #[test]
    fn those_that_wait_go_sooner_when_an_answer_shortens_the_interval() {
        let mut ours = ours(Policy::refusal(), &[], Duration::ZERO);
        let first = pumped(&mut ours, 0);
        assert_eq!(ours.answered(at(10), &first[0], &answer(0, 429)), Fate::Again);
        assert!(pumped(&mut ours, 10).is_empty());
        assert_eq!(ours.wake(at(10)), at(250), "refused: a quarter of a second from the last start");
        let second = pumped(&mut ours, 250);
        assert_eq!((second[0].place, second[0].tried), (first[0].place, 1), "the refused one goes first (T10)");
        assert_eq!(ours.wake(at(250)), Instant::FAR, "the next waits for its place");
        assert_eq!(ours.answered(at(300), &second[0], &answer(250, 200)), Fate::Got);
        assert!(pumped(&mut ours, 300).is_empty());
        assert_eq!(ours.wake(at(300)), at(475), "served: a tenth less from the last start");
    }

    #[test]
    fn what_was_learned_is_kept_and_what_a_rest_ends_is_not() {
        let mut first = ours(Policy::refusal(), &[], Duration::ZERO);
        let start = pumped(&mut first, 0);
        first.answered(at(10), &start[0], &answer(0, 429));
        let kept = first.kept();
        assert!(kept[0].is_some());
        for (since, interval) in [(Duration::from_secs(60), 250), (Duration::from_secs(86_400), 125)] {
            let mut second = ours(Policy::refusal(), &kept, since);
            assert_eq!(pumped(&mut second, 0).len(), 1, "nothing holds the first start back");
            let seen = second.sample(at(0), 0).interval;
            assert!((seen * 1000.0 - f64::from(interval)).abs() < 1.0, "{since:?} later: {seen}");
        }
    }

    #[test]
    fn a10_where_all_fall_silent_few_start_until_a_place_comes_free_or_the_limit_ends() {
        let mut guarded = eight(true);
        let silent = fall_silent(&mut guarded);
        assert_eq!(silent.len(), 4, "these are left in flight, and three may be");
        assert!(pumped(&mut guarded, 2000).is_empty());
        let tries = guarded.wake(at(2000));
        assert!(tries > at(2000) && tries <= at(10_000), "somebody tries every now and then: {tries:?}");
        for start in &silent[..3] {
            guarded.answered(at(2500), start, &answer(1000, 200));
        }
        assert_eq!(pumped(&mut guarded, 2500).len(), 2, "one is left in flight");
        let ends = guarded.wake(at(2500));
        assert!(ends > at(25_000) && ends <= at(35_000), "nobody waits for ever: {ends:?}");
        let ends = ends.as_nanos() / 1_000_000;
        assert!(pumped(&mut guarded, ends - 1).is_empty());
        assert_eq!(pumped(&mut guarded, ends).len(), 5, "at all that have none in flight");

        let mut control = eight(false);
        fall_silent(&mut control);
        assert_eq!(pumped(&mut control, 2000).len(), 4);
    }

    /// One client of eight hosts, with one request in flight at each.
    fn eight(guarded: bool) -> Ours {
        let limits = Limits { policy: Policy::refusal(), in_flight: Some(NonZeroU32::MIN), ..Limits::none() };
        let names: Vec<String> = (0..8).map(|n| format!("host-{n}.example")).collect();
        let (urls, workers, since) = (None, None, Duration::ZERO);
        let beginning = Beginning { limits, names: &names, clients: 0..1, urls, workers, guarded, kept: &[], since };
        Ours::new(beginning).unwrap()
    }

    /// Each has answered six times; then four of them do not. Gives what is left in flight.
    fn fall_silent(ours: &mut Ours) -> Vec<Start> {
        for round in 0..6 {
            for start in pumped(ours, round * 100) {
                ours.answered(at(round * 100 + 50), &start, &answer(round * 100, 200));
            }
        }
        let mut starts = pumped(ours, 1000);
        for start in starts.drain(..4) {
            let silence = Answer { started: at(1000), status: Err(NoAnswer::TimedOut), fields: &[] };
            ours.answered(at(2000), &start, &silence);
        }
        starts
    }
}
