//! The way between clients and hosts, with what is lost on it.

use core::time::Duration;

use comity_core::time::{Instant, nanos};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::outcome::UplinkOutcome;
use crate::scenario::{Network, Uplink};

/// A network with its own dice.
#[derive(Debug)]
pub(super) struct Link {
    each_way: u64,
    jitter: u64,
    loss: f64,
    resets: f64,
    rng: Pcg64Mcg,
}

/// What happens to a request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fortune {
    /// Nothing.
    Arrives,
    /// It never reaches its host.
    Lost,
    /// Its answer never reaches the client.
    AnswerLost,
    /// Its connection is reset.
    Reset,
}

impl Link {
    pub(super) fn new(network: &Network, rng: Pcg64Mcg) -> Self {
        Self {
            each_way: nanos(network.latency) / 2,
            jitter: nanos(network.jitter) / 2,
            loss: network.loss,
            resets: network.resets,
            rng,
        }
    }

    /// How long one way takes.
    pub(super) fn way(&mut self) -> Duration {
        let more = if self.jitter == 0 { 0 } else { self.rng.random_range(0..=self.jitter) };
        Duration::from_nanos(self.each_way + more)
    }

    pub(super) fn fortune(&mut self) -> Fortune {
        if self.loss + self.resets == 0.0 {
            return Fortune::Arrives;
        }
        match self.rng.random::<f64>() {
            dice if dice < self.loss / 2.0 => Fortune::Lost,
            dice if dice < self.loss => Fortune::AnswerLost,
            dice if dice < self.loss + self.resets => Fortune::Reset,
            _ => Fortune::Arrives,
        }
    }
}

/// Our own way out: one answer after the other.
#[derive(Debug)]
pub(super) struct Pipe {
    per_answer: Duration,
    queue: u32,
    /// Until then there is room for all.
    from: Instant,
    /// When all that is in it is through.
    free: Instant,
    through: u64,
    waited: Duration,
    lost: u64,
}

impl Pipe {
    pub(super) fn new(uplink: &Uplink) -> Self {
        Self {
            per_answer: uplink.per_answer().max(Duration::from_nanos(1)),
            queue: uplink.queue,
            from: Instant::ZERO.after(uplink.from),
            free: Instant::ZERO,
            through: 0,
            waited: Duration::ZERO,
            lost: 0,
        }
    }

    /// An answer comes to it: when its first byte and when its last one is through, or `None` where there is no room for it.
    pub(super) fn enters(&mut self, now: Instant) -> Option<(Instant, Instant)> {
        if now < self.from {
            return Some((now, now));
        }
        let wait = self.free.since(now);
        if wait > self.per_answer * (self.queue + 1) {
            self.lost += 1;
            return None;
        }
        let first = self.free.max(now);
        self.free = first.after(self.per_answer);
        self.through += 1;
        self.waited += wait;
        Some((first, self.free))
    }

    /// What it has carried since it is narrow.
    pub(super) fn outcome(&self, now: Instant) -> UplinkOutcome {
        let busy = self.per_answer.as_secs_f64() * self.through as f64 - self.free.since(now).as_secs_f64();
        let seconds = now.since(self.from).as_secs_f64();
        UplinkOutcome {
            used: if seconds > 0.0 { busy / seconds } else { 0.0 },
            wait: if self.through > 0 { self.waited.as_secs_f64() / self.through as f64 } else { 0.0 },
            lost: self.lost,
        }
    }
}
