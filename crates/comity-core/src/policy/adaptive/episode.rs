//! While the host refuses: trials, each farther from the last, one at a time, until one is admitted.
//!
//! How long that takes tells a window from a bucket, which would have had a token long before. A window's sustained rate is
//! what was admitted from the beginning of one to the beginning of the next.

use core::time::Duration;

use super::AdaptiveSettings;
use super::rate::{MARGIN, MINUTE, Phase, Rate, WHOLE};
use crate::time::{Instant, nanos};

impl Rate {
    /// A request that started then was refused: the first of an episode, or a trial. `advice` where the host said for how
    /// long it wants to be left alone; that is obeyed elsewhere (A7).
    pub(super) fn refused(&mut self, started: Instant, advice: Option<Duration>, settings: &AdaptiveSettings) {
        let advised = advice.is_some();
        if !self.is_refused() {
            self.episodes = self.episodes.saturating_add(1);
            self.refused = started;
            self.objected(started);
            self.bound(settings);
            self.advised = advised;
            // The host's own time is kept elsewhere (A7).
            self.trial = if advised { nanos(LEAST_TRIAL).max(self.interval) } else { self.first_trial(started) };
        } else {
            if self.since_empty == 0 {
                // Not even one token in this time.
                self.bad = self.bad.max(nanos(started.since(self.empty)));
            }
            if !advised {
                self.trial = self.next_trial(started);
            }
        }
        if let Some(advice) = advice {
            self.rest = nanos(advice);
        }
        self.refused_last = started;
        let most = nanos(settings.ceiling.max(TRIAL_MOST)).max(self.interval);
        self.trial = self.trial.clamp(1, most);
    }

    /// Whether a rest up to then is the host's own wish, or ours to leave it alone.
    pub(super) fn is_paused(&self, started: Instant) -> bool {
        let longest = if self.advised { self.rest.min(nanos(ADVICE_MOST)) } else { self.trial };
        let longest = Duration::from_nanos(longest.saturating_mul(2)).max(ADVICE_SLACK);
        self.is_refused() && started.since(self.refused_last) <= longest
    }

    fn first_trial(&self, started: Instant) -> u64 {
        if self.phase == Phase::Cold {
            let some = self.interval.saturating_mul(20).clamp(nanos(FIRST_TRIAL) / 4, nanos(FIRST_TRIAL));
            return some.max(self.interval.saturating_mul(2));
        }
        let twice = self.interval.saturating_mul(2);
        if self.span > 0 {
            // The first window since the last episode ends when it should; later ones may have begun at any time.
            let ends = self.cycle.after(Duration::from_millis(u64::from(self.span))).after(SLACK);
            if ends > started {
                return nanos(ends.since(started)).max(twice);
            }
            if self.phase == Phase::Probe {
                // As much faster as it went, so much sooner was the window used up.
                return (self.span_nanos() / WHOLE * u64::from(self.step_size)).max(twice);
            }
        }
        twice.clamp(nanos(LEAST_TRIAL), nanos(FIRST_TRIAL).max(twice))
    }

    /// Where a window of a usual span would end, one that began with this cycle or, at the latest, with the refusal; else
    /// three times as far as the last trial.
    fn next_trial(&self, started: Instant) -> u64 {
        let scale = self.trial.max(nanos(started.since(self.refused)) / 2);
        let ends = self.refused.after(Duration::from_nanos(self.span_nanos())).after(SLACK);
        if self.span > 0 && ends > started {
            // Every window that was open at the refusal is over by then.
            return scale.saturating_mul(3).min(nanos(ends.since(started)));
        }
        for span in WINDOWS {
            let (first, last) = (self.cycle.after(span).after(SLACK), self.refused.after(span).after(SLACK));
            let just_tried = started.after(SLACK) >= first && started.since(first) < 2 * SLACK;
            if span >= MINUTE && just_tried && started < last {
                return nanos(last.since(started));
            }
            let ahead = nanos(first.since(started));
            let far = if span <= MINUTE && self.admitted >= MORE { 16 } else { 4 };
            if ahead > scale / 2 && ahead <= scale.saturating_mul(far) {
                return ahead;
            }
        }
        scale.saturating_mul(3)
    }

