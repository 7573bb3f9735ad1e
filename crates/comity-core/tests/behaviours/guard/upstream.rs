//! A guard with a learned limit and a queue in front of an upstream that is a pool of workers, in virtual time.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use comity_core::guard::{Auto, AutoSettings, End, Exchange, Gate, Queue, QueueSettings, Turn};
use comity_core::time::Instant;

use crate::world::{Dice, MS};

/// An upstream, the guard before it, and those who come.
pub(super) struct Pool {
    pub(super) auto: Auto,
    pub(super) now: Instant,
    /// How many it serves at once; those over it wait in it.
    pub(super) workers: usize,
    /// How long it takes for one of them.
    pub(super) service: Box<dyn FnMut(&mut Dice) -> Duration>,
    /// With more in it than so many it answers 503 at once.
    pub(super) refuses_over: usize,
    /// Of 1,000 answers so many are a 500 whatever the load.
    pub(super) faults: u64,
    gate: Gate,
    queue: Queue,
    waiting: VecDeque<(Instant, Instant)>,
    inside: BinaryHeap<Reverse<(Instant, u64)>>,
    requests: Vec<Request>,
    /// When each worker is free.
    free: BinaryHeap<Reverse<Instant>>,
    dice: Dice,
    pub(super) served: Vec<Duration>,
    pub(super) shed: usize,
    pub(super) dropped: usize,
}

struct Request {
    came: Instant,
    started: Instant,
    in_flight: u32,
    end: End,
}

impl Pool {
    pub(super) fn of(workers: usize, service_ms: u32) -> Self {
        Self::serving(workers, move |_| MS * service_ms)
    }

    pub(super) fn serving(workers: usize, service: impl FnMut(&mut Dice) -> Duration + 'static) -> Self {
        Self {
            auto: Auto::new(AutoSettings::default()).expect("they are allowed"),
            now: Instant::from_millis(1000),
            workers,
            service: Box::new(service),
            refuses_over: usize::MAX,
            faults: 0,
            gate: Gate::new(1).expect("one is allowed"),
            queue: Queue::new(QueueSettings::default()).expect("they are allowed"),
            waiting: VecDeque::new(),
            inside: BinaryHeap::new(),
            requests: Vec::new(),
            free: BinaryHeap::new(),
            dice: Dice::new(7),
            served: Vec::new(),
            shed: 0,
            dropped: 0,
        }
    }

    pub(super) fn seeded(self, seed: u64) -> Self {
        Self { dice: Dice::new(seed), ..self }
    }

    /// So many a second come for so long, at random instants.
    pub(super) fn load(&mut self, rate: f64, secs: u64) {
        (self.served, self.shed, self.dropped) = (Vec::new(), 0, 0);
        let ends = self.now.after(Duration::from_secs(secs));
        let mut next = self.after_a_while(rate);
        while self.now < ends {
            let done = self.inside.peek().map_or(Instant::FAR, |Reverse((at, _))| *at);
            let gives_up = self.waiting.iter().map(|(_, until)| *until).min().unwrap_or(Instant::FAR);
            self.now = next.min(done).min(gives_up);
            if self.now == done {
                self.done();
            } else if self.now == gives_up {
                let Some(at) = self.waiting.iter().position(|(_, until)| *until == gives_up) else { continue };
                let (came, _) = self.waiting.remove(at).expect("it waits");
                self.queue.leave(self.now, self.now.since(came));
                self.shed += 1;
            } else {
                self.comes();
                next = self.after_a_while(rate);
            }
        }
    }

    /// The latency, waiting included, that this share of a hundred of those served had at most.
    pub(super) fn percentile(&self, share: usize) -> Duration {
        let mut sorted = self.served.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() - 1) * share / 100]
    }

    fn after_a_while(&mut self, rate: f64) -> Instant {
        let uniform = (self.dice.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
        self.now.after(Duration::from_secs_f64(-uniform.ln() / rate))
    }

    fn comes(&mut self) {
        self.gate.set_most(self.auto.limit());
        let free = self.gate.in_flight() < self.gate.most();
        match self.queue.admit(self.now, free) {
            Turn::Run => self.starts(self.now),
            Turn::Wait { until } => self.waiting.push_back((self.now, until)),
            Turn::Shed(_) => self.shed += 1,
        }
    }

    fn starts(&mut self, came: Instant) {
        self.gate.acquire().expect("there is a place");
        let takes = (self.service)(&mut self.dice);
        while self.free.len() < self.workers {
            self.free.push(Reverse(self.now));
        }
        let mut end = End::Served;
        let mut done = self.now.after(MS);
        if self.inside.len() >= self.refuses_over {
            end = End::Dropped;
        } else {
            if self.dice.below(1000) < self.faults {
                end = End::Dropped;
            }
            let Reverse(free) = self.free.pop().expect("there are workers");
            done = free.max(self.now).after(takes);
            if self.free.len() < self.workers {
                self.free.push(Reverse(done));
            }
        }
        self.inside.push(Reverse((done, self.requests.len() as u64)));
        self.requests.push(Request { came, started: self.now, in_flight: self.gate.in_flight(), end });
    }

    fn done(&mut self) {
        let Some(Reverse((_, id))) = self.inside.pop() else { return };
        let Request { came, started, in_flight, end } = self.requests[id as usize];
        self.gate.release();
        self.auto.ended(self.now, &Exchange { latency: self.now.since(started), end, in_flight });
        match end {
            End::Served => self.served.push(self.now.since(came)),
            _ => self.dropped += 1,
        }
        if let Some(base) = self.auto.base() {
            self.queue.set_waits(base / 2, base / 8);
        }
        self.gate.set_most(self.auto.limit());
        while self.gate.in_flight() < self.gate.most() {
            let standing = self.queue.is_standing(self.now);
            let next = if standing { self.waiting.pop_back() } else { self.waiting.pop_front() };
            let Some((came, _)) = next else { break };
            self.queue.leave(self.now, self.now.since(came));
            self.starts(came);
        }
    }
}
