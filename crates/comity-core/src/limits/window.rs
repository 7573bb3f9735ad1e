//! True sliding windows: at most so many starts in any stretch of so long.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::share::Share;
use crate::time::Instant;

/// A window: at most `count` starts in any `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Starts allowed.
    pub count: NonZeroU32,
    /// Length of the window.
    pub per: Duration,
}

/// Why a text is no window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a window: allowed are COUNT:SECONDS (`100:120`) or COUNT/TIME (`60/1h`), COUNT from 1 to {MOST_STARTS}, TIME above 0"
)]
pub struct WindowError(pub String);

/// The log of a scope's windows. A start is admitted when it leaves every window whole; the instant told is the one at
/// which the oldest start that stands in the way has left (field cases A30, C05).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    starts: VecDeque<Instant>,
    /// The most starts, and the longest time, that any window needs which was ever asked of this log: processes with other
    /// limits may share it.
    most: u32,
    longest: Duration,
}

impl Windows {
    /// A log of starts, as a store kept it: instants and how many starts each stands for, in order.
    pub fn kept(starts: impl IntoIterator<Item = (Instant, u32)>) -> Self {
        let kept: Vec<(Instant, u32)> = starts.into_iter().collect();
        let each = kept.into_iter().rev().flat_map(|(at, count)| core::iter::repeat_n(at, count as usize));
        let mut starts: VecDeque<Instant> = each.take(MOST_STARTS as usize).collect();
        starts.make_contiguous().reverse();
        Self { starts, most: 0, longest: Duration::ZERO }
    }

    /// How many starts back, and how long, any window needs that was asked of this log.
    pub fn reach(&self) -> (u32, Duration) {
        (self.most, self.longest)
    }

    /// The same log with the reach that a store kept.
    #[must_use]
    pub fn reaching(self, most: u32, longest: Duration) -> Self {
        Self { most: most.min(MOST_STARTS), longest, ..self }
    }

    /// The log in at most `most` entries: instants and how many starts each stands for, in order. Where they are too many,
    /// neighbours are told together as of the later: they leave their windows later than they might, never sooner.
    pub fn to_keep(&self, most: usize) -> Vec<(Instant, u32)> {
        let mut kept: Vec<(Instant, u32)> = Vec::new();
        for start in &self.starts {
            match kept.last_mut() {
                Some((at, count)) if at == start => *count += 1,
                _ => kept.push((*start, 1)),
            }
        }
        while kept.len() > most.max(1) {
            // The closest neighbours lose least.
            let gap = |n: &usize| kept[n + 1].0.since(kept[*n].0);
            let Some(closest) = (0..kept.len() - 1).min_by_key(gap) else { break };
            kept[closest + 1].1 += kept[closest].1;
            kept.remove(closest);
        }
        kept
    }

    /// All starts of two logs of one scope. Those that both have are of the time when they were one.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut all: BTreeMap<Instant, u32> = self.to_keep(usize::MAX).into_iter().collect();
        for (at, count) in other.to_keep(usize::MAX) {
            all.entry(at).and_modify(|known| *known = count.max(*known)).or_insert(count);
        }
        Self::kept(all).reaching(self.most.max(other.most), self.longest.max(other.longest))
    }

    /// Starts in the log.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The first instant at which `cost` more starts fit into every window, and the window that binds.
    pub fn earliest(&self, windows: &[Window], cost: u32, share: Share) -> Option<(Instant, Window)> {
        let mut latest: Option<(Instant, Window)> = None;
        for window in windows {
            let ours = share.of(window.count.get());
            // Alone each of several would let a cost start that only one of them may.
            if ours == 0 || !share.is_whole() && cost > ours {
                return Some((Instant::FAR, *window));
            }
            // A cost above the whole window can only ever start alone.
            let count = (ours as usize).saturating_sub(cost as usize);
            let Some(at) = self.starts.len().checked_sub(count + 1) else { continue };
            let Some(blocking) = self.starts.get(at) else { continue };
            let free = blocking.after(window.per);
            if latest.is_none_or(|(until, _)| free > until) {
                latest = Some((free, *window));
            }
        }
        latest
    }

    /// Charges `cost` starts at `now`.
    pub fn charge(&mut self, now: Instant, windows: &[Window], cost: u32) {
        // The log stays in order even where an argument goes back (field case E05).
        let now = self.starts.back().map_or(now, |last| now.max(*last));
        let (most, longest) = windows
            .iter()
            .fold((self.most, self.longest), |(most, longest), w| (most.max(w.count.get()), longest.max(w.per)));
        (self.most, self.longest) = (most, longest);
        while self.starts.front().is_some_and(|start| start.after(longest) <= now) {
            self.starts.pop_front();
        }
        for _ in 0..cost.min(most) {
            self.starts.push_back(now);
        }
        while self.starts.len() > most as usize {
            self.starts.pop_front();
        }
    }

    /// The last start, of this cost, really happens only now.
    pub fn restamp(&mut self, now: Instant, cost: u32) {
        for start in self.starts.iter_mut().rev().take(cost as usize) {
            *start = now.max(*start);
        }
    }

    /// Whether every start has left every window.
    pub fn is_over(&self, now: Instant, windows: &[Window]) -> bool {
        let longest = windows.iter().map(|w| w.per).max().unwrap_or_default().max(self.longest);
        self.starts.back().is_none_or(|last| last.after(longest) <= now)
    }
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let wrong = || WindowError(text.to_owned());
        let (count, per) = text.trim().split_once([':', '/']).ok_or_else(wrong)?;
        let count: NonZeroU32 = count.trim().parse().map_err(|_| wrong())?;
        let per = super::said::read_span(per.trim()).ok_or_else(wrong)?;
        if count.get() > MOST_STARTS || per.is_zero() {
            return Err(wrong());
        }
        Ok(Self { count, per })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.count, self.per)
    }
}

