//! A quota the server advertised, obeyed before it is used up.

use core::time::Duration;

use super::share::Share;
use crate::signal::Quota;
use crate::time::Instant;

/// What is left of an advertised quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedQuota {
    /// Requests a window allows.
    pub limit: Option<u64>,
    /// The window's length.
    pub window: Option<Duration>,
    /// Requests left.
    pub remaining: u64,
    /// When it was heard of, or its window began.
    pub heard: Instant,
    /// When the window starts anew.
    pub resets: Instant,
}

impl AdvertisedQuota {
    /// From what an answer said at `now`, `before` what was known and with so many other requests in flight.
    ///
    /// A hold is at most `hold_limit`, so that one header of a served answer cannot idle a host for an hour (field case
    /// A40). `None` where nothing follows from it. What the answer leaves does not know of requests that are still on their
    /// way: within a window our own count holds where it is lower, and in a new one they are taken off.
    pub fn heard(
        now: Instant,
        quota: &Quota,
        hold_limit: Duration,
        before: Option<&Self>,
        others_in_flight: u32,
    ) -> Option<Self> {
        let (remaining, resets_in) = (quota.remaining?, quota.resets_in?);
        if resets_in.is_zero() {
            return None;
        }
        // A window whose length nobody says is as long as the longest time it was said to last.
        let seen = before.and_then(|before| before.window).map_or(resets_in, |window| window.max(resets_in));
        let window = quota.window.unwrap_or(seen);
        let ends = now.after(resets_in);
        let same_window = |before: &&Self| before.resets_at(ends, window);
        let remaining = match before.filter(same_window) {
            Some(before) => remaining.min(before.remaining),
            None => remaining.saturating_sub(u64::from(others_in_flight)),
        };
        Some(Self {
            limit: quota.limit,
            window: Some(window),
            remaining,
            heard: now,
            resets: if remaining == 0 { now.after(resets_in.min(hold_limit)) } else { ends },
        })
    }

    /// The first instant at which a request of this cost may start, given the last start.
    ///
    /// Used up: when the window starts anew. Running out: what is left is spread over what is left of the window. Else at
    /// once: a client at or below the advertised rate is never slowed below it (A35).
    pub fn earliest(&self, now: Instant, last_start: Instant, cost: u32, share: Share) -> Instant {
        if now >= self.resets {
            return Instant::ZERO;
        }
        let needed = self.limit.map_or(u64::from(cost), |limit| limit.min(u64::from(cost))).max(1);
        if u64::from(share.of(u32::try_from(self.remaining).unwrap_or(u32::MAX))) < needed {
            return self.resets;
        }
        let since = last_start.max(self.heard);
        match self.spread(self.resets.since(since)) {
            Some(spacing) => since.after(share.slower(spacing)).min(self.resets),
            None => Instant::ZERO,
        }
    }

    /// Charges a start. Where the quota's size and window are known, what follows its reset is a window of the same kind:
    /// else all that waited would start at once when it comes.
    pub fn charge(&mut self, now: Instant, cost: u32) {
        if now >= self.resets
            && let (Some(limit), Some(window)) = (self.limit, self.window)
            && !window.is_zero()
            && now < self.resets.after(window)
        {
            self.heard = self.resets;
            self.resets = self.resets.after(window);
            self.remaining = limit;
        }
        if now < self.resets {
            self.remaining = self.remaining.saturating_sub(u64::from(cost));
        }
    }

    /// What is left where another count of the same scope says less of the same window.
    #[must_use]
    pub fn at_most(self, other: &Self) -> Self {
        let window = self.window.or(other.window).unwrap_or(RESET_GRAIN * 2);
        let remaining = if other.resets_at(self.resets, window) { other.remaining } else { u64::MAX };
        Self { remaining: self.remaining.min(remaining), ..self }
    }

    /// Whether it is the window that ends then.
    fn resets_at(&self, ends: Instant, window: Duration) -> bool {
        let grain = RESET_GRAIN.min(window / 2);
        self.resets.since(ends) <= grain && ends.since(self.resets) <= grain
    }

    /// Requests left.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// When the window starts anew.
    pub fn resets(&self) -> Instant {
        self.resets
    }

    /// Whether its window is over.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.resets
    }

    /// The spacing that makes what is left last, where it would not last by itself: the last of it starts before the window
    /// ends, so that none is lost.
    fn spread(&self, left: Duration) -> Option<Duration> {
        let remaining = u32::try_from(self.remaining).unwrap_or(u32::MAX);
        if let Some(limit) = self.limit {
            let few = self.remaining.saturating_mul(RUNNING_OUT_SHARE) <= limit;
            // Ahead of the pace: a smaller share of the quota is left than of the window.
            let ahead = match self.window {
                Some(window) => u128::from(self.remaining) * window.as_nanos() < u128::from(limit) * left.as_nanos(),
                None => true,
            };
            return (few && ahead).then(|| left / remaining.saturating_add(1));
        }
        (self.remaining <= RUNNING_OUT_COUNT).then(|| left / remaining.saturating_add(1))
    }
}

