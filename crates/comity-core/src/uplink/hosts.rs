//! The hosts that were asked of late: what is usual of each, and which of them are slow or silent now.

use core::time::Duration;

use super::{Exchange, Heard, LEAST_HOSTS, is_most};
use crate::limits::ScopeId;
use crate::time::Instant;

/// A fixed table of recent hosts. Where more are asked than it has room for, those it knows already stay as long as they
/// are asked: a sample that is known well says more than all hosts known badly.
#[derive(Debug)]
pub(super) struct Hosts {
    slots: Box<[Slot; SLOTS]>,
    /// Of this window and the last one.
    this: Recent,
    last: Recent,
    /// The window's number: a slot counts where it has this or the last one.
    window: u32,
    /// When it began.
    began: Instant,
    /// Answers counted since it last counted anew, and those of them that were no slower than usual.
    answers: u32,
    quick: u32,
    /// Slots that fell silent since anybody answered.
    silent: [u64; SLOTS / 64],
    any_silent: bool,
}

/// Hosts asked of late, each counted once, as it was last heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) hosts: u32,
    /// Slow twice in a row, or silent.
    pub(super) bad: u32,
    /// Noticeably slower than usual.
    pub(super) heavy: u32,
    /// The sum of their shares: what is usual ÷ what it took, in [`WHOLE`]ths, 1 at most.
    shares: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    scope: ScopeId,
    /// The window it was last counted in, or [`NO_WINDOW`].
    window: u32,
    /// When it was last heard, in whole seconds.
    heard: u32,
    /// What is usual of it: of its times, as a [`code`], about the third quartile, or where they are far apart the middle.
    usual: u16,
    answers: u8,
    /// Slow answers in a row; silence is worth two.
    bad: u8,
    share: u8,
}

/// How what is usual of a host may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Learning {
    /// It may rise.
    pub(super) rise: bool,
    /// It may fall.
    pub(super) fall: bool,
}

/// How one exchange compares with what is usual of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    share: u8,
    bad: u8,
}

impl Learning {
    /// As where no limit is on.
    pub(super) const BOTH: Self = Self { rise: true, fall: true };
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            slots: Box::new([Slot::new(NOBODY, 0); SLOTS]),
            this: Recent::default(),
            last: Recent::default(),
            window: FIRST_WINDOW,
            began: Instant::ZERO,
            answers: 0,
            quick: 0,
            silent: [0; SLOTS / 64],
            any_silent: false,
        }
    }
}

impl Hosts {
    /// A host was heard, or was not. It counts as it was last heard where `counts`, and once enough is known of it. Whether
    /// that is bad: there is nothing to look at else.
    pub(super) fn heard(&mut self, now: Instant, exchange: &Exchange, counts: bool, learning: Learning) -> bool {
        let at = exchange.host.0 as usize % SLOTS;
        let seconds = seconds(now);
        if exchange.heard != Heard::Nothing && self.any_silent {
            (self.silent, self.any_silent) = ([0; SLOTS / 64], false);
        }
        let slot = &self.slots[at];
        if slot.scope != exchange.host {
            let is_free = slot.scope == NOBODY || slot.heard.saturating_add(STALE) <= seconds;
            if !is_free || !matches!(exchange.heard, Heard::Served(_)) {
                return false;
            }
            self.count(at, None);
            self.slots[at] = Slot::new(exchange.host, seconds);
        }
        let slot = &mut self.slots[at];
        slot.heard = seconds;
        if exchange.heard == Heard::Nothing {
            self.silent[at / 64] |= 1 << (at % 64);
            self.any_silent = true;
        }
        let verdict = match exchange.heard {
            Heard::Served(latency) => slot.served(code(latency), learning),
            Heard::Answered => None,
            Heard::Nothing => Some(Verdict { share: 0, bad: BAD }),
        };
        if counts {
            self.count(at, verdict);
        }
        self.slots[at].is_bad()
    }

    /// Hosts counted in this window and the last.
    pub(super) fn recent(&self) -> Recent {
        let (this, last) = (&self.this, &self.last);
        Recent {
            hosts: this.hosts + last.hosts,
            bad: this.bad + last.bad,
            heavy: this.heavy + last.heavy,
            shares: this.shares + last.shares,
        }
    }

