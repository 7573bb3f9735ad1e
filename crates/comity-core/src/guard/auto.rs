//! How many may be in flight, learned from latency and drops.
//!
//! With `n` in flight whose mean latency is `m` where it is `b` without a queue, about `n × (1 − b ÷ m)` of them wait in the
//! upstream (Little's law). Where that is little and the limit is what binds, more are let in; where it is much, fewer. Each
//! change is judged by what it did: latency that moves as the number in flight does is a queue, latency that does not is the
//! upstream's own, and what was taken for `b` was wrong. So neither an upstream that becomes slower, nor another mixture of
//! quick and slow answers, is mistaken for a queue for long, and no traffic is turned away only to measure.

use core::time::Duration;

use super::parameter::{self, ParameterError};
use crate::time::{Instant, nanos};

/// A limit on what is in flight that learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    settings: AutoSettings,
    limit: u32,
    /// Mean latency without a queue, in microseconds; 0 where nothing is known.
    base: u64,
    /// Whether a change of the limit has shown that there is none at `base`.
    verified: bool,
    /// The share of drops that no limit changes, in 1/1024.
    drops: u64,
    window: Window,
    /// From when on answers count: those that follow a change.
    began: Instant,
    /// The slowest answer of late, in microseconds.
    slowest: u64,
    trial: Option<Trial>,
    /// Nothing has spoken against growing yet: it grows by half.
    first: bool,
    /// The limit that was too high last, windows until it is tried again, and how often in a row it was too high: each time
    /// doubles them.
    ceiling: u32,
    wait: u32,
    fails: u32,
}

/// Bounds of a limit that learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoSettings {
    /// In flight before anything is known.
    pub start: u32,
    /// Never fewer.
    pub least: u32,
    /// Never more.
    pub most: u32,
}

/// One exchange with the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// From when it was sent to the answer's head.
    pub latency: Duration,
    /// How it went.
    pub end: End,
    /// How many were in flight when it started, itself among them.
    pub in_flight: u32,
}

/// How an exchange with the upstream went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An answer, whatever it says to the client.
    Served,
    /// No answer in time, a reset, no connection, a 5xx.
    Dropped,
    /// The client went away, or anything else that says nothing about the upstream.
    Unknown,
}

/// Answers of one window, by how many were in flight when they started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    few: Answers,
    many: Answers,
    /// Squares of the latencies in (16 µs)².
    squares: u64,
    drops: u64,
    slowest: u64,
    /// The border between few and many, in 1/1024: the mean of the last window.
    border: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    count: u64,
    /// In microseconds.
    latency: u64,
    in_flight: u64,
}

/// Before a change of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    limit: u32,
    seen: Seen,
    /// The share of drops, in 1/1024, where it was for them that fewer were let in.
    dropped: Option<u64>,
}

/// Means of a window: in flight in 1/1024, latency in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    flying: u64,
    latency: u64,
}

impl Auto {
    /// A limit that knows nothing yet.
    ///
    /// # Errors
    /// When the bounds are not `1 ≤ least ≤ start ≤ most ≤ 65,536`.
    pub fn new(settings: AutoSettings) -> Result<Self, ParameterError> {
        let AutoSettings { start, least, most } = settings;
        parameter::count("least", i64::from(least))?;
        for (parameter, value, fits, allowed) in [
            ("most", most, most <= MOST, "up to 65536"),
            ("start", start, least <= start, "from `least` to `most`"),
            ("start", start, start <= most, "from `least` to `most`"),
        ] {
            if !fits {
                return Err(ParameterError { parameter, value: value.to_string(), allowed });
            }
        }
        Ok(Self {
            settings,
            limit: start,
            base: 0,
            verified: false,
            drops: 0,
            window: Window::default(),
            began: Instant::ZERO,
            slowest: 0,
            trial: None,
            first: true,
            ceiling: u32::MAX,
            wait: 0,
            fails: 0,
        })
    }

    /// In flight at most, for [`Gate::set_most`](super::Gate::set_most).
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// What the upstream takes on the mean when nobody waits in it.
    pub fn base(&self) -> Option<Duration> {
        (self.base > 0).then(|| Duration::from_micros(self.base))
    }

    /// An exchange has ended. Whether the limit changed.
    pub fn ended(&mut self, now: Instant, exchange: &Exchange) -> bool {
        let before = self.limit;
        if self.began == Instant::ZERO {
            self.began = now.before(exchange.latency);
        }
        if now < self.began || exchange.end == End::Unknown {
            return false;
        }
        match exchange.end {
            End::Dropped => self.window.drops += 1,
            _ => self.window.served(exchange, self.base),
        }
        if self.is_enough(now) {
            self.judge(now);
        }
        self.limit != before
    }

