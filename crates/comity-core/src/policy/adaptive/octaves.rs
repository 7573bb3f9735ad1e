//! A coarse picture of a host's latencies: enough to tell one population from two (A6).

use core::time::Duration;

/// Recent answers by the octave of their latency, five bits each: under 2 ms, then each twice the last, to 2 s and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Octaves(u64);

impl Octaves {
    /// From bits that it once had.
    pub(super) fn of_bits(bits: u64) -> Self {
        Self(bits & ALL)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn add(&mut self, latency: Duration) {
        let millis = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        let octave = (millis | 1).ilog2().min(LAST);
        if self.of(octave) == FULL {
            // All forget half.
            self.0 = self.0 >> 1 & HALVED;
        }
        self.0 += 1 << (octave * BITS);
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
        self.0 >> (octave * BITS) & FULL
    }
}

const BITS: u32 = 5;
const LAST: u32 = 11;
const FULL: u64 = (1 << BITS) - 1;
const ALL: u64 = (1 << (BITS * (LAST + 1))) - 1;
/// What five bits are when halved, without the bit of their neighbour.
const HALVED: u64 = ALL / FULL * (FULL >> 1);
const GAP: u32 = 2;
/// Fewer answers tell nothing; as many are left when half were forgotten.
const ENOUGH: u64 = 16;
/// One in so many is a group: of [`ENOUGH`], two.
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
    fn a6_one_in_five_is_seen_at_any_time() {
        let mut octaves = of(&[5, 5, 5, 5, 400]);
        for n in 0..1000 {
            octaves.add(Duration::from_millis(if n % 5 == 0 { 400 } else { 5 }));
            assert!(octaves.is_bimodal(), "after {n} more");
        }
    }

    #[test]
    fn a6_the_shortest_and_the_longest_have_a_place() {
        for nanos in [0, 1, u64::MAX] {
            let mut octaves = Octaves::default();
            for _ in 0..100 {
                octaves.add(Duration::from_nanos(nanos));
            }
            assert!(!octaves.is_bimodal());
            assert_eq!(Octaves::of_bits(octaves.bits()), octaves);
        }
        assert_eq!(Octaves::of_bits(u64::MAX).bits(), ALL);
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