/// Resets are told in whole seconds: so far apart two of one window may seem.
const RESET_GRAIN: Duration = Duration::from_millis(1_500);
/// A quota is running out when a fifth of it is left …
const RUNNING_OUT_SHARE: u64 = 5;
/// … or, where its size is not known, so many requests.
const RUNNING_OUT_COUNT: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(limit: Option<u64>, window: Option<u64>, remaining: u64, resets_in: u64) -> Quota {
        Quota {
            limit,
            window: window.map(Duration::from_secs),
            remaining: Some(remaining),
            resets_in: Some(Duration::from_secs(resets_in)),
        }
    }

    fn secs(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }

    const HOLD: Duration = Duration::from_secs(300);

    #[test]
    fn a33_used_up_means_no_start_until_the_reset() {
        let heard = AdvertisedQuota::heard(secs(10), &quota(Some(100), None, 0, 30), HOLD, None, 0).unwrap();
        assert_eq!(heard.earliest(secs(11), secs(10), 1, Share::WHOLE), secs(40));
        assert_eq!(heard.earliest(secs(40), secs(10), 1, Share::WHOLE), Instant::ZERO);
    }

    #[test]
    fn a35_a_client_at_the_advertised_rate_is_not_slowed() {
        // 10 a second, half of it left at half time, and ahead of the pace but far from the end.
        for (remaining, left_ms) in [(5, 500), (9, 900), (6, 900), (2, 200)] {
            let quota = Quota {
                limit: Some(10),
                window: Some(Duration::from_secs(1)),
                remaining: Some(remaining),
                resets_in: Some(Duration::from_millis(left_ms)),
            };
            let heard = AdvertisedQuota::heard(secs(0), &quota, HOLD, None, 0).unwrap();
            assert_eq!(
                heard.earliest(secs(0), secs(0), 1, Share::WHOLE),
                Instant::ZERO,
                "{remaining} left for {left_ms} ms"
            );
        }
    }

    #[test]
    fn a35_the_window_after_the_reset_is_one_of_the_same_kind() {
        let mut heard = AdvertisedQuota::heard(secs(0), &quota(Some(5), Some(5), 0, 5), HOLD, None, 0).unwrap();
        let mut starts = Vec::new();
        let mut now = secs(0);
        for _ in 0..12 {
            now = now.max(heard.earliest(now, now, 1, Share::WHOLE));
            heard.charge(now, 1);
            starts.push(now);
        }
        // Spread where it runs out, never more than five in a window.
        for window in [5, 10, 15] {
            let inside = starts.iter().filter(|s| **s >= secs(window) && **s < secs(window + 5)).count();
            assert!(inside <= 5, "{inside} starts from {window} s on: {starts:?}");
        }
        assert!(starts[4] < secs(10), "five of them are let start in the first window");
    }

    #[test]
    fn a33_a_window_of_unsaid_length_is_as_long_as_it_was_said_to_last() {
        let first = AdvertisedQuota::heard(secs(0), &quota(Some(5), None, 4, 5), HOLD, None, 0).unwrap();
        let mut last = AdvertisedQuota::heard(secs(2), &quota(Some(5), None, 0, 3), HOLD, Some(&first), 0).unwrap();
        assert_eq!(last.earliest(secs(3), secs(2), 1, Share::WHOLE), secs(5));
        for _ in 0..5 {
            assert!(last.earliest(secs(5), secs(5), 1, Share::WHOLE) < secs(10));
            last.charge(secs(5), 1);
        }
        assert_eq!(last.earliest(secs(5), secs(5), 1, Share::WHOLE), secs(10), "the sixth waits for the next window");
    }

    #[test]
    fn a33_what_is_on_its_way_counts_although_an_answer_does_not_know_of_it() {
        let fresh = AdvertisedQuota::heard(secs(0), &quota(Some(5), Some(5), 4, 5), HOLD, None, 3).unwrap();
        assert_eq!(fresh.remaining(), 1);
        let mut counted = AdvertisedQuota::heard(secs(0), &quota(Some(5), Some(5), 4, 5), HOLD, None, 0).unwrap();
        for _ in 0..4 {
            counted.charge(secs(0), 1);
        }
        let again = AdvertisedQuota::heard(secs(1), &quota(Some(5), Some(5), 3, 4), HOLD, Some(&counted), 3).unwrap();
        assert_eq!(again.remaining(), 0, "the four that started since are not let start again");
    }

    #[test]
    fn a40_one_header_cannot_idle_a_host_for_an_hour() {
        let heard = AdvertisedQuota::heard(secs(0), &quota(None, None, 0, 50 * 60), HOLD, None, 0).unwrap();
        assert_eq!(heard.earliest(secs(1), secs(0), 1, Share::WHOLE), secs(300));
    }

    #[test]
    fn what_runs_out_is_spread_over_the_window() {
        let heard = AdvertisedQuota::heard(secs(0), &quota(Some(100), Some(60), 4, 50), HOLD, None, 0).unwrap();
        assert_eq!(heard.earliest(secs(0), secs(0), 1, Share::WHOLE), secs(10));
        let unknown = AdvertisedQuota::heard(secs(0), &quota(None, None, 3, 40), HOLD, None, 0).unwrap();
        assert_eq!(unknown.earliest(secs(0), secs(0), 1, Share::WHOLE), secs(10));
    }
}
