//! One locked section: records come into the memory's scopes, the core decides there, and what changed goes back.

use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::all::Cells as _;
use comity_core::limits::{Cell, Gcra, Limits, Pause, ScopeId, Snapshot, Window, Windows};
use comity_core::policy::Learned;
use comity_core::time::Instant;
use comity_store::{Memory, ScopeKind, Store as _};

use crate::file::PaceFile;
use crate::header::Header;
use crate::index;
use crate::log::LogPage;
use crate::record::{Held, RECORDS_A_PAGE, Record, Ref};
use crate::roster::Roster;
use crate::side::Side;
use crate::sum::{Key, key};
use crate::trouble::Trouble;

/// What a piece of work under the lock can use.
pub(crate) struct Section<'a> {
    pub(crate) file: &'a PaceFile,
    pub(crate) header: &'a mut Header,
    pub(crate) side: &'a mut Side,
    pub(crate) roster: &'a mut Roster,
    pub(crate) damaged: &'a mut u64,
    pub(crate) me: Ref,
    pub(crate) now: Instant,
}

/// A scope's record while it is worked on.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) scope: ScopeId,
    pub(crate) record: Record,
    key: Key,
    number: Option<u32>,
    /// Whether the index does not lead to it yet.
    fresh: bool,
    log: Option<LogPage>,
    /// A start here is one over others that were before in line and did not come.
    pub(crate) passes: bool,
    /// Limits that a caller of this process brought: nobody else's, and in no record.
    is_own: bool,
    /// What was learned under another kind of policy than this process goes by. It stays as it is.
    pub(crate) learned_elsewhere: Option<Learned>,
    /// What a person set for this process, while stricter limits hold that others brought.
    pub(crate) set_here: Option<Arc<Limits>>,
}

impl Loaded {
    pub(crate) fn blank() -> Self {
        let record = Record::blank();
        Self {
            scope: ScopeId(0),
            record,
            key: [0; 2],
            number: None,
            fresh: false,
            log: None,
            passes: false,
            is_own: false,
            learned_elsewhere: None,
            set_here: None,
        }
    }

    /// Whether others share this scope: not so where a caller of this process brought its limits (T5).
    pub(crate) fn is_shared(&self) -> bool {
        !self.is_own
    }
}

