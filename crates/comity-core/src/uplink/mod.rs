//! The uplink guard (behaviour A10): when most hosts slow down or fall silent *together*, it is our own uplink, resolver or
//! connection pool, and not the hosts.
//!
//! Then two things hold. Above all hosts stands a limit on what is in flight, cut from what is in flight now and found
//! again from how the answers' times react. And what the exchanges of that time suggest teaches no host: only what a server
//! *says* (a refusal, a Retry-After, a quota) does.
//!
//! One slow host is no evidence, nor are many of one registrable domain, which may well stand on one machine. Hosts are
//! compared with themselves alone: what is *usual* of each is learned here, for a bounded table of recent hosts, whatever
//! policy they have. A run over fewer than four hosts has no guard.

mod guard;
mod hosts;

use core::time::Duration;

pub use self::guard::Yielding;
use self::guard::{Guard, Turn};
use self::hosts::{Hosts, Learning, WHOLE};
use crate::limits::ScopeId;
use crate::time::Instant;

/// Watches the answers of all hosts together. About 5 KB, whatever is asked; an answer costs a look at one of its slots.
#[derive(Debug, Default)]
pub struct Uplink {
    hosts: Hosts,
    guard: Option<Guard>,
    in_flight: u32,
    last_answer: Instant,
    /// Until when what exchanges suggest is ours and not the hosts'.
    ours_until: Instant,
    /// Nobody answers at all: nothing starts before then, and how long that was.
    shut_until: Instant,
    shut_for: Duration,
    /// When kin were last looked at: the one thing here that looks at the whole table.
    compared: Instant,
}

/// An exchange that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Whose.
    pub host: ScopeId,
    /// When its request started.
    pub started: Instant,
    /// How it ended.
    pub heard: Heard,
}

/// What was heard of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It served, after so long.
    Served(Duration),
    /// It answered something else: the way to it works, but the time an error page takes says nothing (A11).
    Answered,
    /// No answer came.
    Nothing,
}

/// What an exchange did to the limit above all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was put on.
    PutOn(Yielding),
    /// It was cut again.
    Cut,
    /// Nothing is slow any more: it is lifted.
    Lifted,
}

impl Uplink {
    /// A request starts.
    #[inline]
    pub fn started(&mut self) {
        self.in_flight = self.in_flight.saturating_add(1);
        if let Some(guard) = &mut self.guard {
            guard.started(self.in_flight);
        }
    }

    /// A request gives its place back.
    #[inline]
    pub fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Requests in flight, of all hosts together.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many more may start now; [`u32::MAX`] where no limit is on.
    #[inline]
    pub fn room(&self, now: Instant) -> u32 {
        match self.guard(now) {
            None => u32::MAX,
            Some(_) if now < self.shut_until => 0,
            Some(guard) => guard.limit().saturating_sub(self.in_flight),
        }
    }

    /// The limit above all hosts, and why it is on; `None` where it is not.
    #[inline]
    pub fn yielding(&self, now: Instant) -> Option<Yielding> {
        self.guard(now).map(Guard::yielding)
    }

    /// When somebody who waits for the limit may start if nothing is heard until then; `None` where no limit is on.
    pub fn ends(&self, now: Instant) -> Option<Instant> {
        let ends = self.guard(now)?.ends();
        Some(if now < self.shut_until { self.shut_until.min(ends) } else { ends })
    }

    /// Whether what an exchange suggests that started then and ended now is ours, and must not teach its host.
    #[inline]
    pub fn is_ours(&self, now: Instant, started: Instant) -> bool {
        now.min(started) < self.ours_until
    }

    /// An exchange ended; comes before [`Uplink::is_ours`] is asked of it, and before [`Uplink::ended`]. `kin` gives the
    /// same number for hosts that may stand on one machine; it is asked only where much speaks for our own uplink.
    pub fn heard(&mut self, now: Instant, exchange: &Exchange, kin: impl Fn(ScopeId) -> u64) -> Option<Change> {
        if exchange.heard != Heard::Nothing {
            self.last_answer = now;
            (self.shut_until, self.shut_for) = (Instant::ZERO, Duration::ZERO);
        }
        let ended = self.guard.is_some_and(|guard| now >= guard.ends());
        if ended {
            self.guard = None;
            self.hosts.clear(now);
        }
        let Some(guard) = &self.guard else {
            self.hosts.roll(now);
            let bad = self.hosts.heard(now, exchange, true, Learning::BOTH);
            let put_on = if bad { self.put_on(now, kin) } else { None };
            return put_on.or(ended.then_some(Change::Lifted));
        };
        // Only an answer to what started since tells how a change of the limit went (A9).
        let tells = exchange.started >= guard.changed();
        let learning = guard.learning();
        let bad = self.hosts.heard(now, exchange, tells, learning);
        if bad && self.is_together(now, kin) {
            self.ours_until = now.after(HOLD);
        }
        if exchange.heard == Heard::Nothing {
            self.shut(now);
        }
        self.turn(now)
    }

