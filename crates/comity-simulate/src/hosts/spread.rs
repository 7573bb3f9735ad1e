//! Times that spread: lognormal around a mean.

use core::time::Duration;

use comity_core::time::nanos;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// A lognormal spread of times with a given mean: `mean × exp(σz − σ²/2)` with `z` a standard normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    mean: u64,
    median: f64,
    sigma: f64,
}

impl Spread {
    /// Around this mean, with the standard deviation of the logarithm. Zero for always the same.
    pub(super) fn new(mean: Duration, sigma: f64) -> Self {
        let mean = nanos(mean);
        Self { mean, median: mean as f64 * (-sigma * sigma / 2.0).exp(), sigma }
    }

    /// The mean, in nanoseconds.
    pub(super) fn mean(&self) -> u64 {
        self.mean
    }

    /// Draws one, in nanoseconds. Nothing is drawn where all are the same.
    pub(super) fn draw(&self, rng: &mut Pcg64Mcg) -> u64 {
        if self.sigma == 0.0 || self.mean == 0 {
            return self.mean;
        }
        let z: f64 = StandardNormal.sample(rng);
        (self.median * (self.sigma * z).exp()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_mean_is_the_mean_and_the_spread_is_the_spread() {
        let spread = Spread::new(Duration::from_millis(50), 0.5);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let draws: Vec<f64> = (0..200_000).map(|_| spread.draw(&mut rng) as f64 / 1e6).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let logs = |f: &dyn Fn(f64) -> f64| draws.iter().map(|x| f(x.ln())).sum::<f64>() / draws.len() as f64;
        let centre = logs(&|x| x);
        let sigma = logs(&|x| (x - centre).powi(2)).sqrt();
        assert!((mean - 50.0).abs() < 0.3, "mean {mean}");
        assert!((sigma - 0.5).abs() < 0.01, "sigma {sigma}");
    }

    #[test]
    fn without_a_spread_all_are_the_same_and_nothing_is_drawn() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let before = rng.clone();
        assert_eq!(Spread::new(Duration::from_millis(50), 0.0).draw(&mut rng), 50_000_000);
        assert_eq!(Spread::new(Duration::ZERO, 0.5).draw(&mut rng), 0);
        assert_eq!(rng, before);
    }
}
