//! What one exchange taught, read from its status and header fields.
//!
//! Authoritative signals are the server's own words (Retry-After, a refusing status, an advertised quota) and set hard
//! bounds. Inferred ones are what we make of its behaviour and move the pace only inside those bounds (behaviour A7).
//! They are two types so that they cannot be confused.

mod classify;
mod crawl_delay;
mod date;
mod fields;
mod number;
mod ratelimit;
mod reading;
mod retry_after;
#[cfg(test)]
mod tests;
mod text;

use core::time::Duration;

use crate::time::Wall;

pub use self::crawl_delay::{crawl_delay, request_rate};
use self::fields::Fields;
pub use self::reading::{HeaderMatch, Reading};
pub use self::retry_after::{RetryAfter, Why};

/// Reads what one answer taught, from its status and header fields.
///
/// `received` is our clock when the answer's headers arrived; every wait counts from there. Names are compared in any
/// case, values are bytes as received: what cannot be read teaches nothing, and no input is an error. Field values over
/// 4 KiB and more than 64 fields of a kind are not read. Limits on how long anybody waits are not applied here.
///
/// ```
/// use core::time::Duration;
/// use comity_core::signal::{Reading, read};
/// use comity_core::time::Wall;
///
/// let headers = [("retry-after", &b"1.5"[..])];
/// let signal = read(429, headers.into_iter(), Wall::from_secs(1_782_000_000), &Reading::default());
/// let refusal = signal.authoritative.refusal.expect("429 refuses");
/// assert_eq!(refusal.wait, Some(Duration::from_millis(1_500)));
/// ```
pub fn read<'a>(
    status: u16,
    headers: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    received: Wall,
    reading: &Reading,
) -> Signal {
    read_when(status, headers, || received, reading)
}

/// As [`read`], with a clock that is asked only where a header field may need it: most answers have none.
#[expect(clippy::needless_pass_by_value, reason = "an iterator is handed over, as everywhere")]
pub fn read_when<'a>(
    status: u16,
    headers: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    received: impl FnOnce() -> Wall,
    reading: &Reading,
) -> Signal {
    let fields = Fields::pick(headers.clone());
    let nothing_said = fields.retry_after.is_empty() && fields.quotas.is_empty();
    if nothing_said
        && reading.reset_headers.is_empty()
        && !classify::refuses(status, &headers, RetryAfter::Absent, reading)
    {
        return Signal {
            status: Some(status),
            inferred: classify::inferred(status, false),
            authoritative: Authoritative::default(),
        };
    }
    let clock = fields.clock(received());
    let retry_after = retry_after::read(&fields.retry_after, &clock);
    let quotas = ratelimit::read(fields.quotas, &clock, reading.riot);
    let refusal = classify::refuses(status, &headers, retry_after, reading)
        .then(|| Refusal { status, wait: classify::refusal_wait(&headers, retry_after, &quotas, &clock, reading) });
    Signal {
        status: Some(status),
        inferred: classify::inferred(status, refusal.is_some()),
        authoritative: Authoritative { refusal, quotas },
    }
}

/// Reads the Retry-After of an answer alone, with the reason where it gives no advice: for a warning, a log or a count.
/// [`read`] has already taken it into account.
pub fn retry_after<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])>, received: Wall) -> RetryAfter {
    let fields = Fields::pick(headers);
    retry_after::read(&fields.retry_after, &fields.clock(received))
}

/// What one answer taught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The status of the answer; `None` where none came.
    pub status: Option<u16>,
    /// What the server said.
    pub authoritative: Authoritative,
    /// What we make of how it went.
    pub inferred: Inferred,
}

impl Signal {
    /// What is learned when no answer came.
    pub fn no_answer(why: NoAnswer) -> Self {
        Self { status: None, authoritative: Authoritative::default(), inferred: Inferred::NoAnswer(why) }
    }
}

/// What the server said, to be obeyed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authoritative {
    /// It refused, perhaps saying until when.
    pub refusal: Option<Refusal>,
    /// The quotas it advertised, the most restrictive first.
    pub quotas: Vec<Quota>,
}

/// The server refused to serve this request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The refusing status.
    pub status: u16,
    /// How long it asked us to stay away, counted from the arrival of the answer; `None` where it gave no usable advice.
    pub wait: Option<Duration>,
}

/// A quota a server advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Requests a window allows.
    pub limit: Option<u64>,
    /// The window's length.
    pub window: Option<Duration>,
    /// Requests left in the current window.
    pub remaining: Option<u64>,
    /// Time until the window starts anew, counted from the arrival of the answer.
    pub resets_in: Option<Duration>,
}

/// What the exchange suggests, without the server having said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inferred {
    /// Served: 1xx, 2xx, 3xx (304 included).
    Healthy,
    /// A client error that says nothing about load (401, 403, 404 …), or a refusal (which is authoritative).
    Neutral,
    /// A server error that is not a refusal.
    ServerError,
    /// No answer came.
    NoAnswer(NoAnswer),
}

/// Why no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The name did not resolve.
    Resolve,
    /// No connection, or TLS failed.
    Connect,
    /// The attempt's time ran out.
    TimedOut,
    /// The connection broke after the request was sent.
    Reset,
    /// Our own uplink, resolver or connection pool was to blame, not the host: it is counted and teaches nothing (A10).
    Uplink,
}
