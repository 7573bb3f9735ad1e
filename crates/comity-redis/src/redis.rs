//! The store: this process's end of it.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use comity_core::limits::all::{self, Begin, Cells, Claim, Effects, Grant, Origin};
use comity_core::limits::{Member, Part, ScopeId, Wait};
use comity_core::time::Instant;
use comity_store::{
    Alone, Asked, Claimed, Lesson, Listing, Memory, News, OnFailure, ReadClock, Readable, Shared, Standing, StoreError,
    Wake,
};

use crate::claims::Pending;
use crate::clock::Clock;
use crate::keys::Keys;
use crate::link::{Arrived, Link, Terms};
use crate::look::Look;
use crate::members::{Member as Process, Sign, random, random_name};
use crate::mirror::{Mirror, StoreClock};
use crate::reserve::Reserve;
use crate::script::{Answer, Call, Scope, pack, unpack};
use crate::teach::Report;
use crate::url::Place;

/// How a process shares a [`Redis`] store.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What happens while the store is out of reach.
    pub on_failure: OnFailure,
    /// How long a call may take; after it the store is lost, and this process goes on alone.
    pub deadline: Duration,
    /// How long the places of a process that is gone are kept.
    pub lease: Duration,
    /// What all keys begin with.
    pub prefix: String,
}

/// One pace for many machines: a Redis or Valkey server, or a cluster of them.
///
/// A claim is one round trip and one script, which decides on the server's clock for every scope of one registrable domain
/// together (X3). Scopes of other domains are asked one after the other; a start lost so only makes this process slower.
/// `*` is each machine's own unless the address names it (`?global=fleet`).
pub struct Redis {
    pub(crate) link: Link,
    pub(crate) place: Place,
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    pub(crate) given_times: bool,
    pub(crate) me: Process,
    /// Its name, as it was at the last sign of life.
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) cluster: bool,
    pub(crate) alone: Alone,
    pub(crate) mirror: Mirror,
    pub(crate) generation: Option<String>,
    pub(crate) born: Option<i64>,
    random: String,
    calls: u64,
    pub(crate) under_way: HashMap<u64, UnderWay>,
    pub(crate) reserve: Reserve,
    /// When grants started on the store's clock, by when they did on this process's.
    pub(crate) starts: HashMap<u64, Vec<(ScopeId, i64)>>,
    last_start: Instant,
    pub(crate) waits: HashMap<ScopeId, Waiting>,
    pub(crate) answers: Vec<(u64, Result<Grant, Wait>)>,
    pub(crate) changed: Vec<ScopeId>,
    all_changed: bool,
    listening: bool,
    next_renewal: Instant,
}

/// An answer's call, when that was sent, and when the answer came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub(crate) call: u64,
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
}

/// A call that has no answer yet.
pub(crate) enum UnderWay {
    Claim(Box<Pending>),
    Report(Box<Report>),
    /// Places, declarations: the scopes whose records come back.
    Other(Vec<ScopeId>),
}

/// Somebody waits for what only others can bring.
pub(crate) struct Waiting {
    began: Instant,
    again: Instant,
    /// Told that it may be over, and not asked since.
    told: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            on_failure: OnFailure::default(),
            deadline: Duration::from_millis(75),
            lease: Duration::from_secs(10),
            prefix: "comity:1".to_owned(),
        }
    }
}

impl Redis {
    /// Joins those who share the store at this address: `redis://[user:password@]host[:port][/database]`, `rediss://` over
    /// TLS with the system's authorities or one of one's own (`?ca=PATH`), `redis+unix:///path`. A cluster is found by any of
    /// its nodes.
    ///
    /// # Errors
    /// When the address is none, or nothing there answers as such a store within a few seconds. A message names the host
    /// and the cause, and never the password.
    pub fn open(url: &str, settings: Settings) -> Result<Self, StoreError> {
        Self::join(Place::read(url)?, settings, false)
    }

