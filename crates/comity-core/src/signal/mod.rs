//! What one exchange taught, read from its status and header fields.
//!
//! Authoritative signals are the server's own words (Retry-After, a refusing status, an advertised quota) and set hard
//! bounds. Inferred ones are what we make of its behaviour and move the pace only inside those bounds (behaviour A7).
//! They are two types so that they cannot be confused.

use core::time::Duration;

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
}
