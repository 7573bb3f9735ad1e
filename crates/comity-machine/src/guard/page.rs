//! Pages of buckets: where a key may be, and what stands there.
//!
//! A key has two pages in which it may be, by its name under a number that the file was made with, so that nobody can choose
//! keys that crowd into one. There is no index, and no list of what is free: a record is written over when it is full.

use comity_core::guard::Bucket;

use crate::file::PaceFile;
use crate::record::PAGE_BYTES;
use crate::sum::sum;
use crate::trouble::Trouble;

/// The length of a file of so many pages.
pub(crate) fn length(pages: u32) -> u64 {
    page_at(FIRST_PAGE + pages)
}

/// Pages enough for so many buckets.
pub(crate) fn pages_for(most_buckets: u32) -> u32 {
    most_buckets.div_ceil(RECORDS_A_PAGE as u32).clamp(1, MOST_PAGES)
}

/// Whose a bucket is: a key under a limit, or the limit alone where it is that of all keys without one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    bytes: [u8; MOST_NAME],
    limit: usize,
    length: usize,
    kind: u8,
}

/// A page in memory.
#[derive(Clone, Debug)]
pub(super) struct Page {
    number: u32,
    bytes: [u8; READ_BYTES],
}

/// What is remembered of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) bucket: Bucket,
    /// From when on it is as good as new, in microseconds.
    pub(super) full_at: u64,
}

/// A record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) page: u32,
    nth: usize,
}

/// What stands where a new bucket may be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Nothing ever was there.
    Blank(Slot),
    /// A bucket that is full.
    Full(Slot),
}

impl Name {
    /// A key's under a limit.
    pub(super) fn of_key(limit: &str, key: &[u8]) -> Self {
        let mut bytes = [0; MOST_NAME];
        let (limit, key) = (&limit.as_bytes()[..limit.len().min(MOST_LIMIT)], &key[..key.len().min(MOST_KEY)]);
        let length = limit.len() + key.len();
        bytes[..limit.len()].copy_from_slice(limit);
        bytes[limit.len()..length].copy_from_slice(key);
        Self { bytes, limit: limit.len(), length, kind: KIND_KEY }
    }

    /// That of all keys of a limit that have none.
    pub(super) fn of_all_others(limit: &str) -> Self {
        Self { kind: KIND_OTHERS, ..Self::of_key(limit, &[]) }
    }

