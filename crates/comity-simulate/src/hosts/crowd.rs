//! Other clients' requests at the same limit: a Poisson process whose rate may change.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::{SECOND, secs};
use super::said::{ModelError, Said, in_order};

/// `[host.crowd]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CrowdSettings {
    /// Requests of all others together: `"3/s"`, or `"0"`.
    rate: Said,
    /// `[[host.crowd.then]]`: another rate from a time on.
    #[serde(default)]
    then: Vec<CrowdThen>,
}

/// `[[host.crowd.then]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CrowdThen {
    at: Said,
    rate: Said,
}

impl CrowdSettings {
    pub(super) fn build(&self, seed: u64) -> Result<Crowd, ModelError> {
        let mut phases = vec![(0, per_second(&self.rate)?)];
        for then in &self.then {
            phases.push((then.at.span("then.at")?, per_second(&then.rate).map_err(|e| e.under("then"))?));
        }
        in_order("then.at", phases.iter().map(|(at, _)| *at))?;
        Ok(Crowd::new(phases.into_boxed_slice(), seed))
    }
}

fn per_second(said: &Said) -> Result<f64, ModelError> {
    if matches!(said.0.as_str(), "0" | "0/s") {
        return Ok(0.0);
    }
    Ok(SECOND as f64 / said.interval("rate")? as f64)
}

/// Others, who ask whatever they are answered. They have dice of their own: what they do does not depend on what we do.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// Since when they ask so many a second.
    phases: Box<[(u64, f64)]>,
    next: u64,
    rng: Pcg64Mcg,
}

impl Crowd {
    fn new(phases: Box<[(u64, f64)]>, seed: u64) -> Self {
        let mut crowd = Self { phases, next: 0, rng: Pcg64Mcg::seed_from_u64(seed) };
        crowd.asked();
        crowd
    }

    /// When the next of them asks.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// It has asked; the one after it is drawn. A draw that goes beyond a change of the rate is drawn anew from there: a
    /// Poisson process has no memory.
    pub(super) fn asked(&mut self) {
        let mut at = self.next;
        loop {
            let (rate, ends) = self.phase(at);
            if rate > 0.0 {
                let gap: f64 = Exp1.sample(&mut self.rng);
                let next = at.saturating_add((gap / rate * SECOND as f64) as u64);
                if next < ends {
                    self.next = next;
                    return;
                }
            }
            at = ends;
            if at == u64::MAX {
                self.next = at;
                return;
            }
        }
    }

    pub(super) fn rng(&mut self) -> &mut Pcg64Mcg {
        &mut self.rng
    }

    /// Requests expected from one instant to another.
    pub(super) fn expected(&self, from: u64, to: u64) -> f64 {
        let ends = self.phases.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        let phases = self.phases.iter().zip(ends);
        phases.map(|((at, rate), ends)| rate * secs(to.min(ends).saturating_sub(from.max(*at)))).sum()
    }

    /// The rate at an instant and when it ends.
    fn phase(&self, at: u64) -> (f64, u64) {
        let next = self.phases.partition_point(|(since, _)| *since <= at);
        let rate = next.checked_sub(1).and_then(|current| self.phases.get(current)).map_or(0.0, |(_, rate)| *rate);
        (rate, self.phases.get(next).map_or(u64::MAX, |(since, _)| *since))
    }
}
