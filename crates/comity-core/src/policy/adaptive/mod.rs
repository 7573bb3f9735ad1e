//! The adaptive policy: refusals teach the rate ([`rate`]), latency teaches the concurrency ([`concurrency`]), and both
//! are remembered.
//!
//! All arithmetic is on integers: spans in nanoseconds, latencies in microseconds, shares in 1/1024.

mod concurrency;
mod episode;
mod kept;
mod octaves;
mod rate;
mod shared;
mod strain;

use core::fmt;
use core::time::Duration;

use self::concurrency::{Concurrency, Seen};
use self::kept::BYTES;
use self::octaves::Octaves;
use self::rate::{Phase, Rate};
use self::strain::Strain;
use super::bytes::{Reader, Writer};
use super::said::{Rate as SaidRate, Said, Why};
use super::{Change, Fact, Outcome};
use crate::time::{Instant, nanos};

/// Where the policy begins and what it may not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// First interval.
    pub start: Duration,
    /// Never faster (A8).
    pub floor: Duration,
    /// Never slower, but for trials while the host refuses.
    pub ceiling: Duration,
}

/// What was learned of one host, packed: a table may hold millions.
#[derive(Clone, Copy, PartialEq)]
pub struct Adaptive {
    bytes: [u8; BYTES],
}

/// The same, to work with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    rate: Rate,
    concurrency: Concurrency,
    octaves: Octaves,
    strain: Strain,
    /// The last change; only answers to requests started since count (A9).
    changed: Instant,
    /// When the last request started that was answered.
    last: Instant,
    /// Days that it lay unused before that.
    stale: u8,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self { start: Duration::from_millis(250), floor: Duration::ZERO, ceiling: Duration::from_secs(60) }
    }
}

impl AdaptiveSettings {
    /// The same, begun at an interval that a person or a service set, and never faster.
    #[must_use]
    pub fn bounded_by(&self, interval: Duration) -> Self {
        Self { start: self.start.max(interval), floor: interval, ceiling: self.ceiling.max(interval) }
    }

    /// The same, with no span that arithmetic could not bear.
    fn sane(&self) -> Self {
        let longest = Duration::from_nanos(LONGEST);
        Self { start: self.start.min(longest), floor: self.floor.min(longest), ceiling: self.ceiling.min(longest) }
    }
}

impl Adaptive {
    /// A host nobody has asked yet.
    pub fn new(settings: &AdaptiveSettings) -> Self {
        State::new(settings).pack()
    }

    /// The same, moved inside other bounds; where nothing was learned yet it begins where they do.
    pub(super) fn within(&self, settings: &AdaptiveSettings) -> Self {
        let mut state = State::unpack(self);
        if state.is_fresh() {
            return Self::new(settings);
        }
        state.bound(&settings.sane());
        state.pack()
    }

    /// The same, with the fewer places of both.
    pub(super) fn with_no_more_places_than(&self, other: &Self) -> Self {
        let (mut state, other) = (State::unpack(self), State::unpack(other));
        state.concurrency.most = state.concurrency.most.min(other.concurrency.most);
        state.pack()
    }

    /// What is left of it after so long a rest. A limit is a host's rule and not its mood, so the pace stays what it was;
    /// what fades is how sure of it we are: the longer the rest, the sooner a little more is tried, and after
    /// [`FORGOTTEN`] it is learned anew.
    pub(super) fn aged(&self, idle: Duration, settings: &AdaptiveSettings) -> Self {
        if idle >= FORGOTTEN {
            return Self::new(settings);
        }
        let mut state = State::unpack(self);
        state.stale = u8::try_from(idle.as_secs() / DAY).unwrap_or(u8::MAX);
        state.pack()
    }

    /// The learned interval.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(kept::pace(&self.bytes))
    }

    /// The learned concurrency.
    pub fn in_flight(&self) -> u32 {
        kept::in_flight(&self.bytes)
    }

    /// Whether the host answers in two ways: from a cache, and from what lies behind it (A6).
    pub fn is_bimodal(&self) -> bool {
        State::unpack(self).octaves.is_bimodal()
    }

    /// The mean latency without a queue of ours (A5).
    pub fn latency_floor(&self) -> Option<Duration> {
        State::unpack(self).concurrency.base()
    }

    /// What it has to say for itself.
    pub fn said(&self, now: Instant) -> Said {
        let state = State::unpack(self);
        let rate = &state.rate;
        let why = match rate.phase() {
            _ if rate.is_refused() => Why::BackingOff,
            _ if state.strain.holds() => Why::Strained,
            _ if rate.is_shared() => Why::Sharing,
            Phase::Cold | Phase::Search => Why::Searching,
            Phase::Settled => Why::Learned,
            Phase::Probe => Why::Probing,
        };
        Said {
            rate: rate.known().map(|known| SaidRate::every(Duration::from_nanos(known))),
            concurrency: Some(self.in_flight()),
            why,
            last_refused: rate.last_refused(),
            next_probe: rate.next_probe().filter(|at| *at > now && why == Why::Learned),
            bimodal: state.octaves.is_bimodal(),
            refusals: rate.episodes(),
        }
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.bytes(&self.bytes);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let read = Self { bytes: from.bytes()? };
        // Bytes that no state has are not taken.
        (State::unpack(&read).pack() == read).then_some(read)
    }

    pub(super) fn shift(&mut self, shift: impl Fn(Instant) -> Instant) {
        let mut state = State::unpack(self);
        state.shift(&shift);
        *self = state.pack();
    }

    /// An exchange ended.
    pub fn taught(&mut self, now: Instant, fact: &Fact, settings: &AdaptiveSettings) -> Change {
        let before = (self.interval(), self.in_flight());
        let mut state = State::unpack(self);
        state.taught(now, fact, settings);
        *self = state.pack();
        let after = (self.interval(), self.in_flight());
        if after.0 < before.0 || after.1 > before.1 {
            Change::Faster
        } else if after == before {
            Change::None
        } else {
            Change::Slower
        }
    }

    /// Whether nothing was learned that a new host would not start with.
    pub fn is_fresh(&self, settings: &AdaptiveSettings) -> bool {
        *self == Self::new(settings)
    }
}

