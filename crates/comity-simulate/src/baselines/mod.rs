//! What other programs do, each from its public definition, with its source named.
//!
//! A baseline paces one host for one client. It knows what its program knows: when requests start, what is answered, and
//! when; it has no clock of its own. [`NAMES`] lists them all, [`named`] makes one.
//!
//! Six of the real programs were run against real servers as well (20 ms an answer, no Retry-After): wget, curl, lychee,
//! aria2, Scrapy and Crawlee. Their modules say with which settings, and the tests here replay those runs; each agrees
//! within a fifth. "Five hosts" there are a bucket of 10/s and 20, one of 1/s and 5, one of 100/s and 50, a window of 60 a
//! minute and 4 workers of 200 ms, 120 URLs each, in one list in turn.

mod aria2;
mod aws;
mod comunica;
mod crawlee;
mod curl;
mod fixed;
mod flights;
mod gradient2;
mod heritrix;
#[cfg(test)]
mod in_the_world;
mod lychee;
mod nutch;
mod scrapy;
#[cfg(test)]
mod small_world;
mod told;
mod vegas;
mod wget;

use core::time::Duration;

use comity_core::time::Instant;

use self::fixed::{Beat, Fixed};
use self::flights::Limited;

/// A pace for one host.
pub trait Baseline: core::fmt::Debug + Send {
    /// Whether a request may start now, with so many in flight at this host.
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start;

    /// A request starts.
    fn started(&mut self, now: Instant);

    /// It is answered.
    fn answered(&mut self, now: Instant, answer: &Answered);

    /// The interval it keeps now, for the pictures; `None` where it keeps none.
    fn interval(&self) -> Option<Duration>;

    /// How many it has in flight at most now.
    fn most_in_flight(&self) -> u32;

    /// How often a refused request is tried again before its program gives it up.
    fn retries(&self) -> u32;

    /// When a refused request that has tries left is tried again, as against the others of its list. Asked right after
    /// [`Baseline::answered`] was told of that refusal.
    fn again(&self) -> Again {
        Again::First
    }
}

/// Whether there is one of this name.
pub fn is_known(name: &str) -> bool {
    NAMES.iter().any(|(known, ..)| *known == name)
}

/// Whether one of its runs costs as much as hundreds of others: `gradient2` never waits, so that a host that refuses at once
/// is asked tens of thousands of times a second, and each of these requests is simulated.
pub fn is_costly(name: &str) -> bool {
    name == "gradient2"
}

/// Whether a request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Now.
    Now,
    /// Not before.
    At(Instant),
    /// Not before an answer comes.
    AfterAnswer,
}

/// When a refused request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Before any other request of its list, as soon as the pace lets one start.
    First,
    /// After all others of its list.
    Last,
    /// Before any other, once it has rested so long; others start meanwhile.
    Rested(Duration),
}

/// An answer, or that none came.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// When its request started.
    pub started: Instant,
    /// The status; `None` where none came.
    pub status: Option<u16>,
    /// From the start to the first byte.
    pub latency: Duration,
    /// The Retry-After it carried, counted from now.
    pub retry_after: Option<Duration>,
    /// How often this request was tried before.
    pub tried: u32,
}

impl Answered {
    /// Whether the host refused: 429 or 503.
    fn refused(&self) -> bool {
        matches!(self.status, Some(429 | 503))
    }

    /// Whether it served: 2xx.
    fn served(&self) -> bool {
        matches!(self.status, Some(200..=299))
    }
}

/// What a person tells a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The interval between starts, for the programs that keep the one they are told: `fixed` and `curl`.
    pub interval: Duration,
    /// Requests in flight, for the programs that leave that to their users: `fixed`, `aws`, `comunica`, `crawlee` and `told`.
    pub in_flight: u32,
    /// The seed of whatever the program draws at random.
    pub seed: u64,
    /// What the host serves in the long run, in requests a second. Only `told` is told.
    pub capacity: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), in_flight: 16, seed: 0, capacity: 1.0 }
    }
}

/// All baselines: name, what it does, and where that is written.
pub const NAMES: [(&str, &str, &str); 14] = [
    ("fixed", "one interval and a number in flight, whatever is answered", "no program: the plain loop with a sleep"),
    ("curl", "serial at a rate it was told; retries back off exponentially", "curl 7.88 manual, --rate and --retry"),
    ("wget", "serial, as fast as answers come; retries back off linearly", "GNU Wget 1.21 manual, --waitretry"),
    ("lychee", "10 in flight, 20 starts a second; back-off while refused", "lychee-lib 0.24 ratelimit/host/host.rs"),
    ("aria2", "5 in flight, as fast as answers come; a refused URL is lost", "aria2 1.36 manual, -j and --retry-wait"),
    ("scrapy", "AutoThrottle: the delay follows latency", "Scrapy 2.19 documentation, AutoThrottle extension"),
    (
        "aws",
        "adaptive retry mode: a CUBIC token bucket on our side",
        "botocore 1.44 retries/adaptive.py, throttling.py",
    ),
    (
        "heritrix",
        "serial; waits 5 times as long as the last fetch took",
        "Heritrix 3 postprocessor/DispositionProcessor.java",
    ),
    ("nutch", "serial; 5 s between the end of a fetch and the next", "Nutch 1.20 fetcher/FetchItemQueue.java"),
    ("comunica", "spaces starts by past durations, once refused", "Comunica 4 actor-http-limit-rate"),
    (
        "crawlee",
        "10 to 100 in flight; a domain pauses 2, 4, 8 s … when refused",
        "crawlee 1.11 ThrottlingRequestManager",
    ),
    ("gradient2", "in flight: long-term latency over the last one", "Netflix concurrency-limits Gradient2Limit.java"),
    ("vegas", "in flight: an estimate of the queue", "Netflix concurrency-limits VegasLimit.java"),
    ("told", "an oracle that knows what the host serves: a bound", "no program"),
];

