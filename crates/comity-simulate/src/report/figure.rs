//! The figures by which a run is judged.

use serde::Serialize;

use super::World;
use crate::outcome::{HostOutcome, Minute, Outcome};

/// One figure of a run. Where there are several hosts, counts and capacities are summed, and queues, waits and latencies
/// are those of the host where they are the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Share of capacity that was served from the second minute on, 0 to 1 (more where a burst helped). None where the
    /// clients' lists end, or the run lasts no longer than a minute.
    UsedLater,
    /// The same of the whole run.
    Used,
    /// What was served from the second minute on, as a share of what the host could have served then, whatever was done in the
    /// first ([`HostOutcome::possible_later`]): one measure for all policies. None as in `UsedLater`.
    PossibleLater,
    /// Share of requests that were refused, over the whole run, 0 to 1.
    Refused,
    /// Requests that were refused.
    Refusals,
    /// Requests that failed otherwise: errors, and no answer, the network's losses too.
    Failed,
    /// Requests that waited at the host, on the mean over time.
    Queue,
    /// The mean wait there, in service times.
    Wait,
    /// The p95 of the time from start to first byte, in seconds.
    Latency,
    /// URLs that were got.
    Got,
    /// URLs that were given up.
    GivenUp,
    /// When the last URL of the lists was got, in seconds.
    Ended,
    /// How well a list was got through, 0 to 1: what was got as a share of what could have been had by the end, times the
    /// least time that the hosts' capacity allows over the time it took. None where there is no list.
    List,
    /// What the client that got least was served over what the one that got most was, 0 to 1. None for a client alone.
    Fairness,
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean over the runs in which it means anything.
    pub mean: f64,
    /// Its least value.
    pub least: f64,
    /// Its greatest value.
    pub most: f64,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::UsedLater,
        Self::Used,
        Self::PossibleLater,
        Self::Refused,
        Self::Refusals,
        Self::Failed,
        Self::Queue,
        Self::Wait,
        Self::Latency,
        Self::Got,
        Self::GivenUp,
        Self::Ended,
        Self::List,
        Self::Fairness,
    ];

    /// Its key in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::UsedLater => "used_later",
            Self::Used => "used",
            Self::PossibleLater => "possible_later",
            Self::Refused => "refused",
            Self::Refusals => "refusals",
            Self::Failed => "failed",
            Self::Queue => "queue",
            Self::Wait => "wait",
            Self::Latency => "latency_p95",
            Self::Got => "got",
            Self::GivenUp => "given_up",
            Self::Ended => "ended",
            Self::List => "list",
            Self::Fairness => "fairness",
        }
    }

    /// Its value in one run of a world.
    pub fn of(self, run: &Outcome, world: &World) -> Option<f64> {
        let value = match self {
            // A minute after the end of a list says nothing about a pace.
            Self::UsedLater | Self::Used | Self::PossibleLater if world.urls.is_some() => None,
            Self::UsedLater => share_served(run, 1, |minute| minute.capacity),
            Self::Used => share_served(run, 0, |minute| minute.capacity),
            Self::PossibleLater => possible_later(run),
            Self::Refused => share(sum(run, |minute| minute.refused), sum(run, |minute| minute.arrived)).or(Some(0.0)),
            Self::Refusals => Some(sum(run, |minute| minute.refused)),
            Self::Failed => Some(sum(run, |minute| minute.failed)),
            Self::Queue => longest(run, |host| host.queue),
            Self::Wait => longest(run, |host| host.wait),
            Self::Latency => longest(run, |host| host.latency_p95),
            Self::Got => Some(exact(got(run))),
            Self::GivenUp => Some(exact(run.hosts.iter().map(|host| host.given_up).sum())),
            Self::Ended => run.ended,
            Self::List => world.urls.and_then(|urls| through(run, exact(urls))),
            Self::Fairness => fairness(run),
        };
        value.filter(|value| value.is_finite())
    }
}

