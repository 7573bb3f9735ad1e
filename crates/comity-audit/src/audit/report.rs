//! What an audit found, for programs (`schema/audit.schema.json`) and, by [`Report::to_string`], for people.

use std::time::Duration;

use serde::Serialize;

use super::law::Measure;
use super::plan::{Promise, Refusing};
use super::unit;

/// What an audit found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The whole run's.
    pub verdict: Verdict,
    /// Why it is void or fails.
    pub why: Vec<String>,
    /// The program that was judged and its arguments.
    pub command: Vec<String>,
    /// What was promised.
    pub promise: Promise,
    /// The interval that was judged by: the promised one, or a longer Crawl-delay.
    #[serde(rename = "interval_ms", serialize_with = "unit::ms")]
    pub interval: Duration,
    /// The Crawl-delay in each host's robots.txt.
    #[serde(rename = "crawl_delay_ms", serialize_with = "unit::some_ms")]
    pub crawl_delay: Option<Duration>,
    /// Which requests were refused.
    pub refusing: Option<Refusing>,
    /// The auditor's own clients.
    pub controls: Vec<Control>,
    /// The judged arms, in the order they ran.
    pub arms: Vec<Arm>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// What arrived keeps the promise.
    Passes,
    /// It does not.
    Fails,
    /// Nothing can be said.
    Void,
}

/// A run of the auditor's own clients.
#[derive(Clone, Debug, Serialize)]
pub struct Control {
    /// Which one.
    pub kind: ControlKind,
    /// How many clients.
    pub clients: u32,
    /// The workers of the arm it ran beside; `None` where it ran before all arms.
    pub beside: Option<u32>,
    /// How far its arrivals ran ahead of its pace, which is the machine's doing; of the one that goes alone.
    #[serde(rename = "jitter_ms", serialize_with = "unit::some_ms")]
    pub jitter: Option<Duration>,
    /// What arrived.
    #[serde(flatten)]
    pub measure: Measure,
    /// Whether it came out as it must.
    pub as_it_must: bool,
}

/// The two controls of behaviour X5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlKind {
    /// One perfect client: must pass.
    Alone,
    /// Perfect clients that share nothing: must fail.
    Unshared,
}

/// So many processes of the judged program at once.
#[derive(Clone, Debug, Serialize)]
pub struct Arm {
    /// How many processes.
    pub workers: u32,
    /// Requests each was asked to make.
    pub requests_each: u32,
    /// From the first process's start to the last one's end.
    #[serde(rename = "took_ms", serialize_with = "unit::ms")]
    pub took: Duration,
    /// What was measured of the machine beside it.
    #[serde(rename = "jitter_ms", serialize_with = "unit::ms")]
    pub jitter: Duration,
    /// What was not held against it: the promise's tolerance and the jitter.
    #[serde(rename = "tolerance_ms", serialize_with = "unit::ms")]
    pub tolerance: Duration,
    /// How it went.
    pub verdict: Verdict,
    /// Why it is void or fails.
    pub why: Vec<String>,
    /// What a reader should know beside it: processes that failed or were ended.
    pub notes: Vec<String>,
    /// What each host received.
    pub hosts: Vec<HostReport>,
    /// Each process.
    pub processes: Vec<ProcessReport>,
    /// Requests whose path names no process, robots.txt aside.
    pub unattributed: usize,
}

/// What one host received of an arm.
#[derive(Clone, Debug, Serialize)]
pub struct HostReport {
    /// Its name.
    pub host: String,
    /// How it went there.
    pub verdict: Verdict,
    /// Why it fails, or is void.
    pub why: Vec<String>,
    /// What arrived, by the law.
    #[serde(flatten)]
    pub measure: Measure,
    /// Requests it refused.
    pub refused: usize,
    /// Requests that came while it had asked for none.
    pub during_pauses: usize,
    /// Requests for its robots.txt; they are among the arrivals.
    pub robots: usize,
    /// Every arrival.
    pub seen: Vec<Seen>,
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Since the arm began.
    #[serde(rename = "at_ms", serialize_with = "unit::ms")]
    pub at: Duration,
    /// Which process sent it, if its path says so.
    pub worker: Option<u32>,
    /// Whether it was refused.
    pub refused: bool,
}

/// One process of an arm.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessReport {
    /// Its number, from 0.
    pub worker: u32,
    /// Requests that name it.
    pub arrivals: usize,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was ended because it took too long.
    pub timed_out: bool,
    /// Its own report: the last line it printed, or the last that began with `comity-audit:`.
    pub said: Option<String>,
}
