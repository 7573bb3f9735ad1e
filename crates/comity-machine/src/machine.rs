//! The store itself: every call one locked section, and a way on where the file is out of reach.

mod inside;
mod losing;

pub(crate) use inside::{read_header, shifted};

use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::all::{self, Begin, Cells as _, Claim, Effects, Grant};
use comity_core::limits::{Member, ScopeId, Share};
use comity_core::time::Instant;
use comity_store::{
    Alone, Asked, Claimed, Lesson, Listing, Memory, News, OnFailure, ReadClock, Readable, ScopeKind, Shared, Standing,
    Store as _, StoreError, Wake,
};

use crate::clock::{self, Boot, Clock};
use crate::file::Courtesy;
use crate::header::{Found, Header, Holds};
use crate::index;
use crate::look::Look;
use crate::opening::{self, Opened, Opening};
use crate::place::Place;
use crate::record::{Held, Record};
use crate::roster::Roster;
use crate::section::Loaded;
use crate::side::Side;
use crate::sum::{Key, key};
use crate::trouble::Trouble;
use crate::watch::Watching;

/// The shared pace of one machine: a file of fixed records under the kernel's lock (decision 16).
///
/// Any number of processes open the same path and keep one pace. One that is killed frees its places at once, one that is
/// stopped after the [lease](Settings::lease).
///
/// ```
/// use comity_machine::{Machine, Settings};
/// use comity_store::{Readable as _, Shared as _};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pace");
/// let one = Machine::open(&path, Settings::default())?;
/// let other = Machine::open(&path, Settings::default())?;
/// assert_eq!(one.standing().lost, None);
/// let listing = Machine::look(&path)?.list()?;
/// assert_eq!(listing.members.len(), 2);
/// # drop((one, other));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    forgotten: Vec<(ScopeId, Key)>,
    alone: Alone,
    /// The part of every limit that is this process's while any lost the store; `None` where it never could count them.
    part: Option<Share>,
    /// Another lost the store: here, too, only a part of every limit may be used.
    another_is_alone: bool,
    /// What the file said of that when it was last looked into.
    heeded: u64,
    /// When this process last said that it lost the store; 0 where it did not.
    said_alone: u64,
    /// The process that opened it: a copy of it, made by fork(2), must not go by its locks.
    process: u32,
    wake: Option<Wake>,
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
    /// lets them. Where everybody may write, what another user made is not trusted, unless the directory is that user's.
    ///
    /// # Errors
    /// When there can be no store at the path: it is a directory or another kind of file, may not be written, something
    /// beside it leads elsewhere or is another user's, or its file system has no locks that hold. A store that is only out of reach is none: this process begins without it.
    pub fn open(path: impl Into<PathBuf>, settings: Settings) -> Result<Self, StoreError> {
        Self::open_as(&path.into(), settings, Boot::of_this_machine())
    }

    /// The store at this path, for people to look at: without joining it. Where nothing is there yet, nothing is known.
    ///
    /// # Errors
    /// When what is there is no store, or cannot be read.
    pub fn look(path: impl Into<PathBuf>) -> Result<Look, StoreError> {
        Look::open(&path.into())
    }

    pub(crate) fn open_as(path: &Path, settings: Settings, boot: Boot) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let unusable = |trouble: Trouble| StoreError::Unusable(format!("the shared pace cannot be used: {trouble}"));
        let place = Place::prepare(path).map_err(unusable)?;
        let mut roster = Roster::new(place.clone(), boot, settings.lease);
        let opening = Opening {
            holds: Holds::Scopes,
            lost: false,
            base: None,
            boot,
            deadline: settings.lock_deadline,
            lease: settings.lease,
        };
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
            part: None,
            another_is_alone: false,
            heeded: 0,
            said_alone: 0,
            process: std::process::id(),
            wake: None,
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

    /// Something happens without the store: it is to be told later.
    fn unsaid(&mut self, memory: &mut Memory, scopes: impl IntoIterator<Item = ScopeId>) {
        for scope in scopes {
            match memory.inspect(scope) {
                Some((name, _)) if memory.kind(scope) == Some(ScopeKind::Own) => {
                    self.side.note(scope, key(name));
                }
                Some((name, _)) => self.side.unsaid(scope, key(name)),
                None => {}
            }
            self.side.own(scope).put_into(memory.cell_mut(scope));
        }
    }

    /// Whether a pause holds any of these scopes, read without the lock; `None` where that cannot be told so.
    fn is_paused(&mut self, memory: &Memory, now: Instant, members: &[Member]) -> Option<bool> {
        let opened = self.opened.as_ref()?;
        let mut record = Record::blank();
        for member in members {
            if memory.kind(member.scope)? == ScopeKind::Own {
                continue;
            }
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
        self.watching.watch.on_news(Wake::clone(&wake));
        self.wake = Some(wake);
    }

    fn claim(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>, asked: Asked) -> Claimed {
        let mut room = core::mem::take(&mut self.room);
        let answer = self.inside(memory, now, |section, memory| section.claim(memory, claim, asked, &mut room));
        self.room = room;
        let mut answer = answer.unwrap_or_else(|| {
            self.say_alone();
            self.unsaid(memory, claim.members.iter().map(|member| member.scope));
            let answer = self.alone.claim(memory, now, claim);
            if answer.is_ok() {
                for member in claim.members {
                    self.side.take_places(member, claim.cost);
                }
            }
            answer
        });
        if let Err(wait) = &mut answer {
            if self.another_is_alone && wait.until == Instant::FAR {
                // The one that went by itself may be gone without a word.
                wait.until = now.after(ASK_AGAIN);
            }
            self.watching.waits_until(wait.until);
        }
        Claimed::Now(answer)
    }

    fn begin(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
        // One that was heard while the store was lost stands nowhere else.
        if members.iter().any(|member| memory.cell(member.scope).paused_until() > now) {
            return Begin::TooLate;
        }
        if !grant.is_late(now)
            && let Some(paused) = self.is_paused(memory, now, members)
        {
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
            for member in members {
                self.side.give_places(member, grant.cost);
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
            for scope in scopes {
                let named = memory.inspect(*scope).map(|(name, _)| (*scope, key(name)));
                self.forgotten.extend(named.filter(|named| !self.forgotten.contains(named)));
            }
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

    /// As if the time between two signs of life had gone by.
    pub(crate) fn lives_on(&mut self) {
        self.counted = 0;
    }

    /// From now on this is the copy that fork(2) makes. What is returned is what the one that was copied has open.
    pub(crate) fn fork(&mut self) -> (Arc<crate::roster::Own>, Opened) {
        self.process = self.process.wrapping_add(1);
        (Arc::clone(self.roster.own().unwrap()), self.opened.clone().unwrap())
    }
}

/// Its places and its slot are free at once. Whatever does not go now, others do when they find it gone.
impl Drop for Machine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
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
                record.put_places(me, Held::default());
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

/// When one that waits for a place while another is alone asks again.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// After a loss the store is tried again so soon at first.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
