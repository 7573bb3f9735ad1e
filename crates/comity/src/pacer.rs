//! The pacer: when each request may start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use comity_core::limits::all::Cells;
use comity_core::limits::{Limits, Part, Partial, Source, Wait};
use comity_core::schedule::{Attempted, Ticket, Verdict, verdict};
use comity_core::scope::{Pattern, Rules, RulesBuilder};
use comity_core::signal::Signal;
use comity_core::time::Instant;
use comity_store::{Memory, MemorySettings, OwnLimits, RouteError, Store};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, oneshot};
use url::Url;

use crate::answer::Answer;
use crate::ask::{Ask, RequestKind};
use crate::clock::{self, Clock};
use crate::counted;
use crate::engine::{Engine, Owner, Pending, Request, Started};
use crate::error::{AcquireError, Delay};
use crate::event::{Event, EventKind, Events, since_start};
use crate::line::Line;
use crate::permit::{Begin, Held, Permit, Settled, Waiting};
use crate::profile::Profile;

/// Decides when each request may start. Clones share everything: twelve threads with a clone each keep one pace (E16).
/// Two pacers made separately know nothing of each other.
#[derive(Clone, Debug)]
pub struct Pacer {
    pub(crate) inner: Arc<Inner>,
    own: Option<OwnLimits>,
}

/// Makes a [`Pacer`].
#[derive(Clone, Debug)]
pub struct Builder {
    profile: Profile,
    rules: RulesBuilder,
    settings: MemorySettings,
}

#[derive(Debug)]
pub(crate) struct Inner {
    engine: Mutex<Engine>,
    clock: Clock,
    profile: Profile,
    pub(crate) changed: Arc<Notify>,
    /// When the driver will look again, in nanoseconds of the clock; it is woken only for something earlier.
    planned: AtomicU64,
    driven: AtomicBool,
    has_line: AtomicBool,
    events: broadcast::Sender<Event>,
}

impl Pacer {
    /// A pacer for this process alone, with what a profile says of every host.
    pub fn local(profile: Profile) -> Self {
        Self::builder(profile).local()
    }

    /// Starts from a profile.
    pub fn builder(profile: Profile) -> Builder {
        let mut rules = Rules::builder(profile.limits());
        rules.ports_matter_for_addresses(profile.ports_matter_for_addresses());
        Builder { profile, rules, settings: MemorySettings::default() }
    }

    /// Waits until this request may start.
    ///
    /// # Errors
    /// When the URL has no host, or the queue time-out of the [`Ask`] runs out.
    pub async fn acquire<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Permit, AcquireError> {
        let ask = ask.into();
        loop {
            match self.start(&ask)? {
                Start::Now(permit) => return Ok(permit),
                Start::Waiting(waiting) => return waiting.await,
                Start::Full(until) => {
                    if let Some(at) = self.inner.clock.to_tokio(until) {
                        tokio::time::sleep_until(at).await;
                    }
                }
            }
        }
    }

    /// Lets this request start now, or says until when it would wait and why; it then waits for nothing.
    ///
    /// # Errors
    /// The outer one when the URL has no host.
    pub fn try_acquire<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Result<Permit, Delay>, AcquireError> {
        let ask = ask.into();
        if self.is_exempt(&ask) {
            return Ok(Ok(Permit::new(Arc::clone(&self.inner), None)));
        }
        let now = self.inner.clock.now();
        let mut engine = self.inner.engine.lock();
        let route = match engine.route(now, &ask.target(), self.own.as_ref()) {
            Ok(route) => route,
            Err(RouteError::Host(error)) => return Err(AcquireError::host(ask.url, &error)),
            Err(RouteError::Full(wait)) => return Ok(Err(engine.delay(now, &wait))),
        };
        match engine.try_start(now, &route, ask.cost) {
            Ok(grant) => {
                let place = ask.place.unwrap_or_else(|| engine.place());
                drop(engine);
                let request = request(&ask, place, now, 1);
                let held = Held { route, grant, request, tag: None };
                self.inner.sent(&held);
                Ok(Ok(Permit::new(Arc::clone(&self.inner), Some(held))))
            }
            Err(wait) => Ok(Err(engine.delay(now, &wait))),
        }
    }

    /// The same hosts, under limits the caller brings: each set of limits has queues of its own, and its rate is counted
    /// from the last start under it; what was learned is shared by all (T5). Equal limits are one set.
    #[must_use]
    pub fn with_limits(&self, limits: &Partial) -> Self {
        let limits =
            Partial { source: Some(Source::Person("its caller".into())), ..limits.clone() }.over(&Limits::none());
        let own = self.inner.engine.lock().set_of(Limits { policy: comity_core::policy::Policy::Off, ..limits });
        Self { inner: Arc::clone(&self.inner), own: Some(own) }
    }

