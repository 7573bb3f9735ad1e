//! A part of the table, under one lock.
//!
//! Every bucket stands once in a heap, under an instant at which it was going to be full. Charges since then have only made
//! that later, so a heap whose first is not full has none that is. A stale first is put back under its real instant; a take
//! makes one bucket stale at most, so what is done for a request is bounded, and a full bucket is found where there is one.

use core::cmp::Reverse;
use core::hash::{BuildHasher, Hasher};
use std::collections::BinaryHeap;

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
    /// The limit's name, a zero, and the key.
    name: Box<[u8]>,
    bucket: Bucket,
    full_at: u64,
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

    pub(super) fn insert(&mut self, hasher: &FixedState, limit: &str, key: Key<'_>, bucket: Bucket, full_at: u64) {
        let name = [limit.as_bytes(), &[0], key.as_bytes()].concat().into_boxed_slice();
        let hash = hash(hasher, limit.as_bytes(), key.as_bytes());
        let entry = Some(Entry { name, bucket, full_at });
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
        let rehash = |slot: &u32| entries[*slot as usize].as_ref().map_or(0, |entry| entry.hash(hasher));
        self.index.insert_unique(hash, slot, rehash);
    }

    /// Drops full buckets until there are fewer than `most`, and some more where it is cheap. Whether there are.
    ///
    /// Those in `kept` are in use.
    pub(super) fn make_room(&mut self, now: u64, hasher: &FixedState, most: usize, kept: &[Option<Slot>]) -> bool {
        for step in 0..MOST_STEPS {
            if step >= EASY_STEPS && self.len() < most {
                break;
            }
            let Some(Reverse((due, slot))) = self.full.peek().copied() else { break };
            if due > now {
                break;
            }
            self.full.pop();
            let full_at = self.entry(slot).map_or(0, |entry| entry.full_at);
            if full_at > now || kept.contains(&Some(Slot(slot))) {
                self.full.push(Reverse((full_at.max(now + 1), slot)));
            } else {
                self.drop_full(slot, hasher);
            }
        }
        self.len() < most
    }

    fn drop_full(&mut self, slot: u32, hasher: &FixedState) {
        let Some(entry) = self.entries[slot as usize].take() else { return };
        if let Ok(indexed) = self.index.find_entry(entry.hash(hasher), |other| *other == slot) {
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
        let (limit, key) = (limit.as_bytes(), key.as_bytes());
        self.name.len() == limit.len() + 1 + key.len()
            && self.name.starts_with(limit)
            && self.name[limit.len()] == 0
            && self.name.ends_with(key)
    }

    fn hash(&self, hasher: &FixedState) -> u64 {
        // No name of a limit has a zero in it.
        let at = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        hash(hasher, &self.name[..at], self.name.get(at + 1..).unwrap_or_default())
    }
}

pub(super) fn hash(hasher: &FixedState, limit: &[u8], key: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(limit);
    hasher.write_u8(0);
    hasher.write(key);
    hasher.finish()
}

/// Looked at for a new key at most; and at least, so that a table whose clients have gone shrinks as others come.
const MOST_STEPS: usize = 16;
const EASY_STEPS: usize = 2;
