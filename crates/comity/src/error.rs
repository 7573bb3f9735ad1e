//! Why a request did not start.

use std::fmt;
use std::time::Duration;

use comity_core::limits::Because;
use comity_core::scope::HostKeyError;

/// Why waiting for a permit ended without one.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// The URL has no host, or one that is no name.
    #[error("`{url}` cannot be paced: {reason}")]
    NoHost {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The request waited as long as its caller wanted to wait (D23): it was never sent.
    #[error("waited {waited:?} in the queue, the longest allowed; {delay}")]
    QueueTimeout {
        /// How long it waited.
        waited: Duration,
        /// What it was waiting for.
        delay: Delay,
    },
    /// The pacer is gone.
    #[error("the pacer was closed while the request waited")]
    Closed,
}

/// A request may not start yet: for how long, and because of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// How long from now; `None` where only an event (a freed place) can help.
    pub wait: Option<Duration>,
    /// The scope that holds the request back: `example.org`, `*.example.org`, `*`.
    pub scope: String,
    /// Which of its limits.
    pub because: Because,
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.scope, self.because)?;
        match self.wait {
            Some(wait) => write!(f, ", for {wait:?}"),
            None => Ok(()),
        }
    }
}

impl AcquireError {
    /// Whether the request waited as long as its caller wanted to.
    pub fn is_queue_timeout(&self) -> bool {
        matches!(self, Self::QueueTimeout { .. })
    }

    pub(crate) fn host(url: &url::Url, error: &HostKeyError) -> Self {
        Self::NoHost { url: url.to_string(), reason: error.to_string() }
    }
}
