//! The pacer: when each request may start.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use comity_core::limits::all::Cells;
use comity_core::limits::{Because, Limits, Partial, Route, ScopeId, Source, Wait};
use comity_core::policy::Policy;
use comity_core::schedule::Attempted;
use comity_core::scope::Rules;
use comity_core::time::Instant;
use comity_store::{MemorySettings, OwnLimits, RouteError, Shared};
use parking_lot::MutexGuard;
use tokio::sync::oneshot;
use tracing::Instrument as _;
use url::Url;

use crate::ask::{Ask, RequestKind};
use crate::builder::Builder;
use crate::engine::{Engine, Owner, Pending, Request, host_of};
use crate::error::{AcquireError, Delay};
use crate::event::Events;
use crate::inner::Inner;
use crate::keeping::Outside;
use crate::line::Line;
use crate::permit::{Held, Permit, Waiting};
use crate::profile::Profile;

/// Decides when each request may start. Clones share everything: twelve threads with a clone each keep one pace (E16).
/// Two pacers made separately know nothing of each other.
#[derive(Clone, Debug)]
pub struct Pacer {
    pub(crate) inner: Arc<Inner>,
    pub(crate) own: Option<OwnLimits>,
}

impl Pacer {
    /// A pacer for this process alone, with what a profile says of every host.
    pub fn local(profile: Profile) -> Self {
        Self::builder(profile).local()
    }

    /// A pacer that keeps one pace with all who share a store: `comity_machine::Machine` for the processes of a machine,
    /// `comity_redis::Redis` for many machines.
    pub fn shared(profile: Profile, store: impl Shared + 'static) -> Self {
        Self::builder(profile).shared(store)
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
                Start::Waiting(waiting) => {
                    let span = tracing::debug_span!("wait", host = ask.url.host_str());
                    return waiting.instrument(span).await;
                }
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
        let started = match engine.try_start(now, &route, ask.cost) {
            Outside::Answered(answer) => answer,
            Outside::Later(claim) => self.inner.answer_of(&mut engine, claim),
        };
        match started {
            Ok(grant) => {
                let place = ask.place.unwrap_or_else(|| engine.place());
                drop(engine);
                let request = request(&ask, place, now, 1);
                let held = Held { route, grant, request, tag: None, waited_for: None };
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
        let own = self.inner.engine.lock().set_of(Limits { policy: Policy::Off, ..limits });
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
            let before = engine.memory.cell(scope).crawl_delay();
            let Engine { memory, store, .. } = &mut *engine;
            store.declare(memory, now, scope, delay);
            // A longer delay is met when those that wait are asked; a shorter one may let them go sooner.
            if delay < before {
                engine.schedule.wake_scope(scope);
            }
        }
        self.inner.pump(engine, now);
        Ok(())
    }

    /// The longest Crawl-delay that is obeyed at a URL's host, where anybody but the profile says so.
    pub fn crawl_delay_limit(&self, url: &Url) -> Option<Duration> {
        let explained = self.explain(url).ok()?;
        let said = explained.scopes.iter().find(|scope| scope.limits.source("crawl_delay_limit").is_some())?;
        Some(said.limits.crawl_delay_limit)
    }

    /// Forgets what was learned of a URL's host: pace, pause, quota (T13).
    pub fn forget(&self, url: &Url) {
        self.forget_where(|engine| engine.memory.find_host(&Ask::new(url).target()).into_iter().collect());
    }

    /// Forgets what was learned of every scope.
    pub fn forget_all(&self) {
        self.forget_where(|engine| engine.memory.scopes().map(|(scope, ..)| scope).collect());
    }

    fn forget_where(&self, which: impl FnOnce(&Engine) -> Vec<ScopeId>) {
        let now = self.inner.clock.now();
        let mut engine = self.inner.engine.lock();
        let scopes = which(&engine);
        let Engine { memory, store, .. } = &mut *engine;
        store.forget(memory, now, &scopes);
        engine.schedule.wake_all();
        self.inner.pump(engine, now);
    }

    /// A subscription to what happens to requests (T12).
    pub fn events(&self) -> Events {
        self.inner.subscribe()
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
        let start = match ask.after {
            // It waits for an instant of its own, whatever the host says.
            Some(span) if !span.is_zero() => {
                Err(Wait { until: now.after(span), scope: route.members()[0].scope, because: Because::Order })
            }
            // A shared store may answer late: the request asks it from its place in the queue.
            _ if engine.store.is_shared() => return Ok(Start::Waiting(self.wait(engine, now, ask, route, None))),
            _ => match engine.try_start(now, &route, ask.cost) {
                Outside::Answered(answer) => answer,
                Outside::Later(_) => unreachable!("a memory answers at once"),
            },
        };
        match start {
            Ok(grant) => {
                let place = ask.place.unwrap_or_else(|| engine.place());
                drop(engine);
                let held = Held { route, grant, request: request(ask, place, now, 1), tag: None, waited_for: None };
                inner.sent(&held);
                Ok(Start::Now(Permit::new(Arc::clone(inner), Some(held))))
            }
            Err(wait) => Ok(Start::Waiting(self.wait(engine, now, ask, route, Some(wait)))),
        }
    }

    /// Puts a request in its queue; `wait` is why it cannot start at once, where that is known.
    fn wait(
        &self,
        mut engine: MutexGuard<'_, Engine>,
        now: Instant,
        ask: &Ask<'_>,
        route: Route,
        wait: Option<Wait>,
    ) -> Waiting {
        let inner = &self.inner;
        let place = ask.place.unwrap_or_else(|| engine.place());
        if let Some(wait) = wait {
            let host = host_of(route.members());
            // What our own uplink holds back is no delay of the host's.
            if !matches!(wait.because, Because::Uplink(_)) && engine.memory.notice(host) {
                engine.first_delays.push((host, place, wait));
            }
            inner.tell_first_delays(&mut engine, now);
            inner.queued_event(&engine, now, &route, place, &wait);
        }
        let (sender, receiver) = oneshot::channel();
        let pending = Pending { owner: Owner::Future(sender), request: request(ask, place, now, 0), route };
        let ticket = engine.enqueue(now, pending, ask.after.map(|span| now.after(span)));
        inner.ensure_driver();
        inner.pump(engine, now);
        Waiting::new(Arc::clone(inner), Some(ticket), receiver, ask.queue_timeout)
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
