//! The gate in front of the service, and those that wait before it (G3, G4).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comity_core::guard::{Auto, AutoSettings, End, Exchange, Gate, ParameterError, Queue, QueueSettings, Turn};
use comity_core::time::Instant;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Guard;
use crate::rules::{InFlight, Settings};

/// The gate, how it learns, and who waits.
pub(super) struct Door {
    state: Mutex<State>,
    /// Whether how answers went is of interest.
    learns: AtomicBool,
}

struct State {
    gate: Gate,
    bounded: bool,
    auto: Option<Auto>,
    queue: Queue,
    /// By their numbers, which are in order of arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Place>>,
    next: u64,
}

/// What came of a request at the gate.
pub(super) enum Entered {
    /// It has a place.
    In(Place),
    /// It waits for one.
    Waits(Waiting),
    /// It has none.
    Shed,
}

/// One place in flight. It is given back when it is dropped, whatever ends the request: an answer that was written, one
/// that was abandoned, a panic, a client that went away.
pub(crate) struct Place {
    guard: Guard,
    since: Instant,
    in_flight: u32,
}

/// A request's wait for a place. Dropped, it is nobody's.
pub(super) struct Waiting {
    guard: Guard,
    number: u64,
    since: Instant,
    place: oneshot::Receiver<Place>,
    /// How long it waits at most.
    pub(super) most: Duration,
    ended: bool,
}

/// How the gate stands.
pub(super) struct Stands {
    pub(super) in_flight: u32,
    pub(super) most: Option<u32>,
    pub(super) waiting: u32,
}

impl Door {
    pub(super) fn of(settings: &Settings, now: Instant) -> Result<Self, ParameterError> {
        let (gate, queue) = (Gate::new(i64::from(UNBOUNDED))?, queue(settings)?);
        let state = State { gate, bounded: false, auto: None, queue, waiting: BTreeMap::new(), next: 0 };
        let door = Self { state: Mutex::new(state), learns: AtomicBool::new(false) };
        door.set(settings, now)?;
        Ok(door)
    }

