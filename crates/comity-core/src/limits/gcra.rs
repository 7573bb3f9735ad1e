//! Spacing: the generic cell rate algorithm (ITU-T I.371) in its virtual-scheduling form.

use core::time::Duration;

use crate::time::Instant;

/// One rate's clock.
///
/// It keeps the *virtual start* of the last request, which is its theoretical arrival time (TAT) less one spacing, so
/// that a changed interval holds at once for those that wait. The law: in any window `w` there are at most
/// `burst + w ÷ interval` starts, plus those that a late timer's [`credit`] lets catch up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    virtual_start: Instant,
}

impl Default for Gcra {
    fn default() -> Self {
        Self { virtual_start: NEVER }
    }
}

impl Gcra {
    /// As after a start at `at`, where the clock was new before.
    pub fn started(at: Instant) -> Self {
        Self { virtual_start: at.min(LAST) }
    }

    /// The virtual start of the last request; `None` where there was none.
    pub fn virtual_start(&self) -> Option<Instant> {
        (self.virtual_start != NEVER).then_some(self.virtual_start)
    }

    /// Where the other clock is later, it holds.
    pub(super) fn raise(&mut self, other: Self) {
        if other.virtual_start != NEVER && (self.virtual_start == NEVER || self.virtual_start < other.virtual_start) {
            *self = other;
        }
    }

    /// The first instant at which a request may start.
    pub fn earliest(&self, interval: Duration, burst: u32) -> Instant {
        if self.virtual_start == NEVER || interval.is_zero() {
            return Instant::ZERO;
        }
        let tolerance = interval.saturating_mul(burst.saturating_sub(1));
        self.virtual_start.after(interval).before(tolerance)
    }

    /// As [`Gcra::earliest`], with the tolerance given as a span.
    pub fn earliest_with(&self, interval: Duration, tolerance: Duration) -> Instant {
        if self.virtual_start == NEVER || interval.is_zero() {
            return Instant::ZERO;
        }
        self.virtual_start.after(interval).before(tolerance)
    }

    /// Charges a start at `now`. One that was due before counts from then, so that a timer's
    /// lateness does not add up, but never from further back than [`credit`]. Returns how far back it was counted: so
    /// much less late may the start be used, or the two would close a gap twice.
    pub fn charge(&mut self, now: Instant, due: Instant, interval: Duration, cost: u32) -> Duration {
        let due = due.max(now.before(credit(interval))).min(now);
        let tat = if self.virtual_start == NEVER { due } else { self.virtual_start.after(interval) };
        let counted_from = tat.max(due);
        self.virtual_start = counted_from.after(extra(interval, cost)).min(LAST);
        now.since(counted_from)
    }

    /// A start of this cost that was charged at `start` really happens only now: all that was charged since moves with it,
    /// or a burst that was begun late would end in time.
    pub fn restamp(&mut self, now: Instant, start: Instant, interval: Duration, cost: u32) {
        if self.virtual_start != NEVER {
            let moved = self.virtual_start.after(now.since(start));
            self.virtual_start = moved.max(now.after(extra(interval, cost))).min(LAST);
        }
    }

    /// Whether this clock can no longer hold anybody back, whatever its interval up to `interval`.
    pub fn is_over(&self, now: Instant, interval: Duration) -> bool {
        self.virtual_start == NEVER || self.virtual_start.after(interval) <= now
    }
}

/// How late a granted start may be used (decision 2): 3 ms or a tenth of the spacing, whichever is more. Under 10 ms of
/// spacing the promise is the rate over any 100 ms, not each gap.
pub fn late_by(interval: Duration) -> Duration {
    LEAST_LATE_BY.max(interval / 10)
}

/// Spacings that a cost above 1 takes beside its own.
fn extra(interval: Duration, cost: u32) -> Duration {
    interval.saturating_mul(cost.saturating_sub(1))
}

/// How much of a timer's lateness a start that waited is forgiven: as much as a grant may be used late, but under 10 ms of
/// spacing 10 ms. A timer of one millisecond on a busy machine is often later than 3 ms, and every millisecond that is not
/// forgiven is lost to the rate; 10 ms are at most a tenth more than the rate over any 100 ms.
pub fn credit(interval: Duration) -> Duration {
    if interval < DENSE { DENSE } else { late_by(interval) }
}

