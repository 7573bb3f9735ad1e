//! What the hosts saw of one run.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::arm::{Arm, Goal};
use super::far_end::Arrival;
use super::limit::Limit;

/// One tool's run at one arm.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Seen {
    pub(super) arm: &'static str,
    pub(super) tool: &'static str,
    /// Whether it is a second run that could know what the first one learned.
    pub(super) again: bool,
    /// Its exit code; `None` where it was stopped.
    pub(super) exit: Option<i32>,
    /// From its start to its end, or to when it was stopped.
    pub(super) seconds: f64,
    /// Every host, in the arm's order.
    pub(super) hosts: Vec<HostSeen>,
}

/// What one host saw.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct HostSeen {
    pub(super) host: String,
    /// URLs that were got, each counted once.
    pub(super) got: usize,
    /// Those it could have served in all the time a run may take, of those there are.
    pub(super) possible: usize,
    pub(super) arrivals: usize,
    /// Of them, refused: 429 or 503.
    pub(super) refused: usize,
    /// Served of what it can serve in the long run while it was measured (see [`Goal::Used`]), in percent.
    pub(super) used: f64,
    /// Requests in its queue, on the mean over the run; `None` where it has none.
    pub(super) queue: Option<f64>,
    /// The mean wait there, in service times.
    pub(super) wait: Option<f64>,
}

/// A run on the far end's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Duration,
    /// When it would be stopped: nothing later counts.
    pub(super) until: Duration,
    /// When it ended or was stopped.
    pub(super) over: Duration,
}

impl Seen {
    /// Reads a log.
    pub(super) fn of(
        arm: &Arm,
        tool: &'static str,
        again: bool,
        span: Span,
        exit: Option<i32>,
        arrivals: &[Arrival],
    ) -> Self {
        let hosts = arm.hosts.iter().map(|(host, limit)| {
            let own: Vec<&Arrival> = arrivals.iter().filter(|a| a.host == *host && a.at() < span.until).collect();
            HostSeen { host: host.clone(), ..HostSeen::of(arm, *limit, again, span, &own) }
        });
        let seconds = span.over.saturating_sub(span.from).as_secs_f64();
        Self { arm: arm.name, tool, again, exit, seconds, hosts: hosts.collect() }
    }

    /// URLs got of all hosts.
    pub(super) fn got(&self) -> usize {
        self.hosts.iter().map(|host| host.got).sum()
    }

    /// URLs that could have been got.
    pub(super) fn possible(&self) -> usize {
        self.hosts.iter().map(|host| host.possible).sum()
    }

    /// Refusals of all hosts.
    pub(super) fn refused(&self) -> usize {
        self.hosts.iter().map(|host| host.refused).sum()
    }

    /// Percent of all requests.
    pub(super) fn refused_percent(&self) -> f64 {
        percent(self.refused() as f64, self.hosts.iter().map(|host| host.arrivals).sum::<usize>() as f64)
    }

    /// Percent of what was possible.
    pub(super) fn got_percent(&self) -> f64 {
        percent(self.got() as f64, self.possible() as f64)
    }

    /// URLs a second.
    pub(super) fn rate(&self) -> f64 {
        if self.seconds == 0.0 { 0.0 } else { self.got() as f64 / self.seconds }
    }

    /// The lowest of the hosts' shares.
    pub(super) fn used(&self) -> f64 {
        self.hosts.iter().map(|host| host.used).fold(f64::INFINITY, f64::min)
    }

    /// The longest of the hosts' mean queues.
    pub(super) fn queue(&self) -> Option<f64> {
        self.hosts.iter().filter_map(|host| host.queue).max_by(f64::total_cmp)
    }

    /// The longest of the hosts' mean waits, in service times.
    pub(super) fn wait(&self) -> Option<f64> {
        self.hosts.iter().filter_map(|host| host.wait).max_by(f64::total_cmp)
    }

    /// Whether a goal was reached.
    pub(super) fn reaches(&self, goal: Goal) -> bool {
        match goal {
            Goal::Got(percent) => self.got_percent() >= percent,
            Goal::Refused(most) => self.refused() <= most,
            Goal::Seconds(most) => self.seconds <= most,
            Goal::Used(percent) => self.used() >= percent,
            Goal::RefusedPercent(most) => self.refused_percent() <= most,
            Goal::Queue(most) => self.queue().is_some_and(|queue| queue <= most),
        }
    }
}