    /// Whether the window says something: so many answers that their mean is sure, and as long as the slowest takes, so
    /// that quick answers do not speak for all.
    fn is_enough(&self, now: Instant) -> bool {
        let (count, drops) = (self.window.all().count, self.window.drops);
        let took = nanos(now.since(self.began)) / 1000;
        let limit = u64::from(self.limit);
        // A trial that fails costs latency or traffic: it is kept short.
        let least = match self.trial {
            Some(Trial { dropped: Some(_), .. }) => (4 * limit).clamp(4 * LEAST_ANSWERS, MOST_ANSWERS),
            Some(_) => (2 * limit).clamp(LEAST_ANSWERS / 2, MOST_ANSWERS),
            None => (4 * limit).clamp(LEAST_ANSWERS, MOST_ANSWERS),
        };
        let shortest = if self.base == 0 { FIRST_WINDOW } else { LEAST_WINDOW };
        if took < self.settling().max(shortest) {
            return false;
        }
        if count < least {
            return count + drops >= least && self.window.has_more_drops_than(self.drops);
        }
        let needed = if self.first { self.window.needed() / 4 } else { self.window.needed() };
        count >= needed || took >= LONGEST_WINDOW
    }

    fn judge(&mut self, now: Instant) {
        let (window, all) = (self.window, self.window.all());
        self.slowest = window.slowest.max(self.slowest - self.slowest / 8);
        let dropped = window.drops * WHOLE / (all.count + window.drops).max(1);
        if let Some(Trial { limit, dropped: Some(before), .. }) = self.trial {
            let eased = dropped <= before / 2;
            if !eased && self.limit > (limit / 8).max(self.settings.least) {
                return self.lower_for_drops(now, dropped);
            }
            if !eased {
                // Fewer in flight are dropped as often: it is not their number.
                self.drops = dropped.max(before);
                return self.restart(now, limit, None);
            }
            self.trial = None;
        } else if window.has_more_drops_than(self.drops) {
            return self.lower_for_drops(now, dropped);
        }
        if dropped + DROPS < self.drops || dropped == 0 {
            self.drops = (self.drops * 7 + dropped) / 8;
        }
        if all.count < LEAST_ANSWERS / 2 {
            return self.restart(now, self.limit, None);
        }
        let seen = Seen { flying: all.flying(), latency: (all.latency / all.count).max(1) };
        if self.base == 0 {
            self.base = seen.latency;
        }
        match self.trial.take() {
            Some(trial) if trial.limit < self.limit => self.judge_raise(now, trial, seen),
            Some(trial) => self.judge_cut(now, trial, seen),
            None => self.judge_level(now, seen),
        }
    }

    /// Did more in flight only make them wait?
    fn judge_raise(&mut self, now: Instant, trial: Trial, seen: Seen) {
        match trial.seen.steepness(seen) {
            Some(steep) if steep >= STEEP => {
                self.took_back();
                // The first time, and then seldom: perhaps what it was raised from was too high as well.
                self.verified &= self.fails != 1 && self.fails != MOST_FAILS;
                if self.verified {
                    self.restart(now, trial.limit, None);
                } else {
                    self.lower(now, trial.limit - trial.limit.div_ceil(4), Trial { limit: trial.limit, ..trial });
                }
            }
            Some(_) => {
                self.verified = true;
                if self.limit >= self.ceiling {
                    (self.ceiling, self.fails, self.wait) = (u32::MAX, 0, 0);
                }
                self.judge_level(now, seen);
            }
            None => self.judge_level(now, seen),
        }
    }

    /// Did fewer in flight make them quicker?
    fn judge_cut(&mut self, now: Instant, trial: Trial, seen: Seen) {
        match trial.seen.steepness(seen) {
            Some(steep) if steep < STEEP => {
                // Their latency is the upstream's own. Where that is news, it may have changed meanwhile: once more.
                self.verified = seen.latency < self.base + self.base / 4;
                self.base = seen.latency;
                self.restart(now, trial.limit, None);
            }
            Some(_) if !self.verified => {
                self.base = self.base.min(seen.latency);
                if self.limit == self.settings.least {
                    self.verified = true;
                    return self.restart(now, self.limit, None);
                }
                let here = Trial { limit: self.limit, seen, dropped: None };
                self.lower(now, self.limit - self.limit.div_ceil(4), here);
            }
            _ => self.judge_level(now, seen),
        }
    }

