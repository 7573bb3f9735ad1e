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

use std::collections::BTreeSet;

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
    by_route: HashMap<Route, QueueId>,
    parked: HashMap<ScopeId, Parked>,
    /// Queues to try now, in order of arrival of their heads.
    ready: BTreeSet<(u64, QueueId)>,
    /// Queues whose head the store is being asked for.
    trying: Vec<QueueId>,
    timers: BTreeSet<(Instant, ScopeId)>,
    /// Waiters that may not be tried before an instant of their own (a retry after a fixed time).
    later: BTreeSet<(Instant, u64, Ticket)>,
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

/// A queue's name. Like a ticket it never means its slot's next tenant, so that an answer of the store that comes late is
/// not taken for another queue's.
type QueueId = Ticket;

/// The store should be asked for this request now.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Whose turn it is.
    pub ticket: Ticket,
    /// The scopes it falls under.
    pub route: Route,
    /// What it costs.
    pub cost: u32,
    /// Requests that wait in its queue, itself included.
    pub waiting: u32,
    /// When it came to its queue.
    pub asked: Instant,
    /// When it was due: what the timer that woke it was set for, or now.
    pub due: Instant,
    /// Why the head of its queue waited when the store was last asked.
    pub waited_for: Option<Wait>,
    queue: QueueId,
}

#[derive(Debug)]
struct Waiter {
    place: u64,
    asked: Instant,
    cost: u32,
    queue: QueueId,
}

#[derive(Debug)]
struct Queue {
    route: Route,
    waiting: BTreeSet<(u64, Ticket)>,
    state: State,
    /// What woke it, and wakes the next when this one has been served.
    woken_by: Option<Woken>,
    /// Why its head waited when it was last asked.
    wait: Option<Wait>,
    /// Waiters that will join it later.
    expected: u32,
    /// Something changed while the store was asked: a wait it answers may be over already.
    ask_anew: bool,
}

/// A scope wakes those that wait on it, at the instant its timer was set for where it was a timer.
#[derive(Clone, Copy, Debug)]
struct Woken {
    scope: ScopeId,
    due: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody waits in it.
    Idle,
    /// Its head, at this place, is to be tried.
    Ready(u64),
    /// The store is being asked for its head.
    Trying,
    /// Its head, at this place, waits on a scope.
    Parked(ScopeId, u64),
}

