//! A claim under the lock: the core decides, and members that wait take turns (X8).

use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::all::{self, Cells as _, Claim, Grant, Origin};
use comity_core::limits::{Because, Cell, Limits, Part, Wait};
use comity_core::time::Instant;
use comity_store::{Asked, Memory};

use crate::section::{Loaded, Section};
use crate::trouble::Trouble;

impl Section<'_> {
    /// Asks that a request may start.
    pub(crate) fn claim(
        &mut self,
        memory: &mut Memory,
        claim: &Claim<'_>,
        asked: Asked,
        room: &mut Vec<Loaded>,
    ) -> Result<Result<Grant, Wait>, Trouble> {
        if room.len() < claim.members.len() {
            room.resize(claim.members.len(), Loaded::blank());
        }
        let loaded = &mut room[..claim.members.len()];
        for (member, loaded) in claim.members.iter().zip(&mut *loaded) {
            self.load(memory, member.scope, loaded)?;
        }
        for loaded in loaded.iter_mut().filter(|loaded| loaded.is_shared()) {
            if self.number(loaded)?.is_none() {
                // What would start could not be told to the others (decision 8).
                return Ok(Err(Wait::table_full(self.now.after(FULL_AGAIN))));
            }
        }
        for (member, loaded) in claim.members.iter().zip(&mut *loaded) {
            if member.part != Part::Learned && loaded.is_shared() {
                self.take_the_strictest(memory, loaded);
            }
        }
        let answer = match self.decide(memory, claim, loaded) {
            Ok(()) => all::claim(memory, self.now, claim).map(|grant| Grant { from: Origin::Shared, ..grant }),
            Err(wait) => Err(wait),
        };
        match &answer {
            Ok(grant) => self.started(memory, claim, asked, grant, loaded),
            Err(wait) => {
                if let Some(holding) = loaded.iter_mut().find(|loaded| loaded.scope == wait.scope) {
                    holding.record.queue(self.me);
                }
            }
        }
        let answer = answer.map_err(|wait| Wait { until: self.until(claim, &wait, loaded), ..wait });
        let stored = self.store_all(memory, loaded);
        for loaded in &mut *loaded {
            if let Some(limits) = loaded.set_here.take() {
                set_limits(memory.cell_mut(loaded.scope), limits);
            }
        }
        if stored.is_err() && answer.is_ok() {
            // It does not start after all, and takes no place.
            for member in claim.members {
                self.side.give_places(member, claim.cost);
            }
        }
        stored.map(|()| answer)
    }

    /// Processes may bring different spacings to one scope: the strictest holds for all of them, so that each one's promise
    /// is kept and their turns are as many. Else the clock that all move would never come round for the slowest (X8).
    fn take_the_strictest(&mut self, memory: &mut Memory, loaded: &mut Loaded) {
        let cell = memory.cell_mut(loaded.scope);
        let limits = Arc::clone(cell.limits());
        let mine = (!limits.interval.is_zero()).then_some((limits.interval, limits.burst));
        let record = &mut loaded.record;
        if let Some((interval, burst)) = mine {
            record.bring(self.now, self.me, interval, burst);
        }
        let Some((longest, by)) = record.longest_interval(self.now) else { return };
        let (least, by_another) = record.least_burst(self.now).unwrap_or((limits.burst, by));
        let (interval, burst) = mine.map_or((longest, least), |mine| (mine.0.max(longest), mine.1.min(least)));
        if (interval, burst) == (limits.interval, limits.burst) {
            return;
        }
        for member in [by, by_another] {
            if member != self.me && !self.roster.lives(member) {
                record.brings_no_more(self.now, member);
            }
        }
        set_limits(cell, Arc::new(Limits { interval, burst, ..(*limits).clone() }));
        loaded.set_here = Some(limits);
    }

    /// Whether the request may start: what the core says once those that are gone are taken out, and whether others go
    /// first.
    fn decide(&mut self, memory: &mut Memory, claim: &Claim<'_>, loaded: &mut [Loaded]) -> Result<(), Wait> {
        while let Err(wait) = all::decide(memory, self.now, claim) {
            let held_by_others = wait.because.is_for_a_place() || wait.because == Because::AfterPause;
            let holding = loaded.iter_mut().find(|loaded| loaded.scope == wait.scope);
            if !held_by_others || !holding.is_some_and(|holding| self.reap(memory, holding)) {
                return Err(wait);
            }
        }
        self.places_are_known(memory, claim, loaded)?;
        let mut latest: Option<Wait> = None;
        for (member, loaded) in claim.members.iter().zip(loaded) {
            if let Some(wait) = self.order(memory, claim, member.part, loaded)
                && latest.is_none_or(|other| wait.until > other.until)
            {
                latest = Some(wait);
            }
        }
        latest.map_or(Ok(()), Err)
    }

    /// Whether a scope's line lets this process start: whoever has others before it in line leaves each of them a while to
    /// come, counted from when the scope was free. So nobody starves, and one that is gone costs no more than its while.
    fn order(&self, memory: &Memory, claim: &Claim<'_>, part: Part, loaded: &mut Loaded) -> Option<Wait> {
        loaded.passes = false;
        let ahead = loaded.record.ahead_of(self.me);
        let scarce = self.scarce(memory, claim, part, loaded, ahead);
        let (free, each, told) = match scarce {
            _ if ahead == 0 => return None,
            Scarce::Nothing => return None,
            Scarce::Places { since } => (since, PLACE_TURN, LONGEST_POLL),
            Scarce::Time { since, interval } => {
                let each = (interval / 4).clamp(LEAST_TURN, LONGEST_TURN);
                (since, each, each.min(interval.max(LEAST_TURN / 4)))
            }
        };
        let until = free.after(each * ahead);
        loaded.passes = until <= self.now;
        (until > self.now).then(|| {
            // Those ahead may start sooner than they must, and then it is this one's turn.
            let sooner = if matches!(scarce, Scarce::Places { .. }) { self.now } else { free }.after(told * ahead);
            let until = if sooner > self.now { until.min(sooner) } else { until };
            Wait { until, scope: loaded.scope, because: Because::Order }
        })
    }

    /// What those that wait at a scope wait for.
    fn scarce(&self, memory: &Memory, claim: &Claim<'_>, part: Part, loaded: &Loaded, ahead: u32) -> Scarce {
        let cell = memory.cell(loaded.scope);
        let limits = cell.limits();
        let since = cell.free_since(self.now, claim.cost, part);
        let wanted = ahead.saturating_add(claim.cost);
        if cell.places_left(self.now, part).is_some_and(|left| left < wanted) {
            return Scarce::Places { since: since.max(loaded.record.freed_at()) };
        }
        let interval = cell.interval();
        if interval.is_zero() && limits.windows.is_empty() && cell.quota().is_none() {
            return Scarce::Nothing;
        }
        Scarce::Time { since, interval }
    }

    /// Notes a start in its records.
    fn started(&mut self, memory: &Memory, claim: &Claim<'_>, asked: Asked, grant: &Grant, loaded: &mut [Loaded]) {
        for (n, (member, loaded)) in claim.members.iter().zip(loaded).enumerate() {
            let cell = memory.cell(loaded.scope);
            let record = &mut loaded.record;
            if grant.trials >> n & 1 == 1 {
                record.put_trial(Some(self.me));
            }
            self.side.take_places(member, claim.cost);
            record.put_interval(cell.interval());
            record.put_most_in_flight(cell.limits().in_flight.map(core::num::NonZeroU32::get));
            // Where there was enough for those ahead too, they keep their turns.
            if loaded.passes {
                record.pass(self.me);
            } else {
                record.leave(self.me);
            }
            if asked.waiting > 1 {
                record.queue(self.me);
            }
        }
    }

    /// After a loss a limit in flight waits until every process has told its places; and a process that a full record has no
    /// room for waits where places are limited.
    fn places_are_known(&mut self, memory: &Memory, claim: &Claim<'_>, loaded: &[Loaded]) -> Result<(), Wait> {
        for (member, loaded) in claim.members.iter().zip(loaded) {
            let cell = memory.cell(loaded.scope);
            let set = cell.limits().in_flight.filter(|_| member.part != Part::Learned);
            let because = match (set, cell.learned().in_flight()) {
                (Some(most), _) => Because::InFlight(most.get()),
                (None, Some(most)) => Because::Concurrency(most),
                (None, None) => continue,
            };
            if !loaded.is_shared() {
                continue;
            }
            let settled = self.header.settled || self.roster.all_told(self.header.generation);
            self.header.settled = settled;
            if !settled || !loaded.record.has_room_for(self.me) {
                let until = self.now.after(LEAST_POLL * 2);
                return Err(Wait { until, scope: loaded.scope, because });
            }
        }
        Ok(())
    }

    /// When to ask again: where only another process's doing can help, soon.
    fn until(&self, claim: &Claim<'_>, wait: &Wait, loaded: &[Loaded]) -> Instant {
        if wait.until != Instant::FAR {
            return wait.until;
        }
        let Some(holding) = loaded.iter().find(|loaded| loaded.scope == wait.scope) else { return wait.until };
        let others_hold = match wait.because {
            Because::AfterPause => holding.record.trial() != Some(self.me),
            Because::Concurrency(_) => self.others_places(holding).next().is_some(),
            _ => self.others_places(holding).any(|held| held.places > 0),
        };
        if !others_hold {
            return wait.until;
        }
        let longest = if holding.record.ahead_of(self.me) == 0 { LONGEST_POLL_OF_THE_FIRST } else { LONGEST_POLL };
        self.now.after((self.now.since(claim.asked) / 8).clamp(LEAST_POLL, longest))
    }
}

