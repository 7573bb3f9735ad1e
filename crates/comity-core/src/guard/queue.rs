//! The wait in front of the gate: bounded in length, and by how long those who leave it have stood there.
//!
//! A short queue smooths bursts, a standing one only makes everybody late. A queue stands when nobody has left it after less
//! than [`QueueSettings::standing`] for as long as [`QueueSettings::longest`] (the idea of CoDel, RFC 8289); then newcomers
//! wait no longer than `standing`.

use core::time::Duration;

use super::Shed;
use super::parameter::{self, ParameterError};
use crate::time::{Instant, nanos};

/// Who waits for a place in flight, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    settings: QueueSettings,
    waiting: u32,
    /// When it was last empty, or somebody left it soon.
    moved: Instant,
}

/// How long a queue may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Requests that may wait; zero is no queue.
    pub most: u32,
    /// The longest that one waits.
    pub longest: Duration,
    /// The longest that one waits while the queue stands.
    pub standing: Duration,
}

/// What a request does that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It goes to the gate at once.
    Run,
    /// It waits, and is shed if it has no place by then. Its end in the queue, whichever it is, is told by [`Queue::leave`].
    Wait {
        /// The end of its wait.
        until: Instant,
    },
    /// It is shed at once.
    Shed(Shed),
}

impl Queue {
    /// An empty queue.
    ///
    /// # Errors
    /// `longest` is nothing, or `standing` is longer than it.
    pub fn new(settings: QueueSettings) -> Result<Self, ParameterError> {
        parameter::span("longest", Duration::from_micros(nanos(settings.longest) / 1000))?;
        if settings.standing > settings.longest {
            let value = format!("{:?}", settings.standing);
            return Err(ParameterError { parameter: "standing", value, allowed: "up to `longest`" });
        }
        Ok(Self { settings, waiting: 0, moved: Instant::ZERO })
    }

    /// A request comes. `free` says whether the gate has a place for it.
    pub fn admit(&mut self, now: Instant, free: bool) -> Turn {
        if self.waiting == 0 {
            self.moved = now;
            if free {
                return Turn::Run;
            }
        }
        if self.waiting >= self.settings.most {
            return Turn::Shed(Shed::default());
        }
        self.waiting += 1;
        let bound = if self.is_standing(now) { self.settings.standing } else { self.settings.longest };
        Turn::Wait { until: now.after(bound) }
    }

    /// One that waited has a place, or was shed, or went away.
    pub fn leave(&mut self, now: Instant, waited: Duration) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 || waited < self.settings.standing {
            self.moved = self.moved.max(now);
        }
    }

    /// Whether it stands. Then the newest is best served first: those that have waited long are given up soonest.
    pub fn is_standing(&self, now: Instant) -> bool {
        self.waiting > 0 && now.since(self.moved) > self.settings.longest
    }

    /// How many wait.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Other waits for those who come from now on, say a part of what the upstream takes ([`Auto::base`](super::Auto::base)).
    pub fn set_waits(&mut self, longest: Duration, standing: Duration) {
        (self.settings.longest, self.settings.standing) = (longest, standing.min(longest));
    }
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { most: 1024, longest: Duration::from_millis(100), standing: Duration::from_millis(10) }
    }
}
