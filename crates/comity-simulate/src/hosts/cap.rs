//! Concurrency cap: so many requests at once, and one more is turned away.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::{Law, Standing, Verdict, secs};
use super::said::{ModelError, within};
use super::sliding::fills_places;
use super::spread::Spread;

/// `kind = "cap"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CapSettings {
    /// Requests that may be in flight: arrived and not yet answered.
    pub(super) in_flight: u32,
}

impl CapSettings {
    pub(super) fn build(&self) -> Result<Cap, ModelError> {
        let places = within("in_flight", self.in_flight, 1, MOST_PLACES)?;
        Ok(Cap((0..places).map(|_| Reverse(0)).collect()))
    }
}

/// When each of the places is free again, the soonest on top.
#[derive(Clone, Debug)]
pub(super) struct Cap(BinaryHeap<Reverse<u64>>);

impl Law for Cap {
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict {
        let Some(mut place) = self.0.peek_mut().filter(|place| place.0 <= now) else {
            return Verdict::Refused;
        };
        let after = latency.draw(rng);
        place.0 = now.saturating_add(after);
        Verdict::Served { after, waited: None }
    }

    fn standing(&self, now: u64) -> Standing {
        Standing { lets_in: self.0.peek().map_or(0, |place| place.0.saturating_sub(now)), left: None }
    }

    /// `in_flight / latency`.
    fn rate(&self, latency: &Spread) -> f64 {
        self.0.len() as f64 / secs(latency.mean())
    }

    /// Each place gives one as soon as it is free, and one more after every mean latency.
    fn takes_all(&mut self, from: u64, to: u64, latency: &Spread) -> f64 {
        let mut places = core::mem::take(&mut self.0).into_vec();
        let served = fills_places(places.iter_mut().map(|place| &mut place.0), from, to, latency.mean());
        self.0 = places.into();
        served
    }
}

/// More at once is no limit that a client meets.
const MOST_PLACES: u32 = 1_000_000;
