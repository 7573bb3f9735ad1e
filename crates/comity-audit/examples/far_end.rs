//! Hosts with hidden limits as a process of their own, for programs that may not link this crate.
//!
//! ```sh
//! far_end '{"slow.example": {"queue": {"workers": 4, "service_ms": 200}}, "strict.example": {"bucket": {"every_us": 100000, "burst": 20}}}'
//! ```
//!
//! It prints its port, then answers each line of its standard input with one line: `now` with the microseconds since its
//! start, `report` with all arrivals as JSON, `clear` (which forgets them) with `cleared`. It ends with its input.
//!
//! A host has any of `bucket` (`every_us`, `burst`), `window` (`count`, `per_ms`), `queue` (`workers`, `service_ms`),
//! `cached` (`percent`, `service_ms`) and `service_ms`. Refusals are 429 and do not say until when.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use comity_audit::far_end::{Arrival, FarEnd, Host, Limit, World};
use serde::Deserialize;
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: far_end '{HOST: {…}, …}'");
    let hosts: std::collections::BTreeMap<String, HostSpec> =
        serde_json::from_str(&std::env::args().nth(1).ok_or_else(usage)?)?;
    let world = hosts.into_iter().fold(World::new(), |world, (name, host)| world.host(&name, host.build()));
    let far_end = FarEnd::start(world)?;
    let mut out = io::stdout();
    writeln!(out, "{}", far_end.addr().port())?;
    for line in io::stdin().lock().lines() {
        match line?.trim() {
            "now" => writeln!(out, "{}", micros(far_end.now()))?,
            "report" => writeln!(out, "{}", report(&far_end))?,
            "clear" => {
                far_end.clear();
                writeln!(out, "cleared")?;
            }
            _ => writeln!(out, "now, report or clear")?,
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostSpec {
    bucket: Option<Bucket>,
    window: Option<Window>,
    queue: Option<Queue>,
    cached: Option<Cached>,
    #[serde(default)]
    service_ms: u64,
}

#[derive(Deserialize)]
struct Bucket {
    every_us: u64,
    burst: u32,
}

#[derive(Deserialize)]
struct Window {
    count: u32,
    per_ms: u64,
}

#[derive(Deserialize)]
struct Queue {
    workers: u32,
    service_ms: u64,
}

#[derive(Deserialize)]
struct Cached {
    percent: u32,
    service_ms: u64,
}

impl HostSpec {
    fn build(self) -> Host {
        let mut host = Host::new().service(Duration::from_millis(self.service_ms));
        if let Some(Bucket { every_us, burst }) = self.bucket {
            host = host.limit(Limit::TokenBucket { every: Duration::from_micros(every_us), burst });
        }
        if let Some(Window { count, per_ms }) = self.window {
            host = host.limit(Limit::FixedWindow { count, per: Duration::from_millis(per_ms) });
        }
        if let Some(Queue { workers, service_ms }) = self.queue {
            let service = Duration::from_millis(service_ms);
            host = host.limit(Limit::SlowQueue { workers, service, depth: DEPTH });
        }
        if let Some(Cached { percent, service_ms }) = self.cached {
            host = host.cached(percent, Duration::from_millis(service_ms));
        }
        host
    }
}

fn report(far_end: &FarEnd) -> Value {
    let unrecorded = far_end.unrecorded();
    let lost = unrecorded.turned_away + unrecorded.malformed + unrecorded.overflowed;
    let arrivals: Vec<Value> = far_end.arrivals().iter().map(arrival).collect();
    json!({"unrecorded": lost, "arrivals": arrivals})
}

fn arrival(arrival: &Arrival) -> Value {
    json!({
        "host": arrival.host,
        "target": arrival.target(),
        "at_us": micros(arrival.at),
        "answered_us": arrival.answered.map(micros),
        "queued_us": arrival.queued.map(micros),
        "status": arrival.status,
    })
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A queue that never refuses: what waits in it is what is measured.
const DEPTH: u32 = u32::MAX;
