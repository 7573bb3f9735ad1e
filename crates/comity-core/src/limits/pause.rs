//! A pause: the server named an instant before which it wants nothing (T7).

use core::time::Duration;

use crate::time::Instant;

/// A scope's pause, and its careful end: after it the scope restarts with one request, not with all that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    until: Instant,
    restart: Restart,
    repeats: u8,
}

/// How a scope comes back from a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Nothing special: no pause is being recovered from.
    #[default]
    Free,
    /// The next start is a trial.
    Due,
    /// The trial is in flight.
    Out,
}

impl Pause {
    /// A pause as a store kept it: when it ends, how the scope comes back, and how often it was refused without a word.
    pub fn kept(until: Instant, restart: Restart, repeats: u8) -> Self {
        Self { until, restart, repeats }
    }

    /// How the scope comes back.
    pub fn restart(&self) -> Restart {
        self.restart
    }

    /// How often in a row it was refused without advice.
    pub fn repeats(&self) -> u8 {
        self.repeats
    }

    /// Whoever made the trial is gone: the next start is one.
    pub fn trial_lost(&mut self) {
        if self.restart == Restart::Out {
            self.restart = Restart::Due;
        }
    }

    /// No start before `now + wait`. A pause is never shortened by a later, shorter one.
    pub fn set(&mut self, now: Instant, wait: Duration) {
        self.until = self.until.max(now.after(wait));
        self.restart = Restart::Due;
    }

    /// A pause we choose because the server refused without saying for how long; it doubles each time (A41). A refusal of
    /// a request that started before the pause ended says nothing new: a burst refused together teaches once (T8).
    pub fn set_growing(&mut self, now: Instant, started: Instant, least: Duration, limit: Duration) {
        if self.repeats > 0 && started < self.until {
            return;
        }
        let wait = least.saturating_mul(1u32 << self.repeats.min(20)).min(limit.max(least));
        self.repeats = self.repeats.saturating_add(1);
        self.set(now, wait);
    }

    /// When it ends; in the past where there is none.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Whether the next start must wait for the trial's answer.
    pub fn trial_is_out(&self) -> bool {
        self.restart == Restart::Out
    }

    /// A request starts.
    pub fn started(&mut self) -> bool {
        let trial = self.restart == Restart::Due;
        if trial {
            self.restart = Restart::Out;
        }
        trial
    }

    /// The host served a request started after the pause: it is over for good.
    pub fn served(&mut self) {
        self.restart = Restart::Free;
        self.repeats = 0;
    }

    /// The trial that began at `started` ended without an answer of the host: the next start is a trial again. Not so
    /// where another pause came since: its own trial is another.
    pub fn trial_ended(&mut self, started: Instant) {
        if self.restart == Restart::Out && started >= self.until {
            self.restart = Restart::Due;
        }
    }

    /// Forgets it (a person asked to).
    pub fn lift(&mut self) {
        *self = Self::default();
    }

    /// Whether it can no longer matter.
    pub fn is_over(&self, now: Instant) -> bool {
        self.until <= now && self.restart == Restart::Free && self.repeats == 0
    }
}
