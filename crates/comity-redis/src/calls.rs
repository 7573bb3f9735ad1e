//! Calls: what is sent to the store, by the slots of its records.

use comity_core::limits::{Member, ScopeId};
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
