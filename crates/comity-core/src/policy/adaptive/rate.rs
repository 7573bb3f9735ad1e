//! Refusals teach the rate.
//!
//! A refusal begins an *episode*: trials, each farther from the last, until one is admitted. At a refusal a token bucket is
//! empty. So what it admits from then on is bounded from both sides by its rate: after `n` more in a span `t` the rate is at
//! least `(n − 1) ÷ t`, and when the next one is refused it is less than `(n + 1) ÷ t`, whatever the burst.

use core::time::Duration;

use super::AdaptiveSettings;
use crate::policy::bytes::{Reader, Writer};
use crate::time::{Instant, nanos};

/// What the policy is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Never refused: faster and faster.
    Cold,
    /// Between what is known to be good and what is known not to be.
    Search,
    /// Just under the limit.
    Settled,
    /// A little faster, to see whether the limit is still there.
    Probe,
}

/// The pace between episodes, and how far an episode is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    phase: Phase,
    /// Nanoseconds between starts, outside episodes.
    interval: u64,
    /// Nanoseconds between trials; 0 outside episodes.
    trial: u64,
    /// The fastest pace known to be good, and the slowest known not to be, as intervals; 0 where none is.
    good: u64,
    bad: u64,
    /// When the request started at whose refusal the host had nothing left, and what it admitted since.
    empty: Instant,
    since_empty: u32,
    /// When the first refused request of the last episode started.
    refused: Instant,
    /// When the request started whose admission ended the last episode, or the first one; and what was admitted since.
    cycle: Instant,
    admitted: u32,
    /// Trials refused in this episode, and when the last request that was refused started.
    refused_last: Instant,
    /// How long the last episode was: the host may have saved up for us meanwhile. Its length was the host's own advice.
    rest: u64,
    advised: bool,
    /// How often a probe was refused: each doubles the hold before the next.
    tries: u8,
    /// Requests to be admitted before the first probe: the better the limit is known, the more.
    sure: u16,
    /// The settled pace that the last probe began from.
    held: u64,
    episodes: u16,
    /// When this step or hold began, and requests admitted since.
    step_began: Instant,
    step_admitted: u32,
    step_size: u16,
    hold: u64,
    /// The span of the host's window in milliseconds, where it seems to have one.
    span: u32,
}

impl Rate {
    pub(super) fn new(settings: &AdaptiveSettings) -> Self {
        Self {
            phase: Phase::Cold,
            interval: nanos(settings.start),
            trial: 0,
            good: 0,
            bad: 0,
            empty: Instant::ZERO,
            since_empty: 0,
            refused: Instant::ZERO,
            cycle: Instant::ZERO,
            admitted: 0,
            refused_last: Instant::ZERO,
            rest: 0,
            advised: false,
            tries: 0,
            sure: HOLD_ADMITTED as u16,
            held: 0,
            episodes: 0,
            step_began: Instant::ZERO,
            step_admitted: 0,
            step_size: FIRST_STEP,
            hold: 0,
            span: 0,
        }
    }

    pub(super) fn interval(&self) -> u64 {
        if self.trial == 0 { self.interval } else { self.trial }
    }

    pub(super) fn is_cold(&self) -> bool {
        self.phase == Phase::Cold
    }

    pub(super) fn is_refused(&self) -> bool {
        self.trial != 0
    }

    pub(super) fn resumed(&mut self, started: Instant) {
        self.cycle = started;
        self.admitted = 0;
        self.since_empty = MANY;
        self.step_began = started;
        self.step_admitted = 0;
        self.trial = 0;
        match self.phase {
            Phase::Probe => self.good = self.held - self.held / MARGIN,
            Phase::Search => self.good = mean(self.good.max(self.interval), self.interval),
            _ => {}
        }
        if self.phase != Phase::Cold && self.good > 0 {
            self.settle(started);
            self.hold = nanos(TRUST);
        }
    }

    pub(super) fn refused(&mut self, started: Instant, advised: bool, settings: &AdaptiveSettings) {
        if self.trial == 0 {
            self.episodes = self.episodes.saturating_add(1);
            self.refused = started;
            self.objected(started);
            self.advised = advised;
            self.trial = self.first_trial(started);
        } else {
            if !advised {
                self.trial = self.next_trial(started);
            }
            let waited = nanos(started.since(self.empty));
            if self.since_empty == 0 {
                self.bad = self.bad.max(waited);
            }
        }
        self.refused_last = started;
        self.trial = self.trial.clamp(1, nanos(settings.ceiling.max(TRIAL_MOST)).max(self.interval));
    }