#[derive(Debug)]
struct Parked {
    queues: BTreeSet<(u64, QueueId)>,
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
            && (self.by_route.contains_key(route)
                || route.members().iter().any(|m| self.parked.contains_key(&m.scope))
                || self
                    .ready
                    .iter()
                    .map(|(_, queue)| queue)
                    .chain(&self.trying)
                    .any(|queue| self.shares(*queue, route)))
    }

    fn shares(&self, queue: QueueId, route: &Route) -> bool {
        let on = |member: &Member| route.members().iter().any(|other| other.scope == member.scope);
        self.queues.get(queue).is_some_and(|queue| queue.route.members().iter().any(on))
    }

    /// Why the head of a waiter's queue waits; `None` where it was not asked yet or the ticket is not waiting.
    pub fn wait_of(&self, ticket: Ticket) -> Option<Wait> {
        let waiter = self.waiters.get(ticket)?;
        let queue = self.queues.get(waiter.queue)?;
        let mut wait = queue.wait?;
        if queue.waiting.first().is_some_and(|(_, head)| *head != ticket) {
            wait.because = Because::Order;
        }
        Some(wait)
    }

    /// Whether what a waiter's queue waited for is over, so that its head is to be tried.
    pub fn is_due(&self, now: Instant, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiters.get(ticket).filter(|waiter| waiter.asked <= now) else { return false };
        match self.queues.get(waiter.queue).map(|queue| queue.state) {
            Some(State::Ready(_)) => true,
            Some(State::Parked(scope, _)) => self.parked.get(&scope).is_some_and(|parked| parked.wake <= now),
            _ => false,
        }
    }

    /// A request comes to wait.
    pub fn enqueue(&mut self, now: Instant, waiting: Waiting) -> Ticket {
        let Waiting { route, cost, place, not_before } = waiting;
        let queue = self.queue_of(route);
        let asked = not_before.unwrap_or(now).max(now);
        let ticket = self.waiters.insert(Waiter { place, asked, cost, queue });
        if asked > now {
            self.later.insert((asked, place, ticket));
            self.expect(queue, 1);
        } else {
            self.join(queue, place, ticket);
        }
        ticket
    }

    /// The next request to ask the store for, if any may start now.
    pub fn next(&mut self, now: Instant) -> Option<Attempt> {
        while let Some((at, place, ticket)) = self.later.first().copied()
            && at <= now
        {
            self.later.pop_first();
            if let Some(queue) = self.waiters.get(ticket).map(|waiter| waiter.queue) {
                self.expect(queue, -1);
                self.join(queue, place, ticket);
            }
        }
        while let Some((at, scope)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            self.wake(scope, Some(at));
        }
        while let Some((place, queue_at)) = self.ready.pop_first() {
            let Some(queue) = self.queues.get_mut(queue_at) else { continue };
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
            let Some((_, ticket)) = queue.waiting.first() else { continue };
            let Some(waiter) = self.waiters.get(*ticket) else { continue };
            queue.state = State::Trying;
            queue.ask_anew = false;
            self.trying.push(queue_at);
            self.attempts += 1;
            return Some(Attempt {
                ticket: *ticket,
                route: queue.route.clone(),
                cost: waiter.cost,
                waiting: u32::try_from(queue.waiting.len()).unwrap_or(u32::MAX),
                asked: waiter.asked,
                due: queue.woken_by.and_then(|woken| woken.due).unwrap_or(now),
                waited_for: queue.wait,
                queue: queue_at,
            });
        }
        None
    }

    /// The store let it start. False where it was cancelled meanwhile: the grant must be given back.
    pub fn started(&mut self, attempt: &Attempt) -> bool {
        let waiter = self.waiters.remove(attempt.ticket);
        if let Some(waiter) = &waiter {
            if waiter.queue == attempt.queue {
                if let Some(queue) = self.queues.get_mut(waiter.queue) {
                    queue.waiting.remove(&(waiter.place, attempt.ticket));
                }
            } else {
                // The rules changed meanwhile, and it waited in another queue.
                self.leave(waiter, attempt.ticket);
            }
        }
        let Some(woken_by) = self.tried(attempt) else { return waiter.is_some() };
        match (woken_by, self.head(attempt.queue)) {
            (Some(woken), Some(_)) => self.park(attempt.queue, woken.scope),
            _ => self.make_ready_or_drop(attempt.queue),
        }
        self.pass_on(woken_by, None);
        waiter.is_some()
    }

    /// The store let it wait.
    pub fn must_wait(&mut self, attempt: &Attempt, wait: Wait) {
        let Some(woken_by) = self.tried(attempt) else { return };
        let head = self.head(attempt.queue);
        let Some(queue) = self.queues.get_mut(attempt.queue) else { return };
        if head != Some(attempt.ticket) || queue.ask_anew {
            // The answer is not the head's, or it is out of date.
            self.make_ready_or_drop(attempt.queue);
            self.pass_on(woken_by, None);
            return;
        }
        queue.wait = Some(wait);
        self.park(attempt.queue, wait.scope);
        self.set_timer(wait.scope, wait.until, wait.because.is_for_a_place());
        self.pass_on(woken_by, Some(wait.scope));
    }

    /// The store has answered. Gives what woke the queue; `None` where the queue is gone, because the rules changed.
    fn tried(&mut self, attempt: &Attempt) -> Option<Option<Woken>> {
        let queue = self.queues.get_mut(attempt.queue)?;
        queue.state = State::Idle;
        let woken_by = queue.woken_by.take();
        self.trying.retain(|queue| *queue != attempt.queue);
        Some(woken_by)
    }

    /// A request waits no more. False where it was not waiting (any more).
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiters.remove(ticket) else { return false };
        if self.later.remove(&(waiter.asked, waiter.place, ticket)) {
            self.expect(waiter.queue, -1);
            self.drop_queue_if_idle(waiter.queue);
        } else {
            self.leave(&waiter, ticket);
        }
        true
    }

    fn leave(&mut self, waiter: &Waiter, ticket: Ticket) {
        let Some(queue) = self.queues.get_mut(waiter.queue) else { return };
        let was_head = queue.waiting.first().is_some_and(|(_, head)| *head == ticket);
        queue.waiting.remove(&(waiter.place, ticket));
        if !was_head || queue.state == State::Trying {
            return;
        }
        self.unplace(waiter.queue);
        self.make_ready_or_drop(waiter.queue);
    }

    /// What an answer, or a place given back, did to the scopes of a request.
    pub fn effects(&mut self, members: &[Member], effects: Effects) {
        if effects.sooner | effects.freed == 0 {
            return;
        }
        for (n, member) in members.iter().enumerate() {
            if (effects.sooner | effects.freed) >> n & 1 == 1 {
                self.ask_anew(Some(member.scope));
            }
            let Some(parked) = self.parked.get(&member.scope) else { continue };
            let sooner = effects.sooner >> n & 1 == 1;
            if sooner || (effects.freed >> n & 1 == 1 && parked.for_a_place) {
                self.wake(member.scope, None);
            }
        }
    }

    /// A scope's limits changed: those that wait on it are asked anew.
    pub fn wake_scope(&mut self, scope: ScopeId) {
        self.ask_anew(Some(scope));
        self.wake(scope, None);
    }

    /// The limits changed: all that wait are asked anew.
    pub fn wake_all(&mut self) {
        let scopes: Vec<ScopeId> = self.parked.keys().copied().collect();
        for scope in scopes {
            while self.parked.contains_key(&scope) {
                self.wake(scope, None);
            }
        }
        for (_, queue) in &self.ready {
            if let Some(queue) = self.queues.get_mut(*queue) {
                queue.woken_by = None;
            }
        }
        self.ask_anew(None);
    }

    /// What the store is being asked now it may have answered before a change: of this scope, or of all.
    fn ask_anew(&mut self, scope: Option<ScopeId>) {
        for queue in &self.trying {
            if let Some(queue) = self.queues.get_mut(*queue)
                && scope.is_none_or(|scope| queue.route.members().iter().any(|member| member.scope == scope))
            {
                queue.ask_anew = true;
            }
        }
    }

    /// The rules changed: every waiting request gets its new route, keeps its place, and is asked anew.
    pub fn reroute(&mut self, mut new_route: impl FnMut(&Route) -> Route) {
        let old_queues: Vec<QueueId> = self.queues.iter().map(|(id, _)| id).collect();
        let old_queues: HashMap<QueueId, Queue> =
            old_queues.into_iter().filter_map(|id| Some((id, self.queues.remove(id)?))).collect();
        self.by_route.clear();
        self.parked.clear();
        self.ready.clear();
        self.trying.clear();
        self.timers.clear();
        let later: BTreeSet<Ticket> = self.later.iter().map(|(_, _, ticket)| *ticket).collect();
        for (ticket, old_queue) in
            self.waiters.iter().map(|(ticket, waiter)| (ticket, waiter.queue)).collect::<Vec<_>>()
        {
            let Some(old) = old_queues.get(&old_queue) else { continue };
            let queue = self.queue_of(new_route(&old.route));
            let Some(waiter) = self.waiters.get_mut(ticket) else { continue };
            waiter.queue = queue;
            let place = waiter.place;
            if later.contains(&ticket) { self.expect(queue, 1) } else { self.join(queue, place, ticket) }
        }
    }

    /// When to call [`Schedule::next`] again if nothing happens until then.
    pub fn deadline(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(Instant::ZERO);
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        let later = self.later.first().map(|(at, _, _)| *at);
        [timer, later].into_iter().flatten().min()
    }

    fn queue_of(&mut self, route: Route) -> QueueId {
        if let Some(queue) = self.by_route.get(&route) {
            return *queue;
        }
        let queue = self.queues.insert(Queue {
            route: route.clone(),
            waiting: BTreeSet::new(),
            state: State::Idle,
            woken_by: None,
            wait: None,
            expected: 0,
            ask_anew: false,
        });
        self.by_route.insert(route, queue);
        queue
    }

    fn expect(&mut self, queue_at: QueueId, change: i32) {
        if let Some(queue) = self.queues.get_mut(queue_at) {
            queue.expected = queue.expected.saturating_add_signed(change);
        }
    }

    fn join(&mut self, queue_at: QueueId, place: u64, ticket: Ticket) {
        let Some(queue) = self.queues.get_mut(queue_at) else { return };
        let head = queue.waiting.first().map(|(place, _)| *place);
        queue.waiting.insert((place, ticket));
        if head.is_some_and(|head| head <= place) {
            return;
        }
        if queue.state != State::Trying {
            self.unplace(queue_at);
            self.make_ready_or_drop(queue_at);
        }
    }

    fn head(&self, queue_at: QueueId) -> Option<Ticket> {
        self.queues.get(queue_at)?.waiting.first().map(|(_, ticket)| *ticket)
    }

    fn make_ready_or_drop(&mut self, queue_at: QueueId) {
        let Some(queue) = self.queues.get_mut(queue_at) else { return };
        match queue.waiting.first() {
            Some((place, _)) => {
                queue.state = State::Ready(*place);
                self.ready.insert((*place, queue_at));
            }
            None => self.drop_queue_if_idle(queue_at),
        }
    }

    /// Takes a queue out of wherever it waits.
    fn unplace(&mut self, queue_at: QueueId) {
        let Some(queue) = self.queues.get_mut(queue_at) else { return };
        match queue.state {
            State::Idle | State::Trying => {}
            State::Ready(place) => {
                self.ready.remove(&(place, queue_at));
                let woken_by = queue.woken_by.take();
                queue.state = State::Idle;
                self.pass_on(woken_by, None);
            }
            State::Parked(scope, place) => {
                queue.state = State::Idle;
                let Some(parked) = self.parked.get_mut(&scope) else { return };
                let was_first = parked.queues.first() == Some(&(place, queue_at));
                parked.queues.remove(&(place, queue_at));
                if parked.queues.is_empty() {
                    self.timers.remove(&(parked.wake, scope));
                    self.parked.remove(&scope);
                } else if was_first {
                    // What held it back (its cost, say) need not hold back those that waited behind it.
                    self.wake(scope, None);
                }
            }
        }
    }

    fn park(&mut self, queue_at: QueueId, scope: ScopeId) {
        let Some(queue) = self.queues.get_mut(queue_at) else { return };
        let Some((place, _)) = queue.waiting.first() else { return };
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
            self.timers.remove(&(parked.wake, scope));
            parked.wake = until;
            self.timers.insert((until, scope));
        }
    }

    /// Lets the one that has waited longest on a scope try.
    fn wake(&mut self, scope: ScopeId, due: Option<Instant>) {
        let Some(parked) = self.parked.get_mut(&scope) else { return };
        self.timers.remove(&(parked.wake, scope));
        parked.wake = Instant::FAR;
        parked.for_a_place = false;
        let first = parked.queues.pop_first();
        if parked.queues.is_empty() {
            self.parked.remove(&scope);
        }
        if let Some((place, queue_at)) = first
            && let Some(queue) = self.queues.get_mut(queue_at)
        {
            queue.woken_by = Some(Woken { scope, due });
            queue.state = State::Ready(place);
            self.ready.insert((place, queue_at));
        }
    }

    /// The one a scope woke has been served: the scope wakes the next, unless it is what the first still waits for.
    fn pass_on(&mut self, woken_by: Option<Woken>, waits_on: Option<ScopeId>) {
        if let Some(Woken { scope, due }) = woken_by
            && Some(scope) != waits_on
        {
            self.wake(scope, due);
        }
    }

    fn drop_queue_if_idle(&mut self, queue_at: QueueId) {
        let Some(queue) = self.queues.get(queue_at) else { return };
        if !queue.waiting.is_empty() || queue.expected > 0 || queue.state == State::Trying {
            return;
        }
        self.unplace(queue_at);
        if let Some(queue) = self.queues.remove(queue_at) {
            self.by_route.remove(&queue.route);
        }
    }
}
