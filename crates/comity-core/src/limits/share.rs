//! The part of every limit that one of several may use while they cannot agree (decision 7).

use core::num::NonZeroU32;
use core::time::Duration;

use super::gcra::{DENSE, late_by};
use crate::time::Instant;

/// One of so many members that keep a limit together without a word to each other.
///
/// Spacings are multiplied by the members, and each starts on turns of its own, which no two of them share; counts are
/// divided among them: the first so many hold one more where they do not divide evenly. So together they are never faster
/// than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    members: NonZeroU32,
    rank: u32,
    /// What their common clock is ahead of the instants here.
    phase: Duration,
}

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self { members: NonZeroU32::MIN, rank: 0, phase: Duration::ZERO };

    /// The part of the `rank`-th (from 0) of so many members. `phase` is what the clock that all of them share is ahead of
    /// the instants they are asked with here: turns are counted on it.
    pub fn of_members(members: NonZeroU32, rank: u32, phase: Duration) -> Self {
        Self { members, rank: rank % members, phase }
    }

    /// Whether it is all of it.
    pub fn is_whole(&self) -> bool {
        self.members.get() == 1
    }

    /// The members that share.
    pub fn members(&self) -> u32 {
        self.members.get()
    }

    /// A spacing kept by each, so that all together keep `interval`.
    pub fn slower(&self, interval: Duration) -> Duration {
        interval.saturating_mul(self.members.get())
    }

    /// The first instant, from `now` on, of a turn of this member in which it may start at this spacing. Turns begin at every
    /// interval of the common clock and are the members' in order; a start belongs to the beginning of a turn, so that those
    /// of two members are an interval apart. Under 10 ms, where the promise is the rate and not each gap, there are none.
    pub(super) fn turn(&self, now: Instant, interval: Duration) -> Instant {
        if self.is_whole() || interval < DENSE {
            return now;
        }
        let (interval, late) = (interval.as_nanos(), late_by(interval).as_nanos());
        let round = interval * u128::from(self.members.get());
        let common = u128::from(now.as_nanos()) + self.phase.as_nanos();
        let since = (common % round + round - interval * u128::from(self.rank)) % round;
        if since <= late {
            return now;
        }
        now.after(Duration::from_nanos(u64::try_from(round - since).unwrap_or(u64::MAX)))
    }

    /// This member's part of a count. May be none.
    pub fn of(&self, count: u32) -> u32 {
        count / self.members + u32::from(self.rank < count % self.members)
    }

    /// This member's part of a burst. A first start after a rest is always one: that of each member, whose intervals are as
    /// much longer.
    pub(super) fn burst(&self, burst: NonZeroU32) -> u32 {
        self.of(burst.get()).max(1)
    }

    /// A burst's tolerance: none while the members cannot agree who uses it.
    pub(super) fn tolerance(&self, tolerance: Duration) -> Duration {
        if self.is_whole() { tolerance } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absurd_interval_has_turns_too() {
        let members = NonZeroU32::new(1000).unwrap();
        let share = Share::of_members(members, 999, Duration::MAX);
        assert!(share.turn(Instant::from_millis(5), Duration::from_secs(u64::MAX / 2)) > Instant::from_millis(5));
    }

    #[test]
    fn turns_of_two_members_are_an_interval_apart() {
        let interval = Duration::from_millis(500);
        for members in 2..8 {
            let members = NonZeroU32::new(members).unwrap();
            let mut starts = Vec::new();
            for rank in 0..members.get() {
                // Each counts from an origin of its own.
                let origin = Duration::from_millis(u64::from(rank) * 137);
                let share = Share::of_members(members, rank, origin);
                let mut now = Instant::from_millis(1_000_000).before(origin);
                for _ in 0..5 {
                    now = share.turn(now, interval);
                    starts.push(now.after(origin));
                    now = now.after(interval);
                }
            }
            starts.sort_unstable();
            assert!(starts.windows(2).all(|pair| pair[1].since(pair[0]) >= interval), "{starts:?}");
        }
    }

    #[test]
    fn the_parts_of_a_count_are_the_count() {
        for members in 1..9 {
            for count in 0..40 {
                let members = NonZeroU32::new(members).unwrap();
                let parts: u32 =
                    (0..members.get()).map(|rank| Share::of_members(members, rank, Duration::ZERO).of(count)).sum();
                assert_eq!(parts, count, "{count} among {members}");
            }
        }
    }
}
