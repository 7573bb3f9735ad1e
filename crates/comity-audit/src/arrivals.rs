//! What a log of arrivals says about the pace of whoever made them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::far_end::Arrival;

/// The gaps between the arrivals at one host, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    sorted: Vec<Duration>,
    /// From the first arrival to the last.
    span: Duration,
    arrivals: usize,
}

impl Gaps {
    /// The gaps between times, which may come in any order.
    pub fn of(times: &[Duration]) -> Self {
        let mut times = times.to_vec();
        times.sort_unstable();
        let mut sorted: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        sorted.sort_unstable();
        let span = times.last().copied().unwrap_or_default() - times.first().copied().unwrap_or_default();
        Self { sorted, span, arrivals: times.len() }
    }

    /// Arrivals the gaps lie between.
    pub fn arrivals(&self) -> usize {
        self.arrivals
    }

    /// How many gaps there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The shortest gap; `None` without any.
    pub fn least(&self) -> Option<Duration> {
        self.sorted.first().copied()
    }

    /// The gap that half of all do not exceed.
    pub fn median(&self) -> Option<Duration> {
        self.quantile(50)
    }

    /// The gap that 99 of 100 do not exceed.
    pub fn p99(&self) -> Option<Duration> {
        self.quantile(99)
    }

    /// How many gaps are shorter than `minimum`.
    pub fn below(&self, minimum: Duration) -> usize {
        self.sorted.partition_point(|&gap| gap < minimum)
    }

    /// From the first arrival to the last.
    pub fn span(&self) -> Duration {
        self.span
    }

    /// Gaps a second, which is the rate a steady client kept; `None` where there is no span to tell it by.
    pub fn per_second(&self) -> Option<f64> {
        let count = u32::try_from(self.count()).ok()?;
        (!self.span.is_zero()).then(|| f64::from(count) / self.span.as_secs_f64())
    }

    /// The nearest-rank percentile.
    fn quantile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.count() * percent).div_ceil(100);
        self.sorted.get(rank.saturating_sub(1)).copied()
    }
}

/// When requests for one host arrived, in order.
pub fn times(arrivals: &[Arrival], host: &str) -> Vec<Duration> {
    let mut times: Vec<_> = arrivals.iter().filter(|arrival| arrival.host == host).map(|arrival| arrival.at).collect();
    times.sort_unstable();
    times
}

/// The gaps at every host that was visited, by name.
pub fn by_host(arrivals: &[Arrival]) -> BTreeMap<String, Gaps> {
    let mut hosts: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for arrival in arrivals {
        hosts.entry(arrival.host.clone()).or_default().push(arrival.at);
    }
    hosts.into_iter().map(|(host, times)| (host, Gaps::of(&times))).collect()
}

/// The most times that lie in any window of that length, its end excluded.
pub fn most_in_window(times: &[Duration], window: Duration) -> usize {
    let mut times = times.to_vec();
    times.sort_unstable();
    let mut inside = VecDeque::new();
    let mut most = 0;
    for time in times {
        inside.push_back(time);
        while inside.front().is_some_and(|&first| time - first >= window && time > first) {
            inside.pop_front();
        }
        most = most.max(inside.len());
    }
    most
}

/// The most requests that were between their arrival and the head of their answer at one time; a request that was never
/// answered counts to the end.
pub fn most_in_flight<'a>(arrivals: impl IntoIterator<Item = &'a Arrival>) -> usize {
    let mut events = Vec::new();
    for arrival in arrivals {
        events.push((arrival.at, 1));
        if let Some(answered) = arrival.answered {
            events.push((answered, -1));
        }
    }
    // Where one leaves at the very time another comes, it has left.
    events.sort_unstable();
    let mut now = 0;
    events.iter().fold(0, |most, &(_, change)| {
        now += change;
        most.max(usize::try_from(now).unwrap_or_default())
    })
}

/// How often each status was given, by status; requests never answered stand under `None`.
pub fn statuses<'a>(arrivals: impl IntoIterator<Item = &'a Arrival>) -> BTreeMap<Option<u16>, usize> {
    arrivals.into_iter().fold(BTreeMap::new(), |mut counts, arrival| {
        *counts.entry(arrival.status).or_default() += 1;
        counts
    })
}

