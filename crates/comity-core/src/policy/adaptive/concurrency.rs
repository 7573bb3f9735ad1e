//! Latency teaches the concurrency.
//!
//! With `n` requests of ours in flight on the mean, whose mean latency is `m` where it was `b` without a queue, about
//! `n × (1 − b ÷ m)` of them wait at the host (Little's law). Under half a request, and where the concurrency is what binds,
//! one more may be in flight; over one, one less.

use core::time::Duration;

use crate::policy::bytes::{Reader, Writer};
use crate::time::{Instant, nanos};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Concurrency {
    most: u16,
    /// Mean latency without a queue of ours, in microseconds; 0 where nothing is known.
    base: u32,
    /// Answers it is the mean of, as far as that matters.
    known: u16,
    count: u32,
    sum: u64,
    squares: u64,
    began: Instant,
    /// Windows until the next raise, and how often a raise was taken back.
    wait: u16,
    fails: u8,
    /// No queue was seen yet.
    first: bool,
}

impl Concurrency {
    pub(super) fn new() -> Self {
        Self { most: FIRST, base: 0, known: 0, count: 0, sum: 0, squares: 0, began: Instant::ZERO, wait: 0, fails: 0, first: true }
    }

    pub(super) fn most(&self) -> u16 {
        self.most
    }

    pub(super) fn base(&self) -> Option<Duration> {
        (self.base != 0).then(|| Duration::from_micros(u64::from(self.base)))
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.count = 0;
        self.sum = 0;
        self.squares = 0;
        self.began = now;
    }

    /// A refusal came while as many were in flight as may be: perhaps it is their number that the host refuses.
    pub(super) fn refused(&mut self, now: Instant) {
        let took = nanos(now.since(self.began)) / 1000;
        if self.count >= 4 && self.most > 1 && self.sum * 4 >= took * u64::from(self.most) * 3 {
            self.most -= 1;
            self.first = false;
            self.fails = (self.fails + 1).min(6);
            self.wait = 1 << self.fails;
        }
    }

    /// A served answer's latency. True where one more may be in flight from now on.
    pub(super) fn served(&mut self, now: Instant, latency: Duration) -> bool {
        if self.began == Instant::ZERO {
            self.began = now.before(latency);
        }
        let micros = (nanos(latency) / 1000).clamp(1, MOST_MICROS);
        let micros = if self.base == 0 { micros } else { micros.min(u64::from(self.base) * 16) };
        self.count += 1;
        self.sum += micros;
        self.squares += (micros >> 4).pow(2);
        let n = u64::from(self.count);
        let most = u64::from(self.most);
        if n < (2 * most).max(8) {
            return false;
        }
        // Variance over the square of the mean, in 1/1024.
        let mean16 = (self.sum >> 4) / n;
        let var = (self.squares / n).saturating_sub(mean16 * mean16);
        let cv2 = var * 1024 / (mean16 * mean16).max(1);
        let took = nanos(now.since(self.began)) / 1000;
        let flying = self.sum * 1024 / took.max(1); // 1/1024 requests
        let fl = (flying >> 10).max(1);
        let need = if self.first { 4 * most } else { (32 * fl * fl * cv2 >> 10).clamp(16, 4096) };
        if n < need && took < 20_000_000 {
            return false;
        }
        let mean = self.sum / n;
        self.restart(now);
        if self.base == 0 {
            self.base = mean as u32;
        }
        let queue = flying * mean.saturating_sub(u64::from(self.base)) / mean; // 1/1024
        let base = u64::from(self.base);
        if queue < 400 || flying < 1536 {
            let known = u64::from(self.known);
            self.base = ((base * known + mean * n) / (known + n)) as u32;
            self.known = (known + n).min(256) as u16;
        } else {
            // A host that moved is learned anew.
            self.base += self.base / 512;
        }
        if queue > 900 && self.most > 1 {
            let now_most = self.most;
            self.first = false;
            self.most = (self.most - 1).min((flying / 1024).max(1) as u16).max(1);
            let _ = now_most;
            self.fails = (self.fails + 1).min(6);
            self.wait = 1 << self.fails;
            return false;
        }
        if queue > 400 {
            self.first = false;
        }
        if self.wait > 0 {
            self.wait -= 1;
            return false;
        }
        if queue < 400 && flying >= most * 768 {
            let step = if self.first { (self.most / 2).max(1) } else { 1 };
            self.most = (self.most + step).min(MOST);
            return true;
        }
        false
    }

    pub(super) fn shift(&mut self, shift: &impl Fn(Instant) -> Instant) {
        self.began = shift(self.began);
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        let _ = out;
    }

    pub(super) fn read(_from: &mut Reader<'_>) -> Option<Self> {
        None
    }
}

const FIRST: u16 = 2;
const MOST: u16 = 1024;
const MOST_MICROS: u64 = 60_000_000;