/// Other limits, and the state as it is: it may have been learned under limits of another process.
fn set_limits(cell: &mut Cell, limits: Arc<Limits>) {
    let state = cell.snapshot();
    cell.set_limits(limits);
    cell.restore(&state);
}

/// What a scope has too little of.
#[derive(Clone, Copy, Debug)]
enum Scarce {
    Nothing,
    /// Places, of which one is free since then.
    Places {
        since: Instant,
    },
    /// Starts, of which the next is free since then.
    Time {
        since: Instant,
        interval: Duration,
    },
}

/// When a host that found the file full asks again.
const FULL_AGAIN: Duration = Duration::from_millis(250);
/// How long each that is before in line is left to come: a quarter of the interval, but no less than timers are late …
const LEAST_TURN: Duration = Duration::from_millis(2);
/// … and no more than a slot may be left unused for one that is gone.
const LONGEST_TURN: Duration = Duration::from_millis(25);
/// The same for a place: longer than the first in line goes without asking.
const PLACE_TURN: Duration = Duration::from_millis(10);
/// Those that wait for others' places ask again so soon at first …
const LEAST_POLL: Duration = Duration::from_millis(2);
/// … and so soon at last, so that a place is never free for 50 ms while somebody waits (X8).
const LONGEST_POLL: Duration = Duration::from_millis(25);
const LONGEST_POLL_OF_THE_FIRST: Duration = Duration::from_millis(8);