impl Spread {
    /// The spread of values, of which those that are none are left out.
    pub fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.flatten().collect();
        if values.is_empty() {
            return None;
        }
        Some(Self {
            mean: values.iter().sum::<f64>() / exact(values.len() as u64),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

fn minutes(run: &Outcome, from: usize) -> impl Iterator<Item = &Minute> {
    run.hosts.iter().flat_map(move |host| host.minutes.iter().skip(from))
}

fn share_served(run: &Outcome, from: usize, whole: impl Fn(&Minute) -> f64) -> Option<f64> {
    let served = minutes(run, from).map(|minute| minute.served).sum();
    share(exact(served), minutes(run, from).map(whole).sum())
}

fn possible_later(run: &Outcome) -> Option<f64> {
    let served = minutes(run, 1).map(|minute| minute.served).sum();
    share(exact(served), run.hosts.iter().map(|host| host.possible_later).sum())
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn sum(run: &Outcome, count: impl Fn(&Minute) -> u64) -> f64 {
    exact(minutes(run, 0).map(count).sum())
}

fn longest(run: &Outcome, length: impl Fn(&HostOutcome) -> f64) -> Option<f64> {
    run.hosts.iter().map(length).reduce(f64::max)
}

fn got(run: &Outcome) -> u64 {
    run.hosts.iter().map(|host| host.got).sum()
}

/// Every host has the same list, and they are got through side by side.
fn through(run: &Outcome, urls: f64) -> Option<f64> {
    let each = share(urls, exact(run.hosts.len() as u64))?;
    let best = run.hosts.iter().map(|host| host.possible_in_all.min(each)).sum();
    // What is possible where chance has a say is a mean, and luck is no merit.
    let got = share(exact(got(run)), best)?.min(1.0);
    let least = run.hosts.iter().map(|host| time_for(host, each, run.seconds)).fold(0.0, f64::max);
    Some(got * least / run.ended.unwrap_or(run.seconds).max(least))
}

/// The time in which a host's capacity serves so many; the length of the run where it is not enough.
fn time_for(host: &HostOutcome, urls: f64, seconds: f64) -> f64 {
    let mut left = urls;
    let mut begins = 0.0;
    for Minute { capacity, .. } in &host.minutes {
        if *capacity >= left && *capacity > 0.0 {
            // The last minute is cut off where the run ends.
            return begins + (seconds - begins).min(60.0) * left / capacity;
        }
        left -= capacity;
        begins += 60.0;
    }
    seconds
}

fn fairness(run: &Outcome) -> Option<f64> {
    let clients = run.hosts.iter().map(|host| host.served_by_client.len()).max().unwrap_or(0);
    if clients < 2 {
        return None;
    }
    let served = |client| run.hosts.iter().filter_map(|host| host.served_by_client.get(client)).sum::<u64>();
    let least = (0..clients).map(served).min()?;
    let most = (0..clients).map(served).max()?;
    share(exact(least), exact(most))
}

/// A count as a number; counts of a simulation stay far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn exact(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, world};
    use super::*;

    fn endless() -> World {
        world("endless", "", None, Vec::new())
    }

    #[test]
    fn capacity_is_counted_with_and_without_the_first_minute() {
        let mut slow_start = run("adaptive", 1, 1.0, 0);
        slow_start.hosts[0].minutes[0].served = 300;
        assert_eq!(Figure::UsedLater.of(&slow_start, &endless()), Some(1.0));
        assert_eq!(Figure::Used.of(&slow_start, &endless()), Some(0.95));
        slow_start.hosts[0].minutes.truncate(1);
        assert_eq!(Figure::UsedLater.of(&slow_start, &endless()), None, "there is no second minute");
        slow_start.hosts[0].minutes[0].capacity = f64::INFINITY;
        assert_eq!(Figure::Used.of(&slow_start, &endless()), Some(0.0));
    }

    #[test]
    fn what_was_possible_is_that_of_the_whole_time_and_not_the_sum_of_minutes() {
        let mut halved = run("adaptive", 1, 0.5, 0);
        halved.hosts[0].possible_later = 3600.0;
        assert_eq!(Figure::PossibleLater.of(&halved, &endless()), Some(0.75));
        halved.hosts.push(HostOutcome { possible_later: 1800.0, ..HostOutcome::default() });
        assert_eq!(
            Figure::PossibleLater.of(&halved, &endless()),
            Some(0.5),
            "a host that was not asked could have been"
        );
        assert_eq!(Figure::PossibleLater.of(&halved, &world("list", "", Some(600), Vec::new())), None);
        halved.hosts.clear();
        assert_eq!(Figure::PossibleLater.of(&halved, &endless()), None);
    }

    #[test]
    fn refusals_are_a_share_of_what_arrived() {
        let refused = run("adaptive", 1, 1.0, 60);
        assert_eq!(Figure::Refusals.of(&refused, &endless()), Some(60.0));
        assert_eq!(Figure::Refused.of(&refused, &endless()), Some(60.0 / 6060.0));
        let mut nothing = refused;
        nothing.hosts.clear();
        assert_eq!(Figure::Refused.of(&nothing, &endless()), Some(0.0));
        assert_eq!(Figure::Queue.of(&nothing, &endless()), None);
    }

    #[test]
    fn the_host_with_the_longest_queue_counts() {
        let mut two = run("adaptive", 1, 1.0, 0);
        two.hosts.push(HostOutcome { queue: 3.0, latency_p95: 0.5, ..two.hosts[0].clone() });
        assert_eq!(Figure::Queue.of(&two, &endless()), Some(3.0));
        assert_eq!(Figure::Latency.of(&two, &endless()), Some(0.5));
        assert_eq!(Figure::Got.of(&two, &endless()), Some(12_000.0));
    }

    #[test]
    fn a_list_is_judged_by_what_was_got_and_how_soon() {
        let mut listed = run("adaptive", 1, 1.0, 0);
        let list = |run: &Outcome| Figure::List.of(run, &world("list", "", Some(600), Vec::new()));
        (listed.hosts[0].got, listed.ended) = (600, Some(60.0));
        assert_eq!(list(&listed), Some(1.0), "as soon as the capacity allows");
        listed.ended = Some(120.0);
        assert_eq!(list(&listed), Some(0.5), "all of it, in twice the time");
        (listed.hosts[0].got, listed.ended, listed.seconds) = (48, Some(6.0), 6.0);
        listed.hosts[0].minutes.truncate(1);
        listed.hosts[0].minutes[0].capacity = 60.0;
        assert_eq!(list(&listed), Some(0.08), "giving up soon is no merit");
        listed = run("adaptive", 1, 1.0, 0);
        listed.hosts[0].got = 3000;
        let long = world("list", "", Some(60_000), Vec::new());
        assert_eq!(Figure::List.of(&listed, &long), Some(0.5), "half of what could be had by the end");
        listed.hosts[0].got = 6600;
        assert_eq!(Figure::List.of(&listed, &long), Some(1.0), "luck is no merit");
        assert_eq!(Figure::List.of(&listed, &endless()), None);
        assert_eq!(Figure::UsedLater.of(&listed, &world("list", "", Some(600), Vec::new())), None);
        assert!((time_for(&listed.hosts[0], 900.0, 600.0) - 90.0).abs() < 1e-9);
        assert_eq!(time_for(&listed.hosts[0], 1e9, 600.0), 600.0);
        listed.hosts[0].minutes[1].capacity = 300.0;
        assert!((time_for(&listed.hosts[0], 750.0, 90.0) - 75.0).abs() < 1e-9, "in a minute that is cut off");
    }

    #[test]
    fn lists_of_several_hosts_are_got_through_side_by_side() {
        let mut listed = run("adaptive", 1, 1.0, 0);
        let mut slow = listed.hosts[0].clone();
        for minute in &mut slow.minutes {
            minute.capacity = 60.0;
        }
        slow.possible_in_all = 600.0;
        listed.hosts.push(slow);
        (listed.hosts[0].got, listed.hosts[1].got, listed.ended) = (600, 600, Some(600.0));
        assert_eq!(Figure::List.of(&listed, &world("two", "", Some(1200), Vec::new())), Some(1.0));
    }

    #[test]
    fn fairness_compares_clients_over_all_hosts() {
        let mut four = run("adaptive", 1, 1.0, 0);
        assert_eq!(Figure::Fairness.of(&four, &endless()), None);
        four.hosts[0].served_by_client = vec![100, 200, 150, 150];
        assert_eq!(Figure::Fairness.of(&four, &endless()), Some(0.5));
        four.hosts.push(HostOutcome { served_by_client: vec![100, 0, 50, 50], ..HostOutcome::default() });
        assert_eq!(Figure::Fairness.of(&four, &endless()), Some(1.0));
        four.hosts[0].served_by_client = vec![0, 0];
        four.hosts.truncate(1);
        assert_eq!(Figure::Fairness.of(&four, &endless()), None);
    }

    #[test]
    fn a_spread_leaves_out_what_means_nothing() {
        let spread = Spread::of([Some(1.0), None, Some(4.0)].into_iter()).unwrap();
        assert_eq!((spread.mean, spread.least, spread.most), (2.5, 1.0, 4.0));
        assert_eq!(Spread::of([None].into_iter()), None);
    }
}
