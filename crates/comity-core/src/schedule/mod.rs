//! Who of those that wait goes next.
//!
//! Every route (a host, with its groups, its narrowed scopes and a caller's own limits) has a queue in order of arrival.
//! A queue whose head may not start is *parked* on the scope that holds it back, and each scope wakes those parked on it
//! in order of arrival, one at a time, for as long as it has room (T4). So a waiting request costs no task and no timer:
//! a start takes two decisions, however many wait.
//!
//! The schedule decides nothing itself. It names an [`Attempt`], its owner asks the store, and tells it how that went;
//! between the two an asynchronous store may take its time.

mod retry;
mod slab;

pub use retry::{Attempted, GiveUp, Replay, Verdict, verdict};

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use hashbrown::HashMap;

use self::slab::Slab;
use crate::limits::all::Effects;
use crate::limits::{Because, Member, Route, ScopeId, Wait};
use crate::time::Instant;

/// The waiting requests.
#[derive(Debug, Default)]
pub struct Schedule {
    waiters: Slab<Waiter>,
    queues: Slab<Queue>,
    by_route: HashMap<Route, u32>,
    parked: HashMap<ScopeId, Parked>,
    /// Queues to try now, in order of arrival of their heads.
    ready: BTreeSet<(u64, u32)>,
    timers: BinaryHeap<Reverse<(Instant, ScopeId)>>,
    /// Waiters that may not be tried before an instant of their own (a retry after a fixed time).
    later: BTreeMap<(Instant, u64), Ticket>,
    attempts: u64,
}

/// A request comes to wait.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The scopes it falls under.
    pub route: Route,
    /// What it costs.
    pub cost: u32,
    /// Its place in the order of arrival: a refused request keeps the place it had (T10).
    pub place: u64,
    /// Not tried before this instant.
    pub not_before: Option<Instant>,
}

/// A waiting request's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    slot: u32,
    generation: u32,
}

/// The store should be asked for this request now.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Whose turn it is.
    pub ticket: Ticket,
    /// The scopes it falls under.
    pub route: Route,
    /// What it costs.
    pub cost: u32,
    /// Since when it has been waiting.
    pub asked: Instant,
    /// Why the head of its queue waited when the store was last asked.
    pub waited_for: Option<Wait>,
    queue: u32,
}

#[derive(Debug)]
struct Waiter {
    place: u64,
    asked: Instant,
    cost: u32,
    queue: u32,
}

#[derive(Debug)]
struct Queue {
    route: Route,
    waiting: BTreeMap<u64, Ticket>,
    state: State,
    /// The scope that woke it, which wakes the next when this one has been served.
    woken_by: Option<ScopeId>,
    /// Why its head waited when it was last asked.
    wait: Option<Wait>,
    /// Waiters that will join it later.
    expected: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready(u64),
    Trying,
    Parked(ScopeId, u64),
}

#[derive(Debug)]
struct Parked {
    queues: BTreeSet<(u64, u32)>,
    wake: Instant,
    for_a_place: bool,
}

impl Schedule {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// How often the store was to be asked, all in all.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Whether others wait on one of these scopes, so that a newcomer must queue behind them.
    pub fn others_wait(&self, route: &Route) -> bool {
        !self.is_empty()
            && (self.by_route.contains_key(route) || route.members().iter().any(|m| self.parked.contains_key(&m.scope)))
    }

    /// How many wait for a route.
    pub fn waiting_for(&self, route: &Route) -> usize {
        self.by_route.get(route).and_then(|queue| self.queues.get(*queue)).map_or(0, |queue| queue.waiting.len())
    }

    /// Why the head of a waiter's queue waits; `None` where it was not asked yet or the ticket is not waiting.
    pub fn wait_of(&self, ticket: Ticket) -> Option<Wait> {
        let waiter = self.waiters.get_at(ticket)?;
        let queue = self.queues.get(waiter.queue)?;
        let mut wait = queue.wait?;
        if queue.waiting.first_key_value().is_some_and(|(place, _)| *place != waiter.place) {
            wait.because = Because::Order;
        }
        Some(wait)
    }

