//! What a run came to, as the hosts saw it.

use serde::{Deserialize, Serialize};

/// One policy in one scenario from one seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// The policy's name.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Virtual seconds.
    pub seconds: f64,
    /// Events the world went through.
    pub events: u64,
    /// When the last URL was got, in virtual seconds, where the clients had lists that end and all of them ended.
    pub ended: Option<f64>,
    /// Every host that was asked.
    pub hosts: Vec<HostOutcome>,
    /// What our uplink carried, where the world has one.
    pub uplink: Option<UplinkOutcome>,
}

/// What one host saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostOutcome {
    /// Its name.
    pub name: String,
    /// Minute by minute.
    pub minutes: Vec<Minute>,
    /// The most the host could have served from the second minute to the end, to somebody who knew all about it and had left the
    /// first minute unused: the same for every policy. What is possible in one minute ([`Minute::possible`]) cannot be added
    /// to that of the next: a window that was not used in one may be in the next. Of no use where the run ended before its
    /// time.
    #[serde(default)]
    pub possible_later: f64,
    /// The same of the whole time.
    #[serde(default)]
    pub possible_in_all: f64,
    /// URLs that were got, and those that were given up.
    pub got: u64,
    /// See `got`.
    pub given_up: u64,
    /// Requests that waited at the host, on the mean over time (all clients of ours together).
    pub queue: f64,
    /// The mean wait there, in service times.
    pub wait: f64,
    /// The p95 of what clients saw between start and first byte, in seconds.
    pub latency_p95: f64,
    /// What each client got served, in their order.
    pub served_by_client: Vec<u64>,
    /// Samples over time, where they were asked for.
    pub samples: Vec<Sample>,
    /// When requests were refused, in seconds, where samples were asked for.
    pub refusals: Vec<f64>,
    /// What the policy says it learned, at the end, in its own words; empty for baselines.
    pub learned: String,
    /// Whether the policy says that the host answers in two ways.
    pub bimodal: bool,
}

/// One minute of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Minute {
    /// Requests that arrived.
    pub arrived: u64,
    /// Served.
    pub served: u64,
    /// Refused: 429 or 503.
    pub refused: u64,
    /// Requests whose clients heard of another error, or of nothing at all: those that the network lost, reset or brought
    /// too late too. Such a request may have been served, or may never have arrived.
    pub failed: u64,
    /// What the host can serve in the long run in this minute.
    pub capacity: f64,
    /// What it would still have served in it to somebody who knew all about it.
    pub possible: f64,
}

/// The state of one client's pace at one host.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at: f64,
    /// The interval, in seconds; zero where there is none.
    pub interval: f64,
    /// Requests in flight.
    pub in_flight: u32,
    /// The most that may be.
    pub most_in_flight: u32,
}

/// What our own uplink carried, from when on it was narrow.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct UplinkOutcome {
    /// Share of its capacity that was used, 0 to 1.
    pub used: f64,
    /// The mean wait in its queue, in seconds.
    pub wait: f64,
    /// Answers lost in it.
    pub lost: u64,
}

impl HostOutcome {
    /// All arrivals and all refusals from one minute (counted from 0) on.
    pub fn refused_share(&self) -> f64 {
        let (refused, arrived) =
            self.minutes.iter().fold((0, 0), |(refused, arrived), m| (refused + m.refused, arrived + m.arrived));
        if arrived == 0 { 0.0 } else { refused as f64 / arrived as f64 }
    }

    /// What was served from the second minute on, as a share of what was still possible then.
    pub fn used_of_possible(&self) -> f64 {
        let served: u64 = self.minutes.iter().skip(1).map(|minute| minute.served).sum();
        if self.possible_later == 0.0 { 0.0 } else { served as f64 / self.possible_later }
    }

    /// The share of the host's capacity that was served in the minutes from `from` (counted from 0) on.
    pub fn used(&self, from: usize) -> f64 {
        let (served, capacity) = self
            .minutes
            .iter()
            .skip(from)
            .fold((0, 0.0), |(served, capacity), m| (served + m.served, capacity + m.capacity));
        if capacity == 0.0 { 0.0 } else { served as f64 / capacity }
    }
}
