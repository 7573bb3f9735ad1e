//! A cache before an origin: most requests are answered at once, the others queue for the origin's workers.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::{Law, Standing, Verdict, secs};
use super::said::{ModelError, Said, duration, sigma, within};
use super::spread::Spread;
use super::workers::{Workers, WorkersSettings, usual_sigma};

/// What `kind = "mix"` has beside the keys of workers, which are its origin's.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MixSettings {
    /// The share of requests the cache answers.
    pub(super) cached: f64,
    /// The mean time it takes.
    pub(super) cache: Said,
    /// How that spreads (of its logarithm).
    #[serde(default = "usual_sigma")]
    pub(super) cache_sigma: f64,
}

impl MixSettings {
    pub(super) fn build(&self, origin: &WorkersSettings) -> Result<Mix, ModelError> {
        let cache = duration(self.cache.span("cache")?);
        Ok(Mix {
            cached: within("cached", self.cached, 0.0, MOST_CACHED)?,
            cache: Spread::new(cache, sigma("cache_sigma", self.cache_sigma)?),
            origin: origin.build()?,
        })
    }
}

/// A cache and its origin. Chance says which of them answers.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    cached: f64,
    cache: Spread,
    origin: Workers,
}

impl Law for Mix {
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict {
        if rng.random::<f64>() < self.cached {
            let after = self.cache.draw(rng).saturating_add(latency.draw(rng));
            return Verdict::Served { after, waited: None };
        }
        self.origin.asks(now, latency, rng)
    }

    fn standing(&self, now: u64) -> Standing {
        self.origin.standing(now)
    }

    /// `workers / (service × (1 − cached))`: the cache has no limit, and its hits come with the origin's share of misses.
    fn rate(&self, latency: &Spread) -> f64 {
        self.origin.rate(latency) / (1.0 - self.cached)
    }

    /// The rate times the span.
    fn takes_all(&mut self, from: u64, to: u64, latency: &Spread) -> f64 {
        self.rate(latency) * secs(to.saturating_sub(from))
    }

    /// The origin's.
    fn service(&self) -> u64 {
        self.origin.service()
    }
}

/// An origin that is never asked limits nothing.
const MOST_CACHED: f64 = 0.9999;
