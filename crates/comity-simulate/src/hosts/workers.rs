//! A queue before so many workers, each of which serves one request at a time.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::{Law, Standing, Verdict, secs};
use super::said::{ModelError, Said, duration, sigma, within};
use super::spread::Spread;

/// `kind = "workers"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkersSettings {
    /// How many work side by side.
    pub(super) workers: u32,
    /// The mean time one works at a request.
    pub(super) service: Said,
    /// How these times spread (of their logarithm).
    #[serde(default = "usual_sigma")]
    pub(super) service_sigma: f64,
    /// Requests that may wait; one more is refused.
    #[serde(default = "usual_depth")]
    pub(super) depth: u32,
}

impl WorkersSettings {
    pub(super) fn build(&self) -> Result<Workers, ModelError> {
        let workers = within("workers", self.workers, 1, MOST_WORKERS)?;
        let service = duration(self.service.some_span("service")?);
        let sigma = sigma("service_sigma", self.service_sigma)?;
        Ok(Workers::new(workers, service, sigma, within("depth", self.depth, 0, MOST_WAITING)?))
    }
}

/// Workers and the queue before them: first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    /// When each is free.
    free: BinaryHeap<Reverse<u64>>,
    /// When each of those that wait begins to be served; in order, since they are served in order.
    begin: VecDeque<u64>,
    service: Spread,
    depth: u32,
}

impl Workers {
    /// Idle ones.
    pub(super) fn new(workers: u32, service: Duration, sigma: f64, depth: u32) -> Self {
        let free = (0..workers).map(|_| Reverse(0)).collect();
        Self { free, begin: VecDeque::new(), service: Spread::new(service, sigma), depth }
    }

    /// A request queues: how long it waits and is then served, or `None` where the queue is full.
    pub(super) fn queues(&mut self, now: u64, rng: &mut Pcg64Mcg) -> Option<(u64, u64)> {
        while self.begin.front().is_some_and(|begin| *begin <= now) {
            self.begin.pop_front();
        }
        let mut soonest = self.free.peek_mut()?;
        let begin = soonest.0.max(now);
        if begin > now {
            if self.begin.len() >= self.depth as usize {
                return None;
            }
            self.begin.push_back(begin);
        }
        let service = self.service.draw(rng);
        soonest.0 = begin.saturating_add(service);
        Some((begin - now, service))
    }

    /// How long until a request would be let into the queue: as the next one leaves it for a worker, or, where none may
    /// wait, as a worker is free.
    pub(super) fn lets_in(&self, now: u64) -> u64 {
        let gone = self.begin.partition_point(|begin| *begin <= now);
        let soonest = self.free.peek().map(|free| &free.0).filter(|free| **free > now);
        if soonest.is_none() || self.begin.len() - gone < self.depth as usize {
            return 0;
        }
        self.begin.get(gone).or(soonest).map_or(0, |next| next - now)
    }

    /// Requests a second: `workers / service`.
    pub(super) fn per_second(&self) -> f64 {
        self.free.len() as f64 / secs(self.service.mean())
    }

    pub(super) fn mean(&self) -> u64 {
        self.service.mean()
    }
}

impl Law for Workers {
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict {
        match self.queues(now, rng) {
            Some((wait, service)) => Verdict::Served {
                after: wait.saturating_add(service).saturating_add(latency.draw(rng)),
                waited: Some(wait),
            },
            None => Verdict::Refused,
        }
    }

    fn standing(&self, now: u64) -> Standing {
        Standing { lets_in: self.lets_in(now), left: None }
    }

    /// `workers / service`.
    fn rate(&self, _: &Spread) -> f64 {
        self.per_second()
    }

    /// `workers / service × (to − from)`: who knows all about it keeps them busy.
    fn takes_all(&mut self, from: u64, to: u64, _: &Spread) -> f64 {
        self.per_second() * secs(to.saturating_sub(from))
    }

    fn service(&self) -> u64 {
        self.mean()
    }
}

/// Of service times: most lie within a factor of two.
pub(super) fn usual_sigma() -> f64 {
    0.3
}

/// What servers let wait, in the order of the usual listen backlogs.
fn usual_depth() -> u32 {
    200
}

/// More is no limit that a client meets.
const MOST_WORKERS: u32 = 100_000;
/// A queue is bounded.
const MOST_WAITING: u32 = 1_000_000;
