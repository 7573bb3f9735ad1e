//! Getting under the lock, and what is done there each time.

use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::all::Cells as _;
use comity_core::limits::{ScopeId, Share};
use comity_core::time::{Instant, nanos};
use comity_store::{Memory, Store as _, Wake};

use super::Machine;
use crate::clock;
use crate::file::PaceFile;
use crate::header::{Found, Header, Holds};
use crate::opening::{self, Opening};
use crate::place::Place;
use crate::record::Held;
use crate::roster::Roster;
use crate::section::Section;
use crate::side::Side;
use crate::sum::{Key, key};
use crate::trouble::Trouble;
use crate::watch::{Watching, beat_every};

impl Machine {
    /// Does a piece of work under the lock; `None` where the store is lost.
    pub(super) fn inside<R>(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        work: impl FnOnce(&mut Section<'_>, &mut Memory) -> Result<R, Trouble>,
    ) -> Option<R> {
        if self.process != std::process::id() {
            self.become_another(memory);
        }
        if self.alone.since().is_some() && now < self.retry_at {
            return None;
        }
        let share = memory.share();
        let mut now = now;
        match self.try_inside(memory, &mut now, work) {
            Ok(done) => {
                if self.alone.since().is_some() {
                    self.found(memory, now);
                }
                if clock::since_boot().saturating_sub(self.counted) >= nanos(beat_every(self.settings.lease)) {
                    self.count();
                }
                Some(done)
            }
            Err(trouble) => {
                memory.set_share(share);
                self.lose(memory, now, &trouble);
                None
            }
        }
    }

    fn try_inside<R>(
        &mut self,
        memory: &mut Memory,
        now: &mut Instant,
        work: impl FnOnce(&mut Section<'_>, &mut Memory) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let deadline = self.settings.lock_deadline;
        // While it is lost a try must not delay each request.
        let deadline = if self.alone.since().is_some() { deadline / 10 } else { deadline };
        for _ in 0..ATTEMPTS {
            let old = self.clock.base();
            let (file, generation) = self.file(memory, deadline)?;
            *now = shifted(*now, old, self.clock.base());
            let locked = file.lock(deadline)?;
            match read_header(&file, generation) {
                Ok(header) => {
                    let done = self.work(memory, *now, &file, header, work);
                    drop(locked);
                    self.courtesy.after_a_section();
                    return done;
                }
                Err(Trouble::Gone | Trouble::Damaged(_)) => {
                    drop(locked);
                    self.opened = None;
                    self.lost_file = true;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Trouble::Damaged("another process keeps replacing it".to_owned()))
    }

    fn work<R>(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        file: &PaceFile,
        mut header: Header,
        work: impl FnOnce(&mut Section<'_>, &mut Memory) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let before = header;
        self.give_signs(&mut header)?;
        if header.after_loss && header.born == Instant::ZERO {
            header.born = now;
        }
        let Some(me) = self.roster.me() else { return Err(Trouble::Gone) };
        let all_places = self.told != header.generation;
        let unsaid = self.side.take_unsaid(all_places);
        if header.alone != self.heeded {
            self.heeded = header.alone;
            self.count();
        }
        // Where another goes by itself with a part of every limit, the rest is for those inside (decision 7).
        memory.set_share(self.part.filter(|_| self.another_is_alone).unwrap_or(Share::WHOLE));
        let (roster, side, damaged) = (&mut self.roster, &mut self.side, &mut self.damaged);
        let mut section = Section { file, header: &mut header, side, roster, damaged, me, now };
        if all_places || !unsaid.is_empty() {
            let told = section.tell(memory, &unsaid).and_then(|()| section.roster.tell(section.header.generation));
            if let Err(error) = told {
                section.side.put_back(unsaid);
                return Err(error);
            }
            self.told = section.header.generation;
        }
        if !self.forgotten.is_empty() {
            let is_known =
                |(scope, of): &(ScopeId, Key)| memory.inspect(*scope).is_some_and(|(name, _)| key(name) == *of);
            let scopes: Vec<ScopeId> =
                self.forgotten.iter().filter(|named| is_known(named)).map(|(scope, _)| *scope).collect();
            section.forget(memory, &scopes)?;
            self.forgotten.clear();
        }
        if self.alone.since().is_some() {
            // Those that wait for a part of the limits may use all of them.
            section.spread();
        }
        let done = work(&mut section, memory)?;
        self.watching.watch.heard(before.news);
        // What this process changed itself is no news to it.
        self.watching.watch.begin_with(header.news);
        if header != before {
            header.write(file)?;
        }
        Ok(done)
    }

    /// The open file; where there is none, the one that is there now or a new one.
    fn file(&mut self, memory: &mut Memory, deadline: Duration) -> Result<(Arc<PaceFile>, u64), Trouble> {
        if self.watching.watch.should_look()
            && self.opened.as_ref().is_some_and(|opened| !opened.file.is_at(&self.place.path))
        {
            self.opened = None;
            self.lost_file = true;
        }
        if let Some(opened) = &self.opened {
            return Ok((Arc::clone(&opened.file), opened.generation));
        }
        let base = Some(self.clock.base());
        let opening = Opening {
            holds: Holds::Scopes,
            lost: self.lost_file,
            base,
            boot: self.boot,
            deadline,
            lease: self.settings.lease,
        };
        let opened = match opening::open(&self.place, &self.roster, opening) {
            // The directory may be gone with all that was in it.
            Err(Trouble::Unusable(_)) if !self.place.members.exists() => {
                Place::prepare(&self.place.path)?;
                opening::open(&self.place, &self.roster, opening)?
            }
            other => other?,
        };
        self.shift_to(memory, opened.base);
        self.lost_file = false;
        self.opened = Some(opened.clone());
        self.set_watch();
        Ok((opened.file, opened.generation))
    }

    /// The clock of the file is another than the one of the file before: what this process remembers is moved to it.
    fn shift_to(&mut self, memory: &mut Memory, base: u64) {
        let old = self.clock.base();
        if base == old {
            return;
        }
        let shift = |at: Instant| shifted(at, old, base);
        self.retry_at = shifted(self.retry_at, old, base);
        let scopes: Vec<ScopeId> = memory.scopes().map(|(scope, ..)| scope).collect();
        for scope in scopes {
            let cell = memory.cell_mut(scope);
            let shifted = cell.snapshot().shifted(shift);
            cell.restore(&shifted);
        }
        self.clock.set_base(base);
    }

    /// Signs of life, once in a while: this process's own, and the header's.
    fn give_signs(&mut self, header: &mut Header) -> Result<(), Trouble> {
        let looks = self.watching.watch.take_look();
        let every = beat_every(self.settings.lease);
        let late = match self.roster.own() {
            Some(own) if own.since_beat() >= every => own.beat(self.settings.lease),
            Some(_) => false,
            None => true,
        };
        if (late || looks) && self.roster.was_given_up() {
            self.join_again()?;
        }
        let since_boot = clock::since_boot();
        let time = self.clock.base().saturating_add(since_boot);
        if time.saturating_sub(header.last) >= comity_core::time::nanos(every) {
            header.last = header.last.max(time);
            header.last_wall = clock::wall();
        }
        Ok(())
    }

    fn join_again(&mut self) -> Result<(), Trouble> {
        let had = self.roster.me();
        self.roster.join(self.clock.base(), self.clock.now())?;
        self.told = 0;
        self.set_watch();
        if had.is_some() {
            self.given_up += 1;
            let held = self.side.with_places().map(|scope| self.side.own(scope)).fold(Held::default(), Held::and);
            let places = held.places.saturating_add(held.guests);
            tracing::warn!(
                "this process gave no sign of life for longer than {:?} and was taken for gone at {}: {places} places that \
                 it holds may have been given to others",
                self.settings.lease,
                self.name
            );
        }
        Ok(())
    }

    pub(super) fn set_watch(&self) {
        let file = self.opened.as_ref().map(|opened| Arc::clone(&opened.file));
        self.watching.watch.set(self.roster.own().cloned(), file);
    }

    /// This process is a copy, made by fork(2), of the one that joined: what is open here is open there too, and locks are
    /// held by both. So it joins anew, as another member without places. What it had is closed and not unlocked: that takes
    /// nothing from the one it belongs to.
    fn become_another(&mut self, memory: &mut Memory) {
        self.process = std::process::id();
        self.roster = Roster::new(self.place.clone(), self.boot, self.settings.lease);
        self.opened = None;
        self.told = 0;
        self.said_alone = 0;
        self.counted = 0;
        self.forgotten.clear();
        self.side = Side::default();
        let scopes: Vec<ScopeId> = memory.scopes().map(|(scope, ..)| scope).collect();
        for scope in scopes {
            Held::default().put_into(memory.cell_mut(scope));
        }
        // The thread was not copied.
        match Watching::start(self.place.clone(), self.settings.lease, self.clock.clone()) {
            Ok(watching) => self.watching = watching,
            Err(error) => tracing::warn!("a copied process shares its pace without signs of life: {error}"),
        }
        if let Some(wake) = &self.wake {
            self.watching.watch.on_news(Wake::clone(wake));
        }
    }
}

/// An instant of a clock with one base, on a clock with another.
pub(crate) fn shifted(at: Instant, old: u64, base: u64) -> Instant {
    if base == old {
        return at;
    }
    // In 128 bits, because a base is as large as the dates it stands for.
    let moved = u128::from(at.as_nanos()) + u128::from(base);
    Instant::from_nanos(u64::try_from(moved.saturating_sub(u128::from(old))).unwrap_or(u64::MAX - 1))
}

/// The header of a file that is still the store.
pub(crate) fn read_header(file: &PaceFile, generation: u64) -> Result<Header, Trouble> {
    let length = file.len()?;
    match Header::read(file)? {
        Found::Header(header) if header.retired || header.generation != generation => Err(Trouble::Gone),
        Found::Header(header) if length < header.least_length() => {
            Err(Trouble::Damaged("it is shorter than it should be".to_owned()))
        }
        Found::Header(header) => Ok(header),
        _ => Err(Trouble::Damaged("its header is damaged".to_owned())),
    }
}

/// A file that is gone is looked for anew so often within one call.
const ATTEMPTS: u32 = 3;