    /// As [`Redis::open`], but time is what each call says: for tests.
    ///
    /// # Errors
    /// As [`Redis::open`].
    #[doc(hidden)]
    pub fn at_given_times(url: &str, settings: Settings) -> Result<Self, StoreError> {
        Self::join(Place::read(url)?, settings, true)
    }

    /// The store at this address as people look at it, without joining.
    ///
    /// # Errors
    /// When the address is none.
    pub fn look(url: &str, prefix: &str) -> Result<impl Readable + use<>, StoreError> {
        Ok(Look::new(Place::read(url)?, Keys::new(prefix)))
    }

    /// This process, as others know it.
    pub fn member(&self) -> &str {
        &self.name
    }

    fn join(place: Place, settings: Settings, given_times: bool) -> Result<Self, StoreError> {
        let (clock, keys, me) = (Clock::start(), Keys::new(&settings.prefix), Process::new());
        let terms = Terms {
            place: place.clone(),
            keys: keys.clone(),
            clock,
            deadline: settings.deadline,
            lease: settings.lease,
            given_times,
        };
        let asked = clock.now();
        let (link, sign) = Link::open(terms, me.clone())?;
        let now = clock.now();
        let store_clock = if given_times { StoreClock::Given } else { StoreClock::measured(sign.clock, asked, now) };
        let mut alone = Alone::new(settings.on_failure, u32::try_from(random() & 0xffff).unwrap_or(0));
        if let Some(members) = core::num::NonZeroU32::new(sign.members) {
            alone.heard(members, sign.rank, store_clock.phase());
        }
        Ok(Self {
            link,
            mirror: Mirror::new(keys.clone(), place.global.clone(), store_clock),
            place,
            keys,
            clock,
            given_times,
            name: me.id(),
            me,
            settings,
            cluster: sign.cluster,
            alone,
            generation: sign.generation,
            born: sign.born,
            random: random_name(),
            calls: 0,
            under_way: HashMap::new(),
            reserve: Reserve::default(),
            starts: HashMap::new(),
            last_start: Instant::ZERO,
            waits: HashMap::new(),
            answers: Vec::new(),
            changed: Vec::new(),
            all_changed: false,
            listening: false,
            next_renewal: now,
        })
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.alone.since().is_some()
    }

    /// The number of the next call.
    pub(crate) fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// A call about these scopes, whose records are at these keys.
    pub(crate) fn call(
        &self,
        op: &'static str,
        now: Instant,
        mut scopes: Vec<Scope>,
        mut keys: Vec<String>,
    ) -> (Vec<String>, Call) {
        for (n, scope) in scopes.iter_mut().enumerate() {
            if !scope.win.is_empty() {
                keys.push(Keys::log(&keys[n]));
                scope.lk = Some(keys.len());
            }
        }
        let generation = matches!(op, "claim" | "report") && !self.cluster;
        if generation {
            keys.push(self.keys.generation());
        }
        let call = Call {
            op,
            me: self.name.clone(),
            lease: i64::try_from(self.settings.lease.as_micros()).unwrap_or(i64::MAX),
            wake: self.keys.wake(),
            now: self.given_times.then(|| crate::state::micros(now)),
            gk: generation.then_some(keys.len()),
            r#gen: self.generation.clone(),
            rid: self.random.clone(),
            born: self.born,
            sc: scopes,
            ..Call::default()
        };
        (keys, call)
    }

    pub(crate) fn send(&mut self, id: u64, now: Instant, keys: Vec<String>, call: &Call, under_way: UnderWay) {
        self.under_way.insert(id, under_way);
        let sent = if self.given_times { now } else { self.clock.now() };
        self.link.call(id, sent, keys, pack(call));
    }

