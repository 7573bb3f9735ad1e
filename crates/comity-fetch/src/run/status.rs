//! What can be seen of a run while it runs.

use std::time::Duration;

use crate::keep::{Counts, Record};

/// Sees a run while it runs. All methods are called from the run's own task and must be quick.
pub trait Observer: Send {
    /// Every 100 ms or so.
    fn status(&mut self, status: &Status);

    /// A URL is done.
    fn record(&mut self, record: &Record);

    /// Something a person should know, in a sentence: a host that was given up, a robots.txt that cannot be read.
    fn notice(&mut self, text: &str);
}

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// URLs in the list, less those that an earlier run has done.
    pub total: u64,
    /// What became of those that are done.
    pub counts: Counts,
    /// Requests in flight or bodies being read.
    pub active: usize,
    /// Requests sent so far, robots.txt, redirects and retries included.
    pub requests: u64,
    /// Bytes of bodies so far.
    pub bytes: u64,
    /// Time since the run began.
    pub elapsed: Duration,
    /// The hosts with most work before them that wait, the slowest first: at most ten.
    pub slowest: Vec<HostLine>,
    /// Sites with URLs left.
    pub hosts_left: usize,
    /// How it stands with the store that keeps the pace with others; `None` where this process paces alone.
    pub shared: Option<SharedPace>,
    /// How many requests may be in flight to all hosts together, where our own uplink is slow (A10).
    pub uplink: Option<u32>,
}

/// How it stands with a shared pace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPace {
    /// Where it is kept.
    pub place: String,
    /// Processes that keep it, this one included, as far as is known.
    pub members: u32,
    /// How long it has been out of reach, where it is.
    pub lost_for: Option<Duration>,
    /// How often it was.
    pub losses: u32,
    /// Requests that started without it.
    pub degraded: u64,
}

/// A host that waits, and why.
#[derive(Clone, Debug)]
pub struct HostLine {
    /// The host.
    pub host: String,
    /// URLs left.
    pub left: u32,
    /// Why its next request waits (`interval 500ms`), with the scope where that is another than the host.
    pub because: String,
    /// How long it still waits; `None` where that hangs on an answer.
    pub wait: Option<Duration>,
}
