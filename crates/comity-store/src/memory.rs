//! The store in memory: one process, one lock around it (the owner's).

use core::hash::BuildHasher;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{self, Begin, Cells, Claim, Effects, Grant, MOST_MEMBERS};
use comity_core::limits::{Cell, Limits, Member, Part, Route, ScopeId, Share, Wait};
use comity_core::policy::Policy;
use comity_core::scope::{HostKey, Rules, Target};
use comity_core::signal::Signal;
use comity_core::time::Instant;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::{OwnLimits, RouteError, Store};

/// State of scopes in this process's memory.
///
/// The table is bounded. What could still matter is never evicted (decision 8): when all of it does, a new host is told
/// to wait, and that is counted.
#[derive(Debug)]
pub struct Memory {
    rules: Arc<Rules>,
    settings: MemorySettings,
    index: HashTable<u32>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    hasher: RandomState,
    /// Where the search for something to evict goes on.
    hand: usize,
    turned_away: u64,
    share: Share,
}

/// How a [`Memory`] behaves.
#[derive(Clone, Copy, Debug)]
pub struct MemorySettings {
    /// Scopes kept at most.
    pub most_scopes: usize,
    /// Whether loopback hosts are paced like others (P3).
    pub pace_loopback: bool,
}

/// What a scope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// A host by itself.
    Host,
    /// Hosts together.
    Group,
    /// A part of a host or group: a path prefix, an identity.
    Narrowed,
    /// A host under limits that a caller brought.
    Own,
}

#[derive(Debug)]
struct Entry {
    cell: Cell,
    name: Box<str>,
    /// A host's members, where it is in any group, before narrowed rules and a caller's own limits.
    nested: Option<Arc<[Member]>>,
    /// Requests that wait here.
    waiting: u32,
    kind: ScopeKind,
    noticed: bool,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self { most_scopes: 4_000_000, pace_loopback: false }
    }
}

impl Memory {
    /// An empty table under these rules.
    pub fn new(rules: Arc<Rules>, settings: MemorySettings) -> Self {
        Self {
            rules,
            settings,
            index: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            hasher: RandomState::default(),
            hand: 0,
            turned_away: 0,
            share: Share::WHOLE,
        }
    }