    /// Answers counted since the last [`Hosts::clear`].
    pub(super) fn answers(&self) -> u32 {
        self.answers
    }

    /// Whether all but a few of them were no slower than usual. Where that is right, one in four is slower.
    pub(super) fn are_quick(&self) -> bool {
        self.quick * 16 >= self.answers * 15
    }

    /// Hosts that fell silent since anybody answered.
    pub(super) fn silent(&self) -> u32 {
        self.silent.iter().map(|bits| bits.count_ones()).sum()
    }

    /// The same without those that are kin of another.
    pub(super) fn silent_kin(&self, kin: &impl Fn(ScopeId) -> u64) -> u32 {
        let silent = |at: usize| self.silent[at / 64] >> (at % 64) & 1 == 1;
        Kins::of((0..SLOTS).filter(|at| silent(*at)).map(|at| (kin(self.slots[at].scope), true))).bad_and_all().0
    }

    /// Whether most of those counted are bad where kin count once, as most of them are.
    pub(super) fn are_most_kin_bad(&self, kin: &impl Fn(ScopeId) -> u64) -> bool {
        let counted = self.slots.iter().filter(|slot| slot.window == self.window || slot.window + 1 == self.window);
        let (bad, all) = Kins::of(counted.map(|slot| (kin(slot.scope), slot.is_bad()))).bad_and_all();
        bad >= LEAST_HOSTS && is_most(bad, all)
    }

    /// Counts nobody any more who was not heard for a window or two.
    #[inline]
    pub(super) fn roll(&mut self, now: Instant) {
        if now < self.began.after(WINDOW) {
            return;
        }
        if now >= self.began.after(WINDOW * 2) {
            self.clear(now);
            return;
        }
        self.last = core::mem::take(&mut self.this);
        self.window += 1;
        self.began = self.began.after(WINDOW);
    }

    /// Counts anew.
    pub(super) fn clear(&mut self, now: Instant) {
        (self.this, self.last) = (Recent::default(), Recent::default());
        (self.answers, self.quick) = (0, 0);
        self.window = self.window.checked_add(2).unwrap_or_else(|| {
            self.slots.iter_mut().for_each(|slot| slot.window = NO_WINDOW);
            FIRST_WINDOW
        });
        self.began = now;
    }

    /// A host counts from now on as it was last heard, or not at all.
    fn count(&mut self, at: usize, verdict: Option<Verdict>) {
        let slot = &mut self.slots[at];
        let as_usual = Verdict { share: WHOLE as u8, bad: 0 };
        if slot.window == self.window && verdict == Some(as_usual) && (slot.share, slot.bad) == (as_usual.share, 0) {
            // Nearly every answer is so.
            self.answers += 1;
            self.quick += 1;
            return;
        }
        if slot.window == self.window {
            self.this.remove(slot);
        } else if slot.window + 1 == self.window {
            self.last.remove(slot);
        }
        slot.window = NO_WINDOW;
        let Some(verdict) = verdict else {
            slot.bad = 0;
            return;
        };
        (slot.share, slot.bad) = (verdict.share, slot.bad.saturating_add(verdict.bad).min(BAD));
        if verdict.bad == 0 {
            slot.bad = 0;
        }
        slot.window = self.window;
        self.this.add(slot);
        self.answers += 1;
        self.quick += u32::from(u32::from(slot.share) == WHOLE);
    }
}

impl Recent {
    /// The mean of the shares, in [`WHOLE`]ths: so much of what is in flight was enough to be as fast as usual.
    pub(super) fn mean_share(&self) -> u32 {
        self.shares.checked_div(self.hosts).unwrap_or(WHOLE)
    }

    fn add(&mut self, slot: &Slot) {
        self.hosts += 1;
        self.bad += u32::from(slot.is_bad());
        self.heavy += u32::from(slot.is_heavy());
        self.shares += u32::from(slot.share);
    }

    fn remove(&mut self, slot: &Slot) {
        self.hosts -= 1;
        self.bad -= u32::from(slot.is_bad());
        self.heavy -= u32::from(slot.is_heavy());
        self.shares -= u32::from(slot.share);
    }
}

