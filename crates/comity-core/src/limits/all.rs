//! Decide all, then charge all.
//!
//! A request starts only when every scope it falls under can start it at that instant; a request that does not start
//! costs nobody anything (T3).

use core::time::Duration;

use super::cell::{Cell, Effect};
use super::route::{Member, Part, ScopeId};
use super::share::Share;
use super::{Because, Wait};
use crate::signal::Signal;
use crate::time::Instant;

/// A table of scopes.
pub trait Cells {
    /// A scope's state.
    fn cell(&self, scope: ScopeId) -> &Cell;
    /// A scope's state, to change.
    fn cell_mut(&mut self, scope: ScopeId) -> &mut Cell;
    /// Which part of every limit this table may use: all of it, unless it goes on alone without the store it shares.
    fn share(&self) -> Share {
        Share::WHOLE
    }
}

/// A request asks to start.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The scopes it falls under, the narrowest first. At most [`MOST_MEMBERS`].
    pub members: &'a [Member],
    /// What it costs; 1 for most.
    pub cost: u32,
    /// When it was asked for: the instant it came to its queue.
    pub asked: Instant,
    /// When it was due: what its timer was set for, or now where none was. So a timer's lateness is not charged to it, and
    /// a wait that a place or an answer ended is not taken for lateness.
    pub due: Instant,
}

impl<'a> Claim<'a> {
    /// A request that has not waited.
    pub fn at_once(members: &'a [Member], cost: u32, now: Instant) -> Self {
        Self { members, cost, asked: now, due: now }
    }
}

/// The right to start one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// When it starts.
    pub start: Instant,
    /// How late it may be used; `None` where no spacing holds (decision 2).
    pub late_by: Option<Duration>,
    /// What it cost.
    pub cost: u32,
    /// Bit `n`: for member `n` it is the trial after a pause.
    pub trials: u16,
    /// Who else the pace was kept with.
    pub from: Origin,
}

/// Where a grant comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A store of this process alone.
    #[default]
    Local,
    /// A store that others share.
    Shared,
    /// This process alone, because the store that is shared was out of reach: a part of every limit (decision 7).
    Degraded,
}

impl Origin {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Degraded => "degraded",
        }
    }
}

impl Grant {
    /// Whether it would be used later than it may be where others start after it.
    pub fn is_too_late(&self, now: Instant) -> bool {
        self.late_by.is_some_and(|late_by| now > self.start.after(late_by))
    }

    /// Whether it would be used so late that its start must be moved, or asked for anew.
    pub fn is_late(&self, now: Instant) -> bool {
        self.late_by.is_some_and(|late_by| now > self.start.after(late_by.min(NOTICEABLE)))
    }
}

/// A grant is used at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// In time.
    Go,
    /// Late, but nobody started since: the clocks were set to now.
    Restamped,
    /// Late, and others started since: give it up and claim again.
    TooLate,
}

/// What an answer, or giving a place back, did to the scopes of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Bit `n`: those that wait on member `n` may go sooner than they were told.
    pub sooner: u16,
    /// Bit `n`: member `n` has a place free.
    pub freed: u16,
}

/// What timers and wake-ups are late anyhow.
const NOTICEABLE: Duration = Duration::from_millis(3);

/// More scopes than any request falls under: a name has few groups that anybody writes rules for.
pub const MOST_MEMBERS: usize = 16;

