//! What every store of Comity's shared state must do, and the store in memory.
//!
//! A store makes the core's decisions atomic and remembers them; it decides nothing itself. [`Memory`] serves one process;
//! a [`Shared`] store keeps the memories of several in step. Every store passes the same [`conformance`] suite, a shared
//! one [joined](Joined) to a memory.
//!
//! [`guard`] is the same for the server's side.

mod alone;
pub mod conformance;
pub mod guard;
mod joined;
mod memory;
mod shared;

pub use alone::Alone;
pub use joined::Joined;
pub use memory::{Memory, MemorySettings, ScopeKind};
pub use shared::{
    Asked, Claimed, Known, Lesson, Listing, Lowered, MemberInfo, News, OnFailure, ReadClock, Readable, Shared,
    Standing, StoreError, Wake,
};

use core::time::Duration;

use comity_core::limits::all::{Begin, Claim, Effects, Grant};
use comity_core::limits::{Cell, Limits, Member, Route, ScopeId, Wait};
use comity_core::scope::{HostKeyError, Target};
use comity_core::signal::Signal;
use comity_core::time::Instant;
use std::sync::Arc;

/// Shared state of scopes.
///
/// A claim is one atomic operation over all scopes of a request (X3). Time is an argument, on the store's own clock.
pub trait Store {
    /// The scopes a request falls under. A caller's own limits replace the host's (T5).
    ///
    /// # Errors
    /// When the host is no normalised name, or the table is full of hosts that still matter.
    fn route(&mut self, now: Instant, target: &Target<'_>, own: Option<&OwnLimits>) -> Result<Route, RouteError>;

    /// Lets a request start, or says until when it waits and why.
    ///
    /// # Errors
    /// The wait that ends last.
    fn claim(&mut self, now: Instant, claim: &Claim<'_>) -> Result<Grant, Wait>;

    /// Checks a grant right before the request is written.
    fn begin(&mut self, now: Instant, members: &[Member], grant: &mut Grant) -> Begin;

    /// Learns from an answer whose request keeps its places until [`Store::release`].
    fn learn(
        &mut self,
        now: Instant,
        members: &[Member],
        grant: &Grant,
        signal: &Signal,
        latency: Option<Duration>,
    ) -> Effects;

    /// Gives a request's places back; nothing is learned.
    fn release(&mut self, now: Instant, members: &[Member], grant: &Grant) -> Effects;

    /// Learns from an answer, then gives the request's places back: a refusal teaches first (T8).
    fn report(
        &mut self,
        now: Instant,
        members: &[Member],
        grant: &Grant,
        signal: &Signal,
        latency: Option<Duration>,
    ) -> Effects {
        let learned = self.learn(now, members, grant, signal, latency);
        let released = self.release(now, members, grant);
        Effects { sooner: learned.sooner | released.sooner, freed: learned.freed | released.freed }
    }

    /// A scope's name and state.
    fn inspect(&self, scope: ScopeId) -> Option<(&str, &Cell)>;
}

/// Limits a caller brought, and the name they share with all who brought equal ones.
#[derive(Clone, Debug)]
pub struct OwnLimits {
    /// Equal limits have equal numbers.
    pub set: u32,
    /// The limits.
    pub limits: Arc<Limits>,
}

/// Why a request has no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The host is no normalised name.
    #[error(transparent)]
    Host(#[from] HostKeyError),
    /// The table is full of hosts that still matter.
    #[error("the table of hosts is full of hosts that still matter")]
    Full(Wait),
}