impl Slot {
    const fn new(scope: ScopeId, heard: u32) -> Self {
        Self { scope, window: NO_WINDOW, heard, usual: 0, answers: 0, bad: 0, share: 0 }
    }

    fn is_bad(&self) -> bool {
        self.bad >= BAD
    }

    fn is_heavy(&self) -> bool {
        u32::from(self.share) < AS_USUAL
    }

    /// It served. How that compares with what was usual until now, once that is known.
    fn served(&mut self, took: u16, learning: Learning) -> Option<Verdict> {
        let usual = self.usual.max(GRAIN);
        let known = self.answers >= KNOWN;
        if !known {
            self.answers += 1;
        }
        if self.answers == 1 {
            self.usual = took;
        } else if took > self.usual {
            self.usual += if learning.rise { RISE } else { 0 };
        } else if learning.fall {
            self.usual -= match self.usual - took {
                0 => 0,
                less if less < OCTAVE => FALL,
                _ => FALL_FAST,
            };
        }
        known.then(|| Verdict { share: share(took, usual), bad: u8::from(took > usual + OCTAVE) })
    }
}

/// Hosts and what was heard of them, by their kin.
struct Kins {
    of: [(u64, bool); SLOTS],
    len: usize,
}

impl Kins {
    fn of(hosts: impl Iterator<Item = (u64, bool)>) -> Self {
        let mut kins = Self { of: [(0, false); SLOTS], len: 0 };
        for (place, host) in kins.of.iter_mut().zip(hosts) {
            *place = host;
            kins.len += 1;
        }
        kins
    }

    /// How many kin there are of whom most are bad, and how many in all.
    fn bad_and_all(&mut self) -> (u32, u32) {
        let hosts = &mut self.of[..self.len];
        hosts.sort_unstable();
        let (mut bad, mut all) = (0, 0);
        for kin in hosts.chunk_by(|a, b| a.0 == b.0) {
            let bad_ones = kin.iter().filter(|host| host.1).count();
            bad += u32::from(is_most(bad_ones as u32, kin.len() as u32));
            all += 1;
        }
        (bad, all)
    }
}

