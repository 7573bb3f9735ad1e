//! Latencies, counted in classes that grow with them.

use core::time::Duration;

/// A histogram: 32 classes to the octave, so that a quantile is right within 2 %.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// Made when the first comes: most hosts of a large world are asked little.
    classes: Vec<u32>,
    all: u64,
}

impl Latencies {
    pub(super) fn add(&mut self, latency: Duration) {
        if self.classes.is_empty() {
            self.classes = vec![0; CLASSES];
        }
        self.classes[class(latency)] += 1;
        self.all += 1;
    }

    /// The latency that a share (0 to 1) of all stays under, in seconds; zero where there are none.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.all as f64 * share).ceil() as u64;
        let mut counted = 0;
        for (class, count) in self.classes.iter().enumerate() {
            counted += u64::from(*count);
            if *count > 0 && counted >= wanted {
                return middle(class);
            }
        }
        0.0
    }
}

fn class(latency: Duration) -> usize {
    let micros = latency.as_secs_f64() * 1e6;
    ((micros.max(1.0).log2() * PER_OCTAVE) as usize).min(CLASSES - 1)
}

fn middle(class: usize) -> f64 {
    ((class as f64 + 0.5) / PER_OCTAVE).exp2() / 1e6
}

const PER_OCTAVE: f64 = 32.0;
/// From a microsecond to more than a minute.
const CLASSES: usize = 27 * 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_two_percent() {
        let mut latencies = Latencies::default();
        for ms in 1..=1000 {
            latencies.add(Duration::from_millis(ms));
        }
        for share in [0.05, 0.5, 0.95] {
            let found = latencies.quantile(share);
            assert!((found / share - 1.0).abs() < 0.02, "{share}: {found}");
        }
        assert_eq!(Latencies::default().quantile(0.95), 0.0);
    }
}
