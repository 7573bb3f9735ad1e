//! What the doors for HTTP clients share: what a caller says of a request, and what it is told of how it went.

use std::sync::Arc;
use std::time::Duration;

use comity_core::schedule::{GiveUp, Replay};
use http::Method;
use url::Url;

use crate::ask::{Ask, RequestKind};
use crate::permit::{Permit, Settled};

/// What a caller says of one request.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose name it is made in, where the service counts by API key.
    pub identity: Option<Arc<str>>,
    /// What it costs, where the service counts in units; at least 1.
    pub cost: u32,
    /// What it is for. The `browse` profile paces navigations only; [`RequestKind::of_headers`] reads it from a
    /// browser's header fields.
    pub kind: RequestKind,
    /// How often it may be tried again; `None` leaves it to the host's limits. A number asked for also covers a 504 and
    /// network failures, for idempotent methods (T10).
    pub retries: Option<u32>,
    /// The longest it waits before it starts; the time an attempt may take is the client's own setting (decision 14).
    pub queue_timeout: Option<Duration>,
}

impl Default for Options {
    /// A navigation of cost 1, retried as the host's limits say, that waits as long as it takes.
    fn default() -> Self {
        Self { identity: None, cost: 1, kind: RequestKind::default(), retries: None, queue_timeout: None }
    }
}

/// How a request came to its response: an extension of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// How often it was sent.
    pub sent: u32,
    /// The time from being asked for to the last start, earlier attempts included.
    pub waited: Duration,
    /// Why a refusal is all it got.
    pub gave_up: Option<GiveUp>,
}

impl Options {
    /// As the pacer is asked. Idempotent are the methods of RFC 9110 section 9.2.2.
    pub(crate) fn ask<'a>(&'a self, url: &'a Url, method: &Method, replayable: bool) -> Ask<'a> {
        let replay = Replay { idempotent: method.is_idempotent(), replayable, retries: self.retries };
        let mut ask = Ask::new(url).kind(self.kind).cost(self.cost).replay(replay);
        if let Some(identity) = &self.identity {
            ask = ask.identity(identity);
        }
        if let Some(limit) = self.queue_timeout {
            ask = ask.queue_timeout(limit);
        }
        ask
    }
}

impl Attempts {
    /// What a permit tells of the attempt that is made with it.
    pub(crate) fn of(permit: &Permit) -> Self {
        Self { sent: permit.attempt(), waited: permit.waited(), gave_up: None }
    }

    pub(crate) fn ended(mut self, settled: &Settled) -> Self {
        if let Settled::GiveUp(why) = settled {
            self.gave_up = Some(*why);
        }
        self
    }
}
