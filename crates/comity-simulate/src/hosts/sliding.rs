//! Sliding window log: so many requests in any window of time, of whatever begin.

use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::law::{Law, Left, Standing, Verdict, secs};
use super::said::{ModelError, Said, within};
use super::spread::Spread;

/// `kind = "sliding"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlidingSettings {
    /// Requests in any window.
    pub(super) count: u32,
    /// Its length.
    pub(super) span: Said,
}

impl SlidingSettings {
    pub(super) fn build(&self) -> Result<Sliding, ModelError> {
        let count = within("count", self.count, 1, MOST_LOGGED)?;
        let span = self.span.some_span("span")?;
        Ok(Sliding { span, leaves: vec![0; count as usize].into_boxed_slice(), oldest: 0 })
    }
}

/// The log: when each of the last requests leaves the window, oldest first from `oldest` on and around.
#[derive(Clone, Debug)]
pub(super) struct Sliding {
    span: u64,
    leaves: Box<[u64]>,
    oldest: usize,
}

impl Sliding {
    /// When the oldest of those that are still in the window leaves it, and how many have left.
    fn first_left(&self, now: u64) -> (Option<u64>, usize) {
        let (newer, older) = self.leaves.split_at(self.oldest.min(self.leaves.len()));
        let gone = |part: &[u64]| part.partition_point(|leaves| *leaves <= now);
        let left = gone(older);
        if let Some(first) = older.get(left) {
            return (Some(*first), left);
        }
        let more = gone(newer);
        (newer.get(more).copied(), left + more)
    }
}

impl Law for Sliding {
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict {
        let Some(oldest) = self.leaves.get_mut(self.oldest).filter(|oldest| **oldest <= now) else {
            return Verdict::Refused;
        };
        *oldest = now.saturating_add(self.span);
        self.oldest = (self.oldest + 1) % self.leaves.len();
        Verdict::Served { after: latency.draw(rng), waited: None }
    }

    fn standing(&self, now: u64) -> Standing {
        let (first, remaining) = self.first_left(now);
        let resets_in = first.map_or(0, |first| first - now);
        let left = Left { limit: self.leaves.len() as u64, window: self.span, remaining: remaining as u64, resets_in };
        Standing { lets_in: if remaining > 0 { 0 } else { resets_in }, left: Some(left) }
    }

    /// `count / span`.
    fn rate(&self, _: &Spread) -> f64 {
        self.leaves.len() as f64 / secs(self.span)
    }

    /// Each of `count` places gives one as soon as it is free, and one more after every `span`.
    fn takes_all(&mut self, from: u64, to: u64, _: &Spread) -> f64 {
        let served = fills_places(&mut self.leaves, from, to, self.span);
        self.leaves.sort_unstable();
        self.oldest = 0;
        served
    }
}

/// What so many places serve between two instants, each free when it says, if each is taken as soon as it is free and held
/// for a span. They are left as they are then.
pub(super) fn fills_places<'a>(free: impl IntoIterator<Item = &'a mut u64>, from: u64, to: u64, held: u64) -> f64 {
    let mut served = 0.0;
    for free in free {
        let taken = to.saturating_sub(from.max(*free)).div_ceil(held.max(1));
        if taken > 0 {
            *free = from.max(*free).saturating_add(taken.saturating_mul(held));
        }
        served += taken as f64;
    }
    served
}

/// Each costs eight bytes.
const MOST_LOGGED: u32 = 1_000_000;
