//! What holds for a URL, and from where (`explain`), and what a scheduler may expect of a host (`outlook`, A12).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::all::{self, Claim};
use comity_core::limits::{Cell, Limits, Tally};
use comity_core::policy::{Learned, Said};
use comity_core::time::Instant;
use comity_store::{RouteError, ScopeKind, Store};
use url::Url;

use crate::ask::Ask;
use crate::error::{AcquireError, Delay};
use crate::pacer::Pacer;

/// Which scopes a request falls under, with their limits and what is known of them.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The URL.
    pub url: String,
    /// The scopes, the narrowest first.
    pub scopes: Vec<ScopeState>,
    /// Why a request would wait now; `None` where it would start at once.
    pub delay: Option<Delay>,
}

/// A scope's limits and state.
#[derive(Clone, Debug)]
pub struct ScopeState {
    /// `example.org`, `*.example.org`, `example.org/api`, `*`.
    pub name: String,
    /// What is set, and by whom.
    pub limits: Arc<Limits>,
    /// What is learned and declared.
    pub state: HostState,
}

/// What is known of a host.
#[derive(Clone, Debug)]
pub struct HostState {
    /// The interval that holds: the most of what was set, learned and declared.
    pub interval: Duration,
    /// What the policy learned.
    pub learned_interval: Duration,
    /// Requests in flight at most, as the policy learned from the latency; `None` where it has no say.
    pub concurrency: Option<u32>,
    /// What robots.txt declares.
    pub crawl_delay: Duration,
    /// Requests in flight.
    pub in_flight: u32,
    /// How long a pause still lasts.
    pub paused_for: Option<Duration>,
    /// How long since a request last started.
    pub last_start: Option<Duration>,
    /// Requests left of an advertised quota, and when it starts anew.
    pub quota: Option<(u64, Duration)>,
    /// The slow-moving floor of the latency, where the policy watches it.
    pub latency_floor: Option<Duration>,
    /// The share of slow answers in the last window, in percent: between 20 and 80 the host has two populations (A6).
    pub slow_share: Option<u8>,
    /// Whether the host answers in two ways, from a cache and from what lies behind it, as far as the policy tells (A6).
    pub bimodal: bool,
    /// What was counted.
    pub tally: Tally,
    said: Option<Said>,
    now: Instant,
}

/// What a scheduler may expect of a host (A12).
#[derive(Clone, Debug)]
pub struct Outlook {
    /// How long until the next request may start; `None` where that hangs on an answer.
    pub next_start: Option<Duration>,
    /// The interval that holds.
    pub interval: Duration,
    /// What one fetch is expected to cost in time: the interval, or the latency over the places in flight, whichever is
    /// more.
    pub cost_per_fetch: Duration,
}

impl Pacer {
    /// Says which scopes and limits hold for a URL, from where they come, and what is known of them.
    ///
    /// # Errors
    /// When the URL has no host.
    pub fn explain(&self, url: &Url) -> Result<Explanation, AcquireError> {
        let now = self.inner.now();
        let mut engine = self.inner.engine();
        let ask = Ask::new(url);
        let route = match engine.route(now, &ask.target(), self.own()) {
            Ok(route) => route,
            Err(RouteError::Host(error)) => return Err(AcquireError::host(url, &error)),
            Err(RouteError::Full(wait)) => {
                let delay = Some(engine.delay(now, &wait));
                return Ok(Explanation { url: url.to_string(), scopes: Vec::new(), delay });
            }
        };
        let scopes = route
            .members()
            .iter()
            .filter_map(|member| engine.memory.inspect(member.scope))
            .map(|(name, cell)| ScopeState {
                name: name.to_owned(),
                limits: Arc::clone(cell.limits()),
                state: HostState::of(cell, now),
            })
            .collect();
        let claim = Claim::at_once(route.members(), 1, now);
        let wait = all::decide(&engine.memory, now, &claim).err().or_else(|| engine.full(now));
        let delay = wait.map(|wait| engine.delay(now, &wait));
        Ok(Explanation { url: url.to_string(), scopes, delay })
    }