impl HostSeen {
    fn of(arm: &Arm, limit: Limit, again: bool, span: Span, arrivals: &[&Arrival]) -> Self {
        let served = |a: &&&Arrival| a.status == Some(200) && a.answered().is_some_and(|at| at <= span.until);
        let got: BTreeSet<&str> = arrivals.iter().filter(served).map(|a| a.target.as_str()).collect();
        // A bucket that nobody asks is full: its time begins with the first who does.
        let first = arrivals.first().map_or(span.from, |arrival| arrival.at());
        let possible = limit.possible(if limit.window().is_some() { span.from } else { first }, span.until);

        let last = arrivals.iter().filter_map(|a| a.answered()).max().unwrap_or(first);
        // Nobody can use a host any further who has all there is.
        let measured_until = if got.len() < arm.urls { span.until } else { last.min(span.until) };
        let skipped = if again { Duration::ZERO } else { measured_until.saturating_sub(span.from) / WARMING };
        let measured_from = span.from + skipped;
        let served_later = arrivals.iter().filter(served).filter(|a| a.answered() > Some(measured_from)).count();
        let capacity = limit.capacity() * measured_until.saturating_sub(measured_from).as_secs_f64();

        let queued: Vec<f64> = arrivals.iter().filter_map(|a| a.queued()).map(|queued| queued.as_secs_f64()).collect();
        let waited: f64 = queued.iter().sum();
        let busy = last.saturating_sub(first).as_secs_f64().max(f64::MIN_POSITIVE);
        Self {
            host: String::new(),
            got: got.len(),
            possible: (possible as usize).min(arm.urls),
            arrivals: arrivals.len(),
            refused: arrivals.iter().filter(|a| matches!(a.status, Some(429 | 503))).count(),
            used: percent(served_later as f64, capacity),
            queue: limit.service().map(|_| waited / busy),
            wait: limit.service().map(|service| waited / service.as_secs_f64() / queued.len().max(1) as f64),
        }
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { 100.0 * part / whole }
}

/// A first run is not measured in the first of so many parts: the first minute of ten.
const WARMING: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn arm(limit: Limit, urls: usize, seconds: u64) -> Arm {
        let hosts = vec![("a.example".to_owned(), limit)];
        Arm { name: "a", about: "", hosts, urls, at_most: s(seconds), told: "", cold: Vec::new(), again: Vec::new() }
    }

    fn seen(limit: Limit, urls: usize, seconds: u64, arrivals: &[Arrival]) -> Seen {
        let span = Span { from: s(0), until: s(seconds), over: s(seconds / 2) };
        Seen::of(&arm(limit, urls, seconds), "tool", false, span, Some(0), arrivals)
    }

    fn arrival(target: &str, at: u64, status: u16) -> Arrival {
        Arrival::of("a.example", target, at, 20, status)
    }

    #[test]
    fn urls_are_got_once_and_in_time_and_refusals_count_each() {
        let bucket = Limit::Bucket { every: s(1), burst: 2 };
        let arrivals = [
            arrival("/1", 0, 200),
            arrival("/1", 500, 200),
            arrival("/2", 600, 429),
            arrival("/2", 700, 503),
            arrival("/2", 9_990, 200),  // answered when all was over
            arrival("/3", 10_000, 429), // and this one came then
            Arrival::of("b.example", "/4", 1, 1, 200),
        ];
        let seen = seen(bucket, 600, 10, &arrivals);
        assert_eq!((seen.got(), seen.possible(), seen.refused()), (1, 12, 2));
        assert_eq!(seen.refused_percent(), 40.0);
        assert_eq!((seen.seconds, seen.rate()), (5.0, 0.2));
        assert!(seen.reaches(Goal::Refused(2)) && !seen.reaches(Goal::Refused(1)));
        assert!(!seen.reaches(Goal::Got(99.0)) && seen.reaches(Goal::Seconds(5.0)));
        // A list that is shorter than the host's patience.
        assert_eq!(super::tests::seen(bucket, 3, 10, &arrivals).possible(), 3);
    }

    #[test]
    fn capacity_is_counted_after_the_first_tenth() {
        let window = Limit::Window { count: 1, per: s(1) };
        let arrivals: Vec<_> = (0..10).map(|n| arrival(&format!("/{n}"), n * 1000, 200)).collect();
        let all = seen(window, 600, 10, &arrivals);
        assert_eq!(all.used(), 100.0);
        assert!(all.reaches(Goal::Used(100.0)));
        assert!((seen(window, 600, 10, &arrivals[..7]).used() - 66.67).abs() < 0.01);
        // A list that is done with the last of these, at 6.02 s.
        assert!((seen(window, 7, 10, &arrivals[..7]).used() - 110.74).abs() < 0.01);
    }

    #[test]
    fn the_queue_is_a_mean_over_time_and_the_wait_one_over_requests() {
        let queue = Limit::Queue { workers: 1, service: s(1) };
        // Three at once, served one after the other: the second waits 1 s, the third 2 s, all is over after 3 s.
        let arrivals: Vec<_> = (0..3)
            .map(|n| Arrival::of("a.example", &format!("/{n}"), 0, (n + 1) * 1000, 200).queued_for(n * 1000))
            .collect();
        let seen = seen(queue, 3, 10, &arrivals);
        assert_eq!((seen.queue(), seen.wait()), (Some(1.0), Some(1.0)));
        assert!(seen.reaches(Goal::Queue(1.0)) && !seen.reaches(Goal::Queue(0.9)));
    }

    #[test]
    fn a_host_without_a_queue_reaches_no_goal_of_one() {
        assert!(
            !seen(Limit::Window { count: 1, per: s(1) }, 1, 10, &[arrival("/1", 0, 200)]).reaches(Goal::Queue(9.0))
        );
    }
}