    /// Other bounds from now on; who is in flight or waits stays.
    pub(super) fn set(&self, settings: &Settings, now: Instant) -> Result<(), ParameterError> {
        let mut state = self.state.lock();
        state.set(settings, now)?;
        self.learns.store(state.auto.is_some(), Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn enter(&self, guard: &Guard, now: Instant, may_wait: bool) -> Entered {
        let mut state = self.state.lock();
        let free = state.gate.in_flight() < state.gate.most();
        if !free && !may_wait {
            return Entered::Shed;
        }
        match state.queue.admit(now, free) {
            Turn::Run => match state.gate.acquire() {
                Ok(()) => Entered::In(Place { guard: guard.clone(), since: now, in_flight: state.gate.in_flight() }),
                Err(_) => Entered::Shed,
            },
            Turn::Wait { until } => {
                let (give, place) = oneshot::channel();
                let number = state.next;
                state.next += 1;
                state.waiting.insert(number, give);
                let most = until.since(now);
                Entered::Waits(Waiting { guard: guard.clone(), number, since: now, place, most, ended: false })
            }
            Turn::Shed(_) => Entered::Shed,
        }
    }

    pub(super) fn stands(&self) -> Stands {
        let state = self.state.lock();
        Stands {
            in_flight: state.gate.in_flight(),
            most: state.bounded.then(|| state.gate.most()),
            waiting: state.queue.waiting(),
        }
    }

    /// A place is given back, and goes to who waits for it.
    fn release(&self, guard: &Guard) {
        let mut state = self.state.lock();
        state.gate.release();
        if state.waiting.is_empty() {
            return;
        }
        drop(state);
        self.hand_out(guard);
    }

    /// Gives what places there are to those who wait. Nothing is sent under the lock: who has gone away meanwhile gives its
    /// place back at once.
    pub(super) fn hand_out(&self, guard: &Guard) {
        let now = guard.now();
        loop {
            let mut state = self.state.lock();
            let Some(next) = state.next_in_turn(now) else { return };
            let place = Place { guard: guard.clone(), since: now, in_flight: state.gate.in_flight() };
            drop(state);
            // Given back by its drop where nobody is there.
            let _ = next.send(place);
        }
    }

    fn ended(&self, guard: &Guard, now: Instant, exchange: &Exchange) {
        let mut state = self.state.lock();
        let Some(auto) = &mut state.auto else { return };
        if auto.ended(now, exchange) {
            let limit = auto.limit();
            state.gate.set_most(limit);
            drop(state);
            self.hand_out(guard);
        }
    }

    /// One that waited does no more. Those that came behind it may have found the queue longer than it was.
    fn leave(&self, guard: &Guard, number: u64, now: Instant, waited: Duration) {
        let mut state = self.state.lock();
        state.waiting.remove(&number);
        state.queue.leave(now, waited);
        if !state.waiting.is_empty() {
            drop(state);
            self.hand_out(guard);
        }
    }
}

impl State {
    fn set(&mut self, settings: &Settings, now: Instant) -> Result<(), ParameterError> {
        let queue = queue(settings)?;
        self.auto = match (settings.in_flight, self.auto.take()) {
            (InFlight::Auto, Some(auto)) => Some(auto),
            (InFlight::Auto, None) => Some(Auto::new(AutoSettings::default())?),
            _ => None,
        };
        let most = match (settings.in_flight, &self.auto) {
            (InFlight::AtMost(most), _) => Some(most.get()),
            (_, Some(auto)) => Some(auto.limit()),
            _ => None,
        };
        self.bounded = most.is_some();
        self.gate.set_most(most.unwrap_or(UNBOUNDED));
        self.queue = queue;
        // Those that wait are counted anew; none is turned away for a shorter queue.
        for _ in 0..self.waiting.len() {
            self.queue.admit(now, false);
        }
        Ok(())
    }

    /// The next of those that wait, if there is a place for it, and the place taken. In a queue that stands the newest goes
    /// first: those that have waited long are given up soonest.
    fn next_in_turn(&mut self, now: Instant) -> Option<oneshot::Sender<Place>> {
        if self.waiting.is_empty() || self.gate.acquire().is_err() {
            return None;
        }
        let next = if self.queue.is_standing(now) { self.waiting.pop_last() } else { self.waiting.pop_first() };
        next.map(|(_, give)| give)
    }
}

impl Place {
    /// The answer's head is there, or there will be none. Only what learns is told.
    pub(crate) fn ended(&self, end: End) {
        let door = &self.guard.0.door;
        if door.learns.load(Ordering::Relaxed) {
            let now = self.guard.now();
            let exchange = Exchange { latency: now.since(self.since), end, in_flight: self.in_flight };
            door.ended(&self.guard, now, &exchange);
        }
    }

    /// It goes to the service only now: it waited for its turn under a limit.
    pub(super) fn goes_on(&mut self, now: Instant) {
        self.since = now;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guard.0.door.release(&self.guard);
    }
}

impl Waiting {
    /// A place, or none in time.
    pub(super) async fn place(mut self) -> Option<Place> {
        let place = tokio::time::timeout(self.most, &mut self.place).await;
        self.end();
        match place {
            Ok(place) => place.ok(),
            // It may have come in the very moment.
            Err(_) => self.place.try_recv().ok(),
        }
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            let now = self.guard.now();
            self.guard.0.door.leave(&self.guard, self.number, now, now.since(self.since));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.ended {
            super::counted::count(&self.guard.0.tally.abandoned);
        }
        self.end();
    }
}

/// A fixed number has no queue unless one is set; what learns has one, so that a burst is not taken for overload.
fn queue(settings: &Settings) -> Result<Queue, ParameterError> {
    let usual = QueueSettings::default();
    Queue::new(match (settings.queue, settings.in_flight) {
        (Some(queue), _) => QueueSettings { most: queue.most, longest: queue.longest, standing: queue.longest / 10 },
        (None, InFlight::Auto) => usual,
        (None, _) => QueueSettings { most: 0, ..usual },
    })
}

/// Requests in flight are counted where they are not bounded, too.
const UNBOUNDED: u32 = 1_000_000_000;
