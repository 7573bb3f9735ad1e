//! What a store must do that several processes share, beside this process's memory of it.
//!
//! The memory mirrors what the store last said of each scope. It is what is told to people, the floor under a store that
//! lost its state (X9), and what a process goes on with while the store is out of reach (decision 7).

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{Begin, Claim, Effects, Grant};
use comity_core::limits::{Member, ScopeId, Snapshot, Wait};
use comity_core::signal::Signal;
use comity_core::time::Instant;

use crate::Memory;

/// The store's clock, as this process reads it.
pub type ReadClock = Arc<dyn Fn() -> Instant + Send + Sync>;
/// Called, from any thread, when there is [news](Shared::news).
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Shared state of scopes. Every instant is on the [clock](Shared::clock) of the store.
///
/// No call waits longer than the store's own deadline. A store that is out of reach makes this process slower, never
/// faster, and is joined again without anybody's help.
pub trait Shared: Send {
    /// The clock that every instant given to this store is read from.
    fn clock(&self) -> ReadClock;

    /// Whom to tell of news.
    fn on_news(&mut self, wake: Wake);

    /// Asks that a request may start: one atomic operation over all its scopes (X3).
    fn claim(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>, asked: Asked) -> Claimed;

    /// Checks a grant right before the request is written (decision 2).
    fn begin(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &mut Grant) -> Begin;

    /// Learns from an answer whose request keeps its places until [`Shared::release`].
    fn learn(&mut self, memory: &mut Memory, now: Instant, members: &[Member], lesson: &Lesson<'_>) -> Effects;

    /// Gives a request's places back.
    fn release(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &Grant) -> Effects;

    /// What a host's robots.txt declares; zero where it does not (any more).
    fn declare(&mut self, memory: &mut Memory, now: Instant, scope: ScopeId, crawl_delay: Duration);

    /// Forgets what was learned of these scopes, for all who share them.
    fn forget(&mut self, memory: &mut Memory, now: Instant, scopes: &[ScopeId]);

    /// What came since: late answers, and what others changed. Also the time to send a sign of life.
    fn news(&mut self, memory: &mut Memory, now: Instant) -> News;

    /// How it stands between this process and the store.
    fn standing(&self) -> Standing;
}

/// What the store is told of a claim beside what is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The claim's number, for an answer that comes late.
    pub id: u64,
    /// Requests that wait in the same queue, this one included: a distant store may look so far ahead.
    pub waiting: u32,
}

/// A store's answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claimed {
    /// At once.
    Now(Result<Grant, Wait>),
    /// It comes with the [news](Shared::news).
    Later,
}

/// What an answer teaches, and whom.
#[derive(Clone, Copy, Debug)]
pub struct Lesson<'a> {
    /// The start whose answer it is.
    pub grant: &'a Grant,
    /// What the answer said.
    pub signal: &'a Signal,
    /// From the start to the first byte of the answer.
    pub latency: Option<Duration>,
}

/// What came from a store.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// Answers to claims, by their numbers. A grant may lie ahead: its request starts then.
    pub answers: Vec<(u64, Result<Grant, Wait>)>,
    /// Scopes that others changed, so that those who wait there may go sooner than they were told.
    pub changed: Vec<ScopeId>,
    /// The same of any scope.
    pub all_changed: bool,
    /// When to ask for news again at the latest, where somebody waits.
    pub again: Option<Instant>,
}

/// How it stands between a process and the store it shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where the store is, as it was said, without secrets.
    pub place: String,
    /// Processes that share it, this one included, as far as is known.
    pub members: u32,
    /// Why the store is out of reach, and since when; `None` where it is not.
    pub lost: Option<(Instant, String)>,
    /// How often it was lost, and found again.
    pub losses: u32,
}

/// What a process does while the store it shares is out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Goes on with its part of every limit: intervals times members, counts divided among them.
    #[default]
    Share,
    /// Starts nothing until the store is back.
    Pause,
    /// Goes on as if alone. Together the processes may then be faster than was promised.
    Local,
}

/// All that a store knows, for people and programs to read.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Where the store is, without secrets.
    pub place: String,
    /// The store's clock at the reading; every instant below is on it.
    pub now: Instant,
    /// The scopes.
    pub scopes: Vec<Known>,
    /// The processes that share it.
    pub members: Vec<MemberInfo>,
}

/// What a store knows of a scope.
#[derive(Clone, Debug)]
pub struct Known {
    /// `example.org`, `*.example.org`, `example.org/api`, `*`.
    pub name: String,
    /// Its state.
    pub state: Snapshot,
    /// The interval that held at the last start: the most of what was set, learned and declared.
    pub interval: Duration,
    /// The most requests in flight that the last claim brought; `None` where it brought no such limit.
    pub most_in_flight: Option<u32>,
    /// When the next request may start as far as its clocks go; in the past where at once.
    pub next_start: Instant,
    /// Places in flight by member: [`MemberInfo::id`] and how many.
    pub places: Vec<(String, u32)>,
    /// Members that wait here, in the order of their turns.
    pub waiting: Vec<String>,
    /// Who last made it slower.
    pub lowered: Option<Lowered>,
}

/// The last time a scope was made slower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The member whose request was answered so.
    pub by: String,
    /// The status; `None` where no answer came.
    pub status: Option<u16>,
    /// When.
    pub at: Instant,
    /// The interval before and after.
    pub from: Duration,
    /// See above.
    pub to: Duration,
}

/// A process that shares a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// `name-of-the-machine:process-id`, and a number where that is not enough.
    pub id: String,
    /// When it joined.
    pub joined: Instant,
    /// Its last sign of life.
    pub seen: Instant,
}

/// A store as people look at it: without a pacer.
pub trait Readable {
    /// All it knows.
    ///
    /// # Errors
    /// When it is out of reach.
    fn list(&mut self) -> Result<Listing, StoreError>;

    /// Forgets what was learned of a scope by its name, or of all: pace, pause, quota. Returns of how many.
    ///
    /// # Errors
    /// When it is out of reach.
    fn forget_by_name(&mut self, name: Option<&str>) -> Result<usize, StoreError>;
}

/// Why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Where it is said to be is nothing that could be one: a fault in what was asked for.
    #[error("{0}")]
    Unusable(String),
    /// It does not answer, or not in time.
    #[error("{0}")]
    OutOfReach(String),
}

impl OnFailure {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Pause => "pause",
            Self::Local => "local",
        }
    }
}

impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
