//! The store: this process's end of it.

use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use comity_core::limits::all::{self, Begin, Cells, Claim, Effects, Grant, Origin};
use comity_core::limits::{Member, ScopeId, Share, Wait};
use comity_core::time::Instant;
use comity_store::{
    Alone, Asked, Claimed, Lesson, Listing, Memory, News, OnFailure, ReadClock, Readable, Shared, Standing, StoreError,
    Wake,
};

use crate::claims::Pending;
use crate::clock::Clock;
use crate::connect::PACE_SCRIPT;
use crate::keys::Keys;
use crate::link::{Link, Terms};
use crate::look::Look;
use crate::members::{Member as Process, random, random_name};
use crate::mirror::{Mirror, StoreClock};
use crate::reserve::Reserve;
use crate::script::{Scope, pack};
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
    /// This process's part of every limit, where the store does not decide.
    pub(crate) share: Share,
    pub(crate) mirror: Mirror,
    pub(crate) generation: Option<String>,
    pub(crate) born: Option<i64>,
    pub(crate) random: String,
    pub(crate) calls: u64,
    pub(crate) under_way: HashMap<u64, UnderWay>,
    pub(crate) reserve: Reserve,
    /// When grants started on the store's clock, by when they did on this process's.
    pub(crate) starts: HashMap<u64, Vec<(ScopeId, i64)>>,
    pub(crate) last_now: Instant,
    pub(crate) waits: HashMap<ScopeId, Waiting>,
    pub(crate) answers: Vec<(u64, Result<Grant, Wait>)>,
    pub(crate) changed: Vec<ScopeId>,
    pub(crate) all_changed: bool,
    pub(crate) listening: bool,
    /// Scopes whose places are not told as they are.
    pub(crate) untold: HashSet<ScopeId>,
    pub(crate) next_renewal: Instant,
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
    /// Places, declarations: what was done, and the scopes whose records come back.
    Other {
        op: &'static str,
        scopes: Vec<ScopeId>,
    },
}

/// Somebody waits for what only others can bring.
pub(crate) struct Waiting {
    pub(crate) began: Instant,
    pub(crate) again: Instant,
    /// Told that it may be over, and not asked since.
    pub(crate) told: bool,
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
            script: &PACE_SCRIPT,
            listens: true,
            given_times,
        };
        let asked = clock.now();
        let (link, sign) = Link::open(terms, me.clone())?;
        let now = clock.now();
        let store_clock = if given_times { StoreClock::Given } else { StoreClock::measured(sign.clock, asked, now) };
        let mut alone = Alone::new(settings.on_failure, u32::try_from(random() & 0xffff).unwrap_or(0));
        let mut share = Share::WHOLE;
        if let Some(members) = core::num::NonZeroU32::new(sign.members) {
            alone.heard(members, sign.rank, store_clock.phase());
            share = Share::of_members(members, sign.rank, store_clock.phase());
        }
        Ok(Self {
            link,
            share,
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
            last_now: Instant::ZERO,
            waits: HashMap::new(),
            answers: Vec::new(),
            changed: Vec::new(),
            all_changed: false,
            listening: false,
            untold: HashSet::new(),
            next_renewal: now,
        })
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.alone.since().is_some()
    }

    /// Where nothing can come from the store any more, it is lost.
    pub(crate) fn check_link(&mut self, memory: &mut Memory, now: Instant) {
        if !self.is_lost()
            && let Some(why) = self.link.gone()
        {
            self.lose(memory, now, why);
        }
    }

    /// Whether the store must hear of places by and by.
    fn has_to_renew(&self) -> bool {
        let reached = !self.is_lost() && !self.given_times;
        reached && (!self.starts.is_empty() || !self.untold.is_empty())
    }

    /// The number of the next call.
    pub(crate) fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
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
            let before = grant.start;
            let begin = all::begin(memory, now, members, grant);
            self.restart(before, grant);
            return begin;
        }
        // Nobody knows here who started since: what is late is given up.
        let paused = members.iter().any(|member| memory.cell(member.scope).paused_until() > now);
        if paused || grant.is_too_late(now) {
            return Begin::TooLate;
        }
        if grant.is_late(now) {
            self.tell_late(memory, now, members, grant);
        }
        Begin::Go
    }

    fn learn(&mut self, memory: &mut Memory, now: Instant, members: &[Member], lesson: &Lesson<'_>) -> Effects {
        self.check_link(memory, now);
        self.teach(memory, now, members, lesson)
    }

    fn release(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &Grant) -> Effects {
        self.check_link(memory, now);
        self.give_back(memory, now, members, grant)
    }

    fn declare(&mut self, memory: &mut Memory, now: Instant, scope: ScopeId, crawl_delay: Duration) {
        self.check_link(memory, now);
        memory.cell_mut(scope).set_crawl_delay(crawl_delay);
        self.tell_delay(memory, now, scope);
    }

    fn forget(&mut self, memory: &mut Memory, now: Instant, scopes: &[ScopeId]) {
        self.check_link(memory, now);
        for scope in scopes {
            memory.cell_mut(*scope).forget();
        }
        self.tell_forgotten(memory, now, scopes);
    }

    fn news(&mut self, memory: &mut Memory, now: Instant) -> News {
        while let Some(arrived) = self.link.next() {
            self.arrived(memory, now, arrived);
        }
        self.check_link(memory, now);
        self.renew(memory, now);
        self.void_reserved(memory, now);
        let look = self.look_again(now);
        let renewal = self.has_to_renew().then_some(self.next_renewal);
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
            if (known.holds_any() || known.raw.o.contains(&self.name))
                && let Some(key) = &known.key
            {
                by_slot.entry(Keys::slot(key).to_owned()).or_default().push(key.clone());
            }
        }
        let gone = |keys: Vec<String>| {
            let none = Scope { own: Some(0), og: Some(0), bu: 1, gone: true, ..Scope::default() };
            let now = self.last_now;
            let (keys, call) = self.call("release", now, vec![none; keys.len()], keys);
            (keys, pack(&call))
        };
        let last = by_slot.into_values().map(gone).collect();
        self.link.close(last, self.settings.deadline);
    }
}