impl fmt::Debug for Adaptive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        State::unpack(self).fmt(f)
    }
}

impl State {
    fn new(settings: &AdaptiveSettings) -> Self {
        let mut rate = Rate::new(&settings.sane());
        rate.bound(&settings.sane());
        Self {
            rate,
            concurrency: Concurrency::new(),
            octaves: Octaves::default(),
            strain: Strain::default(),
            changed: Instant::ZERO,
            last: Instant::ZERO,
            stale: 0,
        }
    }

    fn is_fresh(&self) -> bool {
        self.last == Instant::ZERO
    }

    fn taught(&mut self, now: Instant, fact: &Fact, settings: &AdaptiveSettings) {
        let settings = &settings.sane();
        let now = now.min(LAST);
        let fact = &Fact { started: fact.started.min(LAST), ..*fact };
        self.came(fact.started);
        let counts = fact.started >= self.changed;
        match fact.outcome {
            Outcome::Refused { advice } => {
                if counts {
                    if !self.rate.is_refused() && self.rate.phase() != Phase::Cold {
                        self.concurrency.refused(now);
                    }
                    self.rate.refused(fact.started, advice, settings);
                    self.changes(now);
                }
            }
            Outcome::NoAnswer => self.objects(now, counts),
            // The host let it in, whatever it answered: its limit counts it (A11 is about the pace, which only moves on
            // what was served).
            Outcome::Neutral | Outcome::ServerError | Outcome::Served => {
                let served = fact.outcome == Outcome::Served;
                let ended = self.rate.admitted(now, fact.started, counts, served, self.concurrency.base(), settings);
                if ended {
                    self.changes(now);
                } else if fact.outcome == Outcome::ServerError {
                    self.objects(now, counts);
                } else if served && counts {
                    self.served(now, fact.latency);
                }
            }
        }
        self.bound(settings);
    }

    /// Within the bounds that were set, trials apart.
    fn bound(&mut self, settings: &AdaptiveSettings) {
        self.rate.bound(settings);
        self.strain.bound(self.rate.interval, nanos(settings.ceiling));
    }

    fn served(&mut self, now: Instant, latency: Option<Duration>) {
        self.strain.served();
        let Some(latency) = latency else { return };
        self.octaves.add(latency);
        if self.concurrency.served(now, latency) == Seen::Struggling {
            self.strain.more();
        }
    }

    /// A server error, or no answer (A3).
    fn objects(&mut self, now: Instant, counts: bool) {
        if counts {
            self.strain.more();
            self.changed = self.changed.max(now);
        }
    }

    fn changes(&mut self, now: Instant) {
        self.concurrency.restart(now);
        self.changed = self.changed.max(now);
    }

    /// A request was answered that started then: the first, or the first after a rest.
    fn came(&mut self, started: Instant) {
        if self.last == Instant::ZERO {
            self.rate.first(started);
            self.concurrency.restart(started);
        } else if started.since(self.last) > REST && !self.rate.is_paused(started) {
            self.rate.resumed(started, self.stale);
            self.concurrency.restart(started);
            self.changed = self.changed.min(started);
        }
        if started > self.last {
            self.stale = 0;
        }
        self.last = self.last.max(started);
    }

    fn shift(&mut self, shift: &impl Fn(Instant) -> Instant) {
        self.rate.shift(shift);
        self.concurrency.shift(shift);
        self.changed = shift(self.changed);
        self.last = if self.last == Instant::ZERO { self.last } else { shift(self.last) };
    }
}

/// Without a request for so long, a host has saved up whatever it can.
const REST: Duration = Duration::from_secs(120);
/// What was learned is learned anew after so long.
const FORGOTTEN: Duration = Duration::from_secs(30 * DAY);
const DAY: u64 = 86_400;
/// No clock gets that far (146 years), and four times as much is still a number.
const LAST: Instant = Instant::from_nanos((1 << 62) - 1);
/// A year or so, in nanoseconds: whoever waits longer does not wait.
const LONGEST: u64 = 1 << 55;

#[cfg(test)]
mod tests;