    /// The pages in which its record may be, of so many.
    pub(super) fn pages(&self, generation: u64, pages: u32) -> [u32; 2] {
        if self.kind == KIND_OTHERS {
            let page = within(sum(generation, self.written()), PAGES_OF_OTHERS);
            return [1 + page, 1 + page];
        }
        // The lengths tell apart what would be the same bytes.
        let seed = generation ^ self.limit as u64;
        let [one, other] = [sum(seed, self.written()), sum(seed.rotate_left(32), self.written())];
        [FIRST_PAGE + within(one, pages), FIRST_PAGE + within(other, pages)]
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Page {
    pub(super) fn read(file: &PaceFile, number: u32) -> Result<Self, Trouble> {
        let mut page = Self { number, bytes: [0; READ_BYTES] };
        file.read(page_at(number), &mut page.bytes)?;
        Ok(page)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// This name's record.
    pub(super) fn find(&self, generation: u64, name: &Name) -> Result<Option<(Slot, Kept)>, Trouble> {
        let Some(nth) = (0..RECORDS_A_PAGE).find(|nth| self.is_of(*nth, name)) else { return Ok(None) };
        self.check(generation, nth)?;
        let kept = Kept {
            bucket: Bucket { tokens: self.u32(nth, TOKENS), last: self.u64(nth, LAST) },
            full_at: self.u64(nth, FULL_AT),
        };
        Ok(Some((Slot { page: self.number, nth }, kept)))
    }

    /// Where a new record may be written, but for those that are in use; and how many such places there are. What is damaged
    /// may have been of the key that is looked for.
    pub(super) fn room(&self, generation: u64, now: u64, used: &[Slot]) -> Result<(usize, Option<Room>), Trouble> {
        let (mut count, mut best) = (0, None);
        for nth in 0..RECORDS_A_PAGE {
            self.check(generation, nth)?;
            let slot = Slot { page: self.number, nth };
            let room = match self.byte(nth, KIND) {
                _ if used.contains(&slot) => continue,
                KIND_BLANK => Room::Blank(slot),
                _ if self.u64(nth, FULL_AT) <= now => Room::Full(slot),
                _ => continue,
            };
            count += 1;
            best = match (best, room) {
                (None | Some(Room::Full(_)), Room::Blank(_)) | (None, _) => Some(room),
                (best, _) => best,
            };
        }
        Ok((count, best))
    }

    fn check(&self, generation: u64, nth: usize) -> Result<(), Trouble> {
        let record = &self.bytes[nth * RECORD_BYTES..(nth + 1) * RECORD_BYTES];
        let length = self.name_length(nth);
        let whole = match self.byte(nth, KIND) {
            KIND_BLANK => self.u64(nth, 0) == 0 && length == 0,
            _ if length > MOST_NAME => false,
            _ => self.u64(nth, 0) == sum(generation, &record[8..NAME + length]),
        };
        if whole { Ok(()) } else { Err(Trouble::Damaged("a bucket in it is damaged".to_owned())) }
    }

    fn is_of(&self, nth: usize, name: &Name) -> bool {
        let at = nth * RECORD_BYTES + NAME;
        self.byte(nth, KIND) == name.kind
            && usize::from(self.byte(nth, LIMIT_LENGTH)) == name.limit
            && self.name_length(nth) == name.length
            && self.bytes[at..at + name.length] == *name.written()
    }

    fn name_length(&self, nth: usize) -> usize {
        let at = nth * RECORD_BYTES + NAME_LENGTH;
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn byte(&self, nth: usize, at: usize) -> u8 {
        self.bytes[nth * RECORD_BYTES + at]
    }

    fn u32(&self, nth: usize, at: usize) -> u32 {
        u32::from_le_bytes(core::array::from_fn(|n| self.byte(nth, at + n)))
    }

    fn u64(&self, nth: usize, at: usize) -> u64 {
        u64::from_le_bytes(core::array::from_fn(|n| self.byte(nth, at + n)))
    }
}

impl Slot {
    /// Writes a record here, in one write.
    pub(super) fn write(self, file: &PaceFile, generation: u64, name: &Name, kept: &Kept) -> Result<(), Trouble> {
        let mut bytes = [0; RECORD_BYTES];
        bytes[LAST..LAST + 8].copy_from_slice(&kept.bucket.last.to_le_bytes());
        bytes[FULL_AT..FULL_AT + 8].copy_from_slice(&kept.full_at.to_le_bytes());
        bytes[TOKENS..TOKENS + 4].copy_from_slice(&kept.bucket.tokens.to_le_bytes());
        bytes[NAME_LENGTH..NAME_LENGTH + 2].copy_from_slice(&(name.length as u16).to_le_bytes());
        bytes[LIMIT_LENGTH] = name.limit as u8;
        bytes[KIND] = name.kind;
        let end = NAME + name.length;
        bytes[NAME..end].copy_from_slice(name.written());
        let sum = sum(generation, &bytes[8..end]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        file.write(page_at(self.page) + (self.nth * RECORD_BYTES) as u64, &bytes[..end])
    }
}

impl Room {
    pub(super) fn slot(self) -> Slot {
        match self {
            Self::Blank(slot) | Self::Full(slot) => slot,
        }
    }
}

/// Evenly one of so many.
fn within(hash: u64, many: u32) -> u32 {
    ((u128::from(hash) * u128::from(many)) >> 64) as u32
}

fn page_at(number: u32) -> u64 {
    u64::from(number) * PAGE_BYTES as u64
}

/// The buckets of keys that have none are by themselves, after the header's page.
const PAGES_OF_OTHERS: u32 = 16;
const FIRST_PAGE: u32 = 1 + PAGES_OF_OTHERS;
/// 4 GiB.
const MOST_PAGES: u32 = 1 << 20;

// A record: what stands where.
const LAST: usize = 8;
const FULL_AT: usize = 16;
const TOKENS: usize = 24;
const NAME_LENGTH: usize = 28;
const LIMIT_LENGTH: usize = 30;
const KIND: usize = 31;
const NAME: usize = 32;
const MOST_LIMIT: usize = 64;
const MOST_KEY: usize = comity_store::guard::MOST_KEY_BYTES;
const MOST_NAME: usize = MOST_LIMIT + MOST_KEY;
const RECORD_BYTES: usize = NAME + MOST_NAME;
const RECORDS_A_PAGE: usize = PAGE_BYTES / RECORD_BYTES;
const READ_BYTES: usize = RECORDS_A_PAGE * RECORD_BYTES;
const KIND_BLANK: u8 = 0;
const KIND_KEY: u8 = 1;
const KIND_OTHERS: u8 = 2;
