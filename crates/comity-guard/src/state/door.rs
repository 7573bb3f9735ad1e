//! The gate in front of the service, and those that wait before it (G3, G4).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use comity_core::guard::{Auto, AutoSettings, End, Exchange, ParameterError, Queue, QueueSettings, Turn};
use comity_core::time::Instant;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Guard;
use super::places::Places;
use crate::rules::{InFlight, Settings};

/// The gate, how it learns, and who waits. While nobody waits and there is a place, nothing is locked.
pub(super) struct Door {
    places: Places,
    state: Mutex<State>,
    /// Who waits, as a number. Written under the lock.
    waiting: AtomicU32,
    /// Whether how answers went is of interest.
    learns: AtomicBool,
}

struct State {
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
        let state = State { bounded: false, auto: None, queue: queue(settings)?, waiting: BTreeMap::new(), next: 0 };
        let door = Self {
            places: Places::new(UNBOUNDED),
            state: Mutex::new(state),
            waiting: AtomicU32::new(0),
            learns: AtomicBool::new(false),
        };
        door.set(settings, now)?;
        Ok(door)
    }

    /// Other bounds from now on; who is in flight or waits stays.
    pub(super) fn set(&self, settings: &Settings, now: Instant) -> Result<(), ParameterError> {
        let mut state = self.state.lock();
        self.places.set_most(state.set(settings, now)?);
        self.note_waiting(&state);
        self.learns.store(state.auto.is_some(), Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn enter(&self, guard: &Guard, now: Instant, may_wait: bool) -> Entered {
        if self.waiting.load(Ordering::SeqCst) == 0
            && let Some(in_flight) = self.places.take()
        {
            return Entered::In(Place { guard: guard.clone(), since: now, in_flight });
        }
        self.enter_behind_others(guard, now, may_wait)
    }

    #[cold]
    fn enter_behind_others(&self, guard: &Guard, now: Instant, may_wait: bool) -> Entered {
        let mut state = self.state.lock();
        let place = if state.queue.waiting() == 0 { self.places.take() } else { None };
        if place.is_none() && !may_wait {
            return Entered::Shed;
        }
        match (state.queue.admit(now, place.is_some()), place) {
            (_, Some(in_flight)) => Entered::In(Place { guard: guard.clone(), since: now, in_flight }),
            (Turn::Wait { until }, None) => {
                let (give, place) = oneshot::channel();
                let number = state.next;
                state.next += 1;
                state.waiting.insert(number, give);
                self.note_waiting(&state);
                drop(state);
                let most = until.since(now);
                let waits = Waiting { guard: guard.clone(), number, since: now, place, most, ended: false };
                // A place given back before it was known that one waits is nobody else's to hand on.
                if self.places.has_room() {
                    self.hand_out(guard);
                }
                Entered::Waits(waits)
            }
            (Turn::Run | Turn::Shed(_), None) => Entered::Shed,
        }
    }

    pub(super) fn stands(&self) -> Stands {
        let state = self.state.lock();
        Stands {
            in_flight: self.places.taken(),
            most: state.bounded.then(|| self.places.most()),
            waiting: state.queue.waiting(),
        }
    }

    /// A place is given back, and goes to who waits for it.
    fn release(&self, guard: &Guard) {
        self.places.give_back();
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.hand_out(guard);
        }
    }

    /// Gives what places there are to those who wait. Nothing is sent under the lock: who has gone away meanwhile gives its
    /// place back at once.
    pub(super) fn hand_out(&self, guard: &Guard) {
        let now = guard.now();
        loop {
            let mut state = self.state.lock();
            let Some((next, in_flight)) = state.next_in_turn(now, &self.places) else { return };
            drop(state);
            let place = Place { guard: guard.clone(), since: now, in_flight };
            // Given back by its drop where nobody is there.
            let _ = next.send(place);
        }
    }

    fn ended(&self, guard: &Guard, now: Instant, exchange: &Exchange) {
        let mut state = self.state.lock();
        let Some(auto) = &mut state.auto else { return };
        if auto.ended(now, exchange) {
            let limit = auto.limit();
            self.places.set_most(limit);
            drop(state);
            self.hand_out(guard);
        }
    }

    /// One that waited does no more. Those that came behind it may have found the queue longer than it was.
    fn leave(&self, guard: &Guard, number: u64, now: Instant, waited: Duration) {
        let mut state = self.state.lock();
        state.waiting.remove(&number);
        state.queue.leave(now, waited);
        self.note_waiting(&state);
        if !state.waiting.is_empty() {
            drop(state);
            self.hand_out(guard);
        }
    }

    /// After a reload more may wait than the queue has room for.
    fn note_waiting(&self, state: &State) {
        let waiting = state.queue.waiting().max(u32::try_from(state.waiting.len()).unwrap_or(u32::MAX));
        self.waiting.store(waiting, Ordering::SeqCst);
    }
}

impl State {
    /// Other bounds: the most in flight.
    fn set(&mut self, settings: &Settings, now: Instant) -> Result<u32, ParameterError> {
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
        self.queue = queue;
        // Those that wait are counted anew; none is turned away for a shorter queue.
        for _ in 0..self.waiting.len() {
            self.queue.admit(now, false);
        }
        Ok(most.unwrap_or(UNBOUNDED))
    }

    /// The next of those that wait, if there is a place for it, and the place taken. In a queue that stands the newest goes
    /// first: those that have waited long are given up soonest.
    fn next_in_turn(&mut self, now: Instant, places: &Places) -> Option<(oneshot::Sender<Place>, u32)> {
        if self.waiting.is_empty() {
            return None;
        }
        let in_flight = places.take()?;
        let next = if self.queue.is_standing(now) { self.waiting.pop_last() } else { self.waiting.pop_first() };
        next.map(|(_, give)| (give, in_flight))
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
