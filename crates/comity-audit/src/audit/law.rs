//! What was promised, as arithmetic on times of arrival; nothing here knows who sent what.

use std::time::Duration;

use serde::Serialize;

use super::unit;

/// In any window *w* at most `burst + (w + tolerance) ÷ interval` arrivals.
///
/// With a burst of 1 that is: no gap is shorter than the interval less the tolerance, and over any longer time the rate
/// is the promised one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// The promised least time between two arrivals.
    pub interval: Duration,
    /// Arrivals that may come at once after a rest; from 1.
    pub burst: u32,
    /// What a gap or a window may lack without being held against anybody.
    pub tolerance: Duration,
}

/// What the arrivals at one host say about a law.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measure {
    /// Arrivals.
    pub arrivals: usize,
    /// The shortest time from an arrival to the `burst`-th after it: with a burst of 1, the shortest gap.
    #[serde(rename = "least_gap_ms", serialize_with = "unit::some_ms")]
    pub least_gap: Option<Duration>,
    /// What no such gap may be under: the interval less the tolerance.
    #[serde(rename = "minimum_ms", serialize_with = "unit::ms")]
    pub minimum: Duration,
    /// Gaps under the minimum.
    pub short_gaps: usize,
    /// All gaps.
    pub gaps: usize,
    /// Arrivals beyond the burst, by the time from the first to the last; `None` where that is no time.
    pub per_second: Option<f64>,
    /// That rate over the promised one.
    pub over_promised: Option<f64>,
    /// How far the arrivals ran ahead of the law without its tolerance, in the window where it was worst.
    #[serde(rename = "ahead_ms", serialize_with = "unit::ms")]
    pub ahead: Duration,
    /// That window, where it breaks the law.
    pub crowd: Option<Crowd>,
}

/// A window with more arrivals than were promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Crowd {
    /// Arrivals in it.
    pub arrivals: usize,
    /// Arrivals that the law lets be.
    pub promised: usize,
    /// Its length, from its first arrival to its last.
    #[serde(rename = "window_ms", serialize_with = "unit::ms")]
    pub window: Duration,
}

impl Law {
    /// The same with another burst.
    #[must_use]
    pub fn with_burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// What these times of arrival, in any order, say about the law.
    pub fn judge(&self, times: &[Duration]) -> Measure {
        let mut times = times.to_vec();
        times.sort_unstable();
        let burst = usize::try_from(self.burst).unwrap_or(usize::MAX).max(1);
        let gaps: Vec<Duration> = times.iter().zip(times.iter().skip(burst)).map(|(&from, &to)| to - from).collect();
        let span = times.last().copied().unwrap_or_default() - times.first().copied().unwrap_or_default();
        let per_second = (!gaps.is_empty() && !span.is_zero()).then(|| gaps.len() as f64 / span.as_secs_f64());
        let minimum = self.interval.saturating_sub(self.tolerance);
        let worst = self.worst_window(&times);
        Measure {
            arrivals: times.len(),
            least_gap: gaps.iter().min().copied(),
            minimum,
            short_gaps: gaps.iter().filter(|&&gap| gap < minimum).count(),
            gaps: gaps.len(),
            per_second,
            over_promised: per_second.map(|rate| rate * self.interval.as_secs_f64()),
            ahead: worst.map_or(Duration::ZERO, |(ahead, ..)| ahead),
            crowd: worst.filter(|&(ahead, ..)| ahead > self.tolerance).map(|(_, from, to)| {
                let window = times[to] - times[from];
                Crowd { arrivals: to - from + 1, promised: self.promised_in(window), window }
            }),
        }
    }

    /// The most arrivals a window of that length may hold.
    fn promised_in(&self, window: Duration) -> usize {
        let more = window.saturating_add(self.tolerance).as_nanos() / self.interval.as_nanos().max(1);
        usize::try_from(u128::from(self.burst) + more).unwrap_or(usize::MAX)
    }

    /// The window that runs furthest ahead of its due time, by how much, and its first and last arrival; `None` where no
    /// window is ahead.
    ///
    /// Arrival *j* is due no sooner than (j − i + 1 − burst) intervals after arrival *i*, for every *i* before it. With
    /// every time less its number of intervals, that is a comparison with the largest so far.
    fn worst_window(&self, times: &[Duration]) -> Option<(Duration, usize, usize)> {
        let nanos = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX / 4);
        let interval = nanos(self.interval);
        let free = (i128::from(self.burst) - 1) * interval;
        let mut latest: Option<(i128, usize)> = None;
        let mut worst: Option<(i128, usize, usize)> = None;
        let mut due = 0;
        for (to, &time) in times.iter().enumerate() {
            let level = nanos(time) - due;
            due += interval;
            let &mut (highest, from) = latest.insert(match latest {
                Some((highest, from)) if highest >= level => (highest, from),
                _ => (level, to),
            });
            let ahead = highest - level - free;
            if ahead > 0 && worst.is_none_or(|(most, ..)| ahead > most) {
                worst = Some((ahead, from, to));
            }
        }
        worst.map(|(ahead, from, to)| (Duration::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX)), from, to))
    }
}

impl Measure {
    /// Whether the law was kept.
    pub fn keeps(&self) -> bool {
        self.crowd.is_none()
    }
}

/// A time in which a host wants no requests: from the answer that said so to the end it named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When it was said.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
}

