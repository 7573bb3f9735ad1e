//! A limit that others use as well.
//!
//! A pace that had settled is refused only where the limit moved, or where others came. Between clients who know nothing of
//! each other the pace is fair where it rises with time, the same for all, and falls with each refusal, of which who sends
//! more gets more: then shares approach each other. The rise quickens the longer nobody objected, so that who has little
//! catches up soon.
//!
//! Alone at its limit, a client is admitted at the same mean rate from one refusal to the next, whatever it does between.
//! Where two such rates agree, it is alone, and settles.

use core::time::Duration;

use super::rate::{LEAST_SURE, MOST_SURE, Phase, Rate, SURE_EACH};
use crate::time::{Instant, nanos};

impl Rate {
    /// A settled pace was refused, or bounds contradict each other.
    pub(super) fn shares(&mut self, started: Instant) {
        self.shared = false;
        self.held = 0;
        self.gives_way(started);
    }

    /// Refused: slower, unless the mean rate since the last refusal is the one before that.
    pub(super) fn gives_way(&mut self, started: Instant) {
        let last = self.interval;
        let count = u64::from(self.since_empty);
        let mean = (count > FEW).then(|| nanos(started.since(self.empty)) / (count - 1));
        self.tries = 0;
        self.bad = last;
        if let Some(mean) = mean.filter(|mean| self.held != 0 && self.is_alone(*mean, count)) {
            self.shared = false;
            self.good = self.good.min(mean).min(self.held);
            self.sure = u16::try_from(SURE_EACH * count).unwrap_or(MOST_SURE).clamp(LEAST_SURE, MOST_SURE);
            self.settle(started);
            return;
        }
        self.shared = true;
        self.interval = last.saturating_add(if count < FEW { last / 4 } else { last / 7 });
        // The faster of the two last means: a bucket that was full in between lost some.
        self.good = mean.map_or(self.interval, |mean| if self.held == 0 { mean } else { mean.min(self.held) });
        self.held = mean.unwrap_or(0);
        self.phase = Phase::Probe;
        self.begin_step(started);
    }

    fn is_alone(&self, mean: u64, count: u64) -> bool {
        mean.abs_diff(self.held) <= mean / 64 + mean / count * 2
    }

    /// Faster with time.
    pub(super) fn regrow(&mut self, now: Instant) {
        let took = nanos(now.since(self.step_began));
        if took < nanos(STEP) || self.step_admitted < 2 {
            return;
        }
        if self.is_used(now) {
            // As long as a rise by an eighth takes at first: twenty seconds, or as many requests.
            let calm_span = self.interval.max(nanos(CALM / CALM_REQUESTS)).saturating_mul(u64::from(CALM_REQUESTS));
            let millis = |span: u64| span / 1_000_000;
            let calm = millis(nanos(now.since(self.refused_last)).min(8 * calm_span)) * 1000 / millis(calm_span).max(1);
            let quicker = (calm * calm / 1000).clamp(1000, QUICKEST);
            let rise = millis(took.min(calm_span)) * RISE * quicker / 1000 / millis(calm_span).max(1);
            self.interval -= self.interval / 1000 * rise.min(MOST_RISE);
        }
        self.begin_step(now);
    }
}

/// A step up, at least (A9).
const STEP: Duration = Duration::from_secs(2);
/// After so long without a refusal the rise quickens, with the square of the time.
const CALM: Duration = Duration::from_secs(20);
const CALM_REQUESTS: u32 = 20;
/// In so long the pace rises by so much, in 1/1000; at most so many times as fast, and so much at once.
const RISE: u64 = 120;
const QUICKEST: u64 = 20_000;
const MOST_RISE: u64 = 200;
/// Fewer say next to nothing of a mean rate.
const FEW: u64 = 8;
