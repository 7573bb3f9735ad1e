//! Our own policies: the real schedule over the real store in memory, driven as the library drives them.

use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{Cells, Claim};
use comity_core::limits::{Gcra, Limits, Pause, Route, SNAPSHOT_BYTES, ScopeId, Snapshot};
use comity_core::policy::Learned;
use comity_core::schedule::{Attempted, Replay, Schedule, Ticket, Verdict, Waiting, verdict};
use comity_core::scope::{Rules, Target};
use comity_core::signal::{Reading, Signal, read_when};
use comity_core::time::Instant;
use comity_store::{Memory, MemorySettings, RouteError, Store};
use hashbrown::HashMap;

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
        let Beginning { limits, names, clients, urls, workers, kept, since } = beginning;
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
            && let Some(attempt) = self.schedule.next(at)
        {
            let claim =
                Claim { members: attempt.route.members(), cost: attempt.cost, asked: attempt.asked, due: attempt.due };
            match self.memory.claim(at, &claim) {
                Err(wait) => self.schedule.must_wait(&attempt, wait),
                Ok(grant) => {
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
    pub(crate) fn wake(&self) -> Instant {
        match self.schedule.deadline() {
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
        let effects = self.memory.learn(at, members, grant, &signal, latency);
        self.schedule.effects(members, effects);
        let limits = self.memory.cell(scope_of(&route)).limits();
        let attempted = Attempted { attempts: start.tried + 1 };
        let verdict = verdict(limits, &signal, Replay::default(), attempted);
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

    /// What was learned of a host, in words, and whether it answers in two ways.
    pub(crate) fn learned(&self, host: u32) -> (String, bool) {
        let cell = self.memory.cell(scope_of(&self.routes[host as usize]));
        let mut words = format!("interval {:?}", cell.interval());
        if let Some(most) = cell.learned().in_flight() {
            words.push_str(&format!(", {most} in flight"));
        }
        let bimodal = matches!(cell.learned(), Learned::Adaptive(adaptive) if adaptive.is_bimodal());
        (words, bimodal)
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