/// How many of these times lie in a pause. What comes within `tolerance` of its beginning was on its way, and its end
/// may be missed by as much.
pub fn during_pauses(times: &[Duration], pauses: &[Pause], tolerance: Duration) -> usize {
    let mut spans: Vec<_> =
        pauses.iter().map(|pause| (pause.from + tolerance, pause.until.saturating_sub(tolerance))).collect();
    spans.sort_unstable();
    // The latest end of all that began so far decides.
    let mut end = Duration::ZERO;
    for span in &mut spans {
        end = end.max(span.1);
        span.1 = end;
    }
    let inside = |&&time: &&Duration| {
        let begun = spans.partition_point(|&(from, _)| from <= time);
        begun > 0 && time < spans[begun - 1].1
    };
    times.iter().filter(inside).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn law(interval: u64, burst: u32, tolerance: u64) -> Law {
        Law { interval: ms(interval), burst, tolerance: ms(tolerance) }
    }

    fn judge(law: Law, times: &[u64]) -> Measure {
        law.judge(&times.iter().map(|&time| ms(time)).collect::<Vec<_>>())
    }

    #[test]
    fn x6_an_exact_pace_keeps_the_law_and_has_the_rate() {
        let kept = judge(law(500, 1, 0), &[1000, 0, 500, 1500]);
        assert!(kept.keeps());
        assert_eq!((kept.least_gap, kept.short_gaps, kept.gaps), (Some(ms(500)), 0, 3));
        assert_eq!((kept.per_second, kept.over_promised, kept.ahead), (Some(2.0), Some(1.0), Duration::ZERO));
    }

    #[test]
    fn x6_a_gap_is_short_from_the_first_nanosecond_under_the_minimum() {
        let times = [Duration::ZERO, ms(495)];
        assert!(law(500, 1, 5).judge(&times).keeps());
        let times = [Duration::ZERO, ms(495) - Duration::from_nanos(1)];
        let broken = law(500, 1, 5).judge(&times);
        assert_eq!((broken.short_gaps, broken.minimum), (1, ms(495)));
        assert_eq!(broken.crowd.map(|crowd| (crowd.arrivals, crowd.promised)), Some((2, 1)));
    }

    #[test]
    fn x6_gaps_that_are_all_a_little_short_are_a_rate_that_is_not_the_promised_one() {
        let times: Vec<u64> = (0..20).map(|n| n * 96).collect();
        let judged = judge(law(100, 1, 5), &times);
        assert_eq!(judged.short_gaps, 0);
        let crowd = judged.crowd.unwrap();
        assert_eq!((crowd.arrivals, crowd.promised, crowd.window), (20, 19, ms(19 * 96)));
        assert_eq!(judged.ahead, ms(19 * 4));
        // A rest does not make up for it.
        let times: Vec<u64> = times.into_iter().chain([10_000, 20_000]).collect();
        assert!(!judge(law(100, 1, 5), &times).keeps());
    }

    #[test]
    fn x6_n_that_share_nothing_have_n_times_the_rate() {
        let times: Vec<u64> = (0..24).map(|n| n * 500 / 6).collect();
        let judged = judge(law(500, 1, 5), &times);
        assert_eq!((judged.gaps, judged.short_gaps), (23, 23));
        let over = judged.over_promised.unwrap();
        assert!((5.9..6.1).contains(&over), "{over}");
        assert_eq!(judged.crowd.map(|crowd| crowd.arrivals), Some(24));
    }

    #[test]
    fn a_burst_may_come_at_once_and_after_a_rest_again() {
        let three = law(100, 3, 5);
        assert!(judge(three, &[0, 0, 0, 100, 200, 1000, 1000, 1000, 1100]).keeps());
        let fourth = judge(three, &[0, 0, 0, 94]);
        assert_eq!((fourth.keeps(), fourth.short_gaps, fourth.gaps), (false, 1, 1));
        let early = judge(three, &[0, 0, 0, 100, 100]);
        assert_eq!(early.crowd.map(|crowd| (crowd.arrivals, crowd.promised, crowd.window)), Some((5, 4, ms(100))));
        assert_eq!(judge(three, &[0, 0]).per_second, None);
    }

    #[test]
    fn nothing_and_one_arrival_break_no_law_and_have_no_rate() {
        for times in [&[][..], &[7]] {
            let judged = judge(law(100, 1, 0), times);
            assert_eq!((judged.keeps(), judged.gaps, judged.least_gap, judged.per_second), (true, 0, None, None));
        }
        let at_once = judge(law(100, 1, 0), &[7, 7]);
        assert_eq!((at_once.keeps(), at_once.per_second), (false, None));
    }

    #[test]
    fn the_window_law_is_the_one_that_counting_every_window_finds() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..500 {
            let law = law(1 + random(50), 1 + u32::try_from(random(3)).unwrap(), random(10));
            let mut times: Vec<Duration> = (0..random(12)).map(|_| ms(random(300))).collect();
            times.sort_unstable();
            let breaks = (0..times.len())
                .any(|from| (from..times.len()).any(|to| to - from + 1 > law.promised_in(times[to] - times[from])));
            assert_eq!(law.judge(&times).keeps(), !breaks, "{law:?} {times:?}");
        }
    }

    #[test]
    fn what_comes_in_a_pause_is_counted_and_what_was_on_its_way_is_not() {
        let pauses = [Pause { from: ms(1000), until: ms(3000) }, Pause { from: ms(1500), until: ms(3500) }];
        let during = |time| during_pauses(&[ms(time)], &pauses, ms(5));
        let seen = [999, 1000, 1004, 1005, 2000, 3200, 3494, 3495, 4000].map(during);
        assert_eq!(seen, [0, 0, 0, 1, 1, 1, 1, 0, 0]);
        assert_eq!(during_pauses(&[ms(1)], &[], ms(5)), 0);
        // A short pause within a long one does not end it.
        let within = [Pause { from: ms(0), until: ms(9000) }, Pause { from: ms(1000), until: ms(2000) }];
        assert_eq!(during_pauses(&[ms(5000)], &within, ms(5)), 1);
    }
}