    /// Sends what a scope's places are, or that they are still held.
    pub(crate) fn send_places(
        &mut self,
        memory: &Memory,
        now: Instant,
        op: &'static str,
        scopes: &[(Member, Option<i64>)],
    ) {
        for group in self.groups(memory, scopes.iter().map(|(member, _)| member.scope)) {
            let id = self.next_call();
            let (mut arguments, mut keys, mut of) = (Vec::new(), Vec::new(), Vec::new());
            for n in group {
                let (member, trial) = scopes[n];
                let mut argument = self.mirror.argument(memory, now, member);
                argument.tr = trial;
                let known = self.mirror.known(memory, member.scope);
                known.told = known.own;
                known.mutated = id;
                keys.extend(known.key.clone());
                arguments.push(argument);
                of.push(member.scope);
            }
            let (keys, call) = self.call(op, now, arguments, keys);
            self.send(id, now, keys, &call, UnderWay::Other(of));
        }
    }

    /// Scopes by the slots of their records, in order; those that are not shared in none.
    pub(crate) fn groups(&mut self, memory: &Memory, scopes: impl Iterator<Item = ScopeId>) -> Vec<Vec<usize>> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (n, scope) in scopes.enumerate() {
            let Some(key) = &self.mirror.known(memory, scope).key else { continue };
            let slot = Keys::slot(key);
            match groups.iter_mut().find(|(of, _)| of == slot) {
                Some((_, group)) => group.push(n),
                None => groups.push((slot.to_owned(), vec![n])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

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

    /// When a grant started on the store's clock.
    pub(crate) fn started(&mut self, memory: &Memory, scope: ScopeId, start: Instant) -> i64 {
        let kept = self.starts.get(&start.as_nanos());
        match kept.and_then(|starts| starts.iter().find(|(of, _)| *of == scope)) {
            Some((_, at)) => *at,
            None => crate::state::micros(self.mirror.known(memory, scope).clock.store(start)),
        }
    }

    /// Keeps when a grant started on the store's clock, and makes its start one of its own.
    pub(crate) fn keep_start(&mut self, start: Instant, on_store: Vec<(ScopeId, i64)>) -> Instant {
        if self.given_times {
            return start;
        }
        let mut start = start;
        while self.starts.contains_key(&start.as_nanos()) {
            start = Instant::from_nanos(start.as_nanos() + 1);
        }
        self.last_start = self.last_start.max(start);
        self.starts.insert(start.as_nanos(), on_store);
        start
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

    fn arrived(&mut self, memory: &mut Memory, now: Instant, arrived: Arrived) {
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

    fn look_again(&mut self, now: Instant) -> Option<Instant> {
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
    fn renew(&mut self, memory: &mut Memory, now: Instant) {
        if now < self.next_renewal || self.is_lost() || self.given_times {
            return;
        }
        self.next_renewal = now.after(self.settings.lease / 4);
        let held: Vec<(Member, Option<i64>)> = self
            .mirror
            .each()
            .filter(|(scope, known)| {
                (known.own > 0 || known.told > 0) && known.key.is_some() && known.is_in(memory, *scope)
            })
            .map(|(scope, _)| (Member { scope, part: Part::Own }, None))
            .collect();
        self.send_places(memory, now, "hold", &held);
    }
}

impl Shared for Redis {
    fn clock(&self) -> ReadClock {
        let clock = self.clock;
        Arc::new(move || clock.now())
    }

    fn on_news(&mut self, wake: Wake) {
        self.link.on_arrival(wake);
    }

    fn claim(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>, asked: Asked) -> Claimed {
        self.start_claim(memory, now, claim, asked)
    }

    fn begin(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
        if grant.from != Origin::Shared {
            return all::begin(memory, now, members, grant);
        }
        // Nobody knows here who started since: what is late is given up.
        let paused = members.iter().any(|member| memory.cell(member.scope).paused_until() > now);
        if paused || grant.is_too_late(now) { Begin::TooLate } else { Begin::Go }
    }

    fn learn(&mut self, memory: &mut Memory, now: Instant, members: &[Member], lesson: &Lesson<'_>) -> Effects {
        self.teach(memory, now, members, lesson)
    }

    fn release(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &Grant) -> Effects {
        self.give_back(memory, now, members, grant)
    }

    fn declare(&mut self, memory: &mut Memory, now: Instant, scope: ScopeId, crawl_delay: Duration) {
        memory.cell_mut(scope).set_crawl_delay(crawl_delay);
        let known = self.mirror.known(memory, scope);
        let Some(key) = known.key.clone() else { return };
        let delay = crate::state::wait_micros(crawl_delay);
        if self.alone.since().is_some() {
            known.touched = true;
            return;
        }
        if known.raw.c.unwrap_or(0) == delay {
            return;
        }
        known.raw.c = Some(delay).filter(|delay| *delay > 0);
        let argument = self.mirror.argument(memory, now, Member { scope, part: Part::Learned });
        let argument = Scope { c: Some(delay), ..argument };
        let id = self.next_call();
        self.mirror.known(memory, scope).mutated = id;
        let (keys, call) = self.call("declare", now, vec![argument], vec![key]);
        self.send(id, now, keys, &call, UnderWay::Other(vec![scope]));
    }

    fn forget(&mut self, memory: &mut Memory, now: Instant, scopes: &[ScopeId]) {
        for scope in scopes {
            memory.cell_mut(*scope).forget();
        }
        if self.is_lost() {
            return;
        }
        for group in self.groups(memory, scopes.iter().copied()) {
            let id = self.next_call();
            let (mut arguments, mut keys, mut of) = (Vec::new(), Vec::new(), Vec::new());
            for n in group {
                arguments.push(self.mirror.argument(memory, now, Member { scope: scopes[n], part: Part::Learned }));
                let known = self.mirror.known(memory, scopes[n]);
                (known.mutated, known.version) = (id, None);
                keys.extend(known.key.clone());
                of.push(scopes[n]);
            }
            let (keys, call) = self.call("forget", now, arguments, keys);
            self.send(id, now, keys, &call, UnderWay::Other(of));
        }
    }

    fn news(&mut self, memory: &mut Memory, now: Instant) -> News {
        while let Some(arrived) = self.link.next() {
            self.arrived(memory, now, arrived);
        }
        self.renew(memory, now);
        self.void_reserved(memory, now);
        let look = self.look_again(now);
        let renewal = self.mirror.each().any(|(_, known)| known.own > 0 || known.told > 0).then_some(self.next_renewal);
        let again = [look, renewal, self.reserve.next_end()].into_iter().flatten().min();
        News {
            answers: core::mem::take(&mut self.answers),
            changed: core::mem::take(&mut self.changed),
            all_changed: core::mem::take(&mut self.all_changed),
            again,
        }
    }

    fn standing(&self) -> Standing {
        Standing {
            place: self.place.to_string(),
            members: self.alone.members(),
            lost: self.alone.since().cloned(),
            losses: self.alone.losses(),
        }
    }
}

impl Readable for Redis {
    fn list(&mut self) -> Result<Listing, StoreError> {
        Look::new(self.place.clone(), self.keys.clone()).list()
    }

    fn forget_by_name(&mut self, name: Option<&str>) -> Result<usize, StoreError> {
        Look::new(self.place.clone(), self.keys.clone()).forget_by_name(name)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let mut by_slot: HashMap<String, Vec<String>> = HashMap::new();
        for (_, known) in self.mirror.each() {
            if known.own + known.told > 0
                && let Some(key) = &known.key
            {
                by_slot.entry(Keys::slot(key).to_owned()).or_default().push(key.clone());
            }
        }
        let gone = |keys: Vec<String>| {
            let none = Scope { own: Some(0), bu: 1, ..Scope::default() };
            let now = self.last_start;
            let (keys, call) = self.call("release", now, vec![none; keys.len()], keys);
            (keys, pack(&call))
        };
        let last = by_slot.into_values().map(gone).collect();
        self.link.close(last, self.settings.deadline);
    }
}

/// Those that wait for what only others can bring look again after an eighth of their wait, but no sooner and no later.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(40);
