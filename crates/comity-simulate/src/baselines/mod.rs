//! What other programs do, each from its public definition, with its source named.
//!
//! A baseline paces one host for one client. It knows what its program knows: when requests start, what is answered, and
//! when; it has no clock of its own. [`NAMES`] lists them all, [`named`] makes one.
//!
//! Four of them were run against real servers as well (20 ms an answer, no Retry-After); their modules say with which
//! settings, and the tests here replay those runs.

mod fixed;
#[cfg(test)]
mod told;
mod told;

use core::time::Duration;

use comity_core::time::Instant;

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
    /// Requests in flight, for the programs that leave that to their users: `fixed`, `aws`, `comunica` and `told`.
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
pub const NAMES: [(&str, &str, &str); 10] = [
    ("fixed", "one interval and a number in flight, whatever is answered", "no program: the plain loop with a sleep"),
    ("curl", "serial at a rate it was told; retries back off exponentially", "curl 7.88 manual, --rate and --retry"),
    ("lychee", "10 in flight, 20 starts a second; back-off while refused", "lychee-lib 0.24 ratelimit/host/host.rs"),
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
        "fixed" => Box::new(fixed::Fixed::new(settings.interval, settings.in_flight)),
        "told" => Box::new(told::Told::new(settings.capacity, settings.in_flight)),
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
}