    /// A request comes to wait. Two requests never share a place.
    pub fn enqueue(&mut self, now: Instant, waiting: Waiting) -> Ticket {
        let Waiting { route, cost, place, not_before } = waiting;
        let queue = self.queue_of(route);
        let asked = not_before.unwrap_or(now).max(now);
        let ticket = self.waiters.insert_at(Waiter { place, asked, cost, queue });
        if asked > now {
            self.later.insert((asked, place), ticket);
            self.expect(queue, 1);
        } else {
            self.join(queue, place, ticket);
        }
        ticket
    }

    /// The next request to ask the store for, if any may start now.
    pub fn next(&mut self, now: Instant) -> Option<Attempt> {
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            let (_, place) = *entry.key();
            let ticket = entry.remove();
            if let Some(queue) = self.waiters.get_at(ticket).map(|waiter| waiter.queue) {
                self.expect(queue, -1);
                self.join(queue, place, ticket);
            }
        }
        while let Some(Reverse((at, scope))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            if self.parked.get(&scope).is_some_and(|parked| parked.wake == at) {
                self.wake(scope);
            }
        }
        while let Some((place, queue_at)) = self.ready.pop_first() {
            let Some(queue) = self.queues.get_mut(queue_at) else { continue };
            queue.state = State::Trying;
            let members = queue.route.members();
            let earlier = |member: &&Member| {
                self.parked.get(&member.scope).and_then(|p| p.queues.first()).is_some_and(|(first, _)| *first < place)
            };
            if let Some(blocked) = members.iter().find(earlier).map(|member| member.scope) {
                let woken_by = queue.woken_by.take();
                queue.wait = Some(Wait { until: Instant::FAR, scope: blocked, because: Because::Order });
                self.park(queue_at, blocked);
                self.pass_on(woken_by, Some(blocked));
                continue;
            }
            let Some((_, ticket)) = queue.waiting.first_key_value() else { continue };
            let Some(waiter) = self.waiters.get_at(*ticket) else { continue };
            self.attempts += 1;
            return Some(Attempt {
                ticket: *ticket,
                route: queue.route.clone(),
                cost: waiter.cost,
                asked: waiter.asked,
                waited_for: queue.wait,
                queue: queue_at,
            });
        }
        None
    }

    /// The store let it start. False where it was cancelled meanwhile: the grant must be given back.
    pub fn started(&mut self, attempt: &Attempt) -> bool {
        let waiter = self.waiters.remove_at(attempt.ticket);
        let Some(queue) = self.queues.get_mut(attempt.queue) else { return waiter.is_some() };
        if let Some(waiter) = &waiter {
            queue.waiting.remove(&waiter.place);
        }
        let woken_by = queue.woken_by.take();
        match (queue.waiting.first_key_value(), woken_by) {
            (None, _) => self.drop_queue_if_idle(attempt.queue),
            (Some(_), Some(scope)) => self.park(attempt.queue, scope),
            (Some((place, _)), None) => {
                queue.state = State::Ready(*place);
                self.ready.insert((*place, attempt.queue));
            }
        }
        self.pass_on(woken_by, None);
        waiter.is_some()
    }

    /// The store let it wait.
    pub fn must_wait(&mut self, attempt: &Attempt, wait: Wait) {
        let Some(queue) = self.queues.get_mut(attempt.queue) else { return };
        let woken_by = queue.woken_by.take();
        if queue.waiting.is_empty() {
            self.drop_queue_if_idle(attempt.queue);
        } else {
            queue.wait = Some(wait);
            self.park(attempt.queue, wait.scope);
            self.set_timer(wait.scope, wait.until, matches!(wait.because, Because::InFlight(_)));
        }
        self.pass_on(woken_by, Some(wait.scope));
    }

    /// A request waits no more. False where it was not waiting (any more).
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiters.remove_at(ticket) else { return false };
        if self.later.remove(&(waiter.asked, waiter.place)).is_some() {
            self.expect(waiter.queue, -1);
            self.drop_queue_if_idle(waiter.queue);
            return true;
        }
        let Some(queue) = self.queues.get_mut(waiter.queue) else { return true };
        let was_head = queue.waiting.first_key_value().is_some_and(|(place, _)| *place == waiter.place);
        queue.waiting.remove(&waiter.place);
        if was_head {
            let state = queue.state;
            self.unplace(waiter.queue);
            if self.queues.get(waiter.queue).is_some_and(|queue| queue.waiting.is_empty()) {
                self.drop_queue_if_idle(waiter.queue);
            } else if state != State::Trying {
                self.make_ready(waiter.queue);
            }
            if let State::Parked(scope, _) = state {
                // What held the cancelled request back (its cost, say) need not hold back the next.
                self.wake(scope);
            }
        }
        true
    }

    /// What an answer, or a place given back, did to the scopes of a request.
    pub fn effects(&mut self, members: &[Member], effects: Effects) {
        if effects.sooner | effects.freed == 0 || self.parked.is_empty() {
            return;
        }
        for (n, member) in members.iter().enumerate() {
            let Some(parked) = self.parked.get(&member.scope) else { continue };
            let sooner = effects.sooner >> n & 1 == 1;
            if sooner || (effects.freed >> n & 1 == 1 && parked.for_a_place) {
                self.wake(member.scope);
            }
        }
    }

    /// The limits changed: all that wait are asked anew.
    pub fn wake_all(&mut self) {
        let scopes: Vec<ScopeId> = self.parked.keys().copied().collect();
        for scope in scopes {
            while self.parked.contains_key(&scope) {
                self.wake(scope);
            }
        }
        let queues: Vec<u32> = self.ready.iter().map(|(_, queue)| *queue).collect();
        for queue in queues {
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.woken_by = None;
            }
        }
    }

    /// The rules changed: every waiting request gets its new route, keeps its place, and is asked anew.
    pub fn reroute(&mut self, mut new_route: impl FnMut(&Route) -> Route) {
        let queues = core::mem::take(&mut self.queues);
        self.by_route.clear();
        self.parked.clear();
        self.ready.clear();
        self.timers.clear();
        let later: BTreeSet<Ticket> = self.later.values().copied().collect();
        for (ticket, old_queue) in
            self.waiters.iter().map(|(ticket, waiter)| (ticket, waiter.queue)).collect::<Vec<_>>()
        {
            let Some(old) = queues.get(old_queue) else { continue };
            let queue = self.queue_of(new_route(&old.route));
            let Some(waiter) = self.waiters.get_at_mut(ticket) else { continue };
            waiter.queue = queue;
            let place = waiter.place;
            if later.contains(&ticket) { self.expect(queue, 1) } else { self.join(queue, place, ticket) }
        }
    }

    /// When to call [`Schedule::next`] again if nothing happens until then.
    pub fn deadline(&mut self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(Instant::ZERO);
        }
        while let Some(Reverse((at, scope))) = self.timers.peek()
            && self.parked.get(scope).is_none_or(|parked| parked.wake != *at)
        {
            self.timers.pop();
        }
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let later = self.later.first_key_value().map(|((at, _), _)| *at);
        [timer, later].into_iter().flatten().min()
    }

    fn queue_of(&mut self, route: Route) -> u32 {
        if let Some(queue) = self.by_route.get(&route) {
            return *queue;
        }
        let queue = self.queues.insert(Queue {
            route: route.clone(),
            waiting: BTreeMap::new(),
            state: State::Trying,
            woken_by: None,
            wait: None,
            expected: 0,
        });
        self.by_route.insert(route, queue);
        queue
    }

    fn expect(&mut self, queue_at: u32, change: i32) {
        if let Some(queue) = self.queues.get_mut(queue_at) {
            queue.expected = queue.expected.saturating_add_signed(change);
        }
    }

    fn join(&mut self, queue_at: u32, place: u64, ticket: Ticket) {
        let Some(queue) = self.queues.get_mut(queue_at) else { return };
        let head = queue.waiting.first_key_value().map(|(place, _)| *place);
        queue.waiting.insert(place, ticket);
        if head.is_some_and(|head| head < place) {
            return;
        }
        if head.is_none() && queue.state == State::Trying || queue.state != State::Trying {
            self.unplace(queue_at);
            self.make_ready(queue_at);
        }
    }

    fn make_ready(&mut self, queue_at: u32) {
        if let Some(queue) = self.queues.get_mut(queue_at)
            && let Some((place, _)) = queue.waiting.first_key_value()
        {
            queue.state = State::Ready(*place);
            self.ready.insert((*place, queue_at));
        }
    }

    /// Takes a queue out of wherever it waits.
    fn unplace(&mut self, queue_at: u32) {
        let Some(queue) = self.queues.get_mut(queue_at) else { return };
        match queue.state {
            State::Trying => {}
            State::Ready(place) => {
                self.ready.remove(&(place, queue_at));
                let woken_by = queue.woken_by.take();
                queue.state = State::Trying;
                self.pass_on(woken_by, None);
            }
            State::Parked(scope, place) => {
                queue.state = State::Trying;
                if let Some(parked) = self.parked.get_mut(&scope) {
                    parked.queues.remove(&(place, queue_at));
                    if parked.queues.is_empty() {
                        self.parked.remove(&scope);
                    }
                }
            }
        }
    }

    fn park(&mut self, queue_at: u32, scope: ScopeId) {
        let Some(queue) = self.queues.get_mut(queue_at) else { return };
        let Some((place, _)) = queue.waiting.first_key_value() else { return };
        queue.state = State::Parked(scope, *place);
        let parked = self.parked.entry(scope).or_insert_with(|| Parked {
            queues: BTreeSet::new(),
            wake: Instant::FAR,
            for_a_place: false,
        });
        parked.queues.insert((*place, queue_at));
    }

    fn set_timer(&mut self, scope: ScopeId, until: Instant, for_a_place: bool) {
        let Some(parked) = self.parked.get_mut(&scope) else { return };
        parked.for_a_place |= for_a_place;
        if until < parked.wake {
            parked.wake = until;
            self.timers.push(Reverse((until, scope)));
        }
    }

    /// Lets the one that has waited longest on a scope try.
    fn wake(&mut self, scope: ScopeId) {
        let Some(parked) = self.parked.get_mut(&scope) else { return };
        parked.wake = Instant::FAR;
        parked.for_a_place = false;
        let first = parked.queues.pop_first();
        if parked.queues.is_empty() {
            self.parked.remove(&scope);
        }
        if let Some((place, queue_at)) = first
            && let Some(queue) = self.queues.get_mut(queue_at)
        {
            queue.woken_by = Some(scope);
            queue.state = State::Ready(place);
            self.ready.insert((place, queue_at));
        }
    }

    /// The one a scope woke has been served: the scope wakes the next, unless it is what the first still waits for.
    fn pass_on(&mut self, woken_by: Option<ScopeId>, waits_on: Option<ScopeId>) {
        if let Some(scope) = woken_by
            && Some(scope) != waits_on
        {
            self.wake(scope);
        }
    }

    fn drop_queue_if_idle(&mut self, queue_at: u32) {
        let Some(queue) = self.queues.get(queue_at) else { return };
        if !queue.waiting.is_empty() || queue.expected > 0 {
            return;
        }
        self.unplace(queue_at);
        if let Some(queue) = self.queues.remove(queue_at) {
            self.by_route.remove(&queue.route);
        }
    }
}
