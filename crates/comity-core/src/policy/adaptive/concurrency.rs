//! Latency teaches the concurrency.
//!
//! With `n` requests of ours in flight on the mean, whose mean latency is `m` where it is `b` without a queue, about
//! `n × (1 − b ÷ m)` of them wait at the host (Little's law). Where that is under 0.4 and the concurrency is what binds, one
//! more may be in flight; over 0.9, one less. A decision takes as many answers as make it sure: the variance of their
//! latency tells how many.

use core::time::Duration;

use crate::time::{Instant, nanos};

/// Requests in flight at most, and the answers of the present window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Concurrency {
    pub(super) most: u16,
    /// Mean latency without a queue of ours, in microseconds (0 where nothing is known), and how many answers it is the
    /// mean of, as far as that matters.
    pub(super) base: u32,
    pub(super) known: u16,
    /// Answers in this window, the sum of their latencies in microseconds, and of the squares in (16 µs)².
    pub(super) count: u16,
    pub(super) sum: u64,
    pub(super) squares: u64,
    pub(super) began: Instant,
    /// Windows until the next raise, and how often a raise was taken back: each doubles them.
    pub(super) wait: u16,
    pub(super) fails: u8,
    /// No queue was seen yet: it rises by half.
    pub(super) first: bool,
}

/// What a window came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is not over, or changed nothing.
    Nothing,
    /// One more, or one less, may be in flight.
    Changed,
    /// With one request of ours in flight the host takes three times as long as it did: others press it.
    Struggling,
}

impl Concurrency {
    pub(super) fn new() -> Self {
        Self {
            most: FIRST,
            base: 0,
            known: 0,
            count: 0,
            sum: 0,
            squares: 0,
            began: Instant::ZERO,
            wait: 0,
            fails: 0,
            first: true,
        }
    }

    /// The mean latency without a queue of ours.
    pub(super) fn base(&self) -> Option<Duration> {
        (self.base != 0).then(|| Duration::from_micros(u64::from(self.base)))
    }

    /// A new window: what was in flight changes.
    pub(super) fn restart(&mut self, now: Instant) {
        self.count = 0;
        self.sum = 0;
        self.squares = 0;
        self.began = now;
    }

    /// A refusal came while as many were in flight as may be: perhaps it is their number that the host refuses.
    pub(super) fn refused(&mut self, now: Instant) {
        let took = nanos(now.since(self.began)) / 1000;
        if self.count >= 4 && self.sum.saturating_mul(4) >= took.saturating_mul(u64::from(self.most) * 3) {
            self.lower(self.most.saturating_sub(1));
        }
    }

    /// A request was served that took so long to its first byte.
    pub(super) fn served(&mut self, now: Instant, latency: Duration) -> Seen {
        let micros = (nanos(latency) / 1000).clamp(1, MOST_MICROS);
        // One straggler is not worth more than so many.
        let micros = if self.base == 0 { micros } else { micros.min(u64::from(self.base) * 16) };
        self.count += 1;
        self.sum += micros;
        self.squares += (micros >> 4).pow(2);
        let took = (nanos(now.since(self.began)) / 1000).max(1);
        if u64::from(self.count) < self.enough(took) {
            return Seen::Nothing;
        }
        let (count, mean) = (u64::from(self.count), (self.sum / u64::from(self.count)).max(1));
        // Ours in flight on the mean, and ours that waited at the host, in 1/1024.
        let flying = self.sum.saturating_mul(WHOLE) / took;
        self.restart(now);
        if self.base == 0 {
            self.base = mean as u32;
        }
        let slow = self.is_struggling(mean);
        let queue = flying.saturating_mul(mean.saturating_sub(u64::from(self.base))) / mean;
        self.learn_base(count, mean, queue, flying);
        if queue > QUEUED && self.most > 1 {
            self.lower((self.most - 1).min(u16::try_from(flying / WHOLE).unwrap_or(u16::MAX)));
            return Seen::Changed;
        }
        if queue > ROOM {
            self.first = false;
        }
        if self.wait > 0 {
            self.wait -= 1;
        } else if queue < ROOM && flying >= u64::from(self.most) * (WHOLE / 4 * 3) {
            let step = if self.first { (self.most / 2).max(1) } else { 1 };
            self.most = (self.most + step).min(MOST);
            return Seen::Changed;
        }
        if slow && flying < ALONE { Seen::Struggling } else { Seen::Nothing }
    }

    /// Answers that make the number of those that wait sure to a quarter of one: its error is that of the mean latency,
    /// times those in flight.
    fn enough(&self, took: u64) -> u64 {
        let count = u64::from(self.count);
        let most = u64::from(self.most);
        let least = (2 * most).max(8);
        if count < least || took >= LONGEST_WINDOW || self.count == u16::MAX {
            return least;
        }
        if self.first {
            return 4 * most;
        }
        let mean = (self.sum >> 4) / count;
        let variance = (self.squares / count).saturating_sub(mean * mean);
        let relative = variance.saturating_mul(WHOLE) / (mean * mean).max(1);
        let flying = (self.sum / took).max(1);
        flying.saturating_mul(32 * flying).saturating_mul(relative).div_euclid(WHOLE).clamp(LEAST_WINDOW, MOST_WINDOW)
    }

    fn learn_base(&mut self, count: u64, mean: u64, queue: u64, flying: u64) {
        let base = u64::from(self.base);
        if queue < ROOM || flying < ALONE {
            let known = u64::from(self.known);
            self.base = ((base * known + mean * count) / (known + count)) as u32;
            self.known = (known + count).min(MOST_KNOWN) as u16;
        } else {
            // Slowly, so that a host that became slower for good is learned anew.
            self.base = self.base.saturating_add(self.base / CREEP);
        }
    }

    fn is_struggling(&self, mean: u64) -> bool {
        self.known >= 16 && mean > 3 * u64::from(self.base).max(GRAIN_MICROS)
    }

    fn lower(&mut self, most: u16) {
        self.most = most.max(1);
        self.first = false;
        self.fails = (self.fails + 1).min(MOST_FAILS);
        self.wait = 1 << self.fails;
    }

    pub(super) fn shift(&mut self, shift: &impl Fn(Instant) -> Instant) {
        if self.began != Instant::ZERO {
            self.began = shift(self.began);
        }
    }
}

const WHOLE: u64 = 1024;
const FIRST: u16 = 2;
const MOST: u16 = 1024;
const MOST_MICROS: u64 = 60_000_000;
/// 0.9 of a request of ours waits.
const QUEUED: u64 = 900;
/// Under 0.4 there is room for one more.
const ROOM: u64 = 400;
/// One and a half in flight are as good as alone.
const ALONE: u64 = 1536;
const LEAST_WINDOW: u64 = 16;
const MOST_WINDOW: u64 = 4096;
/// Twenty seconds, in microseconds.
const LONGEST_WINDOW: u64 = 20_000_000;
const MOST_KNOWN: u64 = 256;
const CREEP: u32 = 512;
const MOST_FAILS: u8 = 6;
/// Under it the network's own noise is a multiple of the latency.
const GRAIN_MICROS: u64 = 10_000;
