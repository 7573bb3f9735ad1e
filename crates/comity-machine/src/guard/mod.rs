//! Guards' buckets in a file that the processes of one machine share.

pub(crate) mod page;
mod section;
#[cfg(test)]
mod tests;

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use comity_core::guard::Verdict;
use comity_core::limits::Share;
use comity_core::time::{Instant, nanos};
use comity_store::guard::{Apart, Buckets, Charges, Counts, Taken};
use comity_store::{ReadClock, Standing, StoreError};

use self::page::Page;
use self::section::{Came, Section};
use crate::clock::{self, Boot, Clock};
use crate::file::Courtesy;
use crate::header::Holds;
use crate::machine::{read_header, shifted};
use crate::opening::{self, Opened, Opening};
use crate::place::Place;
use crate::roster::Roster;
use crate::trouble::Trouble;

/// Guards' buckets in a file: all processes of one machine that name the same path hold one limit.
///
/// A take is decided under the kernel's lock on the file, in microseconds, and is charged there before it is answered. A
/// process that is killed leaves the others nothing to wait for. Where the lock cannot be had in time, or the file is out of
/// reach, nothing is let in at first and then this process's part of every limit, until it is there again
/// ([`Apart`]). That holds the limit where the file is lost to all; the part of one that alone cannot reach it comes on top of
/// what the others let in. A file that is lost or damaged is followed by one in which every bucket is spent (X9).
///
/// The number of buckets is bounded (G8): a new one is written over one that is full, never over one in debt; where a key's
/// two pages hold none, it shares one bucket with all such keys of the limit.
///
/// ```
/// use comity_core::guard::{NamedLimit, TokenBucket};
/// use comity_machine::{BucketSettings, MachineBuckets};
/// use comity_store::guard::{Buckets as _, Charge, Charges, Key, Taken};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pace");
/// let one = MachineBuckets::open(&path, BucketSettings::default())?;
/// let other = MachineBuckets::open(&path, BucketSettings::default())?;
/// let limit = NamedLimit::new("each", TokenBucket::new(1, 1, std::time::Duration::from_secs(60))?.into())?;
/// let charges = [Charge { limit: &limit, key: Key::new(b"192.0.2.1")?, cost: 1 }];
/// for (buckets, is_let_in) in [(&one, true), (&other, false)] {
///     let Taken::Now(verdict) = buckets.take(buckets.clock()(), Charges::new(&charges)?) else { unreachable!() };
///     assert_eq!(verdict.refused().is_none(), is_let_in);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MachineBuckets {
    name: String,
    settings: BucketSettings,
    clock: Clock,
    apart: Apart,
    keys: AtomicU64,
    dropped: AtomicU64,
    shared: AtomicU64,
    inside: Mutex<Inside>,
}

/// How [`MachineBuckets`] behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// How long the file's lock is waited for; 50 ms. Past it the store is lost for this process, until it is found again.
    pub lock_deadline: Duration,
    /// Buckets that have room in a file that is made now, about; 200,000 unless set, which is 75 MB once all were used. One
    /// that is there already keeps its size.
    pub most_buckets: u32,
}

/// What is needed to get under the lock.
struct Inside {
    place: Place,
    boot: Boot,
    roster: Roster,
    opened: Option<Opened>,
    /// The generation that was last open, and is lost.
    lost_file: Option<u64>,
    /// Since when, and why, the store is out of reach.
    lost: Option<(Instant, String)>,
    losses: u32,
    /// This process's part of every limit, where it must go by itself.
    share: Share,
    /// Since boot, when the others were last counted and the path was last looked at.
    looked: u64,
    retry_at: Instant,
    backoff: Duration,
    courtesy: Courtesy,
    pages: Vec<Page>,
    /// The process that opened it: a copy of it, made by fork(2), must not go by its locks.
    process: u32,
}

impl Default for BucketSettings {
    fn default() -> Self {
        Self { lock_deadline: Duration::from_millis(50), most_buckets: 200_000 }
    }
}

impl MachineBuckets {
    /// Opens the buckets beside the shared pace at this path, in `PATH.guard`, or makes them there, and joins those that
    /// share them. The path is what [`Machine::open`](crate::Machine::open) is given; neither needs the other.
    ///
    /// # Errors
    /// When there can be no store at the path, as [`Machine::open`](crate::Machine::open) says. A store that is only out of
    /// reach is none: this process begins without it.
    pub fn open(path: impl Into<PathBuf>, settings: BucketSettings) -> Result<Self, StoreError> {
        Self::open_as(&path.into(), settings, Boot::of_this_machine())
    }

