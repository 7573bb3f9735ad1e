//! The store itself: every call one locked section, and a way on where the file is out of reach.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use comity_core::limits::all::{self, Begin, Cells as _, Claim, Effects, Grant};
use comity_core::limits::{Member, Part, ScopeId, Share};
use comity_core::time::Instant;
use comity_store::{
    Alone, Asked, Claimed, Lesson, Listing, Memory, News, OnFailure, ReadClock, Readable, Shared, Standing, Store as _,
    StoreError, Wake,
};

use crate::clock::{self, Boot, Clock};
use crate::file::{Courtesy, PaceFile};
use crate::header::{Found, Header};
use crate::index::{self, least_length};
use crate::look::Look;
use crate::opening::{self, Opened, Opening};
use crate::place::Place;
use crate::record::Record;
use crate::roster::Roster;
use crate::section::{Loaded, Section};
use crate::side::Side;
use crate::sum::key;
use crate::trouble::Trouble;
use crate::watch::{Watching, beat_every};

/// The shared pace of one machine: a file of fixed records under the kernel's lock (decision 16).
///
/// Any number of processes open the same path and keep one pace. One that is killed frees its places at once, one that is
/// stopped after the [lease](Settings::lease).
pub struct Machine {
    place: Place,
    name: String,
    settings: Settings,
    boot: Boot,
    clock: Clock,
    roster: Roster,
    opened: Option<Opened>,
    /// It had the file open, and lost it.
    lost_file: bool,
    /// The generation that was last told all of this process's places.
    told: u64,
    side: Side,
    /// Forgotten while the store was lost: to be forgotten there too.
    forgotten: Vec<ScopeId>,
    alone: Alone,
    retry_at: Instant,
    backoff: Duration,
    /// Since boot, when the others were last counted.
    counted: u64,
    damaged: u64,
    given_up: u32,
    watching: Watching,
    courtesy: Courtesy,
    room: Vec<Loaded>,
}

/// How a [`Machine`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What to do while the file is out of reach.
    pub on_failure: OnFailure,
    /// How long its lock is waited for; 50 ms. Past it the store is lost for this process, until it is found again.
    pub lock_deadline: Duration,
    /// How long after its last sign of life a process that was stopped keeps its places; 10 s. Signs are ten times as
    /// frequent.
    pub lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            on_failure: OnFailure::default(),
            lock_deadline: Duration::from_millis(50),
            lease: Duration::from_secs(10),
        }
    }
}

impl Machine {
    /// Opens the store at this path, or makes it there, and joins those that share it.
    ///
    /// New files are their user's alone; in a directory that others may write they are theirs too, as far as the umask
    /// lets them.
    ///
    /// # Errors
    /// When there can be no store at the path: it is a directory or another kind of file, may not be written, or its file
    /// system has no locks that hold. A store that is only out of reach is none: this process begins without it.
    pub fn open(path: impl Into<PathBuf>, settings: Settings) -> Result<Self, StoreError> {
        Self::open_as(&path.into(), settings, Boot::of_this_machine())
    }

    /// The store at this path, for people to look at: without joining it.
    ///
    /// # Errors
    /// When there is none.
    pub fn look(path: impl Into<PathBuf>) -> Result<Look, StoreError> {
        Look::open(&path.into())
    }

