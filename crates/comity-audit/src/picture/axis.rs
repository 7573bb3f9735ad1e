//! An axis that is labelled where we say, rather than at round numbers.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// A linear axis with labels at given values.
pub(super) struct Axis {
    pub(super) range: Range<f64>,
    pub(super) labels: Vec<f64>,
}

impl Axis {
    /// An axis of counts up to `top`, with up to five labels at whole numbers up to `most`.
    pub(super) fn counts(most: f64, top: f64) -> Self {
        let mut step = 1.0;
        // 1, 2, 5, 10, 20, 50 and so on.
        for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
            if most / step <= 4.0 {
                break;
            }
            step *= factor;
        }
        let labels = (0..=4).map(|index| f64::from(index) * step).filter(|&label| label <= most).collect();
        Self { range: 0.0..top, labels }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a cast to i32 saturates, and pixels are whole")]
    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        (f64::from(from) + f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labels.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_labelled_at_round_numbers() {
        for (most, labels) in [
            (1.0, &[0.0, 1.0][..]),
            (4.0, &[0.0, 1.0, 2.0, 3.0, 4.0]),
            (5.0, &[0.0, 2.0, 4.0]),
            (119.0, &[0.0, 50.0, 100.0]),
            (66_000.0, &[0.0, 20_000.0, 40_000.0, 60_000.0]),
        ] {
            assert_eq!(Axis::counts(most, most).labels, labels);
        }
    }
}