    /// Other rules from now on. What was learned stays, and those that wait are asked anew at once (C21).
    pub fn set_rules(&self, rules: Rules) {
        let now = self.inner.clock.now();
        let mut engine = self.inner.engine.lock();
        engine.set_rules(Arc::new(rules));
        self.inner.pump(engine, now);
    }

    /// What a host's robots.txt declares: a floor under every pace (decision 13). Zero takes it back.
    ///
    /// # Errors
    /// When the URL has no host.
    pub fn set_crawl_delay(&self, url: &Url, delay: Duration) -> Result<(), AcquireError> {
        let now = self.inner.clock.now();
        let mut engine = self.inner.engine.lock();
        let ask = Ask::new(url);
        let target = ask.target();
        match engine.route(now, &target, None) {
            Ok(_) => {}
            Err(RouteError::Host(error)) => return Err(AcquireError::host(url, &error)),
            Err(RouteError::Full(_)) => return Ok(()),
        }
        if let Some(scope) = engine.memory.find_host(&target) {
            engine.memory.cell_mut(scope).set_crawl_delay(delay);
            engine.schedule.wake_all();
        }
        self.inner.pump(engine, now);
        Ok(())
    }

    /// Forgets what was learned of a URL's host: pace, pause, quota (T13).
    pub fn forget(&self, url: &Url) {
        self.forget_where(|engine| engine.memory.find_host(&Ask::new(url).target()).into_iter().collect());
    }

    /// Forgets what was learned of every scope.
    pub fn forget_all(&self) {
        self.forget_where(|engine| engine.memory.scopes().map(|(scope, ..)| scope).collect());
    }

    fn forget_where(&self, which: impl FnOnce(&Engine) -> Vec<comity_core::limits::ScopeId>) {
        let now = self.inner.clock.now();
        let mut engine = self.inner.engine.lock();
        for scope in which(&engine) {
            engine.memory.cell_mut(scope).forget();
        }
        engine.schedule.wake_all();
        self.inner.pump(engine, now);
    }

    /// A subscription to what happens to requests (T12).
    pub fn events(&self) -> Events {
        Events(self.inner.events.subscribe())
    }

    /// A line for a scheduler that brings very many requests: see [`Line`]. While a pacer has a line, the line drives it.
    pub fn line(&self) -> Line {
        self.inner.has_line.store(true, Ordering::Release);
        Line::new(self.clone())
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.inner.engine.lock().schedule.len()
    }

    /// How often the store was asked for a waiting request; at most two a start, however many wait.
    pub fn decisions(&self) -> u64 {
        self.inner.engine.lock().schedule.attempts()
    }

    /// The profile it was made with.
    pub fn profile(&self) -> Profile {
        self.inner.profile
    }

    pub(crate) fn own(&self) -> Option<&OwnLimits> {
        self.own.as_ref()
    }

    fn is_exempt(&self, ask: &Ask<'_>) -> bool {
        self.inner.profile.navigations_only() && ask.kind == RequestKind::Subresource
    }

    fn start(&self, ask: &Ask<'_>) -> Result<Start, AcquireError> {
        let inner = &self.inner;
        if self.is_exempt(ask) {
            return Ok(Start::Now(Permit::new(Arc::clone(inner), None)));
        }
        let now = inner.clock.now();
        let mut engine = inner.engine.lock();
        let route = match engine.route(now, &ask.target(), self.own.as_ref()) {
            Ok(route) => route,
            Err(RouteError::Host(error)) => return Err(AcquireError::host(ask.url, &error)),
            Err(RouteError::Full(wait)) => return Ok(Start::Full(wait.until)),
        };
        let place = ask.place.unwrap_or_else(|| engine.place());
        match engine.try_start(now, &route, ask.cost) {
            Ok(grant) => {
                drop(engine);
                let held = Held { route, grant, request: request(ask, place, now, 1), tag: None };
                inner.sent(&held);
                Ok(Start::Now(Permit::new(Arc::clone(inner), Some(held))))
            }
            Err(wait) => {
                let request = request(ask, place, now, 0);
                inner.notice(&mut engine, now, &route, &request, &wait);
                let (sender, receiver) = oneshot::channel();
                let ticket = engine.enqueue(now, Pending { owner: Owner::Future(sender), request, route }, None);
                inner.ensure_driver();
                inner.pump(engine, now);
                Ok(Start::Waiting(Waiting::new(Arc::clone(inner), Some(ticket), receiver, ask.queue_timeout)))
            }
        }
    }
}