    /// A trial that started then was admitted.
    pub(super) fn episode_ended(&mut self, started: Instant) {
        let cycle = nanos(started.since(self.cycle));
        let count = u64::from(self.admitted).max(1);
        let cold = self.phase == Phase::Cold;
        self.rest = nanos(started.since(self.refused));
        self.trial = 0;
        let average = cycle / count;
        if self.span > 0 {
            self.window_ended(cycle, count, started);
        } else if self.admitted >= FEW && self.is_window(average) {
            self.span = u32::try_from(cycle / 1_000_000).unwrap_or(u32::MAX);
            self.good = average.max(self.interval);
            self.settle(started);
        } else if cold {
            // A guess: what was admitted on the whole, but no slower than growth like that can have overshot.
            let overshot = self.interval + self.interval.saturating_mul(4 * u64::from(self.step_size)) / WHOLE;
            self.interval = average.max(self.interval).min(overshot).max(self.bad / 4);
            self.bad = self.bad.min(self.interval);
            self.phase = Phase::Search;
            self.good = 0;
        }
        self.cycle = started;
        self.admitted = 0;
        self.begin_step(started);
    }

    /// Whether a bucket would have had tokens long before this episode ended.
    fn is_window(&self, average: u64) -> bool {
        let refusing = nanos(self.refused_last.since(self.refused));
        let cold = self.phase == Phase::Cold;
        let tokens = TOKENS * if cold || self.good == 0 { average } else { self.good };
        if refusing > 0 {
            refusing > if cold { tokens / 2 } else { tokens }
        } else {
            self.rest > tokens.max(nanos(ADVICE_GRAIN))
        }
    }

    /// An episode of a host with windows ended.
    fn window_ended(&mut self, cycle: u64, count: u64, started: Instant) {
        let average = (cycle / count).max(self.interval);
        let span = self.span_nanos();
        if self.phase == Phase::Probe {
            // Each step was a whole window long: the one before was good.
            let before = self.interval + self.interval.saturating_mul(u64::from(self.step_size)) / WHOLE;
            self.good = before.min(self.held);
            self.good -= self.good / MARGIN;
            self.fails();
        } else if cycle < span / 2 || count == 1 {
            // It was none after all.
            self.span = 0;
            self.phase = Phase::Search;
            self.good = average;
            self.bad = self.interval;
            return;
        } else if cycle < span * 2 || self.rest > span / 4 * 5 {
            self.good = average;
            self.span = u32::try_from(cycle / 1_000_000).unwrap_or(u32::MAX);
        } else {
            // Many windows went well. This one was used up before its end: between the last trial that was refused and the one
            // that was not.
            let refusing = nanos(self.refused_last.since(self.refused));
            let early = (refusing / 2 + self.rest / 2).min(span / 2);
            let early = self.interval.saturating_mul(WHOLE) / ((span - early) / (span / WHOLE).max(1)).max(1);
            self.good = early.max(self.interval + self.interval / MARGIN);
        }
        self.settle(started);
    }

    fn span_nanos(&self) -> u64 {
        u64::from(self.span) * 1_000_000
    }
}

/// The first trial after a first refusal: advice is given in seconds, too.
const FIRST_TRIAL: Duration = Duration::from_secs(1);
const LEAST_TRIAL: Duration = Duration::from_millis(100);
/// Windows of hours are waited for in quarters of one.
const TRIAL_MOST: Duration = Duration::from_secs(900);
const ADVICE_MOST: Duration = Duration::from_secs(86_400);
const ADVICE_SLACK: Duration = Duration::from_secs(10);
/// Advice in whole seconds may be that much too long.
const ADVICE_GRAIN: Duration = Duration::from_millis(1500);
/// For clocks and ways that differ.
const SLACK: Duration = Duration::from_millis(50);
/// So many at once are a window rather than a burst.
const MORE: u32 = 24;
/// Fewer say nothing of a window.
const FEW: u32 = 8;
/// A bucket has one after one interval; twice that and twice again is no accident.
const TOKENS: u64 = 4;
/// What people set.
const WINDOWS: [Duration; 5] =
    [Duration::from_secs(10), MINUTE, Duration::from_secs(300), Duration::from_secs(900), Duration::from_secs(3600)];
