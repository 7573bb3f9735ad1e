//! Refusals teach the rate.
//!
//! When it refuses, a token bucket is empty. So what it admits from then on is bounded from both sides by its rate: after
//! `n` more in a span `t` the rate is at least `(n − 1) ÷ t`, and when the next one is refused it is less than
//! `(n + 1) ÷ t`, whatever the burst. Each refusal narrows what is known by as much as was admitted since the last one, so
//! that few are needed: one to find the limit, one or two to know it.
//!
//! Between the two bounds the pace rises, a little at a time, until they are close; then it settles just under the limit,
//! and probes rarely, each failed probe doubling the time to the next. A settled pace that is refused all the same is one
//! that others have a part in ([`super::shared`]). What happens while the host refuses, and how a
//! window is told from a bucket, stands in [`super::episode`].

use core::time::Duration;

use super::AdaptiveSettings;
use crate::time::{Instant, nanos};

/// What the pace is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Never refused: faster and faster.
    Cold,
    /// Between what is known to be good and what is known not to be.
    Search,
    /// Just under the limit.
    Settled,
    /// A little faster, to see whether the limit is still there.
    Probe,
}

/// The pace, and what is known of the host's rate. Spans are nanoseconds; rates are kept as the intervals they have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) phase: Phase,
    /// The interval outside episodes.
    pub(super) interval: u64,
    /// The span between trials in an episode; 0 outside.
    pub(super) trial: u64,
    /// The fastest pace known to be good, and the slowest known not to be; 0 where none is.
    pub(super) good: u64,
    pub(super) bad: u64,
    /// When the request started at whose refusal the host had nothing left, and what it admitted since.
    pub(super) empty: Instant,
    pub(super) since_empty: u32,
    /// When the first and the last refused request of the last episode started.
    pub(super) refused: Instant,
    pub(super) refused_last: Instant,
    /// When the request started whose admission ended the last episode, or the first one; and what was admitted since.
    pub(super) cycle: Instant,
    pub(super) admitted: u32,
    /// How long the last episode was, in which the host may have saved up for us (in one that is advised: for how long the
    /// host wants to be left alone); and whether that was its own advice.
    pub(super) rest: u64,
    pub(super) advised: bool,
    /// Requests to be admitted before the first probe: the better the limit is known, the more. Each probe that was
    /// refused doubles the hold.
    pub(super) sure: u16,
    pub(super) tries: u8,
    /// Others seem to use the same limit; of a host with windows: it was used up before its time.
    pub(super) shared: bool,
    /// How long the settled pace holds.
    pub(super) hold: u64,
    /// The settled pace that the last probe began from.
    pub(super) held: u64,
    pub(super) episodes: u16,
    /// When this step or hold began, what was admitted since, and how much faster the next step is, in 1/1024.
    pub(super) step_began: Instant,
    pub(super) step_admitted: u32,
    pub(super) step_size: u16,
    /// The span of the host's window in milliseconds, where it seems to have one.
    pub(super) span: u32,
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
            refused_last: Instant::ZERO,
            cycle: Instant::ZERO,
            admitted: 0,
            rest: 0,
            advised: false,
            sure: LEAST_SURE,
            tries: 0,
            shared: false,
            hold: 0,
            held: 0,
            episodes: 0,
            step_began: Instant::ZERO,
            step_admitted: 0,
            step_size: FIRST_STEP,
            span: 0,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// The host refuses, and trials are far apart.
    pub(super) fn is_refused(&self) -> bool {
        self.trial != 0
    }

    /// Others seem to use the same limit.
    pub(super) fn is_shared(&self) -> bool {
        self.shared && self.span == 0
    }

    /// The pace that is known to be good, as far as it is known.
    pub(super) fn known(&self) -> Option<u64> {
        match self.phase {
            Phase::Cold => None,
            Phase::Search => (self.good != 0).then_some(self.good),
            Phase::Settled => Some(self.interval),
            Phase::Probe if self.is_shared() => Some(self.good),
            Phase::Probe => Some(self.held),
        }
    }

    pub(super) fn last_refused(&self) -> Option<Instant> {
        (self.episodes > 0).then_some(self.refused_last)
    }

    pub(super) fn next_probe(&self) -> Option<Instant> {
        (self.phase == Phase::Settled).then(|| self.step_began.after(Duration::from_nanos(self.hold)))
    }

    /// Refusals that taught: those that came together count once.
    pub(super) fn episodes(&self) -> u32 {
        u32::from(self.episodes)
    }

    /// The first request of all started then.
    pub(super) fn first(&mut self, started: Instant) {
        for at in [&mut self.cycle, &mut self.empty, &mut self.refused, &mut self.refused_last, &mut self.step_began] {
            *at = started;
        }
    }

    /// The first request after a rest started then, and what was known lay unused for so many days: the host has saved up
    /// whatever it can. The pace goes on from what was good, and holds all the longer the fresher it is.
    pub(super) fn resumed(&mut self, started: Instant, days: u8) {
        match self.phase {
            Phase::Probe if self.is_shared() => {}
            Phase::Probe => self.good = self.held - self.held / MARGIN,
            Phase::Search => self.good = self.good.max(self.interval),
            _ => {}
        }
        self.shared = false;
        self.trial = 0;
        self.cycle = started;
        self.admitted = 0;
        self.since_empty = MANY;
        self.begin_step(started);
        if self.phase != Phase::Cold && self.good > 0 {
            self.settle(started);
            if self.span == 0 {
                self.tries = 0;
            }
            self.hold = (nanos(TRUST) >> days.min(63)).max(nanos(HOLD_LEAST));
        }
    }

    /// A request was admitted that started then; `counts` where that was after the last change. True where it ended an
    /// episode.
    pub(super) fn admitted(
        &mut self,
        now: Instant,
        started: Instant,
        counts: bool,
        served: bool,
        latency: Option<Duration>,
        settings: &AdaptiveSettings,
    ) -> bool {
        let ends = self.is_refused() && counts;
        if ends {
            self.episode_ended(started);
        }
        self.admitted = self.admitted.saturating_add(1);
        if started > self.empty {
            self.since_empty = self.since_empty.saturating_add(1);
        }
        self.step_admitted = self.step_admitted.saturating_add(1);
        // Only what was served makes it faster (A11).
        if served && counts && !ends && !self.is_refused() {
            match self.phase {
                Phase::Cold => self.grow(now, latency),
                Phase::Search => self.search(started),
                Phase::Settled => self.wait(now),
                Phase::Probe => self.probe(now),
            }
        }
        self.bound(settings);
        ends
    }

    /// Never refused: faster by half, and gently once a refusal would come in company.
    fn grow(&mut self, now: Instant, latency: Option<Duration>) {
        if self.step_admitted < FIRST_STEP_ADMITTED || nanos(now.since(self.step_began)) < nanos(FIRST_STEP_LASTS) {
            return;
        }
        if !self.is_used(now) {
            self.begin_step(now);
            return;
        }
        if latency.is_some_and(|latency| self.interval < nanos(latency) / 3 * 2) {
            self.step_size = GENTLE_STEP;
        }
        self.faster(now);
    }

    fn search(&mut self, started: Instant) {
        let count = u64::from(self.since_empty);
        if count < 2 {
            return;
        }
        let average = (nanos(started.since(self.empty)) / (count - 1)).max(self.interval);
        if self.good == 0 || average < self.good {
            self.good = average;
        }
        if self.bad >= self.good {
            // Refused at a pace that has turned out good: something else was in the way, or the limit moved.
            self.bad = self.good - self.good / 10;
        }
        // What it may have saved up since it was empty, while it was asked more slowly than this; a pace that would have
        // used that up twice is good.
        let took = nanos(started.since(self.empty));
        let saved = (took / self.interval.max(1)).saturating_sub(count);
        let long = u64::from(self.step_admitted).saturating_mul(self.width()) > 2 * WHOLE * (2 + saved.min(MOST_SAVED));
        if long && nanos(started.since(self.step_began)) > nanos(STEP_LEAST) {
            if self.is_used(started) {
                self.good = self.good.min(self.interval);
            }
            self.begin_step(started);
        }
        // What is known from few, or takes long, is not worth to be approached: a probe will tell.
        let slow = nanos(started.since(self.step_began)) > 2 * nanos(STEP_MOST);
        let close = if self.sure > LEAST_SURE && !slow { CLOSE } else { NARROW };
        let late = self.episodes > EARLY && nanos(started.since(self.refused_last)) > 2 * nanos(STEP_MOST);
        if self.width() <= close || late {
            self.settle(started);
        } else {
            // Once in so many answers, or in a control period (A9).
            if count.is_multiple_of(EVERY) || self.interval >= nanos(PERIOD) {
                self.interval = self.interval.min(self.aimed());
            }
        }
    }

    /// Just under the limit: is it time for a probe?
    fn wait(&mut self, now: Instant) {
        if nanos(now.since(self.step_began)) < self.hold {
            return;
        }
        // A step takes so many requests to show; where they are far apart it is larger, to show in time.
        // So it is where little is known.
        let slow = self.first_step();
        let unsure = u64::from(LEAST_STEP) * u64::from(MOST_SURE) / u64::from(self.sure.max(1));
        self.phase = Phase::Probe;
        self.step_size = match self.span {
            0 => u16::try_from(slow.max(unsure)).unwrap_or(MOST_STEP).clamp(LEAST_STEP, MOST_STEP),
            // What looked like a window and was not seen twice may have been a host out of order.
            _ if self.tries == 0 && !self.advised => FIRST_STEP,
            _ => WINDOW_STEP,
        };
        self.held = self.interval;
        self.faster(now);
    }

    /// Where requests are far apart each refusal weighs more.
    fn is_slow(&self) -> bool {
        self.interval >= nanos(SLOW)
    }

    /// Whether one refusal more is worth to know who else is there.
    fn is_often_enough(&self) -> bool {
        !self.is_dear() && (!self.is_slow() || (self.episodes > OFTEN && self.since_empty < MANY))
    }

    /// Advice is in whole seconds: many requests' worth is lost with each refusal.
    fn is_dear(&self) -> bool {
        self.advised && self.rest > self.interval.saturating_mul(DEAR)
    }

    /// In 1/1024: two requests more than the pace gives, in half a minute.
    fn first_step(&self) -> u64 {
        (self.interval.saturating_mul(2 * WHOLE) / nanos(STEP_MOST)).clamp(LEAST_STEP.into(), MOST_STEP.into())
    }

    fn probe(&mut self, now: Instant) {
        if self.shared {
            self.regrow(now);
            return;
        }
        let window = (u64::from(self.span) * MILLI).min(nanos(MINUTE));
        let lasts = nanos(STEP_LEAST).max(window);
        let shows = u64::from(self.step_admitted) * u64::from(self.step_size) >= 2 * WHOLE;
        if !shows || nanos(now.since(self.step_began)) < lasts {
            return;
        }
        if self.is_used(now) {
            let often = self.interval > nanos(PERIOD) && self.span == 0 && self.episodes > OFTEN;
            let (more, most) = if often { (self.step_size / 2, FIRST_STEP) } else { (self.step_size / 4, MOST_STEP) };
            self.step_size = (self.step_size + more).min(most.max(self.step_size));
            self.faster(now);
        } else {
            self.begin_step(now);
        }
    }

    /// The host refuses at this pace.
    pub(super) fn objected(&mut self, started: Instant) {
        let last = self.interval;
        let cold = self.phase == Phase::Cold;
        match self.phase {
            Phase::Cold => self.bad = last,
            Phase::Settled if self.span > 0 && self.shared => {
                // Twice before its time: no window of ours alone.
                self.span = 0;
                self.shares(started);
            }
            // The end of the episode will tell.
            _ if self.span > 0 => self.shared = self.phase == Phase::Settled,
            _ if self.shared => self.gives_way(started),
            Phase::Probe => self.probe_failed(started),
            Phase::Settled if self.since_empty >= ENOUGH && self.is_often_enough() => {
                self.shares(started);
            }
            _ if self.since_empty >= MANY => {
                // A pace that held for long: somebody else came, or the limit moved.
                self.bad = last;
                self.good = last + last / UNEXPECTED;
                self.interval = self.good;
                self.phase = Phase::Search;
            }
            _ => self.bounded(started),
        }
        if cold || self.shared || self.since_empty >= ENOUGH {
            self.empty = started;
            self.since_empty = 0;
        }
    }

    /// The limit is about where it was: what went well on the way up may have been saved up before. Only after many steps it
    /// has moved, and is looked for anew.
    fn probe_failed(&mut self, started: Instant) {
        let (held, last) = (self.held, self.interval);
        self.bad = last;
        self.fails();
        // Where refusals are dear, none is risked for a little more.
        let (near, more) =
            if self.is_slow() { (held / 5 * 3, 0) } else { (held / 5 * 4, held.saturating_sub(last) / 4) };
        if last >= near {
            self.good = held - held / MARGIN - more;
            self.settle(started);
        } else {
            self.good = held;
            self.interval = self.aimed();
            self.phase = Phase::Search;
        }
    }

    /// What was admitted since the host was empty bounds its rate from both sides.
    fn bounded(&mut self, started: Instant) {
        let last = self.interval;
        let count = u64::from(self.since_empty);
        let took = nanos(started.since(self.empty));
        let average = if count > 1 { took / (count - 1) } else { took.saturating_mul(2) }.max(last);
        // Next to nothing makes what was known at most twice as slow.
        let most = if self.good != 0 && count < LITTLE { self.good.max(last).saturating_mul(2) } else { u64::MAX };
        let average = average.min(most);
        // Perhaps it could not save up for all of the last rest: half of that is taken.
        let over = took.saturating_sub(self.rest / 2) / (count + 1);
        let sure = count >= u64::from(ENOUGH) && self.rest <= took / 16;
        let contradicted = self.good != 0 && self.good < over && !sure;
        if contradicted && self.episodes > EARLY && !self.is_dear() {
            self.shares(started);
            return;
        }
        if contradicted {
            // A pace that held for a while, and an average that did not: a window, or a burst that was saved up.
            self.bad = self.good.max(last);
            self.good = average;
        } else {
            self.good = if self.good == 0 || self.good < over { average } else { self.good.min(average) };
            self.bad = over.max(last).min(self.good);
        }
        self.sure =
            if self.width() <= NARROW { u16::try_from(SURE_EACH * count).unwrap_or(u16::MAX) } else { LEAST_SURE };
        self.sure = self.sure.clamp(LEAST_SURE, MOST_SURE);
        self.tries = 0;
        self.interval = self.aimed();
        self.phase = Phase::Search;
    }

    /// Between what is good and what is not: the nearer to what is good, the closer they are.
    fn aimed(&self) -> u64 {
        let width = self.width();
        if width <= CLOSE {
            self.good + self.good / MARGIN
        } else if width <= WIDE {
            self.good - (self.good - self.bad) / 4
        } else {
            mean(self.good, self.bad).max(self.good / 3 * 2)
        }
    }

    /// How much faster what is not good is than what is, in 1/1024.
    fn width(&self) -> u64 {
        if self.good <= self.bad { 0 } else { (self.good - self.bad).saturating_mul(WHOLE) / self.bad.max(1) }
    }

    /// Just under what is good, for a while.
    pub(super) fn settle(&mut self, now: Instant) {
        self.phase = Phase::Settled;
        self.interval = self.good + self.good / MARGIN;
        self.bad = self.good - self.good / 50;
        let hold = if self.is_slow() {
            self.interval.saturating_mul(HOLD_REQUESTS).max(nanos(HOLD_SLOW))
        } else {
            // The slower, the longer, but not by as much: or who has little of a shared limit would never have more.
            mean(self.interval, nanos(HOLD_ROOT))
        };
        let hold = hold.max(nanos(HOLD_LEAST)).saturating_mul(1 << self.tries);
        // A probe that fails costs a rest; a host with windows shows a change once a window.
        let dear = match self.span {
            0 if self.advised => self.rest.saturating_mul(RESTS),
            0 => 0,
            span => u64::from(span) * 2 * MILLI,
        };
        self.hold = hold.max(dear).min(nanos(HOLD_MOST));
        self.begin_step(now);
    }

    pub(super) fn fails(&mut self) {
        self.tries = (self.tries + 1).min(MOST_TRIES);
    }

    fn faster(&mut self, now: Instant) {
        self.interval = self.interval.saturating_mul(WHOLE) / (WHOLE + u64::from(self.step_size));
        self.begin_step(now);
    }

    pub(super) fn begin_step(&mut self, now: Instant) {
        self.step_began = now;
        self.step_admitted = 0;
    }

    /// Whether the pace is what bound since the step began: one that is not used must not grow.
    pub(super) fn is_used(&self, now: Instant) -> bool {
        let at_most = self.interval.saturating_mul(u64::from(self.step_admitted));
        at_most >= nanos(now.since(self.step_began)) / 5 * 4
    }

    pub(super) fn bound(&mut self, settings: &AdaptiveSettings) {
        let floor = nanos(settings.floor).max(1);
        self.interval = self.interval.clamp(floor, nanos(settings.ceiling).max(floor));
    }

    pub(super) fn shift(&mut self, shift: &impl Fn(Instant) -> Instant) {
        if self.cycle == Instant::ZERO {
            return;
        }
        for at in [&mut self.cycle, &mut self.empty, &mut self.refused, &mut self.refused_last, &mut self.step_began] {
            *at = shift(*at);
        }
    }
}