    /// The limit is put on, where most hosts are as bad as this one.
    #[cold]
    fn put_on(&mut self, now: Instant, kin: impl Fn(ScopeId) -> u64) -> Option<Change> {
        if !self.is_together(now, kin) {
            return None;
        }
        self.ours_until = now.after(HOLD);
        let guard = Guard::put_on(now, self.in_flight, self.hosts.recent());
        self.hosts.clear(now);
        let yielding = self.guard.insert(guard).yielding();
        self.shut(now);
        Some(Change::PutOn(yielding))
    }

    /// Where nobody answers at all, what starts fails, perhaps at once, and whoever asked may not ask again: so few try, in
    /// longer and longer steps, until somebody answers.
    fn shut(&mut self, now: Instant) {
        if self.hosts.silent() >= LEAST_HOSTS && now >= self.shut_until {
            self.shut_for = (self.shut_for * 2).clamp(SHUT, MOST_SHUT);
            self.shut_until = now.after(self.shut_for);
            if let Some(guard) = &mut self.guard {
                guard.confirm(now);
            }
        }
    }

    /// A round of answers under the limit is over: it is cut, raised or lifted.
    fn turn(&mut self, now: Instant) -> Option<Change> {
        let guard = self.guard.as_mut().filter(|guard| self.hosts.answers() >= guard.round())?;
        let recent = self.hosts.recent();
        let turn = guard.turn(now, self.in_flight, recent, self.hosts.are_quick());
        self.hosts.clear(now);
        if turn == Turn::Cut && recent.mean_share() < OURS {
            self.ours_until = now.after(HOLD);
        }
        match turn {
            Turn::Cut => Some(Change::Cut),
            Turn::Held => None,
            Turn::Lifted => {
                self.guard = None;
                Some(Change::Lifted)
            }
        }
    }

    /// Whether most of the hosts that were asked of late slowed down or fell silent.
    fn is_together(&mut self, now: Instant, kin: impl Fn(ScopeId) -> u64) -> bool {
        let silent = self.hosts.silent();
        let all_silent = silent >= LEAST_HOSTS
            && (now >= self.last_answer.after(SILENCE) || is_most(silent, self.hosts.recent().hosts));
        let recent = self.hosts.recent();
        let most_bad = recent.bad >= LEAST_HOSTS && is_most(recent.bad, recent.hosts);
        if !(all_silent || most_bad) || now < self.compared.after(COMPARED_EVERY) {
            return false;
        }
        self.compared = now;
        all_silent && self.hosts.silent_kin(&kin) >= LEAST_HOSTS || most_bad && self.hosts.are_most_kin_bad(&kin)
    }

    fn guard(&self, now: Instant) -> Option<&Guard> {
        self.guard.as_ref().filter(|guard| now < guard.ends())
    }
}

/// Whether so many of all are most of them.
fn is_most(part: u32, all: u32) -> bool {
    part * 10 >= all * 6
}

/// Fewer hosts than these say nothing about what they have in common.
const LEAST_HOSTS: u32 = 4;
/// How long after the last evidence exchanges still suggest nothing of a host.
const HOLD: Duration = Duration::from_secs(2);
/// Under the limit, what is half as slow again as usual is ours; what is less teaches as ever.
const OURS: u32 = WHOLE * 2 / 3;
/// Where nobody at all has answered for so long, four hosts that answered before and do not now are enough.
const SILENCE: Duration = Duration::from_millis(500);
/// The first and the longest step between two tries where nobody answers.
const SHUT: Duration = Duration::from_millis(250);
const MOST_SHUT: Duration = Duration::from_secs(8);
const COMPARED_EVERY: Duration = Duration::from_millis(20);
