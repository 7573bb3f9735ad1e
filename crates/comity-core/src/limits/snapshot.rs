//! A scope's state as plain numbers: what a store keeps, beside the limits, which each process brings itself.

use core::time::Duration;

use super::cell::Tally;
use super::gcra::Gcra;
use super::pause::{Pause, Restart};
use super::quota::AdvertisedQuota;
use super::window::Windows;
use crate::policy::bytes::{Reader, Writer};
use crate::policy::{LEARNED_BYTES, Learned};
use crate::time::{Instant, nanos};

/// A scope's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The clock of what a person set.
    pub spacing: Gcra,
    /// The clock of what was learned or declared.
    pub pace: Gcra,
    /// When a request last started; the clock's origin where none did.
    pub last_start: Instant,
    /// The pause, and how the scope comes back from it.
    pub pause: Pause,
    /// What robots.txt declares; zero where it does not.
    pub crawl_delay: Duration,
    /// Requests in flight.
    pub in_flight: u32,
    /// What the policy learned.
    pub learned: Learned,
    /// The starts of the windows' log. [`Snapshot::to_bytes`] leaves them out.
    pub windows: Windows,
    /// The advertised quota.
    pub quota: Option<AdvertisedQuota>,
    /// What was counted.
    pub tally: Tally,
}

/// Bytes that are no scope's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no state of a scope that this version reads")]
pub struct Unreadable;

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            spacing: Gcra::default(),
            pace: Gcra::default(),
            last_start: Instant::ZERO,
            pause: Pause::default(),
            crawl_delay: Duration::ZERO,
            in_flight: 0,
            learned: Learned::Nothing,
            windows: Windows::default(),
            quota: None,
            tally: Tally::default(),
        }
    }
}

impl Snapshot {
    /// Everything but the log of windows, which has no fixed length ([`Windows::to_keep`]).
    pub fn to_bytes(&self) -> [u8; SNAPSHOT_BYTES] {
        let mut bytes = [0; SNAPSHOT_BYTES];
        let mut out = Writer::new(&mut bytes);
        for clock in [self.spacing, self.pace] {
            out.instant(clock.virtual_start().unwrap_or(Instant::FAR));
        }
        out.instant(self.last_start);
        out.instant(self.pause.until());
        out.u8(self.pause.restart() as u8);
        out.u8(self.pause.repeats());
        out.u64(nanos(self.crawl_delay));
        out.u32(self.in_flight);
        out.u8(u8::from(self.quota.is_some()));
        let quota = self.quota.unwrap_or(NO_QUOTA);
        out.u64(quota.limit.unwrap_or(u64::MAX));
        out.u64(quota.window.map_or(u64::MAX, nanos));
        out.u64(quota.remaining);
        out.instant(quota.heard);
        out.instant(quota.resets);
        let tally = &self.tally;
        for count in [
            tally.refusals_with_advice,
            tally.refusals_without_advice,
            tally.give_ups,
            tally.no_answers,
            tally.server_errors,
        ] {
            out.u32(count);
        }
        out.u16(tally.last_refusal.unwrap_or(0));
        out.u64(tally.last_wait.map_or(u64::MAX, nanos));
        out.instant(tally.last_refused);
        self.learned.write(&mut out);
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// When [`Snapshot::to_bytes`] did not make them.
    pub fn from_bytes(bytes: &[u8; SNAPSHOT_BYTES]) -> Result<Self, Unreadable> {
        Self::read(&mut Reader::new(bytes)).ok_or(Unreadable)
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let [spacing, pace] = [from.instant()?, from.instant()?]
            .map(|at| if at == Instant::FAR { Gcra::default() } else { Gcra::started(at) });
        let (last_start, until) = (from.instant()?, from.instant()?);
        let restart = match from.u8()? {
            0 => Restart::Free,
            1 => Restart::Due,
            2 => Restart::Out,
            _ => return None,
        };
        let pause = Pause::kept(until, restart, from.u8()?);
        let crawl_delay = Duration::from_nanos(from.u64()?);
        let in_flight = from.u32()?;
        let has_quota = from.u8()? == 1;
        let quota = AdvertisedQuota {
            limit: Some(from.u64()?).filter(|limit| *limit != u64::MAX),
            window: Some(from.u64()?).filter(|window| *window != u64::MAX).map(Duration::from_nanos),
            remaining: from.u64()?,
            heard: from.instant()?,
            resets: from.instant()?,
        };
        let tally = Tally {
            refusals_with_advice: from.u32()?,
            refusals_without_advice: from.u32()?,
            give_ups: from.u32()?,
            no_answers: from.u32()?,
            server_errors: from.u32()?,
            last_refusal: Some(from.u16()?).filter(|status| *status != 0),
            last_wait: Some(from.u64()?).filter(|wait| *wait != u64::MAX).map(Duration::from_nanos),
            last_refused: from.instant()?,
        };
        let learned = Learned::read(from)?;
        let quota = has_quota.then_some(quota);
        let windows = Windows::default();
        Some(Self { spacing, pace, last_start, pause, crawl_delay, in_flight, learned, windows, quota, tally })
    }

    /// The same, on a clock whose instants are others. "Never" and the clock's origin stay what they are.
    #[must_use]
    pub fn shifted(mut self, shift: impl Fn(Instant) -> Instant) -> Self {
        let shift = |at: Instant| if at == Instant::ZERO || at == Instant::FAR { at } else { shift(at) };
        for clock in [&mut self.spacing, &mut self.pace] {
            if let Some(at) = clock.virtual_start() {
                *clock = Gcra::started(shift(at));
            }
        }
        self.last_start = shift(self.last_start);
        self.pause = Pause::kept(shift(self.pause.until()), self.pause.restart(), self.pause.repeats());
        self.learned = self.learned.shifted(shift);
        self.windows =
            Windows::kept(self.windows.to_keep(usize::MAX).into_iter().map(|(at, count)| (shift(at), count)));
        if let Some(quota) = &mut self.quota {
            quota.heard = shift(quota.heard);
            quota.resets = shift(quota.resets);
        }
        self.tally.last_refused = shift(self.tally.last_refused);
        self
    }
}

const NO_QUOTA: AdvertisedQuota =
    AdvertisedQuota { limit: None, window: None, remaining: 0, heard: Instant::ZERO, resets: Instant::ZERO };

/// Bytes of a state without its log of windows.
pub const SNAPSHOT_BYTES: usize = 128 + LEARNED_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Tally;
    use crate::policy::Policy;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn full() -> Snapshot {
        Snapshot {
            spacing: Gcra::started(at(5)),
            pace: Gcra::default(),
            last_start: at(6),
            pause: Pause::kept(at(7), Restart::Out, 3),
            crawl_delay: Duration::from_secs(10),
            in_flight: 4,
            learned: Policy::Aimd(Default::default()).fresh(),
            windows: Windows::default(),
            quota: Some(AdvertisedQuota { limit: Some(9), window: None, remaining: 2, heard: at(1), resets: at(90) }),
            tally: Tally {
                refusals_with_advice: 1,
                last_refusal: Some(429),
                last_wait: Some(Duration::from_secs(3)),
                last_refused: at(8),
                ..Tally::default()
            },
        }
    }