/// A log as a table to print: a line for each host, and how many of its gaps are under `minimum`.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    /// What arrived.
    pub arrivals: &'a [Arrival],
    /// The gap no host should see less than.
    pub minimum: Duration,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = by_host(self.arrivals);
        let width = hosts.keys().map(String::len).max().unwrap_or_default().max("host".len());
        let short = format!("gaps < {} ms", self.minimum.as_millis());
        writeln!(
            f,
            "{:width$}  {:>8}  {:>10}  {:>10}  {:>10}  {:>8}  {short:>16}",
            "host", "requests", "least gap", "median", "p99", "rate/s"
        )?;
        for (host, gaps) in &hosts {
            let millis = |gap: Option<Duration>| {
                gap.map_or_else(|| "-".to_owned(), |gap| format!("{:.1} ms", gap.as_secs_f64() * 1000.0))
            };
            let rate = gaps.per_second().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}"));
            let short = format!("{} of {}", gaps.below(self.minimum), gaps.count());
            let (least, median, p99) = (millis(gaps.least()), millis(gaps.median()), millis(gaps.p99()));
            writeln!(
                f,
                "{host:width$}  {:>8}  {least:>10}  {median:>10}  {p99:>10}  {rate:>8}  {short:>16}",
                gaps.arrivals()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn arrival(host: &str, at: u64, answered: Option<u64>) -> Arrival {
        Arrival { host: host.into(), at: ms(at), answered: answered.map(ms), ..Arrival::default() }
    }

    #[test]
    fn gaps_are_measured_between_neighbours_in_time() {
        let gaps = Gaps::of(&[ms(1000), ms(0), ms(100), ms(350)]);
        assert_eq!((gaps.least(), gaps.median(), gaps.p99()), (Some(ms(100)), Some(ms(250)), Some(ms(650))));
        assert_eq!((gaps.below(ms(100)), gaps.below(ms(101)), gaps.count()), (0, 1, 3));
        assert_eq!(gaps.per_second(), Some(3.0));
    }

    #[test]
    fn one_arrival_has_no_gaps() {
        for times in [&[][..], &[ms(5)]] {
            let gaps = Gaps::of(times);
            assert_eq!((gaps.least(), gaps.p99(), gaps.per_second(), gaps.count()), (None, None, None, 0));
            assert_eq!(gaps.arrivals(), times.len());
        }
        assert_eq!(Gaps::of(&[ms(5), ms(5)]).per_second(), None);
    }

    #[test]
    fn ninety_nine_of_a_hundred_are_within_p99() {
        let mut at = Duration::ZERO;
        let times: Vec<_> = (0..=100)
            .map(|gap| {
                at += ms(gap);
                at
            })
            .collect();
        assert_eq!(Gaps::of(&times).p99(), Some(ms(99)));
    }

    #[test]
    fn a_window_leaves_out_its_end() {
        let times = [ms(0), ms(500), ms(1000), ms(1400)];
        assert_eq!(most_in_window(&times, ms(1000)), 3);
        assert_eq!(most_in_window(&times, ms(500)), 2);
        assert_eq!(most_in_window(&times, ms(1)), 1);
        assert_eq!(most_in_window(&[ms(3), ms(3)], Duration::ZERO), 2);
        assert_eq!(most_in_window(&[], ms(1)), 0);
    }

    #[test]
    fn in_flight_lasts_from_arrival_to_answer() {
        let arrivals = [arrival("a", 0, Some(10)), arrival("a", 5, Some(20)), arrival("a", 10, Some(11))];
        assert_eq!(most_in_flight(&arrivals), 2);
        assert_eq!(most_in_flight(&[arrival("a", 0, None), arrival("a", 9, None)]), 2);
    }

    #[test]
    fn the_table_has_a_line_for_each_host() {
        let arrivals = [arrival("b", 0, None), arrival("a", 0, None), arrival("b", 90, None), arrival("b", 290, None)];
        let table = Table { arrivals: &arrivals, minimum: ms(100) }.to_string();
        let lines: Vec<_> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "host requests least gap median p99 rate/s gaps < 100 ms",
                "a 1 - - - - 0 of 0",
                "b 3 90.0 ms 90.0 ms 200.0 ms 6.90 1 of 2",
            ]
        );
    }
}