/// The geometric mean.
fn mean(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)).isqrt()).unwrap_or(a)
}

/// Shares are counted in this.
pub(super) const WHOLE: u64 = 1024;
const MILLI: u64 = 1_000_000;
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// A cold pace grows by half …
const FIRST_STEP: u16 = 512;
/// … and by a tenth where more than one and a half of ours are in flight: as many are refused together.
const GENTLE_STEP: u16 = 100;
const FIRST_STEP_ADMITTED: u32 = 4;
const FIRST_STEP_LASTS: Duration = Duration::from_millis(500);
/// A probe is 2 % faster at least, and each of its steps a quarter at most.
const LEAST_STEP: u16 = 20;
const MOST_STEP: u16 = 256;
/// A host with windows objects once in each: a twentieth, or it would take for ever.
const WINDOW_STEP: u16 = 50;
/// Limiters keep their books over a second or some: a step is longer …
const STEP_LEAST: Duration = Duration::from_secs(4);
/// … and where requests are far apart, so long is enough.
const STEP_MOST: Duration = Duration::from_secs(30);
/// The settled pace is half a percent under what is known to be good.
pub(super) const MARGIN: u64 = 200;
/// A sixteenth slower where a pace was refused that had held.
const UNEXPECTED: u64 = 16;
/// 4 % apart is close enough.
const CLOSE: u64 = 40;
/// 10 %.
const NARROW: u64 = 100;
const WIDE: u64 = 512;
/// More than so many saved up are not reckoned with: bursts are rarely used up whole.
const MOST_SAVED: u64 = 6;
/// After so many the host may have saved up: what it admitted bounds nothing any more.
const MANY: u32 = 4_000;
/// An increase in so many answers at most, or in so long.
const EVERY: u64 = 4;
const PERIOD: Duration = Duration::from_millis(100);
/// What the first few refusals say may be the burst's.
const EARLY: u16 = 3;
const OFTEN: u16 = 5;
const SLOW: Duration = Duration::from_millis(500);
const DEAR: u64 = 16;
/// Fewer tell next to nothing.
const LITTLE: u64 = 2;
/// After so many a refusal tells enough by itself; before, it is counted with those before it.
const ENOUGH: u32 = 64;
/// Requests of a hold, where little is known.
pub(super) const LEAST_SURE: u16 = 100;
pub(super) const MOST_SURE: u16 = 8 * LEAST_SURE;
/// For each that was admitted between the two refusals that bound it.
pub(super) const SURE_EACH: u64 = 16;
const HOLD_LEAST: Duration = Duration::from_secs(10);
const HOLD_SLOW: Duration = Duration::from_secs(80);
const HOLD_REQUESTS: u64 = 40;
const HOLD_ROOT: Duration = Duration::from_secs(12_000);
/// A limit that was raised is to be found within some five minutes.
const HOLD_MOST: Duration = Duration::from_secs(240);
const RESTS: u64 = 60;
const MOST_TRIES: u8 = 8;
/// How long what was learned before a rest holds without a probe.
const TRUST: Duration = Duration::from_secs(900);