impl Section<'_> {
    /// Reads a scope's record and brings the memory's scope in step with it.
    pub(crate) fn load(&mut self, memory: &mut Memory, scope: ScopeId, into: &mut Loaded) -> Result<(), Trouble> {
        let generation = self.header.generation;
        let Some((name, _)) = memory.inspect(scope) else {
            return Err(Trouble::Unusable("a scope that the memory does not know".to_owned()));
        };
        let key = key(name);
        let note = self.side.note(scope, key);
        (into.scope, into.key) = (scope, key);
        (into.log, into.passes, into.set_here, into.learned_elsewhere) = (None, false, None, None);
        into.is_own = memory.kind(scope) == Some(ScopeKind::Own);
        if into.is_own {
            (into.number, into.fresh) = (None, false);
            into.record = Record::blank();
            return Ok(());
        }
        if note.generation != generation {
            note.unset_number();
        }
        let mut found = index::Place::Nowhere;
        if let Some(number) = note.number() {
            index::read(self.file, number, &mut into.record)?;
            if into.record.is_whole(generation) && into.record.key() == key {
                found = index::Place::Record(number);
            }
        }
        if found == index::Place::Nowhere {
            found = index::find(self.file, generation, key, name, &mut into.record)?;
        }
        let mut state = match found {
            index::Place::Record(number) => {
                note.set_number(number);
                into.record.state()
            }
            _ => None,
        };
        // A state that another version of the core wrote is none, like one that is not whole.
        let damaged = match found {
            index::Place::Damaged(number) => Some(number),
            index::Place::Record(number) if state.is_none() => Some(number),
            _ => None,
        };
        into.number = note.number().or(damaged);
        into.fresh = found == index::Place::Nowhere;
        if state.is_none() {
            into.record.make(key, name);
        }
        let forgotten = note.generation == generation && note.forgets != into.record.forgets() && state.is_some();
        let floor = note.is_floor(generation) && note.knows() && !forgotten;
        let own = note.own;
        if !floor {
            note.said(generation, into.record.forgets());
        }
        if let Some(state) = &mut state {
            discard_nonsense(state, self.now);
            let has_windows = !memory.cell(scope).limits().windows.is_empty();
            if has_windows && into.record.log() != 0 {
                state.windows = self.read_log(memory, into)?;
            }
        }
        let cell = memory.cell_mut(scope);
        let mirror = floor.then(|| cell.snapshot());
        if forgotten {
            cell.forget();
        }
        match &state {
            Some(state) => {
                cell.restore(state);
                let is_another = core::mem::discriminant(&state.learned) != core::mem::discriminant(cell.learned());
                let counts = state.learned != Learned::Nothing && into.record.learned_counts(self.now);
                into.learned_elsewhere = (is_another && counts).then_some(state.learned);
            }
            // What this process remembers is all there is; but after a loss, or where it was damaged, others knew more.
            None if damaged.is_some() => spend(cell, self.now),
            None if self.header.after_loss => spend(cell, self.header.born),
            None => {}
        }
        if let Some(mirror) = &mirror {
            cell.raise(mirror);
        }
        if damaged.is_some() {
            *self.damaged += 1;
            if *self.damaged == 1 {
                let name = memory.inspect(scope).map_or("", |(name, _)| name);
                tracing::warn!("the shared state of {name} was damaged: it begins anew with its burst spent");
            }
        }
        let stale: Vec<Ref> =
            into.record.places().map(|(member, _)| member).filter(|of| self.is_my_past(*of)).collect();
        for member in stale {
            into.record.put_places(member, Held::default());
        }
        self.others_places(into).fold(own, Held::and).put_into(memory.cell_mut(scope));
        Ok(())
    }

    /// Writes back what changed.
    pub(crate) fn store(&mut self, memory: &Memory, loaded: &mut Loaded) -> Result<(), Trouble> {
        if loaded.is_own {
            return Ok(());
        }
        let generation = self.header.generation;
        let cell = memory.cell(loaded.scope);
        let state = cell.snapshot();
        let record = &mut loaded.record;
        match loaded.learned_elsewhere {
            None => record.put_state(&state),
            Some(learned) => record.put_state(&Snapshot { learned, ..state.clone() }),
        }
        let own = self.side.own(loaded.scope);
        // Where there is no room for another member it goes uncounted: no limit in flight held it, or it would wait.
        record.put_places(self.me, own);
        match (state.pause.trial_is_out(), record.trial()) {
            (false, _) => record.put_trial(None),
            (true, None) => record.put_trial(Some(self.me)),
            (true, Some(_)) => {}
        }
        let log = log_to_write(generation, loaded.key, cell.limits().windows.as_slice(), &state, loaded.log.as_ref());
        if !record.is_changed() && log.is_none() {
            return Ok(());
        }
        record.put_ready(cell.ready(self.now));
        if loaded.learned_elsewhere.is_none() {
            record.put_learned_at(self.now);
        }
        let Some(number) = self.number(loaded)? else { return Ok(()) };
        let record = &mut loaded.record;
        if let Some((page, longest)) = log {
            if record.log() == 0
                && let Some(page) = index::allocate_page(self.file, self.header)?
            {
                record.put_log(page);
            }
            if record.log() != 0 {
                // The log first: a start that is in the log alone only makes us slower.
                self.file.write(index::record_at(record.log() * RECORDS_A_PAGE), &page.0[..])?;
            }
            record.put_longest_window(longest);
        }
        self.file.write(index::record_at(number), record.sealed(generation))?;
        if core::mem::take(&mut loaded.fresh) {
            index::insert(self.file, loaded.key, number)?;
        }
        let note = self.side.note(loaded.scope, loaded.key);
        note.set_number(number);
        note.said(generation, loaded.record.forgets());
        Ok(())
    }

    /// Takes out members that are gone, with their places and their trial. True where that changed anything.
    pub(crate) fn reap(&mut self, memory: &mut Memory, loaded: &mut Loaded) -> bool {
        let mut changed = false;
        if loaded.is_own {
            return changed;
        }
        let places: Vec<(Ref, Held)> = loaded.record.places().collect();
        let cell = memory.cell_mut(loaded.scope);
        for (member, held) in places {
            if member != self.me && !self.roster.lives(member) {
                loaded.record.put_places(member, Held::default());
                let all = Held { places: cell.in_flight(), guests: cell.guests() };
                all.less(held).put_into(cell);
                changed = true;
            }
        }
        let mut state = cell.snapshot();
        if state.pause.trial_is_out()
            && loaded.record.trial().is_none_or(|member| member != self.me && !self.roster.lives(member))
        {
            state.pause.trial_lost();
            cell.restore(&state);
            changed = true;
        }
        changed
    }

    /// What others have in flight at this scope.
    pub(crate) fn others_places(&self, loaded: &Loaded) -> impl Iterator<Item = Held> {
        let me = self.me;
        loaded.record.places().filter(move |(member, _)| *member != me).map(|(_, held)| held)
    }

    /// Tells those that wait elsewhere to ask anew.
    pub(crate) fn spread(&mut self) {
        self.header.news = self.header.news.wrapping_add(1);
    }

    /// An earlier incarnation of this process: what it has in flight, it counts itself.
    fn is_my_past(&self, member: Ref) -> bool {
        member.slot() == self.me.slot() && member != self.me
    }

    /// The record's slot; a new one where it has none yet, `None` where there is no room.
    pub(crate) fn number(&mut self, loaded: &mut Loaded) -> Result<Option<u32>, Trouble> {
        let roster = &mut *self.roster;
        if loaded.number.is_none()
            && let Some((number, log)) =
                index::allocate(self.file, self.header, self.now, |member| roster.lives(member))?
        {
            loaded.number = Some(number);
            loaded.record.put_log(log);
        }
        Ok(loaded.number)
    }

    /// The log of a scope's windows; a full one where it is damaged.
    fn read_log(&self, memory: &Memory, loaded: &mut Loaded) -> Result<Windows, Trouble> {
        let mut page = LogPage::blank();
        self.file.read(index::record_at(loaded.record.log() * RECORDS_A_PAGE), &mut page.0[..])?;
        let windows = page.windows(self.header.generation, loaded.key);
        loaded.log = Some(page);
        Ok(windows.unwrap_or_else(|| full_windows(&memory.cell(loaded.scope).limits().windows, self.now)))
    }
}

