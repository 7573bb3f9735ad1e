//! Hosts with limits that no client is told.
//!
//! A host decides at the arrival of a request what it will answer and when, so that no model needs events of its own.

mod advice;
mod answers;
mod behind;
mod bucket;
mod cap;
mod crowd;
mod keys;
mod law;
mod leaky;
mod mix;
mod model;
mod moving;
mod outage;
mod said;
mod site;
mod sliding;
mod spread;
mod window;
mod workers;

use core::time::Duration;

use comity_core::time::Instant;
use rand_pcg::Pcg64Mcg;

pub use advice::wall;
pub use behind::Groups;
pub use model::Model;
pub use said::ModelError;

/// A host.
pub trait Host: core::fmt::Debug + Send {
    /// A request arrives. Instants never go back.
    fn arrives(&mut self, now: Instant, from: ClientId, rng: &mut Pcg64Mcg) -> Reply;

    /// What the host can serve from one instant to another in the long run, in requests: its sustained rate over that span,
    /// without what a burst allows once. Its own limits as they move, less what others' traffic takes.
    fn capacity(&self, from: Instant, to: Instant) -> f64;

    /// The most it would still have served between the two instants to somebody who knew all about it, given what it has
    /// served already at `from`: a fixed window that was used up early has less left than its rate says.
    fn possible(&self, from: Instant, to: Instant) -> f64 {
        self.capacity(from, to)
    }

    /// What our requests met in its queue, where it has one.
    fn queue(&self) -> Queued {
        Queued::default()
    }
}

/// Which client a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub u32);

/// What a host answers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status; `None` where the connection is reset, or given up after a long silence.
    pub status: Option<u16>,
    /// How long after the arrival the first byte leaves the host, waiting in its queue included.
    pub after: Duration,
    /// Header fields that matter to pacing, as sent. Empty costs nothing.
    pub fields: Vec<(&'static str, String)>,
}

/// What requests met in a host's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Queued {
    /// Requests that waited in it or went straight through.
    pub requests: u64,
    /// All their waits together.
    pub waited: Duration,
    /// The mean service time.
    pub service: Duration,
}

#[cfg(test)]
mod tests;