enum Start {
    Now(Permit),
    Waiting(Waiting),
    Full(Instant),
}

pub(crate) fn request(ask: &Ask<'_>, place: u64, queued: Instant, attempts: u32) -> Request {
    Request { place, cost: ask.cost, replay: ask.replay, attempted: Attempted { attempts }, queued }
}

impl Builder {
    /// What holds for every host by itself (`[default]`).
    #[must_use]
    pub fn template(mut self, limits: Partial) -> Self {
        self.rules.template(limits);
        self
    }

    /// What holds for a host, a group, or a part of one.
    #[must_use]
    pub fn rule(mut self, pattern: Pattern, limits: Partial) -> Self {
        self.rules.rule(pattern, limits);
        self
    }

    /// A limit that a service published; a person's own wins where it is stricter.
    #[must_use]
    pub fn preset(mut self, pattern: Pattern, limits: Partial) -> Self {
        self.rules.preset(pattern, limits);
        self
    }

    /// Whether loopback hosts are paced like others (P3).
    #[must_use]
    pub fn pace_loopback(mut self, yes: bool) -> Self {
        self.settings.pace_loopback = yes;
        self
    }

    /// Scopes kept at most. What could still matter is never evicted: when all of it does, new hosts wait.
    #[must_use]
    pub fn most_hosts(mut self, most: usize) -> Self {
        self.settings.most_scopes = most.max(1);
        self
    }

    /// The rules as they stand, for [`Pacer::set_rules`].
    pub fn rules(&self) -> Rules {
        self.rules.build()
    }

    /// A pacer for this process alone.
    pub fn local(&self) -> Pacer {
        let memory = Memory::new(Arc::new(self.rules.build()), self.settings);
        let inner = Inner {
            engine: Mutex::new(Engine::new(memory)),
            clock: Clock::start(),
            profile: self.profile,
            changed: Arc::new(Notify::new()),
            planned: AtomicU64::new(u64::MAX),
            driven: AtomicBool::new(false),
            has_line: AtomicBool::new(false),
            events: broadcast::Sender::new(EVENTS_KEPT),
        };
        Pacer { inner: Arc::new(inner), own: None }
    }
}

