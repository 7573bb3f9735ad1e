//! What a process keeps beside its memory's scopes: where their records are, and its own places.

use comity_core::limits::{Member, ScopeId};

use crate::record::Held;
use crate::sum::Key;

/// A table by scope.
#[derive(Debug, Default)]
pub(crate) struct Side {
    notes: Vec<Note>,
    /// Scopes whose records do not yet say what this process did without the store.
    unsaid: Vec<ScopeId>,
}

/// What is known of one scope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Note {
    key: Key,
    /// Its record, plus one; 0 where it is not known.
    number: u32,
    /// The generation of the file that the memory of this scope was last in step with.
    pub(crate) generation: u64,
    /// How often the record had been forgotten then.
    pub(crate) forgets: u32,
    /// What this process has in flight.
    pub(crate) own: Held,
    /// This process did something here that the record does not say.
    unsaid: bool,
}

impl Note {
    pub(crate) fn number(&self) -> Option<u32> {
        self.number.checked_sub(1)
    }

    pub(crate) fn set_number(&mut self, number: u32) {
        self.number = number + 1;
    }

    /// The file is another.
    pub(crate) fn unset_number(&mut self) {
        self.number = 0;
    }

    /// Whether the record may say less than this process knows.
    pub(crate) fn is_floor(&self, generation: u64) -> bool {
        self.unsaid || self.generation != generation
    }

    /// Whether this process knows anything of the scope.
    pub(crate) fn knows(&self) -> bool {
        self.unsaid || self.generation != 0
    }

    pub(crate) fn said(&mut self, generation: u64, forgets: u32) {
        self.unsaid = false;
        self.generation = generation;
        self.forgets = forgets;
    }
}

impl Side {
    /// A scope's note. A memory gives the numbers of scopes that it dropped to others: the name tells.
    pub(crate) fn note(&mut self, scope: ScopeId, key: Key) -> &mut Note {
        let at = scope.0 as usize;
        if at >= self.notes.len() {
            self.notes.resize(at + 1, Note::default());
        }
        let note = &mut self.notes[at];
        if note.key != key {
            *note = Note { key, ..Note::default() };
        }
        note
    }

    /// What this process has in flight at a scope.
    pub(crate) fn own(&self, scope: ScopeId) -> Held {
        self.notes.get(scope.0 as usize).map_or(Held::default(), |note| note.own)
    }

    /// A request of this process starts.
    pub(crate) fn take_places(&mut self, member: &Member, cost: u32) {
        if let Some(note) = self.notes.get_mut(member.scope.0 as usize) {
            note.own = note.own.and(Held::by(member.part, cost));
        }
    }

    /// It has ended.
    pub(crate) fn give_places(&mut self, member: &Member, cost: u32) {
        if let Some(note) = self.notes.get_mut(member.scope.0 as usize) {
            note.own = note.own.less(Held::by(member.part, cost));
        }
    }

    /// The records in which this process has places.
    pub(crate) fn records_with_places(&self) -> impl Iterator<Item = (u32, Key)> {
        self.notes.iter().filter(|note| !note.own.is_nothing()).filter_map(|note| Some((note.number()?, note.key)))
    }

    /// Something was done here without the store.
    pub(crate) fn unsaid(&mut self, scope: ScopeId, key: Key) {
        let note = self.note(scope, key);
        if !core::mem::replace(&mut note.unsaid, true) {
            self.unsaid.push(scope);
        }
    }

    /// Scopes that must be told to the store: what was done without it and, where everything must be told again, all in
    /// which this process has places.
    pub(crate) fn take_unsaid(&mut self, all_places: bool) -> Vec<ScopeId> {
        let mut scopes = core::mem::take(&mut self.unsaid);
        if all_places {
            scopes.extend(self.with_places());
            scopes.sort_unstable();
            scopes.dedup();
        }
        scopes
    }

    /// Those were not told after all. The ones that were not unsaid, but only to be told again, are found again by
    /// themselves.
    pub(crate) fn put_back(&mut self, scopes: Vec<ScopeId>) {
        self.unsaid = scopes;
        self.unsaid.retain(|scope| self.notes.get(scope.0 as usize).is_some_and(|note| note.unsaid));
    }

    /// Scopes in which this process has places.
    pub(crate) fn with_places(&self) -> impl Iterator<Item = ScopeId> {
        let numbered = self.notes.iter().enumerate();
        numbered.filter(|(_, note)| !note.own.is_nothing()).map(|(at, _)| ScopeId(at as u32))
    }
}