    /// Which part of every limit may be used from now on.
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// The rules in force.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Scopes in the table.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no scope is in the table.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// How often a new host was told to wait because the table was full.
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }

    /// Other rules from now on. What was learned stays.
    pub fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
        for slot in 0..self.entries.len() {
            let Some(entry) = &self.entries[slot] else { continue };
            let kind = entry.kind;
            let name = entry.name.clone();
            let limits = match kind {
                ScopeKind::Host => {
                    let target = Target::of_key(&name);
                    HostKey::new(target.name(), target.port).ok().map(|key| self.host_limits(&key, &target))
                }
                ScopeKind::Group => Some(self.rules.group(&name).unwrap_or_else(|| Arc::new(Limits::none()))),
                ScopeKind::Narrowed => {
                    Some(self.rules.narrowed_scope(&name).unwrap_or_else(|| Arc::new(Limits::none())))
                }
                ScopeKind::Own => None,
            };
            if let (Some(limits), Some(entry)) = (limits, &mut self.entries[slot]) {
                entry.cell.set_limits(limits);
            }
            if kind == ScopeKind::Host {
                let route = self.host_route(ScopeId(slot as u32), &name);
                if let Some(entry) = &mut self.entries[slot] {
                    entry.nested = nested(route);
                }
            }
        }
    }

    /// The route that a route made under earlier rules has now.
    pub fn reroute(&self, route: &Route) -> Route {
        let mut members = Vec::with_capacity(route.members().len());
        for member in route.members() {
            match self.entry(member.scope) {
                Some(entry) if entry.kind == ScopeKind::Host => {
                    members.push(*member);
                    let groups = entry.nested.as_deref().unwrap_or_default();
                    for group in groups.iter().filter(|group| group.scope != member.scope) {
                        // Where a narrower scope is taught, the groups are not.
                        let part = if member.part == Part::Bound { Part::Bound } else { group.part };
                        members.push(Member { scope: group.scope, part });
                    }
                }
                Some(entry) if entry.kind != ScopeKind::Group => members.push(*member),
                _ => {}
            }
        }
        Route::from(members)
    }

    /// A request comes to wait here, so that none of its scopes is evicted meanwhile.
    pub fn pin(&mut self, route: &Route) {
        for member in route.members() {
            if let Some(entry) = self.entry_mut(member.scope) {
                entry.waiting += 1;
            }
        }
    }

    /// It waits no more.
    pub fn unpin(&mut self, route: &Route) {
        for member in route.members() {
            if let Some(entry) = self.entry_mut(member.scope) {
                entry.waiting = entry.waiting.saturating_sub(1);
            }
        }
    }

    /// True the first time it is asked of a scope: one notice a host (P12).
    pub fn notice(&mut self, scope: ScopeId) -> bool {
        self.entry_mut(scope).is_some_and(|entry| !core::mem::replace(&mut entry.noticed, true))
    }

    /// The host's own scope, if the table has it.
    pub fn find_host(&self, target: &Target<'_>) -> Option<ScopeId> {
        self.find(self.rules.host_key(target).ok()?.as_str())
    }

    /// What a scope is.
    pub fn kind(&self, scope: ScopeId) -> Option<ScopeKind> {
        self.entry(scope).map(|entry| entry.kind)
    }

    /// All scopes, with what they are.
    pub fn scopes(&self) -> impl Iterator<Item = (ScopeId, &str, ScopeKind, &Cell)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| {
            let entry = entry.as_ref()?;
            Some((ScopeId(slot as u32), &*entry.name, entry.kind, &entry.cell))
        })
    }

    fn find(&self, name: &str) -> Option<ScopeId> {
        let same = |slot: &u32| self.entries[*slot as usize].as_ref().is_some_and(|entry| *entry.name == *name);
        self.index.find(self.hasher.hash_one(name), same).map(|slot| ScopeId(*slot))
    }

    fn entry(&self, scope: ScopeId) -> Option<&Entry> {
        self.entries.get(scope.0 as usize)?.as_ref()
    }

    fn entry_mut(&mut self, scope: ScopeId) -> Option<&mut Entry> {
        self.entries.get_mut(scope.0 as usize)?.as_mut()
    }

    fn host_limits(&self, key: &HostKey, target: &Target<'_>) -> Arc<Limits> {
        self.rules.host(key, target, !self.settings.pace_loopback)
    }

    /// Finds a scope or makes it.
    fn intern(
        &mut self,
        now: Instant,
        name: &str,
        kind: ScopeKind,
        keep: &[ScopeId],
        limits: impl FnOnce() -> Arc<Limits>,
    ) -> Result<ScopeId, RouteError> {
        if let Some(scope) = self.find(name) {
            return Ok(scope);
        }
        // Groups are as many as the rules that were written for them, and no request goes without its groups.
        let bounded = kind != ScopeKind::Group;
        if bounded && self.index.len() >= self.settings.most_scopes && !self.evict(now, keep) {
            self.turned_away += 1;
            return Err(RouteError::Full(Wait::table_full(now.after(FULL_AGAIN))));
        }
        let entry =
            Entry { cell: Cell::new(limits()), name: name.into(), nested: None, waiting: 0, kind, noticed: false };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as u32
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        let rehash = |slot: &u32| entries[*slot as usize].as_ref().map_or(0, |entry| hasher.hash_one(&*entry.name));
        self.index.insert_unique(self.hasher.hash_one(name), slot, rehash);
        Ok(ScopeId(slot))
    }

    /// Drops one scope that is as new. Looks at a bounded number of them, going round.
    fn evict(&mut self, now: Instant, keep: &[ScopeId]) -> bool {
        for _ in 0..self.entries.len().min(EVICTION_LOOKS) {
            self.hand = (self.hand + 1) % self.entries.len();
            let Some(entry) = &self.entries[self.hand] else { continue };
            let slot = self.hand as u32;
            let kept = entry.kind == ScopeKind::Group || entry.waiting > 0 || keep.contains(&ScopeId(slot));
            if kept || !entry.cell.is_as_new(now) {
                continue;
            }
            if let Ok(found) = self.index.find_entry(self.hasher.hash_one(&*entry.name), |other| *other == slot) {
                found.remove();
            }
            self.entries[self.hand] = None;
            self.free.push(slot);
            return true;
        }
        false
    }

    fn host_scope(&mut self, now: Instant, key: &HostKey, target: &Target<'_>) -> Result<ScopeId, RouteError> {
        if let Some(scope) = self.find(key.as_str()) {
            return Ok(scope);
        }
        let limits = self.host_limits(key, target);
        let scope = self.intern(now, key.as_str(), ScopeKind::Host, &[], || limits)?;
        let route = self.host_route(scope, key.as_str());
        if let Some(entry) = self.entry_mut(scope) {
            entry.nested = nested(route);
        }
        Ok(scope)
    }

    /// A host's own route.
    fn base_route(&self, host: ScopeId) -> Route {
        match self.entry(host).and_then(|entry| entry.nested.as_ref()) {
            Some(nested) => Route::Nested(Arc::clone(nested)),
            None => Route::Host(Member { scope: host, part: Part::Own }),
        }
    }

    /// The host and its groups.
    fn host_route(&mut self, scope: ScopeId, name: &str) -> Route {
        let target = Target::of_key(name);
        let mut members = vec![Member { scope, part: Part::Own }];
        for (name, limits) in self.rules.groups(&target).into_iter().take(MOST_MEMBERS - 2) {
            // A refusal teaches the groups a host is in, never `*` (T6).
            let part = if &*name.0 == "*" { Part::Bound } else { Part::Own };
            if let Ok(scope) = self.intern(Instant::ZERO, &name.0, ScopeKind::Group, &[], || limits) {
                members.push(Member { scope, part });
            }
        }
        Route::from(members)
    }
}