    #[test]
    fn a_state_comes_back_from_its_bytes() {
        let (aimd, adaptive) = (Policy::Aimd(Default::default()), Policy::Adaptive(Default::default()));
        for learned in [Policy::Off, Policy::pressure(), Policy::refusal(), aimd, adaptive] {
            let state = Snapshot { learned: learned.fresh(), ..full() };
            assert_eq!(Snapshot::from_bytes(&state.to_bytes()), Ok(state));
        }
        let nothing = Snapshot::default();
        assert_eq!(Snapshot::from_bytes(&nothing.to_bytes()), Ok(nothing));
    }

    #[test]
    fn the_longest_state_fits() {
        let longest = Snapshot::default().to_bytes();
        let mut out = [0; SNAPSHOT_BYTES];
        let mut writer = Writer::new(&mut out);
        full().learned.write(&mut writer);
        assert!(writer.len() <= LEARNED_BYTES);
        let mut writer = Writer::new(&mut out);
        Policy::Adaptive(Default::default()).fresh().write(&mut writer);
        assert!(writer.len() <= LEARNED_BYTES);
        assert_eq!(longest.len(), SNAPSHOT_BYTES);
    }

    #[test]
    fn junk_is_no_state() {
        assert_eq!(Snapshot::from_bytes(&[0xff; SNAPSHOT_BYTES]), Err(Unreadable));
        let mut bytes = full().to_bytes();
        bytes[128 - 1] ^= 0x55;
        let _ = Snapshot::from_bytes(&bytes);
    }

    #[test]
    fn a_shift_moves_instants_and_leaves_never_alone() {
        let there = |at: Instant| at.after(Duration::from_secs(1));
        let back = |at: Instant| at.before(Duration::from_secs(1));
        let state = Snapshot { windows: Windows::kept([(at(3), 2), (at(4), 1)]), ..full() };
        assert_eq!(state.clone().shifted(there).last_start, at(1006));
        assert_eq!(state.clone().shifted(there).shifted(back), state);
        assert_eq!(Snapshot::default().shifted(there), Snapshot::default());
    }
}