    fn judge_level(&mut self, now: Instant, seen: Seen) {
        let Seen { flying, latency } = seen;
        let mut queue = flying * latency.saturating_sub(self.base) / latency;
        if queue > queue_at_most(flying) && self.window.is_flat() {
            // Those that started among more took no longer than those that started among fewer.
            (self.base, queue) = (latency, 0);
        }
        self.learn_base(latency, queue, flying);
        let bound = flying >= u64::from(self.limit) * (WHOLE / 4 * 3);
        let here = Trial { limit: self.limit, seen, dropped: None };
        if queue > queue_at_most(flying) {
            if bound {
                self.took_back();
                let fewer = u32::try_from((queue / 2).div_ceil(WHOLE)).unwrap_or(u32::MAX);
                return self.lower(now, self.limit.saturating_sub(fewer.max(1)), here);
            }
            // Nobody is turned away yet, but no more are let in than now are.
            let used = u32::try_from((2 * flying).div_ceil(WHOLE)).unwrap_or(u32::MAX).max(self.settings.least);
            return self.restart(now, self.limit.min(used), None);
        }
        if queue >= queue_at_least(flying) {
            self.first = false;
        }
        if bound && !self.verified && !self.first && self.limit > self.settings.least {
            return self.lower(now, self.limit - self.limit.div_ceil(4), here);
        }
        self.wait = self.wait.saturating_sub(1);
        if bound && queue < queue_at_least(flying) {
            let part = if self.first { 2 } else { self.window.visible_step() };
            let step = (self.limit / part).max(1);
            let highest = if self.wait > 0 { self.settings.most.min(self.ceiling - 1) } else { self.settings.most };
            let limit = (self.limit + step).min(highest).max(self.limit);
            return self.restart(now, limit, (limit > self.limit).then_some(here));
        }
        self.restart(now, self.limit, None);
    }

    fn learn_base(&mut self, latency: u64, queue: u64, flying: u64) {
        if latency < self.base - self.base / 4 {
            // It has become quicker: what it could not do it may do now.
            self.base = latency;
            self.verified = false;
            (self.ceiling, self.fails, self.wait) = (u32::MAX, 0, 0);
        }
        if flying < ALONE {
            self.verified = true;
        }
        let part = match latency < self.base {
            _ if flying < ALONE => 2,
            true => 16,
            // Slowly: a queue too short to be seen is not to become the measure of queues.
            false => 64,
        };
        if latency < self.base || queue < queue_at_least(flying) || flying < ALONE {
            self.base = (self.base * (part - 1) + latency) / part;
        }
    }

    /// A quarter fewer, or as many fewer as were dropped, until that makes a difference.
    fn lower_for_drops(&mut self, now: Instant, dropped: u64) {
        let from = self.trial.filter(|trial| trial.dropped.is_some()).unwrap_or(Trial {
            limit: self.limit,
            seen: Seen { flying: 0, latency: 0 },
            dropped: Some(dropped),
        });
        if from.limit == self.limit {
            self.took_back();
        }
        let share = dropped.clamp(WHOLE / 4, WHOLE / 2);
        let fewer = u32::try_from((u64::from(self.limit) * share).div_ceil(WHOLE)).unwrap_or(u32::MAX);
        let limit = self.limit.saturating_sub(fewer).max(self.settings.least);
        self.restart(now, limit, Some(from));
    }

    fn lower(&mut self, now: Instant, limit: u32, from: Trial) {
        let limit = limit.max(self.settings.least);
        self.restart(now, limit, (limit < from.limit).then_some(from));
    }

    fn took_back(&mut self) {
        self.first = false;
        self.fails = if self.limit < self.ceiling - self.ceiling / 8 { 1 } else { (self.fails + 1).min(MOST_FAILS) };
        self.ceiling = self.limit;
        self.wait = 1 << self.fails;
    }

    /// A new window; where the limit changed, from when what is in flight is of the new limit.
    fn restart(&mut self, now: Instant, limit: u32, trial: Option<Trial>) {
        let settles = if limit == self.limit { 0 } else { self.settling() };
        self.limit = limit;
        self.trial = trial;
        self.began = now.after(Duration::from_micros(settles));
        let all = self.window.all();
        let border = if all.count == 0 { self.window.border } else { all.flying() };
        self.window = Window { border, ..Window::default() };
    }