    /// The host refuses at the present pace.
    fn objected(&mut self, started: Instant) {
        let last = self.interval;
        let count = u64::from(self.since_empty);
        if self.phase == Phase::Cold {
            self.bad = last;
        } else if self.span > 0 {
            // The episode's end will tell.
        } else if self.phase == Phase::Probe {
            self.bad = last;
            self.good = self.held;
            self.tries = (self.tries + 1).min(MOST_TRIES);
            self.aim();
        } else if self.since_empty >= MANY {
            self.bad = last;
            self.good = last + last / CONTENDED;
            self.interval = self.good;
        } else {
            let took = nanos(started.since(self.empty));
            let good = if count > 1 { took / (count - 1) } else { took * 2 }.max(last);
            let bad = took.saturating_sub(self.rest / 2) / (count + 1);
            self.sure = (8 * count).clamp(HOLD_ADMITTED, 8 * HOLD_ADMITTED) as u16;
            self.tries = 0;
            if self.good != 0 && self.good < bad {
                // A pace that held for a while, and an average that did not: a window, or a burst that was saved up.
                self.bad = self.good.max(last);
                self.good = good;
            } else {
                self.good = if self.good == 0 { good } else { self.good.min(good) };
                self.bad = bad.max(last).min(self.good);
            }
            self.aim();
        }
        if self.since_empty >= ENOUGH || self.phase == Phase::Cold {
            self.empty = started;
            self.since_empty = 0;
        }
        if self.phase != Phase::Cold && self.span == 0 {
            self.phase = Phase::Search;
        }
    }

    fn first_trial(&self, started: Instant) -> u64 {
        if self.phase == Phase::Cold {
            return (self.interval * 20).clamp(nanos(FIRST_TRIAL) / 4, nanos(FIRST_TRIAL)).max(self.interval * 2);
        }
        if self.span > 0 {
            // The first window since the last episode ends when it should; later ones may have begun at any time.
            let ahead = nanos(self.cycle.after(Duration::from_millis(u64::from(self.span))).after(SLACK).since(started));
            if ahead > 0 {
                return ahead.max(self.interval * 2);
            }
            if self.phase == Phase::Probe {
                // So much sooner than it ends was it used up.
                let early = u64::from(self.span) * 1000 * u64::from(self.step_size) / 1024 * 1000;
                return early.max(self.interval * 2);
            }
        }
        (self.interval * 2).clamp(nanos(LEAST_TRIAL), nanos(FIRST_TRIAL).max(self.interval * 2))
    }

    /// Where a window of a usual span would end, one that began with this cycle or, at the latest, with the refusal; else
    /// three times as far as the last trial.
    fn next_trial(&self, started: Instant) -> u64 {
        for span in WINDOWS {
            let (first, last) = (self.cycle.after(span).after(SLACK), self.refused.after(span).after(SLACK));
            if span >= MINUTE && nanos(started.since(first)) < 2 * nanos(SLACK) && first <= started && started < last {
                return nanos(last.since(started));
            }
            let ahead = nanos(first.since(started));
            let far = if span <= MINUTE && self.admitted >= FEW { 16 } else { 4 };
            if ahead > self.trial / 2 && ahead <= self.trial.saturating_mul(far) {
                return ahead;
            }
        }
        self.trial.saturating_mul(3)
    }

    /// A request was admitted. True where that ended an episode.
    pub(super) fn admitted(&mut self, now: Instant, started: Instant, changed: Instant, latency: u64, settings: &AdaptiveSettings) -> bool {
        if self.cycle == Instant::ZERO {
            self.cycle = started;
            self.step_began = started;
        }
        let ended = self.trial != 0 && started >= changed;
        if ended {
            self.episode_ended(started, settings);
        }
        self.admitted = self.admitted.saturating_add(1);
        if started > self.empty {
            self.since_empty = self.since_empty.saturating_add(1);
        }
        self.step_admitted = self.step_admitted.saturating_add(1);
        if !ended && self.trial == 0 {
            match self.phase {
                Phase::Cold => self.grow(now, latency),
                Phase::Search => self.search(started),
                Phase::Settled => {
                    if nanos(now.since(self.step_began)) >= self.hold {
                        self.phase = Phase::Probe;
                        let patient = if self.span > 0 { WINDOW_STEP } else { self.interval.saturating_mul(2048) / nanos(PROBE_MOST) };
                        self.step_size = u16::try_from(patient).unwrap_or(MOST_STEP).clamp(LEAST_STEP, MOST_STEP);
                        self.held = self.interval;
                        self.faster(now);
                    }
                }
                Phase::Probe => self.probe(now),
            }
            self.bound(settings);
        }
        ended
    }

