//! The law a host lets requests in by.

use core::fmt::Debug;

use rand_pcg::Pcg64Mcg;

use super::bucket::Bucket;
use super::cap::Cap;
use super::leaky::Leaky;
use super::mix::Mix;
use super::sliding::Sliding;
use super::spread::Spread;
use super::window::FixedWindow;
use super::workers::Workers;

/// A law. Instants and spans are nanoseconds; instants never go back.
pub(super) trait Law: Debug + Send {
    /// A request arrives. A refused one changes nothing. `latency` is drawn from once where it is served.
    fn asks(&mut self, now: u64, latency: &Spread, rng: &mut Pcg64Mcg) -> Verdict;

    /// How things stand, for what the host says about it.
    fn standing(&self, now: u64) -> Standing;

    /// Requests a second in the long run.
    fn rate(&self, latency: &Spread) -> f64;

    /// What somebody who knew all about it gets from one instant to another, and the state this leaves behind. Nobody
    /// asks between the last instant this law heard of and `from`.
    fn takes_all(&mut self, from: u64, to: u64, latency: &Spread) -> f64;

    /// The mean time one request takes up, where others queue for it meanwhile.
    fn service(&self) -> u64 {
        0
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is answered.
    Served {
        /// From its arrival to the first byte.
        after: u64,
        /// What of this it waited in a queue; `None` where it met none.
        waited: Option<u64>,
    },
    /// It is turned away.
    Refused,
}

/// How things stand at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// How long until one more request is let in, if nobody else asks; zero where it would be now.
    pub(super) lets_in: u64,
    /// What is left, where there is something to count.
    pub(super) left: Option<Left>,
}

/// What is left of a counted limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Requests a window allows.
    pub(super) limit: u64,
    /// Its length.
    pub(super) window: u64,
    /// Requests it still allows.
    pub(super) remaining: u64,
    /// Time until it starts anew.
    pub(super) resets_in: u64,
}

/// Any of the laws, side by side in memory.
#[derive(Clone, Debug)]
pub(super) enum AnyLaw {
    Bucket(Bucket),
    Window(FixedWindow),
    Sliding(Sliding),
    Leaky(Leaky),
    Cap(Cap),
    Workers(Workers),
    /// The largest by far, and rare.
    Mix(Box<Mix>),
}

impl AnyLaw {
    pub(super) fn get(&self) -> &dyn Law {
        match self {
            Self::Bucket(law) => law,
            Self::Window(law) => law,
            Self::Sliding(law) => law,
            Self::Leaky(law) => law,
            Self::Cap(law) => law,
            Self::Workers(law) => law,
            Self::Mix(law) => &**law,
        }
    }

    pub(super) fn get_mut(&mut self) -> &mut dyn Law {
        match self {
            Self::Bucket(law) => law,
            Self::Window(law) => law,
            Self::Sliding(law) => law,
            Self::Leaky(law) => law,
            Self::Cap(law) => law,
            Self::Workers(law) => law,
            Self::Mix(law) => &mut **law,
        }
    }
}

/// A span in seconds.
pub(super) fn secs(nanos: u64) -> f64 {
    nanos as f64 / SECOND as f64
}

/// Nanoseconds in a second.
pub(super) const SECOND: u64 = 1_000_000_000;
