//! What other programs do, each from its public definition, with its source named.
//!
//! A baseline paces one host for one client. It knows what its program knows: when requests start, what is answered, and
//! when; it has no clock of its own.

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
