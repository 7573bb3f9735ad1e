//! Axes that are labelled where we say.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// An axis with labels at given values.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    range: Range<f64>,
    labels: Vec<f64>,
    scale: Scale,
}

#[derive(Clone, Copy, Debug)]
enum Scale {
    Linear,
    /// Equal factors are equally long.
    Log,
    /// The same down to a least value, and nothing at all a little apart from it.
    LogAndZero {
        least: f64,
    },
}

impl Axis {
    /// A linear axis.
    pub(super) fn linear(range: Range<f64>, labels: Vec<f64>) -> Self {
        Self { range, labels, scale: Scale::Linear }
    }

    /// A linear axis from zero, with labels at round numbers and room above `most`; `steps` is about how many labels.
    pub(super) fn counts(most: f64, steps: u32) -> Self {
        Self::linear(0.0..most * 1.1, round(most, steps))
    }

    /// The same from zero to `most` exactly.
    pub(super) fn times(most: f64, steps: u32) -> Self {
        Self::linear(0.0..most, round(most, steps))
    }

    /// A logarithmic axis that holds both values, with a label at each power of ten, or also between where there are few.
    pub(super) fn log(least: f64, most: f64) -> Self {
        let (from, to) = (least.max(f64::MIN_POSITIVE).log10(), most.max(least).max(f64::MIN_POSITIVE).log10());
        let room = ((to - from) * 0.08).max(0.1);
        let range = from - room..to + room;
        let between: &[f64] = match range.end - range.start {
            ..1.3 => &[1.0, 2.0, 3.0, 5.0],
            ..2.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut labels = Vec::new();
        for power in whole(range.start.floor())..=whole(range.end.ceil()) {
            labels.extend(between.iter().map(|part| part * 10_f64.powi(power)));
        }
        labels.retain(|label| range.contains(&label.log10()));
        Self { range, labels, scale: Scale::Log }
    }

    /// A logarithmic axis between two powers of ten, with nothing at all as its first label.
    pub(super) fn log_and_zero(least: i32, most: i32) -> Self {
        let labels = [0.0].into_iter().chain((least..=most).map(|power| 10_f64.powi(power))).collect();
        let range = f64::from(least) - 1.25 * APART..f64::from(most) + 0.15;
        Self { range, labels, scale: Scale::LogAndZero { least: f64::from(least) } }
    }

    /// Where a value stands between the ends, 0 to 1 within them.
    fn share(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::LogAndZero { least } if value <= 0.0 => least - APART,
            Scale::LogAndZero { least } => value.log10().max(least),
        };
        (place - self.range.start) / (self.range.end - self.range.start)
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a cast to i32 saturates, and pixels are whole")]
    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        (f64::from(from) + f64::from(to - from) * self.share(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labels.clone()
    }

    /// In values, so that a grid reaches from end to end.
    fn range(&self) -> Range<f64> {
        match self.scale {
            Scale::Linear => self.range.clone(),
            Scale::Log | Scale::LogAndZero { .. } => 10_f64.powf(self.range.start)..10_f64.powf(self.range.end),
        }
    }
}

/// Round numbers from zero to `most`, about so many.
fn round(most: f64, steps: u32) -> Vec<f64> {
    let step = round_step(most / f64::from(steps.max(1)));
    let labels = (0..=2 * steps).map(|index| f64::from(index) * step);
    labels.filter(|&label| label <= most * 1.001).collect()
}

/// The least of 1, 2 and 5 times a power of ten that is as long, and no less than one.
fn round_step(least: f64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(60) {
        if step >= least {
            break;
        }
        step *= factor;
    }
    step
}

#[expect(clippy::cast_possible_truncation, reason = "a power of ten is a small number, and the cast saturates")]
fn whole(power: f64) -> i32 {
    power as i32
}

/// How far from the least value nothing at all stands, in powers of ten.
const APART: f64 = 0.6;

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
        ] {
            assert_eq!(Axis::counts(most, 4).labels, labels, "{most}");
        }
    }

    #[test]
    fn a_log_axis_has_labels_within_its_ends() {
        assert_eq!(Axis::log(0.01, 1.0).labels.len(), 5, "1 and 3 of each");
        assert_eq!(Axis::log(1e-4, 10.0).labels.len(), 6);
        assert!(!Axis::log(0.1, 0.1).labels.is_empty());
        for (least, most) in [(0.0, 0.0), (1e-9, 1e9), (0.5, 0.1)] {
            assert!(Axis::log(least, most).map(&least, (0, 100)) >= 0);
        }
    }

    #[test]
    fn nothing_stands_apart_from_little() {
        let axis = Axis::log_and_zero(-2, 2);
        let at = |value: f64| axis.map(&value, (0, 1000));
        assert!(at(0.0) > 0 && at(0.0) + 80 < at(0.01) && at(0.01) < at(1.0) && at(100.0) < 1000);
        assert_eq!(at(0.0001), at(0.01), "less than the least is shown as the least");
    }
}