impl Inner {
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn engine(&self) -> parking_lot::MutexGuard<'_, Engine> {
        self.engine.lock()
    }

    pub(crate) fn begin(&self, held: &mut Held) -> Begin {
        if held.grant.late_by.is_none() {
            return Begin::Go;
        }
        let now = self.clock.now();
        let begin = self.engine.lock().memory.begin(now, held.route.members(), &mut held.grant);
        match begin {
            comity_core::limits::all::Begin::TooLate => {
                counted::too_late();
                Begin::TooLate
            }
            _ => Begin::Go,
        }
    }

    /// Gives places back and teaches nothing.
    pub(crate) fn release(self: &Arc<Self>, held: &Held) {
        let now = self.clock.now();
        let mut engine = self.engine.lock();
        let effects = engine.memory.release(now, held.route.members(), &held.grant);
        engine.schedule.effects(held.route.members(), effects);
        self.pump(engine, now);
    }

    pub(crate) fn cancel(self: &Arc<Self>, ticket: Ticket) {
        let now = self.clock.now();
        let mut engine = self.engine.lock();
        let cancelled = engine.cancel(ticket);
        self.pump(engine, now);
        drop(cancelled);
    }

    pub(crate) fn delay_of(&self, ticket: Ticket) -> Option<Delay> {
        let now = self.clock.now();
        self.engine.lock().delay_of(now, ticket)
    }

    /// Gives a permit up and waits for the next start in the same place.
    pub(crate) fn again(self: &Arc<Self>, held: Option<Held>) -> Waiting {
        let now = self.clock.now();
        let (sender, receiver) = oneshot::channel();
        let mut engine = self.engine.lock();
        let ticket = match held {
            Some(held) => {
                let effects = engine.memory.release(now, held.route.members(), &held.grant);
                engine.schedule.effects(held.route.members(), effects);
                let mut request = held.request;
                request.attempted.attempts = request.attempted.attempts.saturating_sub(1);
                let owner = Owner::Future(sender);
                engine.enqueue(now, Pending { owner, request, route: held.route }, None)
            }
            None => {
                // An unpaced request may always start.
                drop(engine);
                drop(sender.send(Permit::new(Arc::clone(self), None)));
                return Waiting::new(Arc::clone(self), None, receiver, None);
            }
        };
        self.ensure_driver();
        self.pump(engine, now);
        Waiting::new(Arc::clone(self), Some(ticket), receiver, None)
    }

    /// The same for a request of a line.
    pub(crate) fn again_in_line(self: &Arc<Self>, held: Held) {
        let now = self.clock.now();
        let mut engine = self.engine.lock();
        let effects = engine.memory.release(now, held.route.members(), &held.grant);
        engine.schedule.effects(held.route.members(), effects);
        let mut request = held.request;
        request.attempted.attempts = request.attempted.attempts.saturating_sub(1);
        let owner = Owner::Line(held.tag.unwrap_or_default());
        engine.enqueue(now, Pending { owner, request, route: held.route }, None);
        self.pump(engine, now);
    }

    pub(crate) fn settle(self: &Arc<Self>, held: Held, answer: &Answer<'_>) -> Settled {
        let now = self.clock.now();
        let mut engine = self.engine.lock();
        let members = held.route.members();
        let taught = members.iter().find(|member| member.part != Part::Bound).unwrap_or(&members[0]);
        let reading = Arc::clone(&engine.memory.cell(taught.scope).limits().reading);
        let signal = answer.signal(&reading, clock::wall);
        let latency = answer.measured().or_else(|| answer.is_response().then(|| now.since(held.grant.start)));
        let effects = engine.memory.report(now, members, &held.grant, &signal, latency);
        engine.schedule.effects(members, effects);
        let decided = if signal.authoritative.refusal.is_none() && signal.status.is_some_and(|status| status < 500) {
            Verdict::Done
        } else {
            verdict(&engine.retry_limits(members, taught.scope), &signal, held.request.replay, held.request.attempted)
        };
        self.settled_event(&engine, now, &held, answer, &signal);
        let settled = match decided {
            Verdict::Done => Settled::Done,
            Verdict::GiveUp(why) => {
                counted::gave_up(why);
                tracing::debug!(why = %why, status = signal.status, "a refused request gives up");
                Settled::GiveUp(why)
            }
            Verdict::Retry { after } => {
                let not_before = after.map(|span| now.after(span));
                self.retrying_event(&engine, now, &held);
                let Held { route, request, tag, .. } = held;
                if let Some(tag) = tag {
                    engine.enqueue(now, Pending { owner: Owner::Line(tag), request, route }, not_before);
                    Settled::Requeued
                } else {
                    let (sender, receiver) = oneshot::channel();
                    let owner = Owner::Future(sender);
                    let ticket = engine.enqueue(now, Pending { owner, request, route }, not_before);
                    self.ensure_driver();
                    Settled::Retry(Waiting::new(Arc::clone(self), Some(ticket), receiver, None))
                }
            }
        };
        self.pump(engine, now);
        settled
    }

    /// Lets everything start that may, and has the driver look again when the next may. Takes the lock, because permits
    /// are handed over after it is released.
    pub(crate) fn pump(self: &Arc<Self>, mut engine: parking_lot::MutexGuard<'_, Engine>, now: Instant) {
        if engine.schedule.is_empty() {
            return;
        }
        if self.has_line.load(Ordering::Acquire) {
            drop(engine);
            self.changed.notify_one();
            return;
        }
        let mut started = Vec::new();
        while let Some(start) = engine.next_start(now) {
            started.push(start);
        }
        let deadline = engine.schedule.deadline();
        drop(engine);
        if deadline.is_some_and(|at| at.as_nanos() < self.planned.load(Ordering::Acquire)) {
            self.changed.notify_one();
        }
        for start in started {
            self.hand_over(start);
        }
    }

    /// Gives a permit to the future that waits for it; a line's is given back as it is.
    pub(crate) fn hand_over(self: &Arc<Self>, start: Started) -> Option<(u64, Permit)> {
        let Started { owner, request, route, grant } = start;
        let tag = match &owner {
            Owner::Line(tag) => Some(*tag),
            Owner::Future(_) => None,
        };
        let held = Held { route, grant, request, tag };
        self.sent(&held);
        let permit = Permit::new(Arc::clone(self), Some(held));
        match owner {
            Owner::Line(tag) => Some((tag, permit)),
            Owner::Future(sender) => {
                // Where nobody waits any more the permit comes back and is dropped: its place comes free.
                drop(sender.send(permit));
                None
            }
        }
    }

    /// Starts the one task that wakes waiting requests in time, unless it runs or a line does its work.
    fn ensure_driver(self: &Arc<Self>) {
        if self.has_line.load(Ordering::Acquire) || self.driven.swap(true, Ordering::AcqRel) {
            return;
        }
        let driver = Driver { inner: Arc::downgrade(self) };
        tokio::spawn(driver.run(Arc::clone(&self.changed), self.clock));
    }

    fn notice(
        &self,
        engine: &mut Engine,
        now: Instant,
        route: &comity_core::limits::Route,
        request: &Request,
        wait: &Wait,
    ) {
        let Some(host) = route.members().iter().find(|m| m.part != Part::Bound).or(route.members().first()) else {
            return;
        };
        let first = engine.memory.notice(host.scope);
        if !first && self.events.receiver_count() == 0 {
            return;
        }
        let name = engine.memory.inspect(host.scope).map(|(name, _)| name.to_owned()).unwrap_or_default();
        let delay = engine.delay(now, wait);
        if first {
            // One notice a host, the first time it is delayed (P12).
            tracing::info!(host = %name, delay = %delay, "requests to this host are being delayed");
            self.emit(now, &name, request.place, EventKind::FirstDelay { delay: delay.clone() });
        }
        self.emit(now, &name, request.place, EventKind::Queued { delay });
    }

    fn emit(&self, now: Instant, host: &str, place: u64, kind: EventKind) {
        if self.events.receiver_count() > 0 {
            let _ = self.events.send(Event { at: since_start(now), host: host.to_owned(), place, kind });
        }
    }

    fn host_name(engine: &Engine, held: &Held) -> String {
        let members = held.route.members();
        let host = members.iter().find(|m| m.part != Part::Bound).unwrap_or(&members[0]);
        engine.memory.inspect(host.scope).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }

    fn sent(&self, held: &Held) {
        let waited = held.grant.start.since(held.request.queued);
        counted::started(waited);
        if self.events.receiver_count() > 0 {
            let name = Self::host_name(&self.engine.lock(), held);
            let attempt = held.request.attempted.attempts;
            self.emit(held.grant.start, &name, held.request.place, EventKind::Sent { attempt, waited });
        }
    }

    fn settled_event(&self, engine: &Engine, now: Instant, held: &Held, answer: &Answer<'_>, signal: &Signal) {
        let refused = signal.authoritative.refusal.is_some();
        counted::settled(signal);
        if refused {
            tracing::debug!(
                host = %Self::host_name(engine, held),
                retry_after = ?answer.retry_after(),
                signal = ?signal.authoritative,
                "refused"
            );
        }
        if self.events.receiver_count() > 0 {
            let name = Self::host_name(engine, held);
            self.emit(now, &name, held.request.place, EventKind::Settled { status: signal.status, refused });
        }
    }

    fn retrying_event(&self, engine: &Engine, now: Instant, held: &Held) {
        counted::retried();
        if self.events.receiver_count() > 0 {
            let name = Self::host_name(engine, held);
            let attempts = held.request.attempted.attempts;
            self.emit(now, &name, held.request.place, EventKind::Retrying { attempts });
        }
    }
}