impl Cells for Memory {
    fn cell(&self, scope: ScopeId) -> &Cell {
        match &self.entries[scope.0 as usize] {
            Some(entry) => &entry.cell,
            None => unreachable!("a scope in use is never evicted"),
        }
    }

    fn cell_mut(&mut self, scope: ScopeId) -> &mut Cell {
        match &mut self.entries[scope.0 as usize] {
            Some(entry) => &mut entry.cell,
            None => unreachable!("a scope in use is never evicted"),
        }
    }

    fn share(&self) -> Share {
        self.share
    }
}

impl Store for Memory {
    fn route(&mut self, now: Instant, target: &Target<'_>, own: Option<&OwnLimits>) -> Result<Route, RouteError> {
        if own.is_none()
            && !self.rules.any_narrowed()
            && self.rules.key_is_the_name(target)
            && let Some(scope) = self.find(target.name())
        {
            return Ok(self.base_route(scope));
        }
        let key = self.rules.host_key(target)?;
        let host = self.host_scope(now, &key, target)?;
        let base = self.base_route(host);
        let narrowed = self.rules.narrowed(&key, target);
        if narrowed.is_empty() && own.is_none() {
            return Ok(base);
        }
        let mut members: Vec<Member> = Vec::with_capacity(base.members().len() + narrowed.len() + 1);
        // None of the route's scopes makes room for the next.
        let mut keep = vec![host];
        for (n, (name, limits)) in narrowed.into_iter().enumerate().take(MOST_MEMBERS / 2) {
            let scope = self.intern(now, &name.0, ScopeKind::Narrowed, &keep, || limits)?;
            keep.push(scope);
            members.push(Member { scope, part: if n == 0 { Part::Own } else { Part::Bound } });
        }
        let taught_elsewhere = !members.is_empty();
        if let Some(own) = own {
            let name = format!("{key} under limits {}", own.set);
            // What is learned is the host's, whoever's limits hold (T5).
            let limits = || Arc::new(Limits { policy: Policy::Off, ..(*own.limits).clone() });
            let scope = self.intern(now, &name, ScopeKind::Own, &keep, limits)?;
            members.push(Member { scope, part: Part::Bound });
        }
        for member in base.members() {
            let part = match member.part {
                _ if taught_elsewhere => Part::Bound,
                Part::Own if own.is_some() && member.scope == host => Part::Learned,
                part => part,
            };
            members.push(Member { scope: member.scope, part });
        }
        members.truncate(MOST_MEMBERS);
        Ok(Route::from(members))
    }

    fn claim(&mut self, now: Instant, claim: &Claim<'_>) -> Result<Grant, Wait> {
        all::claim(self, now, claim)
    }

    fn begin(&mut self, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
        all::begin(self, now, members, grant)
    }

    fn learn(
        &mut self,
        now: Instant,
        members: &[Member],
        grant: &Grant,
        signal: &Signal,
        latency: Option<Duration>,
    ) -> Effects {
        all::learn(self, now, members, grant, signal, latency)
    }

    fn release(&mut self, _now: Instant, members: &[Member], grant: &Grant) -> Effects {
        all::release(self, members, grant)
    }

    fn inspect(&self, scope: ScopeId) -> Option<(&str, &Cell)> {
        self.entry(scope).map(|entry| (&*entry.name, &entry.cell))
    }
}

fn nested(route: Route) -> Option<Arc<[Member]>> {
    match route {
        Route::Host(_) => None,
        Route::Nested(members) => Some(members),
    }
}

/// How many entries one search for something to evict looks at.
const EVICTION_LOOKS: usize = 256;
/// When a host that found the table full asks again.
const FULL_AGAIN: Duration = Duration::from_millis(100);
