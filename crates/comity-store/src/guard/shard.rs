//! A part of the table, under one lock.
//!
//! Every bucket stands once in a heap, under an instant at which it was going to be full. Charges since then have only made
//! that later, so a heap whose first is not full has none that is. A stale first is put back under its real instant; a take
//! makes one bucket stale at most, so what is done for a request is bounded, and a full bucket is found where there is one.

use core::cmp::Reverse;
use core::hash::{BuildHasher, Hasher};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use comity_core::guard::Bucket;
use foldhash::quality::FixedState;
use hashbrown::HashTable;

use super::Key;

/// The buckets of some of the keys.
#[derive(Debug, Default)]
pub(super) struct Shard {
    index: HashTable<u32>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// By when each was going to be full, in microseconds.
    full: BinaryHeap<Reverse<(u64, u32)>>,
    /// Full buckets that were dropped.
    pub(super) dropped: u64,
}

#[derive(Debug)]
struct Entry {
    name: Name,
    hash: u64,
    bucket: Bucket,
    full_at: u64,
}

/// The limit's name, a zero, and the key. Where that is short, as with addresses, it stands beside its bucket: a look
/// into memory less for each request.
#[derive(Debug)]
enum Name {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

/// Where a bucket is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn find(&self, hash: u64, limit: &str, key: Key<'_>) -> Option<(Slot, Bucket)> {
        let is_it = |slot: &u32| self.entry(*slot).is_some_and(|entry| entry.is_of(limit, key));
        let slot = *self.index.find(hash, is_it)?;
        self.entry(slot).map(|entry| (Slot(slot), entry.bucket))
    }

    /// Keeps what became of a bucket.
    pub(super) fn set(&mut self, Slot(slot): Slot, bucket: Bucket, full_at: u64) {
        if let Some(Some(entry)) = self.entries.get_mut(slot as usize) {
            (entry.bucket, entry.full_at) = (bucket, full_at);
        }
    }

    /// A key's bucket, and when it is full: to be changed in one go.
    pub(super) fn find_mut(&mut self, hash: u64, limit: &str, key: Key<'_>) -> Option<(&mut Bucket, &mut u64)> {
        let Slot(slot) = self.find(hash, limit, key)?.0;
        let entry = self.entries.get_mut(slot as usize)?.as_mut()?;
        Some((&mut entry.bucket, &mut entry.full_at))
    }

    pub(super) fn insert(&mut self, hash: u64, limit: &str, key: Key<'_>, bucket: Bucket, full_at: u64) {
        let entry = Some(Entry { name: Name::of(limit, key), hash, bucket, full_at });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                // The bound on keys is one on slots, and it is a u32.
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.full.push(Reverse((full_at, slot)));
        let entries = &self.entries;
        let rehash = |slot: &u32| entries[*slot as usize].as_ref().map_or(0, |entry| entry.hash);
        self.index.insert_unique(hash, slot, rehash);
    }

    /// Drops full buckets until there are fewer than `most`, and some more where it is cheap. Whether there are.
    ///
    /// Those in `kept` are in use.
    pub(super) fn make_room(&mut self, now: u64, most: usize, kept: &[Option<Slot>]) -> bool {
        for step in 0..MOST_STEPS {
            if step >= EASY_STEPS && self.len() < most {
                break;
            }
            let Some(mut first) = self.full.peek_mut() else { break };
            let Reverse((due, slot)) = *first;
            if due > now {
                break;
            }
            let full_at = self.entries.get(slot as usize).and_then(Option::as_ref).map_or(0, |entry| entry.full_at);
            if full_at > now || kept.contains(&Some(Slot(slot))) {
                *first = Reverse((full_at.max(now + 1), slot));
            } else {
                PeekMut::pop(first);
                self.drop_full(slot);
            }
        }
        self.len() < most
    }

    fn drop_full(&mut self, slot: u32) {
        let Some(entry) = self.entries[slot as usize].take() else { return };
        if let Ok(indexed) = self.index.find_entry(entry.hash, |other| *other == slot) {
            indexed.remove();
        }
        self.free.push(slot);
        self.dropped += 1;
    }

    fn entry(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }
}

impl Entry {
    fn is_of(&self, limit: &str, key: Key<'_>) -> bool {
        let (name, limit, key) = (self.name.as_bytes(), limit.as_bytes(), key.as_bytes());
        name.len() == limit.len() + 1 + key.len()
            && name.starts_with(limit)
            && name[limit.len()] == 0
            && name.ends_with(key)
    }
}

impl Name {
    fn of(limit: &str, key: Key<'_>) -> Self {
        let parts = [limit.as_bytes(), &[0], key.as_bytes()];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > SHORT {
            return Self::Long(parts.concat().into_boxed_slice());
        }
        let mut bytes = [0; SHORT];
        for (free, byte) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *free = *byte;
        }
        Self::Short { length: length as u8, bytes }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

#[inline]
pub(super) fn hash(hasher: &FixedState, limit: &[u8], key: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(limit);
    hasher.write_u8(0);
    hasher.write(key);
    hasher.finish()
}

/// An address and a limit's name of twelve letters; with its bucket it fills a line of a processor's cache.
const SHORT: usize = 30;

/// Looked at for a new key at most; and at least, so that a table whose clients have gone shrinks as others come.
const MOST_STEPS: usize = 16;
const EASY_STEPS: usize = 2;