    fn open_as(path: &Path, settings: BucketSettings, boot: Boot) -> Result<Self, StoreError> {
        let unusable =
            |trouble: Trouble| StoreError::Unusable(format!("the guards' buckets cannot be shared: {trouble}"));
        let path = beside(path);
        let place = Place::prepare(&path).map_err(unusable)?;
        let mut inside = Inside {
            roster: Roster::new(place.clone(), boot, LEASE),
            place,
            boot,
            opened: None,
            lost_file: None,
            lost: None,
            losses: 0,
            share: Apart::assumed_share(),
            looked: 0,
            retry_at: Instant::ZERO,
            backoff: FIRST_BACKOFF,
            courtesy: Courtesy::default(),
            pages: Vec::new(),
            process: std::process::id(),
        };
        let opened = match inside.open_file(None, &settings, settings.lock_deadline) {
            Ok(opened) => Some(opened),
            Err(Trouble::Unusable(why)) => return Err(unusable(Trouble::Unusable(why))),
            Err(_) => None,
        };
        let base = opened.as_ref().map(|opened| opened.base).or_else(|| inside.roster.base());
        let clock = Clock::new(base.unwrap_or_else(|| clock::wall().saturating_sub(clock::since_boot())));
        inside.opened = opened;
        inside.roster.join(clock.base(), clock.now()).map_err(unusable)?;
        inside.count();
        let seed = inside.opened.as_ref().map_or_else(clock::since_boot, |opened| opened.generation);
        Ok(Self {
            name: path.display().to_string(),
            settings,
            apart: Apart::new(seed.rotate_left(std::process::id() % 64), clock.reader()),
            clock,
            keys: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            inside: Mutex::new(inside),
        })
    }

    /// As [`Buckets::take`], which this store answers at once.
    pub fn take_now(&self, now: Instant, charges: Charges<'_>) -> Verdict {
        let mut inside = self.lock();
        if inside.process != std::process::id() {
            inside.become_another();
        }
        if let Some((since, _)) = &inside.lost
            && now < inside.retry_at
        {
            return self.apart.take(now, *since, &inside.share, charges);
        }
        let mut now = now;
        match self.try_take(&mut inside, &mut now, charges) {
            Ok(came) => {
                self.found(&mut inside, now);
                self.dropped.fetch_add(came.dropped, Ordering::Relaxed);
                self.shared.fetch_add(came.shared, Ordering::Relaxed);
                came.verdict
            }
            Err(trouble) => {
                let since = self.lose(&mut inside, now, &trouble);
                self.apart.take(now, since, &inside.share, charges)
            }
        }
    }

    fn try_take(&self, inside: &mut Inside, now: &mut Instant, charges: Charges<'_>) -> Result<Came, Trouble> {
        // While it is lost a try must not delay each request.
        let deadline = self.settings.lock_deadline / if inside.lost.is_some() { 10 } else { 1 };
        for _ in 0..ATTEMPTS {
            inside.look(&self.clock)?;
            let opened = match inside.opened.take() {
                Some(opened) => opened,
                None => {
                    let opened = inside.open_file(Some(self.clock.base()), &self.settings, deadline)?;
                    let old = self.clock.base();
                    *now = shifted(*now, old, opened.base);
                    inside.shift(old, opened.base);
                    self.clock.set_base(opened.base);
                    opened
                }
            };
            let opened = inside.opened.insert(opened).clone();
            let locked = opened.file.lock(deadline)?;
            let came = read_header(&opened.file, opened.generation).and_then(|mut header| {
                let before = header;
                if inside.lost_file.is_some_and(|lost| lost != header.generation) && !header.after_loss {
                    // Whoever made it knew nothing of the one before.
                    (header.after_loss, header.born) = (true, *now);
                }
                if header.after_loss && header.born == Instant::ZERO {
                    header.born = *now;
                }
                let time = self.clock.now().as_nanos();
                if time.saturating_sub(header.last) >= nanos(LOOK_EVERY) {
                    (header.last, header.last_wall) = (header.last.max(time), clock::wall());
                }
                let pages = &mut inside.pages;
                let came = Section { file: &opened.file, header: &mut header, pages, now: *now }.take(charges);
                if let Err(Trouble::Damaged(_)) = came {
                    header.retired = true;
                }
                if header != before {
                    header.write(&opened.file)?;
                }
                inside.lost_file = None;
                self.keys.store(u64::from(header.used), Ordering::Relaxed);
                came
            });
            drop(locked);
            match came {
                Err(Trouble::Gone | Trouble::Damaged(_)) => inside.lose_file(),
                came => {
                    inside.courtesy.after_a_section();
                    return came;
                }
            }
        }
        Err(Trouble::Damaged("another process keeps replacing it".to_owned()))
    }