/// The baseline of a name, or `None` where there is none.
pub fn named(name: &str, settings: &Settings) -> Option<Box<dyn Baseline>> {
    Some(match name {
        "fixed" => Box::new(Fixed::new(settings.interval, settings.in_flight, Beat::Starts)),
        "curl" => Box::new(curl::Curl::new(settings.interval)),
        "wget" => Box::new(wget::Wget::new()),
        "lychee" => Box::new(lychee::Lychee::new()),
        "aria2" => Box::new(aria2::Aria2::new()),
        "scrapy" => Box::new(scrapy::Scrapy::new(settings.seed)),
        "aws" => Box::new(aws::Aws::new(settings.in_flight, settings.seed)),
        "heritrix" => Box::new(heritrix::Heritrix::new()),
        "nutch" => Box::new(nutch::Nutch::new()),
        "comunica" => Box::new(comunica::Comunica::new(settings.in_flight)),
        "crawlee" => Box::new(crawlee::Crawlee::new(settings.in_flight)),
        "gradient2" => Box::new(Limited::new(gradient2::Gradient2::new())),
        "vegas" => Box::new(Limited::new(vegas::Vegas::new(settings.seed))),
        "told" => Box::new(told::told(settings.capacity, settings.in_flight)),
        _ => return None,
    })
}

/// The common rule: at most so many in flight, and nothing before an instant.
fn gate(now: Instant, in_flight: u32, most: u32, not_before: Instant) -> Start {
    if in_flight >= most {
        Start::AfterAnswer
    } else if now < not_before {
        Start::At(not_before)
    } else {
        Start::Now
    }
}

/// A span of so many seconds, within what a span can hold; what is no number is none.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST)
}

/// As good as for ever: longer than any world.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// A program that keeps trying until it has what it was asked for.
const ALWAYS: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn answer(started: Instant, status: u16, latency: Duration) -> Answered {
        Answered { started, status: Some(status), latency, retry_after: None, tried: 0 }
    }

    #[test]
    fn every_name_makes_a_baseline_and_no_other_does() {
        for (name, what, source) in NAMES {
            assert!(named(name, &Settings::default()).is_some(), "{name}");
            assert!(!what.is_empty() && !source.is_empty());
        }
        assert!(named("nobody", &Settings::default()).is_none());
        assert!(named("", &Settings::default()).is_none());
    }

    #[test]
    fn no_answer_however_odd_makes_any_of_them_panic_or_stop() {
        let latencies = [0, 1, 1_000_000, u64::MAX / 2, u64::MAX].map(Duration::from_nanos);
        let statuses = [None, Some(0), Some(200), Some(404), Some(429), Some(503), Some(599), Some(u16::MAX)];
        let odd = [
            Settings { interval: Duration::MAX, in_flight: 0, seed: u64::MAX, capacity: f64::NAN },
            Settings { interval: Duration::ZERO, in_flight: u32::MAX, seed: 0, capacity: -1.0 },
            Settings { interval: Duration::from_nanos(1), in_flight: 1, seed: 1, capacity: f64::INFINITY },
        ];
        for (name, ..) in NAMES {
            for settings in &odd {
                let Some(mut baseline) = named(name, settings) else { panic!("{name} is a name") };
                let mut now = Instant::ZERO;
                for round in 0..400 {
                    let latency = latencies[round % latencies.len()];
                    let (started, status) = (now, statuses[round % statuses.len()]);
                    if baseline.may_start(now, 0) == Start::Now {
                        baseline.started(now);
                    }
                    now = now.after(latency.min(Duration::from_secs(3)));
                    let retry_after = [None, Some(Duration::ZERO), Some(Duration::MAX)][round % 3];
                    let tried = if round % 2 == 0 { 0 } else { u32::MAX };
                    baseline.answered(now, &Answered { started, status, latency, retry_after, tried });
                    assert!(baseline.most_in_flight() >= 1, "{name}: a program that never starts anything");
                    assert!(baseline.interval().is_none_or(|interval| interval <= Duration::MAX));
                    let _ = (baseline.again(), baseline.retries());
                }
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_starts() {
        for (name, ..) in NAMES {
            let starts = |seed| {
                let Some(mut baseline) = named(name, &Settings { seed, ..Settings::default() }) else { return vec![] };
                let (mut now, mut starts) = (Instant::ZERO, Vec::new());
                for round in 0..200 {
                    while let Start::At(at) = baseline.may_start(now, 0) {
                        assert!(at > now, "{name} names an instant that has passed");
                        now = at;
                    }
                    baseline.started(now);
                    starts.push(now);
                    let started = now;
                    now = now.after(Duration::from_millis(20));
                    let status = if round % 4 == 3 { 429 } else { 200 };
                    baseline.answered(now, &answer(started, status, Duration::from_millis(20)));
                }
                starts
            };
            assert_eq!(starts(7), starts(7), "{name}");
        }
    }
}
