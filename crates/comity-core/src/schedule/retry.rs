//! Whether a request is tried again (T7, T10).

use core::time::Duration;

use crate::limits::Limits;
use crate::signal::{Inferred, Signal};

/// What a caller says of a request's replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Its method is idempotent (RFC 9110 §9.2.2).
    pub idempotent: bool,
    /// Its body can be sent again: it is not a stream.
    pub replayable: bool,
    /// How often it may be tried again; `None` leaves it to the host's limits. A number asked for also covers a 504, the
    /// statuses the limits list, and network failures.
    pub retries: Option<u32>,
}

/// How often a request was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempted {
    /// Starts so far.
    pub attempts: u32,
}

/// What becomes of a request after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ends with what it got.
    Done,
    /// It waits again, ahead of those that came after it.
    Retry {
        /// Not before so long; `None` where the host's own clocks decide.
        after: Option<Duration>,
    },
    /// It ends with the refusal it got, although it could be tried again.
    GiveUp(GiveUp),
}

/// Why a refused request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// The server asked for a longer wait than the limit: this one.
    AskedTooLong(Duration),
    /// It was tried as often as it may be.
    NoRetriesLeft,
    /// It may not be sent twice: its body is a stream, or its method is not idempotent.
    NotReplayable,
}

impl Default for Replay {
    /// A GET: idempotent, replayable, as often as the host's limits say.
    fn default() -> Self {
        Self { idempotent: true, replayable: true, retries: None }
    }
}

/// Decides what becomes of a request after an attempt.
pub fn verdict(limits: &Limits, signal: &Signal, replay: Replay, attempted: Attempted) -> Verdict {
    let retries = replay.retries.unwrap_or(limits.retries);
    let left = attempted.attempts <= retries;
    if let Some(refusal) = &signal.authoritative.refusal {
        if let Some(asked) = refusal.wait
            && asked > limits.retry_after_limit
        {
            return Verdict::GiveUp(GiveUp::AskedTooLong(asked));
        }
        // A 503 may come after the server did half the work; a 429 says that it did none (T10).
        let method_allows = replay.idempotent || refusal.status != 503 || limits.retry_unsafe_503;
        return match (replay.replayable && method_allows, left) {
            (false, _) => Verdict::GiveUp(GiveUp::NotReplayable),
            (true, false) => Verdict::GiveUp(GiveUp::NoRetriesLeft),
            (true, true) => Verdict::Retry { after: None },
        };
    }
    let listed = signal.status.is_some_and(|status| status == 504 || limits.retry_statuses.contains(&status))
        || matches!(signal.inferred, Inferred::NoAnswer(_));
    if listed && replay.retries.is_some() && replay.idempotent && replay.replayable && left {
        return Verdict::Retry { after: Some(FALLBACK) };
    }
    Verdict::Done
}

impl core::fmt::Display for GiveUp {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::AskedTooLong(wait) if *wait > CENTURY => {
                f.write_str("the server asks for a wait of more than a century, longer than `retry_after_limit`")
            }
            Self::AskedTooLong(wait) => {
                write!(f, "the server asks for a wait of {wait:?}, longer than `retry_after_limit`")
            }
            Self::NoRetriesLeft => f.write_str("refused as often as `retries` allows"),
            Self::NotReplayable => f.write_str("refused, and a request like this is not sent twice"),
        }
    }
}

/// What a retry waits where nobody said for how long.
const FALLBACK: Duration = Duration::from_secs(1);
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