/// The one task that wakes waiting requests in time. It ends with its pacer.
struct Driver {
    inner: std::sync::Weak<Inner>,
}

impl Driver {
    async fn run(self, changed: Arc<Notify>, clock: Clock) {
        loop {
            let deadline = {
                let Some(inner) = self.inner.upgrade() else { return };
                inner.turn()
            };
            match deadline.and_then(|at| clock.to_tokio(at)) {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, changed.notified()).await;
                }
                None => changed.notified().await,
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.planned.store(u64::MAX, Ordering::Release);
            inner.driven.store(false, Ordering::Release);
        }
    }
}

impl Inner {
    /// One turn of the driver: starts what may start, and says when to look again.
    fn turn(self: &Arc<Self>) -> Option<Instant> {
        let now = self.clock.now();
        let mut started = Vec::new();
        let deadline = {
            let mut engine = self.engine.lock();
            while let Some(start) = engine.next_start(now) {
                started.push(start);
            }
            let deadline = engine.schedule.deadline();
            self.planned.store(deadline.map_or(u64::MAX, Instant::as_nanos), Ordering::Release);
            deadline
        };
        for start in started {
            self.hand_over(start);
        }
        deadline
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// Events a slow reader may be behind.
const EVENTS_KEPT: usize = 1024;