/// The log's page where it is another than the one that was read, and its longest window.
fn log_to_write(
    generation: u64,
    key: Key,
    windows: &[Window],
    state: &Snapshot,
    read: Option<&LogPage>,
) -> Option<(LogPage, Duration)> {
    let longest = windows.iter().map(|window| window.per).max()?;
    if read.is_none() && state.windows.is_empty() {
        return None;
    }
    let page = LogPage::make(generation, key, &state.windows);
    read.is_none_or(|read| read.0 != page.0).then_some((page, longest.max(state.windows.reach().1)))
}

/// As after a start that used up everything at once.
fn spend(cell: &mut Cell, at: Instant) {
    cell.spend_burst(at);
    if !cell.limits().windows.is_empty() {
        let mut state = cell.snapshot();
        state.windows = state.windows.with(&full_windows(&cell.limits().windows, at));
        cell.restore(&state);
    }
}

fn full_windows(windows: &[Window], at: Instant) -> Windows {
    let most = windows.iter().map(|window| window.count.get()).max().unwrap_or(0);
    Windows::kept([(at, most)])
}

/// A stored time further ahead than any legal wait is discarded (decision 3).
fn discard_nonsense(state: &mut Snapshot, now: Instant) {
    let limit = now.after(LONGEST_WAIT);
    if state.pause.until() > limit {
        state.pause = Pause::default();
    }
    for clock in [&mut state.spacing, &mut state.pace] {
        if clock.virtual_start().is_some_and(|at| at > limit) {
            *clock = Gcra::started(now);
        }
    }
    if state.last_start > limit {
        state.last_start = now;
    }
    if state.crawl_delay > LONGEST_WAIT {
        state.crawl_delay = Duration::ZERO;
    }
    state.quota = state.quota.filter(|quota| quota.resets <= limit);
}

/// A year and a day: no server's wait is obeyed for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(366 * 86_400);
