//! The limit on what is in flight to all hosts together.

use core::time::Duration;

use super::hosts::{AS_USUAL, Learning, Recent, WHOLE};
use super::{LEAST_HOSTS, is_most};
use crate::time::Instant;

/// The limit, found in rounds: answers to as many requests as it lets fly, all started since it last changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    yielding: Yielding,
    /// In flight when it was put on: a limit that has grown back to it is none.
    peak: u32,
    changed: Instant,
    ends: Instant,
    /// Whether it has held anybody back in this round: one that is not used must not grow.
    reached: bool,
    /// Whether nearly all answers of the last round were no slower than usual.
    quick: bool,
    /// The mean share before the last cut.
    before_cut: Option<u32>,
    /// Cuts in a row that made nothing faster: it is not what we have in flight that is slow.
    in_vain: u8,
}

/// A limit on what is in flight to all hosts together, and why it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yielding {
    /// Requests in flight at most.
    pub limit: u32,
    /// Since when it is on.
    pub since: Instant,
    /// Hosts that had slowed down or fallen silent together.
    pub slow: u32,
    /// Hosts asked at that time, of those that are watched.
    pub hosts: u32,
}

/// What a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Slow, and cut.
    Cut,
    /// Raised, or left as it is.
    Held,
    /// As before it was put on.
    Lifted,
}

impl Guard {
    /// Puts it on: cut from what is in flight now.
    pub(super) fn put_on(now: Instant, in_flight: u32, recent: Recent) -> Self {
        let limit = cut(in_flight, recent.mean_share());
        Self {
            yielding: Yielding { limit, since: now, slow: recent.bad, hosts: recent.hosts },
            peak: in_flight,
            changed: now,
            ends: now.after(UNCONFIRMED),
            reached: false,
            quick: false,
            before_cut: Some(recent.mean_share()),
            in_vain: 0,
        }
    }

    pub(super) fn yielding(&self) -> Yielding {
        self.yielding
    }

    pub(super) fn limit(&self) -> u32 {
        self.yielding.limit
    }

    pub(super) fn changed(&self) -> Instant {
        self.changed
    }

    /// When it ends unless something confirms it before: whatever happens, nobody waits for it for ever.
    pub(super) fn ends(&self) -> Instant {
        self.ends
    }

    /// There is no less reason for it than when it was put on.
    pub(super) fn confirm(&mut self, now: Instant) {
        self.ends = now.after(UNCONFIRMED);
    }

    /// How what is usual of hosts may change. Under the limit all times are ours too: where they would teach as ever, what
    /// is usual would follow our own queue, or sink to the fastest answers. So it rises only where the limit does not help,
    /// because the way is longer than it was; and it falls only where it was too high for all.
    pub(super) fn learning(&self) -> Learning {
        let rise = self.in_vain >= VAIN || self.limit() <= LEAST;
        Learning { rise, fall: rise || self.quick }
    }

    pub(super) fn started(&mut self, in_flight: u32) {
        self.reached |= in_flight >= self.limit();
    }

    /// Answers that make a round: about one round trip, and enough to tell.
    pub(super) fn round(&self) -> u32 {
        self.limit().clamp(LEAST_ROUND, MOST_ROUND)
    }

    /// A round is over; `quick` where nearly all its answers were no slower than usual.
    pub(super) fn turn(&mut self, now: Instant, in_flight: u32, recent: Recent, quick: bool) -> Turn {
        self.quick = quick;
        let share = recent.mean_share();
        let slow = is_slow(recent);
        if let Some(before) = self.before_cut.take() {
            let faster = !slow || share > before + before / 10;
            self.in_vain = if faster { 0 } else { self.in_vain.saturating_add(1) };
        }
        let reached = core::mem::take(&mut self.reached);
        if reached || slow {
            self.confirm(now);
        }
        if slow && self.in_vain < VAIN {
            self.yielding.limit = cut(self.limit().min(in_flight), share).min(self.limit());
            self.before_cut = Some(share);
            self.changed = now;
            return Turn::Cut;
        }
        if !slow {
            self.in_vain = 0;
            if reached {
                let part = if share >= FAST_SHARE { 4 } else { 16 };
                self.yielding.limit += (self.limit() / part).max(1);
                self.changed = now;
                if self.limit() >= self.peak {
                    return Turn::Lifted;
                }
            }
        }
        Turn::Held
    }
}

/// Whether most hosts were slower than usual in a round, and all together as well. Too few say nothing.
fn is_slow(recent: Recent) -> bool {
    recent.hosts >= LEAST_HOSTS && recent.mean_share() < AS_USUAL && is_most(recent.heavy, recent.hosts)
}

/// What is in flight times the mean share is what was enough (Little's law); a quarter more keeps the way busy.
fn cut(in_flight: u32, share: u32) -> u32 {
    let least = in_flight / 8;
    let enough = u64::from(in_flight) * u64::from(share) * 5 / (4 * u64::from(WHOLE));
    let enough = u32::try_from(enough).unwrap_or(u32::MAX);
    enough.max(least).min(in_flight - in_flight / 4).max(LEAST)
}

/// No limit is lower.
const LEAST: u32 = 2;
/// As fast as ever: the limit is far from where it would matter.
const FAST_SHARE: u32 = WHOLE * 15 / 16;
const LEAST_ROUND: u32 = 16;
const MOST_ROUND: u32 = 64;
/// After so many cuts in vain there is no other.
const VAIN: u8 = 2;
/// A limit that nothing has confirmed for so long ends.
const UNCONFIRMED: Duration = Duration::from_secs(30);