    fn episode_ended(&mut self, started: Instant, settings: &AdaptiveSettings) {
        let window = nanos(started.since(self.cycle));
        let count = u64::from(self.admitted).max(1);
        let several = self.refused_last > self.refused;
        let cold = self.phase == Phase::Cold;
        self.rest = nanos(started.since(self.refused));
        self.trial = 0;
        let mean = window / count;
        // A bucket would have had something long before.
        let tokens = if cold || self.good == 0 { mean * 4 } else { self.good * 4 };
        let windowed = if several { cold || nanos(self.refused_last.since(self.refused)) > tokens } else { self.rest > tokens.max(nanos(GRAIN)) };
        if self.span > 0 {
            self.window_ended(window, count, started);
        } else if windowed && count >= u64::from(FEW) {
            self.span = u32::try_from(window / 1_000_000).unwrap_or(u32::MAX);
            self.good = mean.max(self.interval);
            self.settle(started);
        } else if cold {
            let gentle = self.interval + self.interval * 4 * u64::from(self.step_size) / 1024;
            self.interval = mean.max(self.interval).min(gentle).max(self.bad);
            self.phase = Phase::Search;
            self.good = 0;
        }
        self.bound(settings);
        self.cycle = started;
        self.admitted = 0;
        self.begin_step(started);
    }

    /// An episode of a host with windows ended.
    fn window_ended(&mut self, window: u64, count: u64, started: Instant) {
        let span = u64::from(self.span) * 1_000_000;
        if self.phase == Phase::Probe {
            // Each step was a whole window long: the one before was good.
            self.good = (self.interval + self.interval * u64::from(self.step_size) / 1024).min(self.held);
            self.good -= self.good / MARGIN;
            self.tries = (self.tries + 1).min(MOST_TRIES);
        } else if window < span / 2 || count == 1 {
            // It was none after all.
            self.span = 0;
            self.phase = Phase::Search;
            self.good = (window / count).max(self.interval);
            self.bad = self.interval;
            self.aim();
            return;
        } else if window < span * 2 {
            self.good = (window / count).max(self.interval);
            self.span = u32::try_from(window / 1_000_000).unwrap_or(u32::MAX);
        } else {
            self.good = self.interval + self.interval / MARGIN;
        }
        self.settle(started);
    }

    /// Never refused: faster by half, and gently once a refusal would come in company.
    fn grow(&mut self, now: Instant, latency: u64) {
        let took = nanos(now.since(self.step_began));
        if self.step_admitted < FIRST_STEP_ADMITTED || took < nanos(STEP_LEAST) {
            return;
        }
        if self.used(now) {
            if self.interval < latency / 3 * 2 {
                self.step_size = GENTLE_STEP;
            }
            self.faster(now);
        } else {
            self.begin_step(now);
        }
    }

    fn search(&mut self, started: Instant) {
        let count = u64::from(self.since_empty);
        if count < 2 {
            return;
        }
        let good = (nanos(started.since(self.empty)) / (count - 1)).max(self.interval);
        if self.good == 0 || good < self.good {
            self.good = good;
        }
        if self.bad >= self.good {
            self.bad = self.good - self.good / 10;
        }
        let took = nanos(started.since(self.step_began));
        if took > nanos(PROBE_LEAST) && (u64::from(self.step_admitted) * self.width() > 8192 || took > nanos(PROBE_MOST)) {
            if self.used(started) {
                self.good = self.good.min(self.interval);
            }
            self.begin_step(started);
        }
        self.aim_up(started);
    }

    fn aim(&mut self) {
        let width = self.width();
        self.interval = if width <= CLOSE {
            self.good + self.good / MARGIN
        } else if width <= 512 {
            self.good - (self.good - self.bad) / 4
        } else {
            mean(self.good, self.bad).max(self.good * 2 / 3)
        };
    }

