//! A coarse picture of a host's latencies: enough to tell one population from two (A6).

use core::time::Duration;

/// Recent answers by the octave of their latency, four bits each: under 1 ms, then each twice the last, to 16 s and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Octaves(pub(super) u64);

impl Octaves {
    pub(super) fn add(&mut self, latency: Duration) {
        let millis = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        let octave = (u64::BITS - millis.leading_zeros()).min(LAST);
        if self.of(octave) == FULL {
            // All forget half.
            self.0 = self.0 >> 1 & HALVED;
        }
        self.0 += 1 << (octave * 4);
    }

    /// Two groups of octaves with [`GAP`] or more empty ones between them, neither of them a mere straggler.
    pub(super) fn is_bimodal(self) -> bool {
        let all: u64 = (0..=LAST).map(|octave| self.of(octave)).sum();
        if all < ENOUGH {
            return false;
        }
        let (mut below, mut empty) = (0, 0);
        for octave in 0..=LAST {
            let here = self.of(octave);
            if here == 0 {
                empty += 1;
                continue;
            }
            if empty >= GAP && below * SHARE >= all && (all - below) * SHARE >= all {
                return true;
            }
            empty = 0;
            below += here;
        }
        false
    }

    fn of(self, octave: u32) -> u64 {
        self.0 >> (octave * 4) & FULL
    }
}

const LAST: u32 = 15;
const FULL: u64 = 15;
/// What four bits are when halved, without the bit of their neighbour.
const HALVED: u64 = 0x7777_7777_7777_7777;
const GAP: u32 = 2;
/// Fewer answers tell nothing.
const ENOUGH: u64 = 8;
/// One in so many is a group.
const SHARE: u64 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(latencies: &[u64]) -> Octaves {
        let mut octaves = Octaves::default();
        for _ in 0..10 {
            for millis in latencies {
                octaves.add(Duration::from_millis(*millis));
            }
        }
        octaves
    }

    #[test]
    fn a6_two_populations_are_told_from_one() {
        assert!(of(&[5, 5, 5, 5, 400]).is_bimodal());
        assert!(of(&[5, 400, 400, 400, 400]).is_bimodal());
        assert!(!of(&[50, 60, 90, 120, 200]).is_bimodal(), "one that is wide");
        assert!(!of(&[5; 20]).is_bimodal());
        let mut straggler = of(&[5; 3]);
        straggler.add(Duration::from_secs(30));
        assert!(!straggler.is_bimodal());
        assert!(!Octaves::default().is_bimodal());
    }

    #[test]
    fn a6_what_was_long_ago_is_forgotten() {
        let mut octaves = of(&[5, 400]);
        for _ in 0..100 {
            octaves.add(Duration::from_millis(5));
        }
        assert!(!octaves.is_bimodal());
    }
}
