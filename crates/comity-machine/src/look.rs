//! A store as people look at it: without joining it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use comity_core::limits::{Pause, Snapshot, Tally};
use comity_core::policy::Learned;
use comity_core::time::Instant;
use comity_store::{Known, Listing, Lowered, MemberInfo, Readable, StoreError};

use crate::clock::{self, Boot, Clock};
use crate::file::PaceFile;
use crate::header::{Found, Header, Holds};
use crate::index::{self, record_at};
use crate::machine::{Settings, read_header};
use crate::place::Place;
use crate::record::{RECORD_BYTES, RECORDS_A_PAGE, Record, Ref, begins_a_log};
use crate::roster::{Roster, Seen};
use crate::sum::{Key, key};
use crate::trouble::Trouble;
use crate::trust::{open_itself, resolved};

/// A store that is looked at. Before anybody has shared a pace there is none, and nothing is known; it is there as soon as
/// somebody has.
#[derive(Debug)]
pub struct Look {
    path: PathBuf,
    pace: Option<Pace>,
}

/// The store itself.
#[derive(Debug)]
struct Pace {
    place: Place,
    file: PaceFile,
    writable: bool,
    settings: Settings,
    roster: Roster,
}

impl Look {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { path: path.to_owned(), pace: Pace::open_if_there(path)? })
    }

    fn pace(&mut self) -> Result<Option<&mut Pace>, StoreError> {
        if self.pace.is_none() {
            self.pace = Pace::open_if_there(&self.path)?;
        }
        Ok(self.pace.as_mut())
    }
}

impl Readable for Look {
    fn list(&mut self) -> Result<Listing, StoreError> {
        if let Some(pace) = self.pace()? {
            return pace.listing().map_err(|trouble| pace.error(&trouble));
        }
        let now = Instant::from_nanos(clock::since_boot());
        Ok(Listing { place: self.path.display().to_string(), now, scopes: Vec::new(), members: Vec::new() })
    }

    fn forget_by_name(&mut self, name: Option<&str>) -> Result<usize, StoreError> {
        match self.pace()? {
            Some(pace) => pace.forget(name).map_err(|trouble| pace.error(&trouble)),
            None => Ok(0),
        }
    }
}

