//! Who asks: our own policies in the real core, and baselines.

mod guard;
mod others;
mod ours;
mod work;

use comity_core::limits::all::Grant;
use comity_core::signal::NoAnswer;
use comity_core::time::Instant;

pub(crate) use self::others::{Others, is_one_list};
pub(crate) use self::ours::{Beginning, Kept, Ours};
use crate::outcome::Sample;

/// Clients that pace together: all that share one store, or one alone.
#[derive(Debug)]
pub(crate) enum Party {
    /// Our own.
    Ours(Box<Ours>),
    /// A baseline's.
    Others(Box<Others>),
}

/// A request starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The host's name, by its number.
    pub(crate) host: u32,
    /// The client, by its number.
    pub(crate) client: u32,
    /// How often this request was tried before.
    pub(crate) tried: u32,
    /// Its place in the order of arrival.
    pub(crate) place: u64,
    /// What the store gave it, where it is one of ours.
    pub(crate) grant: Option<Grant>,
}

/// How a request ends, as its client sees it.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    /// When it started.
    pub(crate) started: Instant,
    /// What came, or why nothing did.
    pub(crate) status: Result<u16, NoAnswer>,
    /// The header fields that came with it.
    pub(crate) fields: &'a [(&'static str, String)],
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It got what it asked for.
    Got,
    /// It ends without.
    GivenUp,
    /// It waits again.
    Again,
}

impl Party {
    /// Lets start what may.
    pub(crate) fn pump(&mut self, now: Instant, starts: &mut Vec<Start>) {
        match self {
            Self::Ours(ours) => ours.pump(now, starts),
            Self::Others(others) => others.pump(now, starts),
        }
    }

    /// When to pump again if nothing happens until then; [`Instant::FAR`] where only an answer helps.
    pub(crate) fn wake(&self, now: Instant) -> Instant {
        match self {
            Self::Ours(ours) => ours.wake(now),
            Self::Others(others) => others.wake(),
        }
    }

    /// A request ends.
    pub(crate) fn answered(&mut self, now: Instant, start: &Start, answer: &Answer<'_>) -> Fate {
        match self {
            Self::Ours(ours) => ours.answered(now, start, answer),
            Self::Others(others) => others.answered(now, start, answer),
        }
    }

    /// The worker of one of this client's requests is free again.
    pub(crate) fn worker_free(&mut self) {
        match self {
            Self::Ours(ours) => ours.worker_free(),
            Self::Others(others) => others.worker_free(),
        }
    }

    /// The state of its pace at a host.
    pub(crate) fn sample(&self, now: Instant, host: u32) -> Sample {
        match self {
            Self::Ours(ours) => ours.sample(now, host),
            Self::Others(others) => others.sample(now, host),
        }
    }

    /// What it says that it learned of a host, in words, and whether it takes it to answer in two ways.
    pub(crate) fn learned(&self, now: Instant, host: u32) -> (String, bool) {
        match self {
            Self::Ours(ours) => ours.learned(now, host),
            Self::Others(_) => (String::new(), false),
        }
    }

    /// What it would remember of every host.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        match self {
            Self::Ours(ours) => ours.kept(),
            Self::Others(_) => Vec::new(),
        }
    }
}