fn seconds(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

/// A span's logarithm, in 32nds of an octave above a microsecond, straight between the octaves.
const fn code(span: Duration) -> u16 {
    // A day is as slow as anything gets.
    let seconds = if span.as_secs() > 86_400 { 86_400 } else { span.as_secs() };
    let micros = seconds * 1_000_000 + span.subsec_micros() as u64;
    let micros = if micros == 0 { 1 } else { micros };
    let octave = micros.ilog2();
    (octave as u16) * OCTAVE + ((micros << 5 >> octave) & 31) as u16
}

/// What is usual ÷ what it took, in [`WHOLE`]ths, straight between the octaves.
fn share(took: u16, usual: u16) -> u8 {
    let over = took.saturating_sub(usual);
    let (octaves, part) = (u32::from(over / OCTAVE), u32::from(over % OCTAVE));
    let whole = WHOLE.checked_shr(octaves).unwrap_or(0);
    (whole - whole * part / (2 * u32::from(OCTAVE))) as u8
}

/// No host's scope.
const NOBODY: ScopeId = ScopeId(u32::MAX);
/// Hosts that are known at a time: enough for a share of six in ten to mean something, few enough to go over in no time.
const SLOTS: usize = 256;
/// A host that was not heard for so many seconds makes room for another.
const STALE: u32 = 30;
/// How long a host counts after it was heard: a window or two.
const WINDOW: Duration = Duration::from_secs(2);
const NO_WINDOW: u32 = 0;
/// The one before it is none, either.
const FIRST_WINDOW: u32 = 2;
/// Answers from which on what is usual of a host is taken to be known.
const KNOWN: u8 = 4;
/// An answer of twice the usual time is slow; two in a row are bad, because the first request over a new connection is
/// slow by itself.
const BAD: u8 = 2;
const OCTAVE: u16 = 32;
/// Below it the network's own noise is a multiple of the time.
const GRAIN: u16 = code(Duration::from_millis(20));
/// A slower answer raises what is usual by three, a faster one lowers it by one, so that one in four is slower where they
/// are even. A burst that starts from nothing doubles an answer's time sooner than this follows it.
const RISE: u16 = 3;
const FALL: u16 = 1;
/// An answer in less than half the usual time: what was taken for usual was not.
const FALL_FAST: u16 = 4;
pub(super) const WHOLE: u32 = 255;
/// An answer that took a seventh longer than usual, or less, is as usual.
pub(super) const AS_USUAL: u32 = WHOLE * 7 / 8;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_share_is_what_is_usual_over_what_it_took() {
        for (took, usual, expected) in
            [(100, 100, 255), (50, 100, 255), (200, 100, 127), (400, 100, 63), (150, 100, 170)]
        {
            let got = share(code(MS * took), code(MS * usual));
            assert!(got.abs_diff(expected) <= 8, "{took} {usual}: {got}");
        }
        assert_eq!(share(code(Duration::MAX), code(Duration::ZERO)), 0);
    }

    #[test]
    fn what_is_usual_settles_between_the_middle_and_the_third_quartile() {
        for (spread, least, most) in [(300, 40, 60), (30, 20, 30)] {
            let mut slot = Slot::new(ScopeId(0), 0);
            let mut state = 7_u64;
            let slower = (0..4000)
                .filter(|n| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let took = code(MS * (30 + (state >> 33) as u32 % spread));
                    let slower = took > slot.usual;
                    slot.served(took, Learning::BOTH);
                    *n >= 2000 && slower
                })
                .count();
            assert!((least..most).contains(&(slower / 20)), "of times {spread} ms apart, {slower} of 2000 are slower");
        }
    }

    #[test]
    fn a_table_that_is_full_keeps_those_it_knows_until_they_are_stale() {
        let mut hosts = Hosts::default();
        let served = |host| Exchange { host: ScopeId(host), started: Instant::ZERO, heard: Heard::Served(MS * 50) };
        hosts.heard(Instant::from_millis(1000), &served(3), true, Learning::BOTH);
        hosts.heard(Instant::from_millis(1500), &served(3 + SLOTS as u32), true, Learning::BOTH);
        assert_eq!(hosts.slots[3].scope, ScopeId(3));
        hosts.heard(Instant::from_millis(31_000), &served(3 + SLOTS as u32), true, Learning::BOTH);
        assert_eq!(hosts.slots[3].scope, ScopeId(3 + SLOTS as u32));
    }

    #[test]
    fn each_host_counts_once_as_it_was_last_heard() {
        let mut hosts = Hosts::default();
        let at = Instant::from_millis(100);
        let mut tell = |heard| {
            let started = Instant::ZERO;
            hosts.heard(at, &Exchange { host: ScopeId(1), started, heard }, true, Learning::BOTH);
            hosts.recent()
        };
        for _ in 0..5 {
            tell(Heard::Served(MS * 50));
        }
        assert_eq!(tell(Heard::Served(MS * 50)), Recent { hosts: 1, bad: 0, heavy: 0, shares: 255 });
        assert_eq!(tell(Heard::Served(MS * 500)).bad, 0, "the first slow one");
        assert_eq!(tell(Heard::Served(MS * 500)).bad, 1);
        assert_eq!(tell(Heard::Served(MS * 50)).bad, 0);
        assert_eq!(tell(Heard::Nothing), Recent { hosts: 1, bad: 1, heavy: 1, shares: 0 });
        assert_eq!(tell(Heard::Answered), Recent::default(), "an error page tells nothing but that the way works");
    }

    #[test]
    fn who_was_not_heard_for_two_windows_counts_no_more() {
        let mut hosts = Hosts::default();
        for host in 0..4 {
            for n in 0..6 {
                let heard = Heard::Served(MS * 50);
                let exchange = Exchange { host: ScopeId(host), started: Instant::ZERO, heard };
                let now = Instant::from_millis(u64::from(host) * 1100 + n);
                hosts.roll(now);
                hosts.heard(now, &exchange, true, Learning::BOTH);
            }
        }
        assert_eq!(hosts.recent().hosts, 4);
        hosts.roll(Instant::from_millis(4100));
        assert_eq!(hosts.recent().hosts, 2);
        hosts.roll(Instant::from_millis(60_000));
        assert_eq!(hosts.recent().hosts, 0);
    }
}
