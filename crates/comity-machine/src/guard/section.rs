//! One take under the lock: decide all, then charge all.

use comity_core::guard::{Bucket, Limit, MOST_LIMITS, Verdict, all};
use comity_core::time::Instant;
use comity_store::guard::{Charge, Charges, spent};

use super::page::{Kept, Name, Page, Room, Slot};
use crate::file::PaceFile;
use crate::header::{Header, Holds};
use crate::trouble::Trouble;

/// The open file, while its lock is held.
pub(super) struct Section<'a> {
    pub(super) file: &'a PaceFile,
    pub(super) header: &'a mut Header,
    /// Room for the pages that are read, and what they were.
    pub(super) pages: &'a mut Vec<Page>,
    pub(super) now: Instant,
}

/// What came of a take.
pub(super) struct Came {
    pub(super) verdict: Verdict,
    /// Full buckets that others took the place of.
    pub(super) dropped: u64,
    /// Keys that have no bucket of their own.
    pub(super) shared: u64,
}

/// One charge's bucket.
#[derive(Clone, Copy)]
struct Found {
    name: Name,
    shared: bool,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    Kept(Slot, Kept),
    New(Room),
    /// Not even for that of all others there is room: as if it were spent.
    Nowhere,
}

impl Section<'_> {
    /// Takes the costs from the buckets of all charges, or from none. Each bucket is charged in the file before this returns.
    pub(super) fn take(&mut self, charges: Charges<'_>) -> Result<Came, Trouble> {
        self.pages.clear();
        let charges = charges.as_slice();
        let found = self.find_all(charges)?;
        let limits: Vec<(Limit, u32)> = charges.iter().map(|charge| (*charge.limit.limit(), charge.cost)).collect();
        let mut buckets: Vec<Bucket> =
            found.iter().zip(&limits).map(|(found, (limit, _))| self.bucket(found, limit)).collect();
        let mut verdict = all::take(self.now, &limits, &mut buckets);
        let charged = verdict.refused().is_none();
        let (mut dropped, mut shared) = (0, 0);
        for (nth, found) in found.iter().enumerate() {
            let bucket = buckets[nth];
            let kept = Kept { bucket, full_at: limits[nth].0.full_at(&bucket) };
            if found.shared {
                verdict.mark_shared(nth);
                shared += 1;
            }
            match found.place {
                Place::Kept(slot, before) if before != kept => self.write(slot, found, &kept)?,
                Place::New(room) if charged => {
                    self.write(room.slot(), found, &kept)?;
                    match room {
                        Room::Full(_) => dropped += 1,
                        Room::Blank(_) => self.header.used = self.header.used.saturating_add(1),
                    }
                }
                // It is as it was, or as good as new.
                Place::Kept(..) | Place::New(_) | Place::Nowhere => {}
            }
        }
        Ok(Came { verdict, dropped, shared })
    }

    fn find_all(&mut self, charges: &[Charge<'_>]) -> Result<Vec<Found>, Trouble> {
        let mut found = Vec::with_capacity(MOST_LIMITS);
        let mut used = Vec::with_capacity(MOST_LIMITS);
        for charge in charges {
            let name = Name::of_key(charge.limit.name(), charge.key.as_bytes());
            let place = self.find(&name)?;
            used.extend(place.map(|(slot, _)| slot));
            found.push((name, place));
        }
        // Only now is known which are in use.
        let found = found.into_iter().zip(charges).map(|((name, place), charge)| {
            if let Some((slot, kept)) = place {
                return Ok(Found { name, shared: false, place: Place::Kept(slot, kept) });
            }
            if let Some(room) = self.room(&name, &mut used)? {
                return Ok(Found { name, shared: false, place: Place::New(room) });
            }
            let name = Name::of_all_others(charge.limit.name());
            let place = match self.find(&name)? {
                Some((slot, kept)) => {
                    used.push(slot);
                    Place::Kept(slot, kept)
                }
                None => self.room(&name, &mut used)?.map_or(Place::Nowhere, Place::New),
            };
            Ok(Found { name, shared: true, place })
        });
        found.collect()
    }

    fn find(&mut self, name: &Name) -> Result<Option<(Slot, Kept)>, Trouble> {
        let (generation, [one, other]) = (self.header.generation, self.pages_of(name));
        match self.page(one)?.find(generation, name)? {
            None if other != one => self.page(other)?.find(generation, name),
            found => Ok(found),
        }
    }

    /// Where a name that is nowhere may be written: in that of its pages that has more room.
    fn room(&mut self, name: &Name, used: &mut Vec<Slot>) -> Result<Option<Room>, Trouble> {
        let (generation, now, [one, other]) = (self.header.generation, self.now.as_nanos() / 1000, self.pages_of(name));
        let (many, first) = self.page(one)?.room(generation, now, used)?;
        let (more, second) = self.page(other)?.room(generation, now, used)?;
        let room = if more > many { second } else { first };
        used.extend(room.map(Room::slot));
        Ok(room)
    }

    fn pages_of(&self, name: &Name) -> [u32; 2] {
        let pages = match self.header.holds {
            Holds::Buckets(pages) => pages,
            Holds::Scopes => 1,
        };
        name.pages(self.header.generation, pages)
    }

    fn page(&mut self, number: u32) -> Result<&Page, Trouble> {
        let nth = match self.pages.iter().position(|page| page.number() == number) {
            Some(nth) => nth,
            None => {
                self.pages.push(Page::read(self.file, number)?);
                self.pages.len() - 1
            }
        };
        Ok(&self.pages[nth])
    }

    fn bucket(&self, found: &Found, limit: &Limit) -> Bucket {
        match found.place {
            Place::Kept(_, kept) => kept.bucket,
            Place::New(_) if self.header.after_loss => spent(limit, self.header.born),
            Place::New(_) => limit.fresh(self.now),
            Place::Nowhere => spent(limit, self.now),
        }
    }

    fn write(&self, slot: Slot, found: &Found, kept: &Kept) -> Result<(), Trouble> {
        slot.write(self.file, self.header.generation, &found.name, kept)
    }
}
