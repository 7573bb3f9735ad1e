//! Other clients' requests at the same limit: a Poisson process whose rate may change.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::SECOND;
use super::moving::Phases;
use super::said::{ModelError, Said, in_order};

/// `[host.crowd]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CrowdSettings {
    /// Requests of all others together: `"3/s"`, or `"0"`.
    rate: Said,
    /// `[[host.crowd.then]]`: another rate from a time on.
    #[serde(default)]
    then: Vec<CrowdThen>,
}

/// `[[host.crowd.then]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
        Ok(Crowd::new(Phases::new(phases), seed))
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
    rates: Phases,
    next: u64,
    arrivals: Pcg64Mcg,
    services: Pcg64Mcg,
}

impl Crowd {
    fn new(rates: Phases, seed: u64) -> Self {
        let (arrivals, services) = (Pcg64Mcg::seed_from_u64(seed), Pcg64Mcg::seed_from_u64(!seed));
        let mut crowd = Self { rates, next: 0, arrivals, services };
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
            let (rate, ends) = self.rates.at(at);
            if rate > 0.0 {
                let gap: f64 = Exp1.sample(&mut self.arrivals);
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

    /// The dice for how long they are served: other ones, so that when they come does not depend on who was refused.
    pub(super) fn services(&mut self) -> &mut Pcg64Mcg {
        &mut self.services
    }

    /// What they ask on the mean.
    pub(super) fn rates(&self) -> &Phases {
        &self.rates
    }
}