impl Pace {
    /// `None` where nothing is at its path.
    fn open_if_there(path: &Path) -> Result<Option<Self>, StoreError> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            // What else is wrong is said by who opens it.
            _ => Self::open(path).map(Some),
        }
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        let no_pace = |error: Trouble| StoreError::Unusable(format!("no shared pace at {}: {error}", path.display()));
        let place = Place::of(&resolved(path).map_err(no_pace)?);
        let writable = open_itself(OpenOptions::new().read(true).write(true), &place.path);
        let is_writable = writable.is_ok();
        let file = writable.or_else(|_| open_itself(OpenOptions::new().read(true), &place.path));
        let file = file.map_err(Trouble::Io).and_then(PaceFile::new).map_err(no_pace)?;
        let settings = Settings::default();
        let roster = Roster::new(place.clone(), Boot::of_this_machine(), settings.lease);
        let look = Self { place, file, writable: is_writable, settings, roster };
        look.header().map_err(|error| look.error(&error))?;
        Ok(look)
    }

    fn header(&self) -> Result<Header, Trouble> {
        let _locked = self.file.lock(self.settings.lock_deadline)?;
        match Header::read(&self.file)? {
            Found::Header(Header { holds: holds @ Holds::Buckets(_), .. }) => {
                Err(Trouble::Unusable(format!("it holds {}", holds.name())))
            }
            Found::Header(header) => Ok(header),
            Found::OtherVersion(version) => {
                Err(Trouble::Unusable(format!("it has format {version}, of another version")))
            }
            Found::Foreign => Err(Trouble::Unusable("it is no shared pace but another file".to_owned())),
            Found::Damaged => Err(Trouble::Damaged("its header is damaged".to_owned())),
        }
    }

    fn error(&self, trouble: &Trouble) -> StoreError {
        let words = format!("the shared pace at {}: {trouble}", self.place.path.display());
        match trouble {
            Trouble::Unusable(_) => StoreError::Unusable(words),
            _ => StoreError::OutOfReach(words),
        }
    }

    /// Every whole record with its number, some pages at a time. Without the lock, where it is not held: one that is being
    /// written is read again.
    fn each_record(&self, header: &Header, mut each: impl FnMut(u32, &mut Record)) -> Result<(), Trouble> {
        let mut many = vec![0; RECORD_BYTES * (RECORDS_A_PAGE * PAGES_AT_ONCE) as usize];
        let mut record = Record::blank();
        for first in (0..header.used).step_by((RECORDS_A_PAGE * PAGES_AT_ONCE) as usize) {
            let length = self.file.read_some(record_at(first), &mut many)?;
            let mut in_a_log = false;
            for (number, bytes) in (first..header.used).zip(many[..length].chunks_exact(RECORD_BYTES)) {
                record.bytes_mut().copy_from_slice(bytes);
                in_a_log = if number % RECORDS_A_PAGE == 0 { begins_a_log(&record) } else { in_a_log };
                if in_a_log || record.is_blank() {
                    continue;
                }
                for _ in 0..READS {
                    if record.is_whole(header.generation) {
                        each(number, &mut record);
                        break;
                    }
                    self.file.read(record_at(number), record.bytes_mut())?;
                }
            }
        }
        Ok(())
    }

    fn listing(&mut self) -> Result<Listing, Trouble> {
        let header = self.header()?;
        let clock = Clock::new(header.base);
        let now = clock.now();
        let members = self.roster.all();
        let lives = |member: Ref| members.iter().find(|seen| seen.member == member);
        let mut scopes = Vec::new();
        self.each_record(&header, |_, record| {
            if let Some(known) = known(record, &self.roster, lives) {
                scopes.push(known);
            }
        })?;
        scopes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let seen = |seen: &Seen| MemberInfo {
            id: seen.name.clone(),
            joined: seen.joined,
            seen: Instant::from_nanos(header.base.saturating_add(seen.beat.min(clock::since_boot()))),
        };
        Ok(Listing {
            place: self.place.path.display().to_string(),
            now,
            scopes,
            members: members.iter().map(seen).collect(),
        })
    }

    fn forget(&mut self, name: Option<&str>) -> Result<usize, Trouble> {
        if !self.writable {
            return Err(Trouble::Unusable("this user may not write it".to_owned()));
        }
        let header = self.header()?;
        let mut found = Vec::new();
        self.each_record(&header, |number, record| {
            if name.is_none_or(|name| record.is_of(key(name), name)) {
                found.push((number, record.key()));
            }
        })?;
        let mut forgotten = 0;
        for some in found.chunks(RECORDS_A_SECTION) {
            forgotten += self.forget_some(header.generation, some)?;
        }
        Ok(forgotten)
    }

    /// Few at once, so that nobody waits for the lock until its deadline.
    fn forget_some(&self, generation: u64, some: &[(u32, Key)]) -> Result<usize, Trouble> {
        let _locked = self.file.lock(self.settings.lock_deadline)?;
        let mut header = read_header(&self.file, generation)?;
        let mut record = Record::blank();
        let mut forgotten = 0;
        for (number, key) in some {
            index::read(&self.file, *number, &mut record)?;
            // Its place may be another's by now, and it may be damaged.
            if !record.is_whole(generation) || record.key() != *key {
                continue;
            }
            let Some(state) = record.state() else { continue };
            record.put_state(&Snapshot {
                learned: Learned::Nothing,
                pause: Pause::default(),
                quota: None,
                tally: Tally::default(),
                ..state
            });
            record.put_forgets(record.forgets().wrapping_add(1));
            record.put_trial(None);
            record.put_slowed(None);
            self.file.write(record_at(*number), record.sealed(generation))?;
            forgotten += 1;
        }
        header.news = header.news.wrapping_add(1);
        header.write(&self.file)?;
        Ok(forgotten)
    }
}

/// A record in words. What members that are gone left in it is not told.
fn known<'a>(record: &Record, roster: &Roster, lives: impl Fn(Ref) -> Option<&'a Seen>) -> Option<Known> {
    let mut state = record.state()?;
    let places: Vec<(String, u32)> =
        record.places().filter_map(|(member, held)| Some((lives(member)?.name.clone(), held.places))).collect();
    state.in_flight = places.iter().map(|(_, count)| *count).fold(0, u32::saturating_add);
    Some(Known {
        name: record.name().to_owned(),
        interval: record.interval(),
        most_in_flight: record.most_in_flight(),
        next_start: record.ready(),
        places,
        waiting: record.turns().filter_map(|member| Some(lives(member)?.name.clone())).collect(),
        lowered: record.slowed().map(|slowed| Lowered {
            by: Ref::of(slowed.by).map_or_else(String::new, |member| roster.name(member)),
            status: slowed.status,
            at: slowed.at,
            from: slowed.from,
            to: slowed.to,
        }),
        state,
    })
}

/// Records forgotten under one lock: a millisecond or two.
const RECORDS_A_SECTION: usize = 256;
/// Pages read at once: a megabyte.
const PAGES_AT_ONCE: u32 = 256;
/// A record that is being written is whole when it is read again.
const READS: u32 = 4;