    /// What a scheduler may expect of a URL's host (A12).
    ///
    /// # Errors
    /// When the URL has no host.
    pub fn outlook(&self, url: &Url) -> Result<Outlook, AcquireError> {
        let explanation = self.explain(url)?;
        let interval = explanation.scopes.iter().map(|scope| scope.state.interval).max().unwrap_or_default();
        let latency = explanation
            .scopes
            .iter()
            .filter_map(|scope| {
                let set = scope.limits.in_flight.map_or(u32::MAX, std::num::NonZeroU32::get);
                let places = scope.state.concurrency.unwrap_or(u32::MAX).clamp(1, set);
                Some(scope.state.latency_floor? / places)
            })
            .max()
            .unwrap_or_default();
        let next_start = match &explanation.delay {
            None => Some(Duration::ZERO),
            Some(delay) => delay.wait,
        };
        Ok(Outlook { next_start, interval, cost_per_fetch: interval.max(latency) })
    }

    /// Every host and group with what is known of it.
    pub fn hosts(&self) -> Vec<(String, HostState)> {
        let now = self.inner.now();
        let engine = self.inner.engine();
        let seen = |kind: ScopeKind| matches!(kind, ScopeKind::Host | ScopeKind::Group | ScopeKind::Narrowed);
        engine
            .memory
            .scopes()
            .filter(|(_, _, kind, _)| seen(*kind))
            .map(|(_, name, _, cell)| (name.to_owned(), HostState::of(cell, now)))
            .collect()
    }
}

impl HostState {
    /// What the policy learned of the host, and from what, in words: `learned 9.8/s from two refusals, the last 3 min ago;
    /// next probe in 4 min`. `None` where it has no more to say than its interval.
    pub fn learned(&self) -> Option<String> {
        self.said.map(|said| said.in_words(self.now))
    }

    fn of(cell: &Cell, now: Instant) -> Self {
        let slow_share = match cell.learned() {
            Learned::Aimd(aimd) => aimd.slow_share(),
            _ => None,
        };
        let said = cell.learned().said(now);
        let ahead = |at: Instant| (at > now).then(|| at.since(now));
        Self {
            interval: cell.interval(),
            learned_interval: cell.learned().interval(),
            crawl_delay: cell.crawl_delay(),
            in_flight: cell.in_flight(),
            paused_for: ahead(cell.paused_until()),
            last_start: (cell.last_start() != Instant::ZERO).then(|| now.since(cell.last_start())),
            quota: cell.quota().and_then(|quota| Some((quota.remaining(), ahead(quota.resets())?))),
            latency_floor: cell.learned().latency_floor(),
            slow_share,
            concurrency: cell.learned().in_flight(),
            bimodal: said.is_some_and(|said| said.bimodal),
            tally: cell.tally(),
            said,
            now,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.url)?;
        for scope in &self.scopes {
            writeln!(f, "  {}", scope.name)?;
            for (what, value) in scope.limits.in_words() {
                let from = scope.limits.source(what).map(ToString::to_string);
                match from {
                    Some(from) => writeln!(f, "    {what} = {value}  ({from})")?,
                    None => writeln!(f, "    {what} = {value}")?,
                }
            }
            let state = &scope.state;
            if !state.crawl_delay.is_zero() {
                writeln!(f, "    Crawl-delay {:?}  (its robots.txt)", state.crawl_delay)?;
            }
            if !state.learned_interval.is_zero() {
                writeln!(f, "    learned interval {:?}", state.learned_interval)?;
            }
            if let Some(learned) = state.learned() {
                writeln!(f, "    {learned}")?;
            }
            if let Some(places) = state.concurrency {
                writeln!(f, "    learned concurrency {places}")?;
            }
            if state.bimodal {
                writeln!(f, "    answers in two ways: from a cache, and from what lies behind it")?;
            }
            if let Some(paused) = state.paused_for {
                writeln!(f, "    paused for {paused:?}")?;
            }
        }
        match &self.delay {
            None => write!(f, "  a request would start at once"),
            Some(delay) => write!(f, "  a request would wait: {delay}"),
        }
    }
}
