//! Stand-in until the hosts' models are merged.
use crate::hosts::{ClientId, Host, Queued, Reply};
use comity_core::time::Instant;
use core::time::Duration;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

/// A host's model.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Model {
    /// Token bucket.
    TokenBucket {
        /// Per second.
        rate: f64,
        /// At once.
        burst: f64,
    },
    /// Queue of workers.
    Queue {
        /// Workers.
        workers: usize,
        /// Service, in seconds.
        service: f64,
    },
}

impl Model {
    /// Builds it.
    pub fn build(&self) -> Box<dyn Host> {
        match self {
            Self::TokenBucket { rate, burst } => {
                Box::new(Bucket { rate: *rate, burst: *burst, tokens: *burst, last: 0.0 })
            }
            Self::Queue { workers, service } => {
                Box::new(Queue { free: vec![0.0; *workers], service: *service, met: Queued::default() })
            }
        }
    }
}

#[derive(Debug)]
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    last: f64,
}

#[derive(Debug)]
struct Queue {
    free: Vec<f64>,
    service: f64,
    met: Queued,
}

fn secs(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

fn spread(rng: &mut Pcg64Mcg, mean: f64, sigma: f64) -> Duration {
    use rand_distr::Distribution;
    let factor = rand_distr::LogNormal::new(0.0, sigma).map_or(1.0, |d| d.sample(rng));
    Duration::from_secs_f64(mean * factor)
}

impl Host for Bucket {
    fn arrives(&mut self, now: Instant, _from: ClientId, rng: &mut Pcg64Mcg) -> Reply {
        let now = secs(now);
        self.tokens = self.burst.min(self.tokens + (now - self.last) * self.rate);
        self.last = now;
        if self.tokens < 1.0 {
            return Reply { status: Some(429), after: Duration::from_millis(5), fields: Vec::new() };
        }
        self.tokens -= 1.0;
        Reply { status: Some(200), after: spread(rng, 0.05, 0.2), fields: Vec::new() }
    }
    fn capacity(&self, from: Instant, to: Instant) -> f64 {
        to.since(from).as_secs_f64() * self.rate
    }
}

impl Host for Queue {
    fn arrives(&mut self, now: Instant, _from: ClientId, rng: &mut Pcg64Mcg) -> Reply {
        let now = secs(now);
        let mut first = 0;
        for n in 0..self.free.len() {
            if self.free[n] < self.free[first] {
                first = n;
            }
        }
        let start = self.free[first].max(now);
        let service = spread(rng, self.service, 0.3).as_secs_f64();
        self.free[first] = start + service;
        self.met.requests += 1;
        self.met.waited += Duration::from_secs_f64(start - now);
        self.met.service = Duration::from_secs_f64(self.service);
        Reply { status: Some(200), after: Duration::from_secs_f64(start - now + service), fields: Vec::new() }
    }
    fn capacity(&self, from: Instant, to: Instant) -> f64 {
        to.since(from).as_secs_f64() * self.free.len() as f64 / self.service
    }
    fn queue(&self) -> Queued {
        self.met
    }
}