    fn aim_up(&mut self, now: Instant) {
        let last = self.interval;
        self.aim();
        if self.width() <= CLOSE {
            self.settle(now);
        } else {
            self.interval = self.interval.min(last);
        }
    }

    fn settle(&mut self, now: Instant) {
        self.phase = Phase::Settled;
        self.interval = self.good + self.good / MARGIN;
        self.bad = self.good - self.good / 50;
        let hold = self.interval.saturating_mul(u64::from(self.sure)).max(nanos(HOLD_LEAST)) << self.tries;
        let dear = if self.span > 0 { u64::from(self.span) * 2_000_000 } else { self.rest.saturating_mul(60) };
        self.hold = hold.max(dear).min(nanos(HOLD_MOST));
        self.begin_step(now);
    }

    fn probe(&mut self, now: Instant) {
        if u64::from(self.step_admitted) * u64::from(self.step_size) < 2048 || nanos(now.since(self.step_began)) < self.probe_least() {
            return;
        }
        if self.used(now) {
            self.step_size = (self.step_size + self.step_size / 2).min(MOST_STEP);
            self.faster(now);
        } else {
            self.begin_step(now);
        }
    }

    /// A step lasts long enough for the host to object.
    fn probe_least(&self) -> u64 {
        nanos(PROBE_LEAST).max((u64::from(self.span) * 1_000_000).min(nanos(MINUTE)))
    }

    fn faster(&mut self, now: Instant) {
        self.interval = self.interval * 1024 / (1024 + u64::from(self.step_size));
        self.begin_step(now);
    }

    /// Whether the pace is what bound since the step began.
    fn used(&self, now: Instant) -> bool {
        self.interval.saturating_mul(u64::from(self.step_admitted)) >= nanos(now.since(self.step_began)) / 5 * 4
    }

    fn begin_step(&mut self, now: Instant) {
        self.step_began = now;
        self.step_admitted = 0;
    }

    /// How much faster what is not good is than what is, in 1/1024.
    fn width(&self) -> u64 {
        if self.good <= self.bad { 0 } else { (self.good - self.bad).saturating_mul(1024) / self.bad.max(1) }
    }

    fn bound(&mut self, settings: &AdaptiveSettings) {
        self.interval = self.interval.clamp(nanos(settings.floor).max(1), nanos(settings.ceiling));
    }

    pub(super) fn shift(&mut self, shift: &impl Fn(Instant) -> Instant) {
        for at in [&mut self.empty, &mut self.refused, &mut self.refused_last, &mut self.cycle, &mut self.step_began] {
            *at = shift(*at);
        }
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        let _ = out;
    }

    pub(super) fn read(_from: &mut Reader<'_>) -> Option<Self> {
        None
    }
}

/// The geometric mean.
fn mean(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)).isqrt()).unwrap_or(a)
}

const FIRST_STEP: u16 = 512;
const GENTLE_STEP: u16 = 100;
const FIRST_STEP_ADMITTED: u32 = 4;
const LEAST_STEP: u16 = 20;
const WINDOW_STEP: u64 = 50;
const MOST_STEP: u16 = 256;
const GRAIN: Duration = Duration::from_millis(1500);
const PROBE_MOST: Duration = Duration::from_secs(30);
/// Half a percent.
const MARGIN: u64 = 200;
const CONTENDED: u64 = 16;
/// 4 %.
const CLOSE: u64 = 40;
const MANY: u32 = 400;
const ENOUGH: u32 = 64;
const HOLD_ADMITTED: u64 = 100;
const HOLD_LEAST: Duration = Duration::from_secs(2);
const MOST_TRIES: u8 = 8;
const HOLD_MOST: Duration = Duration::from_secs(180);
const PROBE_LEAST: Duration = Duration::from_secs(4);
const STEP_LEAST: Duration = Duration::from_millis(500);
const FIRST_TRIAL: Duration = Duration::from_secs(1);
const LEAST_TRIAL: Duration = Duration::from_millis(100);
const SLACK: Duration = Duration::from_millis(50);
const TRUST: Duration = Duration::from_secs(900);
/// Fewer say nothing of a window.
const FEW: u32 = 8;
const MINUTE: Duration = Duration::from_secs(60);
const TRIAL_MOST: Duration = Duration::from_secs(900);
const WINDOWS: [Duration; 5] = [
    Duration::from_secs(10),
    MINUTE,
    Duration::from_secs(300),
    Duration::from_secs(900),
    Duration::from_secs(3600),
];
