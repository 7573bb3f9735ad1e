//! Calls: what is sent to the store, by the slots of its records.

use comity_core::limits::all::{Cells, Grant};
use comity_core::limits::{Member, Part, ScopeId};
use comity_core::time::Instant;
use comity_store::Memory;

use crate::keys::Keys;
use crate::redis::{Redis, UnderWay};
use crate::script::{Call, Scope, pack};

impl Redis {
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
        self.last_now = now;
        let sent = if self.given_times { now } else { self.clock.now() };
        self.link.call(id, sent, keys.into_iter().map(String::into_bytes).collect(), pack(call));
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
                known.tells();
                known.mutated = id;
                keys.extend(known.key.clone());
                arguments.push(argument);
                of.push(member.scope);
            }
            let (keys, call) = self.call(op, now, arguments, keys);
            self.send(id, now, keys, &call, UnderWay::Other { op, scopes: of });
        }
    }

    /// Tells the store a scope's Crawl-delay, now or once it is back.
    pub(crate) fn tell_delay(&mut self, memory: &Memory, now: Instant, scope: ScopeId) {
        let lost = self.is_lost();
        let delay = crate::state::wait_micros(memory.cell(scope).crawl_delay());
        let known = self.mirror.known(memory, scope);
        let Some(key) = known.key.clone() else { return };
        if lost {
            (known.touched, known.declared) = (true, true);
            return;
        }
        if known.raw.c.unwrap_or(0) == delay && !known.declared {
            return;
        }
        known.raw.c = Some(delay).filter(|delay| *delay > 0);
        known.declared = false;
        let argument = self.mirror.argument(memory, now, Member { scope, part: Part::Learned });
        let argument = Scope { c: Some(delay), ..argument };
        let id = self.next_call();
        self.mirror.known(memory, scope).mutated = id;
        let (keys, call) = self.call("declare", now, vec![argument], vec![key]);
        self.send(id, now, keys, &call, UnderWay::Other { op: "declare", scopes: vec![scope] });
    }

    /// Tells the store that scopes were forgotten, now or once it is back.
    pub(crate) fn tell_forgotten(&mut self, memory: &Memory, now: Instant, scopes: &[ScopeId]) {
        if self.is_lost() {
            for scope in scopes {
                let known = self.mirror.known(memory, *scope);
                known.forgotten = known.key.is_some();
            }
            return;
        }
        for group in self.groups(memory, scopes.iter().copied()) {
            let id = self.next_call();
            let (mut arguments, mut keys, mut of) = (Vec::new(), Vec::new(), Vec::new());
            for n in group {
                arguments.push(self.mirror.argument(memory, now, Member { scope: scopes[n], part: Part::Learned }));
                let known = self.mirror.known(memory, scopes[n]);
                (known.mutated, known.version, known.forgotten) = (id, None, false);
                keys.extend(known.key.clone());
                of.push(scopes[n]);
            }
            let (keys, call) = self.call("forget", now, arguments, keys);
            self.send(id, now, keys, &call, UnderWay::Other { op: "forget", scopes: of });
        }
    }

    /// Tells the store that a start is used late, though not too late: where nobody started since, the next is as far off as
    /// was promised.
    pub(crate) fn tell_late(&mut self, memory: &Memory, now: Instant, members: &[Member], grant: &Grant) {
        for group in self.groups(memory, members.iter().map(|member| member.scope)) {
            let known_last = |n: &usize| {
                let Member { scope, .. } = members[*n];
                let started = self.started(memory, scope, grant.start);
                self.mirror.known(memory, scope).raw.l.is_none_or(|last| last <= started)
            };
            if !group.iter().any(known_last) {
                continue;
            }
            let id = self.next_call();
            let (mut arguments, mut keys, mut of) = (Vec::new(), Vec::new(), Vec::new());
            for n in group {
                let Member { scope, .. } = members[n];
                let started = self.started(memory, scope, grant.start);
                let argument = self.mirror.argument(memory, now, members[n]);
                arguments.push(Scope { tr: Some(started), ..argument });
                keys.extend(self.mirror.known(memory, scope).key.clone());
                of.push(scope);
            }
            let (keys, mut call) = self.call("moved", now, arguments, keys);
            call.cost = Some(grant.cost);
            // The store's clock may be as far from where it is taken to be as the way there and back is long.
            let took = self.mirror.known(memory, of[0]).clock.took();
            call.by = Some(crate::state::wait_micros(now.since(grant.start).saturating_add(took)));
            self.send(id, now, keys, &call, UnderWay::Other { op: "moved", scopes: of });
        }
    }

    /// Scopes by the slots of their records, in order; those that are not shared in none. A server that is no cluster decides
    /// for all of them together.
    pub(crate) fn groups(&mut self, memory: &Memory, scopes: impl Iterator<Item = ScopeId>) -> Vec<Vec<usize>> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (n, scope) in scopes.enumerate() {
            let Some(key) = &self.mirror.known(memory, scope).key else { continue };
            let slot = if self.cluster { Keys::slot(key) } else { "" };
            match groups.iter_mut().find(|(of, _)| of == slot) {
                Some((_, group)) => group.push(n),
                None => groups.push((slot.to_owned(), vec![n])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// When a grant started on the store's clock.
    pub(crate) fn started(&mut self, memory: &Memory, scope: ScopeId, start: Instant) -> i64 {
        let kept = self.starts.get(&start.as_nanos());
        match kept.and_then(|starts| starts.iter().find(|(of, _)| *of == scope)) {
            Some((_, at)) => *at,
            None => crate::state::micros(self.mirror.known(memory, scope).clock.store(start)),
        }
    }

    /// A grant that was kept as starting then starts later.
    pub(crate) fn restart(&mut self, before: Instant, grant: &mut Grant) {
        if grant.start != before
            && let Some(mut on_store) = self.starts.remove(&before.as_nanos())
        {
            let by = crate::state::wait_micros(grant.start.since(before));
            for (_, at) in &mut on_store {
                *at += by;
            }
            grant.start = self.keep_start(grant.start, on_store);
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
        self.starts.insert(start.as_nanos(), on_store);
        start
    }
}
