//! What all clones of a pacer share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use comity_core::limits::{Part, Wait, all};
use comity_core::schedule::{Ticket, Verdict, verdict};
use comity_core::time::Instant;
use comity_store::{Lesson, Memory, Shared};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{Notify, broadcast, oneshot};

use crate::answer::Answer;
use crate::clock::{self, Clock};
use crate::counted;
use crate::engine::{Engine, Owner, Pending, Started};
use crate::error::Delay;
use crate::event::Event;
use crate::keeping::Keeping;
use crate::line::InLine;
use crate::permit::{Begin, Held, Permit, Settled, Waiting};
use crate::profile::Profile;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Mutex<Engine>,
    pub(crate) clock: Clock,
    pub(crate) profile: Profile,
    pub(crate) changed: Arc<Notify>,
    /// There is news from the shared store, for those that wait for it without a task.
    pub(crate) heard: Condvar,
    /// When the driver will look again, in nanoseconds of the clock; it is woken only for something earlier.
    pub(crate) planned: AtomicU64,
    pub(crate) driven: AtomicBool,
    pub(crate) has_line: AtomicBool,
    pub(crate) events: broadcast::Sender<Event>,
    /// Whether anybody ever subscribed to events.
    pub(crate) watched: AtomicBool,
}

impl Inner {
    /// What keeps a pace in this process alone.
    pub(crate) fn local(memory: Memory, profile: Profile) -> Arc<Self> {
        Arc::new(Self::with(memory, Keeping::default(), Clock::start(), profile))
    }

    /// What keeps a pace with all who share a store.
    pub(crate) fn sharing(memory: Memory, shared: Box<dyn Shared>, profile: Profile) -> Arc<Self> {
        let clock = Clock::of_store(shared.clock());
        let inner = Arc::new(Self::with(memory, Keeping::sharing(shared), clock, profile));
        let told = Arc::downgrade(&inner);
        if let Some(shared) = inner.engine.lock().store.shared() {
            shared.on_news(Arc::new(move || {
                if let Some(inner) = told.upgrade() {
                    inner.take_news();
                }
            }));
        }
        inner
    }

    fn with(memory: Memory, store: Keeping, clock: Clock, profile: Profile) -> Self {
        Self {
            engine: Mutex::new(Engine::new(memory, store)),
            clock,
            profile,
            changed: Arc::new(Notify::new()),
            heard: Condvar::new(),
            planned: AtomicU64::new(u64::MAX),
            driven: AtomicBool::new(false),
            has_line: AtomicBool::new(false),
            events: broadcast::Sender::new(EVENTS_KEPT),
            watched: AtomicBool::new(false),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock()
    }

    /// The store says that there is news. It is taken here, because a store needs its members' answers even of those that
    /// let nothing wait; where the lock is held, whoever holds it or is told now takes it.
    fn take_news(self: &Arc<Self>) {
        self.changed.notify_one();
        self.heard.notify_all();
        if let Some(mut engine) = self.engine.try_lock() {
            let now = self.clock.now();
            engine.hear(now);
            self.pump(engine, now);
        }
    }

    /// Waits for the answer to a claim that a store gives late, within that store's deadline; the lock is free meanwhile.
    pub(crate) fn answer_of(&self, engine: &mut MutexGuard<'_, Engine>, claim: u64) -> Result<all::Grant, Wait> {
        loop {
            let now = self.clock.now();
            engine.hear(now);
            if let Some(answer) = engine.told(now, claim) {
                return answer;
            }
            self.heard.wait_for(engine, LOOK_AGAIN);
        }
    }

    pub(crate) fn begin(&self, held: &mut Held) -> Begin {
        let now = self.clock.now();
        let begin = self.engine.lock().begin(now, held.route.members(), &mut held.grant);
        match begin {
            all::Begin::TooLate => {
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
        engine.release(now, held.route.members(), &held.grant);
        self.pump(engine, now);
    }

    pub(crate) fn cancel(self: &Arc<Self>, ticket: Ticket) {
        let now = self.clock.now();
        let mut engine = self.engine.lock();
        let cancelled = engine.cancel(ticket);
        self.pump(engine, now);
        drop(cancelled);
    }

    pub(crate) fn in_words(&self, wait: &Wait) -> Delay {
        let now = self.clock.now();
        self.engine.lock().delay(now, wait)
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
                engine.release(now, held.route.members(), &held.grant);
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

    /// The same for a request of a line: the line will name it again.
    pub(crate) fn again_in_line(self: &Arc<Self>, held: Held) -> InLine {
        let now = self.clock.now();
        let mut engine = self.engine.lock();
        engine.release(now, held.route.members(), &held.grant);
        let mut request = held.request;
        request.attempted.attempts = request.attempted.attempts.saturating_sub(1);
        let owner = Owner::Line(held.tag.unwrap_or_default());
        let ticket = engine.enqueue(now, Pending { owner, request, route: held.route }, None);
        self.pump(engine, now);
        InLine(ticket)
    }

    /// `hold` keeps the request's places, where it ends with this answer, until they are [released](Self::release).
    pub(crate) fn settle(self: &Arc<Self>, held: &Held, answer: &Answer<'_>, hold: bool) -> Settled {
        let now = self.clock.now();
        let mut engine = self.engine.lock();
        let members = held.route.members();
        let taught = members.iter().find(|member| member.part != Part::Bound).unwrap_or(&members[0]);
        let signal = answer.signal(engine.reading(members, taught.scope), clock::wall);
        let latency = answer.measured().or_else(|| answer.is_response().then(|| now.since(held.grant.start)));
        // A refusal teaches before the refused request gives up its place (T8).
        engine.learn(now, members, taught.scope, &Lesson { grant: &held.grant, signal: &signal, latency });
        let nothing_to_retry =
            signal.authoritative.refusal.is_none() && held.request.replay.retries.is_none() && signal.status.is_some();
        let decided = if nothing_to_retry {
            Verdict::Done
        } else {
            verdict(&engine.retry_limits(members, taught.scope), &signal, held.request.replay, held.request.attempted)
        };
        if !hold || matches!(decided, Verdict::Retry { .. }) {
            engine.release(now, members, &held.grant);
        }
        self.settled_event(&engine, now, held, answer, &signal);
        let settled = match decided {
            Verdict::Done => Settled::Done,
            Verdict::GiveUp(why) => {
                counted::gave_up(why);
                tracing::debug!(why = %why, status = signal.status, "a refused request gives up");
                Settled::GiveUp(why)
            }
            Verdict::Retry { after } => {
                let not_before = after.map(|span| now.after(span));
                self.retrying_event(&engine, now, held);
                let (route, request) = (held.route.clone(), held.request);
                if let Some(tag) = held.tag {
                    let pending = Pending { owner: Owner::Line(tag), request, route };
                    Settled::Requeued(InLine(engine.enqueue(now, pending, not_before)))
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
    pub(crate) fn pump(self: &Arc<Self>, mut engine: MutexGuard<'_, Engine>, now: Instant) {
        if engine.is_idle() {
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
        self.tell_first_delays(&mut engine, now);
        let deadline = engine.deadline(now);
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
        let Started { owner, request, route, grant, waited_for } = start;
        let tag = match &owner {
            Owner::Line(tag) => Some(*tag),
            Owner::Future(_) => None,
        };
        let held = Held { route, grant, request, tag, waited_for: waited_for.map(Box::new) };
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
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// How long a late answer is waited for before news is asked for anyway.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(5);
/// Events a slow reader may be behind.
const EVENTS_KEPT: usize = 1024;