/// A log keeps one instant a start; above this a rate says the same for less memory.
const MOST_STARTS: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(text: &[&str]) -> Vec<Window> {
        text.iter().map(|w| w.parse().unwrap()).collect()
    }

    fn greedy(windows: &[Window], n: usize) -> Vec<u64> {
        let mut log = Windows::default();
        let mut now = Instant::ZERO;
        (0..n)
            .map(|_| {
                now = now.max(log.earliest(windows, 1, Share::WHOLE).map_or(Instant::ZERO, |(at, _)| at));
                log.charge(now, windows, 1);
                now.as_nanos() / 1_000_000
            })
            .collect()
    }

    #[test]
    fn a30_both_windows_hold() {
        let starts = greedy(&windows(&["20:1", "100:120"]), 201);
        for (count, per) in [(20, 1000), (100, 120_000)] {
            for pair in starts.windows(count + 1) {
                assert!(pair[count] - pair[0] >= per, "{count} in {per} ms");
            }
        }
        assert_eq!(starts[100], 120_000);
    }

    #[test]
    fn c05_no_window_holds_more_than_ten() {
        let limit = windows(&["10/1010ms"]);
        let mut log = Windows::default();
        let mut starts = Vec::new();
        let mut now = Instant::from_millis(5);
        for round in 0..2 {
            for _ in 0..11 {
                now = now.max(log.earliest(&limit, 1, Share::WHOLE).map_or(now, |(at, _)| at));
                log.charge(now, &limit, 1);
                starts.push(now.as_nanos() / 1_000_000);
            }
            now = now.after(Duration::from_millis(50));
            assert!(round < 2);
        }
        for pair in starts.windows(11) {
            assert!(pair[10] - pair[0] >= 1010);
        }
    }

    #[test]
    fn a_late_start_of_some_cost_leaves_the_window_late_with_all_of_it() {
        let limit = windows(&["10:1"]);
        let mut log = Windows::default();
        log.charge(Instant::from_millis(0), &limit, 6);
        log.restamp(Instant::from_millis(400), 6);
        assert_eq!(log.earliest(&limit, 4, Share::WHOLE), None);
        assert_eq!(log.earliest(&limit, 5, Share::WHOLE).map(|(at, _)| at), Some(Instant::from_millis(1400)));
    }

    #[test]
    fn x9_two_logs_are_all_their_starts() {
        let at = Instant::from_millis;
        let shared = [(at(100), 2), (at(200), 1)];
        let mine = Windows::kept(shared.into_iter().chain([(at(300), 1)]));
        let yours = Windows::kept(shared.into_iter().chain([(at(250), 3)]));
        let both = [(at(100), 2), (at(200), 1), (at(250), 3), (at(300), 1)];
        assert_eq!(mine.with(&yours).to_keep(9), both);
        assert_eq!(yours.with(&mine).to_keep(9), both);
    }

    #[test]
    fn too_many_starts_are_kept_as_of_the_later() {
        let at = Instant::from_millis;
        let log = Windows::kept([(at(100), 1), (at(200), 1), (at(210), 1), (at(400), 1)]);
        assert_eq!(log.to_keep(3), [(at(100), 1), (at(210), 2), (at(400), 1)]);
        assert_eq!(Windows::kept(log.to_keep(2)).len(), 4, "none is forgotten");
    }

    #[test]
    fn a_log_keeps_what_a_longer_window_of_another_process_needs() {
        let (mine, yours) = (windows(&["5/1h"]), windows(&["20/1s"]));
        let at = Instant::from_millis;
        let mut log = Windows::default();
        for n in 0..5 {
            log.charge(at(1000 + n), &mine, 1);
        }
        log.charge(at(10_000), &yours, 1);
        assert!(log.earliest(&mine, 1, Share::WHOLE).unwrap().0 > at(3_000_000), "five an hour");
    }

    #[test]
    fn a_log_that_is_too_long_keeps_its_newest_starts() {
        let at = Instant::from_millis;
        let both = Windows::kept([(at(1), 60_000)]).with(&Windows::kept([(at(1_000_000), 100_000)]));
        assert_eq!(both.earliest(&windows(&["100000/1000s"]), 1, Share::WHOLE).unwrap().0, at(2_000_000));
    }

    #[test]
    fn e05_the_log_stays_whole_when_time_goes_back() {
        let limit = windows(&["2:1"]);
        let mut log = Windows::default();
        log.charge(Instant::from_millis(5000), &limit, 1);
        log.charge(Instant::from_millis(1000), &limit, 1);
        assert_eq!(log.earliest(&limit, 1, Share::WHOLE).map(|(at, _)| at), Some(Instant::from_millis(6000)));
    }

    #[test]
    fn nonsense_windows_are_refused_by_name() {
        for bad in ["", "10", "0:1", "10:0", "-1:2", "1000000:1", "a/b", "10/"] {
            let error = bad.parse::<Window>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }
}