const NEVER: Instant = Instant::FAR;
/// The last virtual start there can be: an absurd cost must not make the clock look new.
const LAST: Instant = Instant::from_nanos(u64::MAX - 1);
const LEAST_LATE_BY: Duration = Duration::from_millis(3);
/// Under this spacing the promise is the rate over any 100 ms, not each gap (decision 2).
pub(super) const DENSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn the_first_start_is_free_however_long_the_interval() {
        assert_eq!(Gcra::default().earliest(Duration::from_secs(86_400), 1), Instant::ZERO);
    }

    #[test]
    fn a_changed_interval_holds_at_once() {
        let mut gcra = Gcra::default();
        gcra.charge(at(1000), at(1000), 1000 * MS, 1);
        assert_eq!(gcra.earliest(1000 * MS, 1), at(2000));
        assert_eq!(gcra.earliest(100 * MS, 1), at(1100));
    }

    #[test]
    fn a_cost_takes_so_many_spacings() {
        let mut gcra = Gcra::default();
        gcra.charge(at(1000), at(1000), 100 * MS, 5);
        assert_eq!(gcra.earliest(100 * MS, 1), at(1500));
    }

    #[test]
    fn a_late_start_of_some_cost_moves_all_its_spacings() {
        let mut gcra = Gcra::default();
        gcra.charge(at(1000), at(1000), 100 * MS, 5);
        gcra.restamp(at(1050), at(1000), 100 * MS, 5);
        assert_eq!(gcra.earliest(100 * MS, 1), at(1550));
    }

    #[test]
    fn an_absurd_cost_does_not_make_the_clock_look_new() {
        let mut gcra = Gcra::default();
        gcra.charge(at(1000), at(1000), Duration::from_secs(86_400), u32::MAX);
        assert!(gcra.earliest(Duration::from_secs(86_400), 1) > at(1_000_000));
        assert!(!gcra.is_over(at(1_000_000), Duration::from_secs(86_400)));
    }

    #[test]
    fn a_late_timer_does_not_add_up() {
        let mut gcra = Gcra::default();
        gcra.charge(at(0), at(0), 20 * MS, 1);
        for n in 1..=1000 {
            let due = gcra.earliest(20 * MS, 1);
            assert_eq!(due, at(20 * n), "start {n}");
            gcra.charge(due.after(2 * MS), due, 20 * MS, 1);
        }
    }

    #[test]
    fn a_dense_rate_is_kept_although_timers_are_late() {
        let mut gcra = Gcra::default();
        gcra.charge(at(0), at(0), MS, 1);
        let (mut now, mut starts) = (at(0), 0);
        while now < at(4000) {
            now = gcra.earliest(MS, 1).max(now).after(8 * MS);
            while gcra.earliest(MS, 1) <= now {
                gcra.charge(now, at(0), MS, 1);
                starts += 1;
            }
        }
        assert!(starts >= 3990, "{starts} of 4000");
    }

    proptest! {
        /// The envelope law: in any window w at most burst + (w + credit) ÷ interval starts.
        #[test]
        fn no_window_holds_more_than_the_law_allows(
            interval_ms in 1u64..2000, burst in 1u32..20,
            steps in proptest::collection::vec((0u64..5000, 0u64..6, any::<bool>()), 1..200),
        ) {
            let interval = Duration::from_millis(interval_ms);
            let mut gcra = Gcra::default();
            let mut now = at(10_000);
            let mut starts = Vec::new();
            for (idle, late, greedy) in steps {
                let asked = now;
                let due = gcra.earliest(interval, burst).max(now);
                now = if greedy { due } else { due.after(Duration::from_millis(idle)) };
                if due > asked { now = now.after(Duration::from_millis(late)); }
                gcra.charge(now, asked.max(if greedy { asked } else { now }), interval, 1);
                starts.push(now);
            }
            for (i, first) in starts.iter().enumerate() {
                for (j, last) in starts.iter().enumerate().skip(i) {
                    let window = last.since(*first) + credit(interval);
                    let allowed = u128::from(burst) + window.as_nanos() / interval.as_nanos();
                    prop_assert!((j - i + 1) as u128 <= allowed);
                }
            }
        }
    }
}