    pub(crate) fn open_as(path: &Path, settings: Settings, boot: Boot) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let unusable = |trouble: Trouble| StoreError::Unusable(format!("the shared pace cannot be used: {trouble}"));
        let place = Place::prepare(path).map_err(unusable)?;
        let mut roster = Roster::new(place.clone(), boot, settings.lease);
        let opening = Opening { lost: false, base: None, boot, deadline: settings.lock_deadline };
        let opened = match opening::open(&place, &roster, opening) {
            Ok(opened) => Some(opened),
            Err(Trouble::Unusable(why)) => return Err(unusable(Trouble::Unusable(why))),
            Err(_) => None,
        };
        let guess = || roster.base().unwrap_or_else(|| clock::wall().saturating_sub(clock::since_boot()));
        let clock = Clock::new(opened.as_ref().map_or_else(guess, |opened| opened.base));
        roster.join(clock.base(), clock.now()).map_err(unusable)?;
        let watching = Watching::start(place.clone(), settings.lease, clock.clone())
            .map_err(|error| unusable(Trouble::Io(error)))?;
        let seed = std::process::id() ^ roster.me().map_or(0, |me| me.number().rotate_left(8));
        let machine = Self {
            alone: Alone::new(settings.on_failure, seed),
            place,
            name,
            settings,
            boot,
            clock,
            roster,
            opened,
            lost_file: false,
            told: 0,
            side: Side::default(),
            forgotten: Vec::new(),
            retry_at: Instant::ZERO,
            backoff: FIRST_BACKOFF,
            counted: 0,
            damaged: 0,
            given_up: 0,
            watching,
            courtesy: Courtesy::default(),
            room: Vec::new(),
        };
        machine.set_watch();
        if let Some(opened) = &machine.opened
            && let Ok(Found::Header(header)) = Header::read(&opened.file)
        {
            machine.watching.watch.begin_with(header.news);
        }
        Ok(machine)
    }

    /// How often others took this process for gone, because it was stopped for longer than its lease. What it had in flight
    /// then may have been more than the limits allow.
    pub fn given_up(&self) -> u32 {
        self.given_up
    }

    /// Records that were damaged, and began anew.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Does a piece of work under the lock; `None` where the store is lost.
    fn inside<R>(
        &mut self,
        memory: &mut Memory,
        now: Instant,
        work: impl FnOnce(&mut Section<'_>, &mut Memory) -> Result<R, Trouble>,
    ) -> Option<R> {
        if self.alone.since().is_some() && now < self.retry_at {
            return None;
        }
        let share = memory.share();
        match self.try_inside(memory, now, work) {
            Ok(done) => {
                if self.alone.since().is_some() {
                    self.found(memory, now);
                }
                self.count_others();
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
        now: Instant,
        work: impl FnOnce(&mut Section<'_>, &mut Memory) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let deadline = self.settings.lock_deadline;
        // While it is lost a try must not delay each request.
        let deadline = if self.alone.since().is_some() { deadline / 10 } else { deadline };
        for _ in 0..ATTEMPTS {
            let (file, generation) = self.file(memory, deadline)?;
            let locked = file.lock(deadline)?;
            match read_header(&file, generation) {
                Ok(header) => {
                    let done = self.work(memory, now, &file, header, work);
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
        memory.set_share(Share::WHOLE);
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
            let forgotten = core::mem::take(&mut self.forgotten);
            section.forget(memory, &forgotten)?;
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
        let opening = Opening { lost: self.lost_file, base, boot: self.boot, deadline };
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
    fn shift_to(&self, memory: &mut Memory, base: u64) {
        let old = self.clock.base();
        if base == old {
            return;
        }
        let shift = |at: Instant| {
            // In 128 bits, because a base is as large as the dates it stands for.
            let moved = u128::from(at.as_nanos()) + u128::from(base);
            Instant::from_nanos(u64::try_from(moved.saturating_sub(u128::from(old))).unwrap_or(u64::MAX - 1))
        };
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
            let places: u32 = self.side.with_places().map(|scope| self.side.own(scope)).fold(0, u32::saturating_add);
            tracing::warn!(
                "this process gave no sign of life for longer than {:?} and was taken for gone at {}: {places} places that \
                 it holds may have been given to others",
                self.settings.lease,
                self.name
            );
        }
        Ok(())
    }

    fn set_watch(&self) {
        let file = self.opened.as_ref().map(|opened| Arc::clone(&opened.file));
        self.watching.watch.set(self.roster.own().cloned(), file);
    }

    fn count_others(&mut self) {
        let now = clock::since_boot();
        if self.counted != 0
            && now.saturating_sub(self.counted) < comity_core::time::nanos(beat_every(self.settings.lease))
        {
            return;
        }
        self.counted = now;
        let all = self.roster.all();
        let rank = all.iter().position(|seen| Some(seen.member) == self.roster.me()).unwrap_or(0);
        let members = u32::try_from(all.len()).unwrap_or(u32::MAX);
        self.alone.heard(
            core::num::NonZeroU32::new(members).unwrap_or(core::num::NonZeroU32::MIN),
            rank as u32,
            Duration::ZERO,
        );
    }

    fn lose(&mut self, memory: &mut Memory, now: Instant, trouble: &Trouble) {
        self.alone.lost(memory, now, &self.name, &trouble.to_string());
        self.retry_at = now.after(self.backoff);
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        self.watching.watch.lost.store(true, Ordering::Relaxed);
    }

    fn found(&mut self, memory: &mut Memory, now: Instant) {
        self.alone.found(memory, now, &self.name);
        self.backoff = FIRST_BACKOFF;
        self.watching.watch.lost.store(false, Ordering::Relaxed);
        // Those that wait for a part of the limits may use all of them.
        self.watching.watch.tell();
    }

    /// Something happens without the store: it is to be told later.
    fn unsaid(&mut self, memory: &mut Memory, scopes: impl IntoIterator<Item = ScopeId>) {
        for scope in scopes {
            if let Some((name, _)) = memory.inspect(scope) {
                self.side.unsaid(scope, key(name));
            }
            memory.cell_mut(scope).set_in_flight(self.side.own(scope));
        }
    }

    /// Whether a pause holds any of these scopes, read without the lock; `None` where that cannot be told so.
    fn is_paused(&mut self, memory: &Memory, now: Instant, members: &[Member]) -> Option<bool> {
        let opened = self.opened.as_ref()?;
        let mut record = Record::blank();
        for member in members {
            let (name, _) = memory.inspect(member.scope)?;
            let key = key(name);
            let note = self.side.note(member.scope, key);
            let number = note.number().filter(|_| note.generation == opened.generation)?;
            index::read(&opened.file, number, &mut record).ok()?;
            if !record.is_whole(opened.generation) || record.key() != key {
                return None;
            }
            if record.state()?.pause.until() > now {
                return Some(true);
            }
        }
        Some(false)
    }
}

impl Shared for Machine {
    fn clock(&self) -> ReadClock {
        self.clock.reader()
    }

    fn on_news(&mut self, wake: Wake) {
        self.watching.watch.on_news(wake);
    }

    fn claim(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>, asked: Asked) -> Claimed {
        let mut room = core::mem::take(&mut self.room);
        let answer = self.inside(memory, now, |section, memory| section.claim(memory, claim, asked, &mut room));
        self.room = room;
        let answer = answer.unwrap_or_else(|| {
            self.unsaid(memory, claim.members.iter().map(|member| member.scope));
            let answer = self.alone.claim(memory, now, claim);
            if answer.is_ok() {
                for member in claim.members.iter().filter(|member| member.part != Part::Learned) {
                    self.side.take_places(member.scope, claim.cost);
                }
            }
            answer
        });
        if let Err(wait) = &answer {
            self.watching.waits_until(wait.until);
        }
        Claimed::Now(answer)
    }

    fn begin(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
        let late = grant.late_by.is_some_and(|late_by| now > grant.start.after(late_by));
        if !late && let Some(paused) = self.is_paused(memory, now, members) {
            return if paused { Begin::TooLate } else { Begin::Go };
        }
        let begun = self.inside(memory, now, |section, memory| section.begin(memory, members, grant));
        begun.unwrap_or_else(|| {
            self.unsaid(memory, members.iter().map(|member| member.scope));
            all::begin(memory, now, members, grant)
        })
    }

    fn learn(&mut self, memory: &mut Memory, now: Instant, members: &[Member], lesson: &Lesson<'_>) -> Effects {
        let learned = self.inside(memory, now, |section, memory| section.learn(memory, members, lesson));
        learned.unwrap_or_else(|| {
            self.unsaid(memory, members.iter().map(|member| member.scope));
            all::learn(memory, now, members, lesson.grant, lesson.signal, lesson.latency)
        })
    }

    fn release(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &Grant) -> Effects {
        let released = self.inside(memory, now, |section, memory| section.release(memory, members, grant));
        released.unwrap_or_else(|| {
            self.unsaid(memory, members.iter().map(|member| member.scope));
            for member in members.iter().filter(|member| member.part != Part::Learned) {
                self.side.give_places(member.scope, grant.cost);
            }
            all::release(memory, members, grant)
        })
    }

    fn declare(&mut self, memory: &mut Memory, now: Instant, scope: ScopeId, crawl_delay: Duration) {
        let declared = self.inside(memory, now, |section, memory| section.declare(memory, scope, crawl_delay));
        if declared.is_none() {
            self.unsaid(memory, [scope]);
            memory.cell_mut(scope).set_crawl_delay(crawl_delay);
        }
    }

    fn forget(&mut self, memory: &mut Memory, now: Instant, scopes: &[ScopeId]) {
        if self.inside(memory, now, |section, memory| section.forget(memory, scopes)).is_none() {
            self.unsaid(memory, scopes.iter().copied());
            for scope in scopes {
                memory.cell_mut(*scope).forget();
            }
            self.forgotten.extend_from_slice(scopes);
        }
    }

    fn news(&mut self, memory: &mut Memory, now: Instant) -> News {
        if self.watching.watch.should_look() || self.alone.since().is_some() {
            self.inside(memory, now, |_, _| Ok(()));
        }
        News { all_changed: self.watching.watch.take_news(), ..News::default() }
    }

    fn standing(&self) -> Standing {
        Standing {
            place: self.name.clone(),
            members: self.alone.members(),
            lost: self.alone.since().cloned(),
            losses: self.alone.losses(),
        }
    }
}

impl Readable for Machine {
    fn list(&mut self) -> Result<Listing, StoreError> {
        Look::open(&self.place.path)?.list()
    }

    fn forget_by_name(&mut self, name: Option<&str>) -> Result<usize, StoreError> {
        Look::open(&self.place.path)?.forget_by_name(name)
    }
}

#[cfg(test)]
impl Machine {
    pub(crate) fn watch(&self) -> &crate::watch::Watch {
        &self.watching.watch
    }

    pub(crate) fn own(&self) -> Option<&Arc<crate::roster::Own>> {
        self.roster.own()
    }

    pub(crate) fn waits_until(&self, until: Instant) {
        self.watching.waits_until(until);
    }
}

/// Its places and its slot are free at once. Whatever does not go now, others do when they find it gone.
impl Drop for Machine {
    fn drop(&mut self) {
        if let (Some(opened), Some(me)) = (&self.opened, self.roster.me())
            && let Ok(_locked) = opened.file.lock(self.settings.lock_deadline)
            && read_header(&opened.file, opened.generation).is_ok()
        {
            let mut record = Record::blank();
            for (number, key) in self.side.records_with_places() {
                if index::read(&opened.file, number, &mut record).is_err()
                    || !record.is_whole(opened.generation)
                    || record.key() != key
                {
                    continue;
                }
                record.put_places(me, 0);
                record.leave(me);
                if let Err(error) = opened.file.write(index::record_at(number), record.sealed(opened.generation)) {
                    tracing::debug!("places were not given back: {error}");
                }
            }
        }
        self.watching.watch.set(None, None);
        self.roster.leave();
    }
}

/// The header of a file that is still the store.
fn read_header(file: &PaceFile, generation: u64) -> Result<Header, Trouble> {
    let length = file.len()?;
    match Header::read(file)? {
        Found::Header(header) if header.retired || header.generation != generation => Err(Trouble::Gone),
        Found::Header(header) if length < least_length(header.used) => {
            Err(Trouble::Damaged("it is shorter than it should be".to_owned()))
        }
        Found::Header(header) => Ok(header),
        _ => Err(Trouble::Damaged("its header is damaged".to_owned())),
    }
}

/// A file that is gone is looked for anew so often within one call.
const ATTEMPTS: u32 = 3;
/// After a loss the store is tried again so soon at first …
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// … and so soon at last.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