    /// The store is lost; since when.
    fn lose(&self, inside: &mut Inside, now: Instant, trouble: &Trouble) -> Instant {
        inside.count();
        inside.retry_at = now.after(inside.backoff);
        inside.backoff = (inside.backoff * 2).min(LONGEST_BACKOFF);
        if let Some((since, _)) = &inside.lost {
            return *since;
        }
        tracing::warn!(
            "the guards' buckets at {} are out of reach ({trouble}): nothing is let in for a second, then a {}th of every \
             limit, until they are back",
            self.name,
            inside.share.members()
        );
        inside.lost = Some((now, trouble.to_string()));
        inside.losses += 1;
        now
    }

    fn found(&self, inside: &mut Inside, now: Instant) {
        if let Some((since, _)) = inside.lost.take() {
            inside.backoff = FIRST_BACKOFF;
            self.apart.found();
            let took = now.since(since).as_secs_f64();
            tracing::warn!("the guards' buckets at {} are back after {took:.1} s", self.name);
        }
    }

    /// No take leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn open_file(
        &mut self,
        base: Option<u64>,
        settings: &BucketSettings,
        deadline: Duration,
    ) -> Result<Opened, Trouble> {
        let holds = Holds::Buckets(page::pages_for(settings.most_buckets));
        let lost = self.lost_file.is_some();
        let opening = Opening { holds, lost, base, boot: self.boot, deadline, lease: SAME_BOOT };
        match opening::open(&self.place, &self.roster, opening) {
            // The directory may be gone with all that was in it.
            Err(Trouble::Unusable(_)) if !self.place.members.exists() => {
                Place::prepare(&self.place.path)?;
                opening::open(&self.place, &self.roster, opening)
            }
            other => other,
        }
    }

    /// Now and then: whether the path still leads to the file, whether this process is still among those that share it, and
    /// who they are.
    fn look(&mut self, clock: &Clock) -> Result<(), Trouble> {
        let since_boot = clock::since_boot();
        if since_boot.saturating_sub(self.looked) < nanos(LOOK_EVERY) {
            return Ok(());
        }
        if self.opened.as_ref().is_some_and(|opened| !opened.file.is_at(&self.place.path)) {
            self.lose_file();
        }
        if self.roster.was_given_up() {
            self.roster.join(clock.base(), clock.now())?;
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        self.looked = clock::since_boot();
        if let Some(count) = self.roster.count() {
            self.share = Share::of_members(count.members, count.rank, Duration::ZERO);
        }
    }

    fn lose_file(&mut self) {
        self.lost_file = self.opened.take().map(|opened| opened.generation).or(self.lost_file);
    }

    /// The clock of the file is another than the one of the file before.
    fn shift(&mut self, old: u64, base: u64) {
        self.retry_at = shifted(self.retry_at, old, base);
        if let Some((since, _)) = &mut self.lost {
            *since = shifted(*since, old, base);
        }
    }

    /// This process is a copy, made by fork(2), of the one that joined: what is open here is open there too, and locks are
    /// held by both. So it joins anew, as another.
    fn become_another(&mut self) {
        self.process = std::process::id();
        self.roster = Roster::new(self.place.clone(), self.boot, LEASE);
        self.opened = None;
        // Whatever it is looked at for.
        self.looked = 0;
    }
}

impl Buckets for MachineBuckets {
    fn clock(&self) -> ReadClock {
        self.clock.reader()
    }

    fn take(&self, now: Instant, charges: Charges<'_>) -> Taken {
        Taken::Now(self.take_now(now, charges))
    }

    /// The buckets are those of all processes, as of this one's last take; the rest is what this process did.
    fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { keys: of(&self.keys), dropped: of(&self.dropped), shared: of(&self.shared) }
    }

    fn standing(&self) -> Standing {
        let inside = self.lock();
        Standing {
            place: self.name.clone(),
            members: inside.share.members(),
            lost: inside.lost.clone(),
            losses: inside.losses,
        }
    }
}

impl Drop for MachineBuckets {
    fn drop(&mut self) {
        let mut inside = self.lock();
        if inside.process == std::process::id() {
            inside.roster.leave();
        }
    }
}

impl fmt::Debug for MachineBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineBuckets").field("path", &self.name).finish_non_exhaustive()
    }
}

/// The file of buckets beside that of the pace.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".guard");
    PathBuf::from(name)
}

/// A process that was stopped still counts: it may go on, and then it, too, has its part.
const LEASE: Duration = Duration::MAX;
/// Where boots have no number, a clock that is further behind than this is another boot's.
const SAME_BOOT: Duration = Duration::from_secs(10);
/// A file that is gone is looked for anew so often within one call.
const ATTEMPTS: u32 = 3;
/// How often a process looks who shares the file, and whether it is still the one at its path.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a loss the store is tried again so soon at first, for mostly the lock was held by one that was put to sleep, and
/// until then nothing is let in …
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
/// … and so soon at last.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);
