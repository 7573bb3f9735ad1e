//! Leaky bucket: requests queue, one leaves every interval, and what finds the queue full is refused.

use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::bucket::Bucket;
use super::law::{Law, Standing, Verdict};
use super::said::{ModelError, Said, within};
use super::spread::Spread;

/// `kind = "leaky"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeakySettings {
    /// Requests that leave the queue: `"10/s"`.
    pub(super) rate: Said,
    /// Requests that may wait in it.
    pub(super) depth: u64,
}

impl LeakySettings {
    pub(super) fn build(&self) -> Result<Leaky, ModelError> {
        let depth = within("depth", self.depth, 0, MOST_WAITING)?;
        Ok(Leaky(Bucket::new(self.rate.interval("rate")?, depth + 1)))
    }
}

/// A leaky bucket as a queue. It lets in what a token bucket with `depth + 1` tokens lets in, and holds back what that
/// would serve at once.
#[derive(Clone, Debug)]
pub(super) struct Leaky(Bucket);

impl Law for Leaky {
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict {
        let wait = self.0.fills_in(now);
        match self.0.takes(now) {
            true => Verdict::Served { after: wait.saturating_add(latency.draw(rng)), waited: Some(wait) },
            false => Verdict::Refused,
        }
    }

    fn standing(&self, now: u64) -> Standing {
        self.0.standing(now)
    }

    /// `rate`.
    fn rate(&self, latency: &Spread) -> f64 {
        self.0.rate(latency)
    }

    /// Free places in the queue at `from`, and `rate × (to − from)`.
    fn takes_all(&mut self, from: u64, to: u64, latency: &Spread) -> f64 {
        self.0.takes_all(from, to, latency)
    }

    /// A request holds up the next one for an interval.
    fn service(&self) -> u64 {
        self.0.interval()
    }
}

/// A queue is bounded.
const MOST_WAITING: u64 = 1_000_000;
