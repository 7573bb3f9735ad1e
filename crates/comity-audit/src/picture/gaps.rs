//! The gaps between neighbouring arrivals, counted by their length.

use std::time::Duration;

use crate::arrivals::Gaps;

/// One bar of a histogram; its ends are multiples of the promised spacing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) count: usize,
    /// Whether its gaps are shorter than was promised.
    pub(super) short: bool,
}

/// The bars that are not empty. One ends at the promised spacing exactly, and the last holds all gaps of [`LONG`] spacings
/// and more; it stands a little apart.
pub(super) fn bars(gaps: &Gaps, promised: Duration) -> Vec<Bar> {
    let promised = promised.max(Duration::from_nanos(1));
    let below = |bin: u32| gaps.below(promised.saturating_mul(bin) / PER_SPACING);
    let part = |bin: u32| f64::from(bin) / f64::from(PER_SPACING);
    let bins = (0..LONG * PER_SPACING).map(|bin| Bar {
        from: part(bin),
        to: part(bin + 1),
        count: below(bin + 1) - below(bin),
        short: bin < PER_SPACING,
    });
    let (from, to) = OVERFLOW;
    let long = Bar { from, to, count: gaps.count() - below(LONG * PER_SPACING), short: false };
    bins.chain([long]).filter(|bar| bar.count > 0).collect()
}

/// Spacings at which a gap is called long.
pub(super) const LONG: u32 = 3;
/// Where the bar of long gaps stands.
pub(super) const OVERFLOW: (f64, f64) = (3.5, 3.7);
/// Bars for each spacing.
const PER_SPACING: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(times: &[u64], promised: Duration) -> Vec<(f64, usize, bool)> {
        let times: Vec<_> = times.iter().map(|&at| Duration::from_millis(at)).collect();
        bars(&Gaps::of(&times), promised).iter().map(|bar| (bar.from, bar.count, bar.short)).collect()
    }

    #[test]
    fn a_gap_of_the_promised_length_is_not_short() {
        let second = Duration::from_secs(1);
        assert_eq!(counted(&[0, 1000, 2000, 2999], second), [(0.9, 1, true), (1.0, 2, false)]);
        assert_eq!(counted(&[0, 0, 2999, 5999, 99_999], second), [(0.0, 1, true), (2.9, 1, false), (3.5, 2, false)]);
        assert_eq!(counted(&[7], second), []);
    }

    #[test]
    fn spacings_at_the_edges_do_no_harm() {
        assert_eq!(counted(&[0, 1], Duration::ZERO), [(3.5, 1, false)]);
        assert_eq!(counted(&[0, 1], Duration::MAX), [(0.0, 1, true)]);
    }
}