/// Asks every limit of every scope and, when all agree, charges them.
///
/// # Errors
/// The wait that ends last, with the scope and the limit it is because of.
pub fn claim(cells: &mut impl Cells, now: Instant, claim: &Claim<'_>) -> Result<Grant, Wait> {
    decide(cells, now, claim)?;
    let share = cells.share();
    let mut trials = 0;
    let mut late_by: Option<Duration> = None;
    for (n, member) in claim.members.iter().enumerate() {
        let charged = cells.cell_mut(member.scope).charge(now, claim, member.part, share);
        trials |= u16::from(charged.trial) << n;
        late_by = match (late_by, charged.late_by) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    Ok(Grant { start: now, late_by, cost: claim.cost, trials, from: Origin::Local })
}

/// Asks without charging anything.
///
/// # Errors
/// As [`claim`].
pub fn decide(cells: &impl Cells, now: Instant, claim: &Claim<'_>) -> Result<(), Wait> {
    let share = cells.share();
    let mut latest: Option<Wait> = None;
    for member in claim.members {
        if let Some((until, because)) = cells.cell(member.scope).check(now, claim.cost, member.part, share)
            && latest.is_none_or(|wait| until > wait.until)
        {
            latest = Some(Wait { until, scope: member.scope, because });
        }
    }
    latest.map_or(Ok(()), Err)
}

/// The wait for a turn of this member, where it has turns with others that it cannot agree with yet.
pub fn turn(cells: &impl Cells, now: Instant, members: &[Member], share: Share) -> Option<Wait> {
    let waits = members.iter().filter_map(|member| {
        let until = cells.cell(member.scope).turn(now, share);
        (until > now).then_some(Wait { until, scope: member.scope, because: Because::Order })
    });
    waits.max_by_key(|wait| wait.until)
}

/// Checks a grant right before the request is written (decision 2). One that a pause has overtaken is too late at any
/// time: what leaves now would arrive while the server wants nothing (T7). One that is used in time and yet noticeably late
/// counts from now on from its real start, so that it does not close the gap to the next; not so where others were let
/// start since, who would have to know.
pub fn begin(cells: &mut impl Cells, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
    if members.iter().any(|member| cells.cell(member.scope).paused_until() > now) {
        return Begin::TooLate;
    }
    if !grant.is_late(now) {
        return Begin::Go;
    }
    // Who has only turns of its own sees nobody start after it, and has nothing to move.
    if !cells.share().is_whole() || members.iter().any(|member| cells.cell(member.scope).started_after(grant.start)) {
        return if grant.is_too_late(now) { Begin::TooLate } else { Begin::Go };
    }
    let share = cells.share();
    for member in members {
        cells.cell_mut(member.scope).restamp(now, grant.start, grant.cost, member.part, share);
    }
    grant.start = now;
    Begin::Restamped
}

/// Learns from an answer, then gives the places back.
pub fn settle(
    cells: &mut impl Cells,
    now: Instant,
    members: &[Member],
    grant: &Grant,
    signal: &Signal,
    latency: Option<Duration>,
) -> Effects {
    let learned = learn(cells, now, members, grant, signal, latency);
    let mut effects = release(cells, members, grant);
    effects.sooner |= learned.sooner;
    effects
}

/// Learns from an answer whose request keeps its places until [`release`].
pub fn learn(
    cells: &mut impl Cells,
    now: Instant,
    members: &[Member],
    grant: &Grant,
    signal: &Signal,
    latency: Option<Duration>,
) -> Effects {
    let mut effects = Effects::default();
    let mut narrowest = true;
    for (n, member) in members.iter().enumerate() {
        if member.part == Part::Bound {
            continue;
        }
        let effect = cells.cell_mut(member.scope).teach(now, grant.start, signal, latency, narrowest);
        effects.sooner |= u16::from(effect.sooner) << n;
        narrowest = false;
    }
    effects
}

/// Gives the places back and teaches nothing: a cancelled request leaves no trace but its slot.
pub fn release(cells: &mut impl Cells, members: &[Member], grant: &Grant) -> Effects {
    let mut effects = Effects::default();
    for (n, member) in members.iter().enumerate() {
        let trial = grant.trials >> n & 1 == 1;
        let trial = trial.then_some(grant.start);
        let Effect { sooner, freed } = cells.cell_mut(member.scope).release(grant.cost, member.part, trial);
        effects.sooner |= u16::from(sooner) << n;
        effects.freed |= u16::from(freed) << n;
    }
    effects
}

impl Cells for Vec<Cell> {
    fn cell(&self, scope: ScopeId) -> &Cell {
        &self[scope.0 as usize]
    }

    fn cell_mut(&mut self, scope: ScopeId) -> &mut Cell {
        &mut self[scope.0 as usize]
    }
}

impl Wait {
    /// The table of hosts is full of hosts that still matter; ask again then.
    pub fn table_full(until: Instant) -> Self {
        Self { until, scope: ScopeId(u32::MAX), because: Because::TableFull }
    }

    /// No more than so many requests may be in flight to all hosts together, until an answer comes or until then.
    pub fn uplink(until: Instant, limit: u32) -> Self {
        Self { until, scope: ScopeId(u32::MAX), because: Because::Uplink(limit) }
    }

    /// The store that is shared is out of reach; ask again then.
    pub fn store_lost(until: Instant, scope: ScopeId) -> Self {
        Self { until, scope, because: Because::StoreLost }
    }
}