    fn settling(&self) -> u64 {
        self.slowest.max(self.window.slowest).min(LONGEST_SETTLING).max(self.base)
    }
}

impl Window {
    fn served(&mut self, exchange: &Exchange, base: u64) {
        let micros = (nanos(exchange.latency) / 1000).clamp(1, MOST_MICROS);
        self.slowest = self.slowest.max(micros);
        // One straggler is not worth more than so many.
        let micros = if base == 0 { micros } else { micros.min(base.saturating_mul(64)) };
        let flying = u64::from(exchange.in_flight.min(MOST));
        let half = if flying * WHOLE <= self.border { &mut self.few } else { &mut self.many };
        half.count += 1;
        half.latency += micros;
        half.in_flight += flying;
        self.squares = self.squares.saturating_add((micros >> 4).pow(2));
    }

    fn all(&self) -> Answers {
        let (few, many) = (self.few, self.many);
        Answers {
            count: few.count + many.count,
            latency: few.latency + many.latency,
            in_flight: few.in_flight + many.in_flight,
        }
    }

    /// Whether more are dropped than this share, in 1/1024, explains: a sixteenth more, and not by chance.
    fn has_more_drops_than(&self, share: u64) -> bool {
        let all = self.all().count + self.drops;
        let usual = all * (share + DROPS) / WHOLE;
        self.drops > usual + 2 * (usual + 1).isqrt()
    }

    /// Answers that make the mean latency sure to a twentieth.
    fn needed(&self) -> u64 {
        let all = self.all();
        let mean = (all.latency >> 4) / all.count.max(1);
        let variance = (self.squares / all.count.max(1)).saturating_sub(mean.pow(2));
        (400 * variance / mean.pow(2).max(1)).min(MOST_ANSWERS)
    }

    /// The part of the limit to raise it by. Where answers differ much a small step would not be seen.
    fn visible_step(&self) -> u32 {
        match self.needed() {
            0..512 => 8,
            512..2048 => 4,
            _ => 2,
        }
    }

    /// Whether those that started among more in flight took no longer, where that can be said.
    fn is_flat(&self) -> bool {
        if self.few.count.min(self.many.count) < 2 * LEAST_ANSWERS {
            return false;
        }
        let of = |half: &Answers| Seen { flying: half.flying(), latency: (half.latency / half.count).max(1) };
        of(&self.few).steepness(of(&self.many)).is_some_and(|steep| steep < FLAT)
    }
}

impl Answers {
    fn flying(&self) -> u64 {
        self.in_flight * WHOLE / self.count.max(1)
    }
}

impl Seen {
    /// By how much latency moved where the number in flight moved by one, both as shares, in 1/1024: 1 is a queue, 0 is
    /// none. `None` where the number hardly moved.
    fn steepness(self, then: Self) -> Option<i64> {
        let moved = |from: u64, to: u64| (to as i64 - from as i64) * WHOLE as i64 / from.max(1) as i64;
        let flying = moved(self.flying, then.flying);
        (flying.abs() >= LEAST_MOVE).then(|| moved(self.latency, then.latency) * WHOLE as i64 / flying)
    }
}

impl Default for AutoSettings {
    fn default() -> Self {
        Self { start: 8, least: 1, most: 4096 }
    }
}

/// With fewer in the upstream's queue there is room: 0.4, or a twentieth of those in flight.
fn queue_at_least(flying: u64) -> u64 {
    (flying / 20).max(400)
}

/// With more there are too many: 0.9, or 0.15 of those in flight.
fn queue_at_most(flying: u64) -> u64 {
    (flying * 3 / 20).max(900)
}

const WHOLE: u64 = 1024;
const MOST: u32 = 65_536;
/// An hour: a longer answer says no more.
const MOST_MICROS: u64 = 3_600_000_000;
/// Half as steep as a queue.
const STEEP: i64 = 512;
const FLAT: i64 = 256;
/// A tenth.
const LEAST_MOVE: i64 = 102;
/// One and a half in flight are as good as alone.
const ALONE: u64 = 1536;
const DROPS: u64 = WHOLE / 16;
const LEAST_ANSWERS: u64 = 8;
const MOST_ANSWERS: u64 = 4096;
/// In microseconds.
const LEAST_WINDOW: u64 = 50_000;
/// Before anything is known of the slow ones.
const FIRST_WINDOW: u64 = 500_000;
const LONGEST_WINDOW: u64 = 20_000_000;
const LONGEST_SETTLING: u64 = 2_000_000;
const MOST_FAILS: u32 = 7;
