//! From a name to its record: a table of record numbers with open addressing, and where new records go.

use comity_core::time::Instant;

use crate::file::PaceFile;
use crate::header::Header;
use crate::record::{PAGE_BYTES, RECORD_BYTES, RECORDS_A_PAGE, Record, Ref, begins_a_log};
use crate::sum::Key;
use crate::trouble::Trouble;

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The record of this name; it was read.
    Record(u32),
    /// A record that is not whole, and was this name's as far as can be told.
    Damaged(u32),
    /// There is none.
    Nowhere,
}

/// Finds a name's record and reads it.
pub(crate) fn find(
    file: &PaceFile,
    generation: u64,
    key: Key,
    name: &str,
    into: &mut Record,
) -> Result<Place, Trouble> {
    let mut damaged = None;
    let mut probe = Probe::from(home(tag(key)));
    while let Some((_, entry)) = probe.next(file)? {
        let Some((number, found)) = entry else { break };
        if found != tag(key) {
            continue;
        }
        read(file, number, into)?;
        if into.is_whole(generation) {
            if into.is_of(key, name) {
                return Ok(Place::Record(number));
            }
        } else {
            damaged = Some(number);
        }
    }
    Ok(damaged.map_or(Place::Nowhere, Place::Damaged))
}

/// Enters a record under its key.
pub(crate) fn insert(file: &PaceFile, key: Key, number: u32) -> Result<(), Trouble> {
    let mut probe = Probe::from(home(tag(key)));
    while let Some((at, entry)) = probe.next(file)? {
        if entry.is_none() {
            return write(file, at, Some((number, tag(key))));
        }
    }
    Err(Trouble::Damaged("its index is full".to_owned()))
}

/// Takes a record out. Those behind it move up, each copied before its old place is freed: whoever dies between leaves an
/// entry twice, which nothing minds.
fn remove(file: &PaceFile, key: Key, number: u32) -> Result<(), Trouble> {
    let mut probe = Probe::from(home(tag(key)));
    let mut hole = None;
    while let Some((at, entry)) = probe.next(file)? {
        let Some((other, found)) = entry else { break };
        match hole {
            None if other == number => hole = Some(at),
            None => {}
            Some(free) => {
                let from_home = |to: u32| to.wrapping_sub(home(found)) & (ENTRIES - 1);
                if from_home(at) > from_home(free) {
                    write(file, free, entry)?;
                    hole = Some(at);
                }
            }
        }
    }
    hole.map_or(Ok(()), |at| write(file, at, None))
}

/// A slot for a new record: one whose scope is as new, or one never used. `None` where all still matter. Its old entry is
/// gone; the log's page it had is given along.
pub(crate) fn allocate(
    file: &PaceFile,
    header: &mut Header,
    now: Instant,
    mut lives: impl FnMut(Ref) -> bool,
) -> Result<Option<(u32, u32)>, Trouble> {
    let pages = header.used.div_ceil(RECORDS_A_PAGE);
    let full = header.used >= MOST_RECORDS;
    let looks = if full { PAGES_LOOKED_AT_WHEN_FULL } else { 1 };
    if header.used >= REUSE_FROM {
        for _ in 0..looks.min(pages) {
            header.hand = (header.hand + 1) % pages;
            if let Some(found) = reuse(file, header, now, &mut lives)? {
                return Ok(Some(found));
            }
        }
    }
    if full {
        return Ok(None);
    }
    let number = header.used;
    header.used += 1;
    grow(file, header)?;
    Ok(Some((number, 0)))
}

/// A page for a log of windows.
pub(crate) fn allocate_page(file: &PaceFile, header: &mut Header) -> Result<Option<u32>, Trouble> {
    let page = header.used.div_ceil(RECORDS_A_PAGE);
    if header.used >= MOST_RECORDS {
        return Ok(None);
    }
    header.used = (page + 1) * RECORDS_A_PAGE;
    grow(file, header)?;
    // So that nobody takes the page for free records.
    let mut first = Record::blank();
    first.bytes_mut()[8] = 2;
    file.write(record_at(page * RECORDS_A_PAGE), first.bytes_mut())?;
    Ok(Some(page))
}

pub(crate) fn read(file: &PaceFile, number: u32, into: &mut Record) -> Result<(), Trouble> {
    if number >= MOST_RECORDS + RECORDS_A_PAGE {
        return Err(Trouble::Damaged("its index leads nowhere".to_owned()));
    }
    file.read(record_at(number), into.bytes_mut())
}

/// Where a record stands.
pub(crate) fn record_at(number: u32) -> u64 {
    RECORDS_AT + u64::from(number) * RECORD_BYTES as u64
}

/// The length a file has at least when so many slots are used.
pub(crate) fn least_length(used: u32) -> u64 {
    record_at(used.next_multiple_of(GROW_BY))
}

/// The length comes before the count, so that the count is never ahead of the file.
fn grow(file: &PaceFile, header: &Header) -> Result<(), Trouble> {
    if file.len()? < least_length(header.used) {
        file.set_len(least_length(header.used))?;
    }
    header.write(file)
}

/// Looks for a slot to use again on the hand's page.
fn reuse(
    file: &PaceFile,
    header: &Header,
    now: Instant,
    lives: &mut impl FnMut(Ref) -> bool,
) -> Result<Option<(u32, u32)>, Trouble> {
    let first = header.hand * RECORDS_A_PAGE;
    let mut page = [0; PAGE_BYTES];
    file.read(record_at(first), &mut page)?;
    let mut record = Record::blank();
    for (number, bytes) in (first..header.used.min(first + RECORDS_A_PAGE)).zip(page.chunks_exact(RECORD_BYTES)) {
        record.bytes_mut().copy_from_slice(bytes);
        if number == first && begins_a_log(&record) {
            return Ok(None);
        }
        if record.is_blank() {
            return Ok(Some((number, 0)));
        }
        if record.is_whole(header.generation)
            && record.is_as_new(now)
            && !record.places().any(|(member, _)| lives(member))
        {
            remove(file, record.key(), number)?;
            return Ok(Some((number, record.log())));
        }
    }
    Ok(None)
}

/// A walk through the table from an entry's home.
struct Probe {
    at: u32,
    left: u32,
    block: [u8; BLOCK],
    fresh: bool,
}

impl Probe {
    fn from(home: u32) -> Self {
        Self { at: home, left: ENTRIES, block: [0; BLOCK], fresh: false }
    }

    /// The next entry and its place; the entry is `None` where the place is free.
    fn next(&mut self, file: &PaceFile) -> Result<Option<(u32, Option<Entry>)>, Trouble> {
        if self.left == 0 {
            return Ok(None);
        }
        let within = self.at as usize % ENTRIES_A_BLOCK;
        if !self.fresh || within == 0 {
            file.read(INDEX_AT + u64::from(self.at - within as u32) * ENTRY_BYTES as u64, &mut self.block)?;
            self.fresh = true;
        }
        let bytes = &self.block[within * ENTRY_BYTES..];
        let half = |at: usize| u32::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        let entry = half(0).checked_sub(1).map(|number| (number, half(4)));
        let at = self.at;
        self.at = (self.at + 1) % ENTRIES;
        self.left -= 1;
        Ok(Some((at, entry)))
    }
}

fn write(file: &PaceFile, at: u32, entry: Option<Entry>) -> Result<(), Trouble> {
    let mut bytes = [0; ENTRY_BYTES];
    if let Some((number, tag)) = entry {
        bytes[..4].copy_from_slice(&(number + 1).to_le_bytes());
        bytes[4..].copy_from_slice(&tag.to_le_bytes());
    }
    file.write(INDEX_AT + u64::from(at) * ENTRY_BYTES as u64, &bytes)
}

fn tag(key: Key) -> u32 {
    key[0] as u32
}

fn home(tag: u32) -> u32 {
    tag % ENTRIES
}

/// A record's number and a part of its key.
type Entry = (u32, u32);

const INDEX_AT: u64 = PAGE_BYTES as u64;
/// Entries of the table. The file is sparse: what is not used takes no room.
const ENTRIES: u32 = 1 << 20;
const ENTRY_BYTES: usize = 8;
const ENTRIES_A_BLOCK: usize = 16;
const BLOCK: usize = ENTRIES_A_BLOCK * ENTRY_BYTES;
const RECORDS_AT: u64 = INDEX_AT + ENTRIES as u64 * ENTRY_BYTES as u64;
/// Slots there are at most: an open table needs some air.
const MOST_RECORDS: u32 = ENTRIES / 8 * 7;
/// The file grows by so many slots at once.
const GROW_BY: u32 = 256;
/// Fewer slots than these are not looked through for one to use again …
const REUSE_FROM: u32 = 1024;
/// … and so many pages are when there is no other.
const PAGES_LOOKED_AT_WHEN_FULL: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Boot;
    use crate::sum::key;

    fn empty() -> (PaceFile, Header) {
        let file = PaceFile::new(tempfile::tempfile().unwrap()).unwrap();
        let header = Header::new(crate::header::Holds::Scopes, 5, false, None, Boot { id: 1, namespace: 1 }, 0, 0);
        file.set_len(least_length(0)).unwrap();
        (file, header)
    }

    fn add(file: &PaceFile, header: &mut Header, name: &str) -> u32 {
        // A temporary file has no name, which `grow` would take for a deleted one.
        let number = header.used;
        header.used += 1;
        file.set_len(least_length(header.used)).unwrap();
        let mut record = Record::blank();
        record.make(key(name), name);
        file.write(record_at(number), record.sealed(header.generation)).unwrap();
        insert(file, key(name), number).unwrap();
        number
    }

    fn found(file: &PaceFile, name: &str) -> Place {
        find(file, 5, key(name), name, &mut Record::blank()).unwrap()
    }

    #[test]
    fn names_are_found_and_others_are_not() {
        let (file, mut header) = empty();
        for n in 0..500 {
            add(&file, &mut header, &format!("h{n}"));
        }
        for n in 0..500 {
            assert_eq!(found(&file, &format!("h{n}")), Place::Record(n));
        }
        assert_eq!(found(&file, "other"), Place::Nowhere);
    }

    #[test]
    fn a_removed_name_hides_nobody_behind_it() {
        let (file, mut header) = empty();
        // Names with one home, wrapping around the table's end.
        let crowd: Vec<u32> = (0..6).collect();
        for number in &crowd {
            let name = format!("n{number}");
            add(&file, &mut header, &name);
        }
        let entry = |n: u32| (100 + n, ENTRIES - 2 + if n == 3 { 1 } else { 0 });
        for n in 0..6 {
            let mut probe = Probe::from(home(entry(n).1));
            while let Some((at, found)) = probe.next(&file).unwrap() {
                if found.is_none() {
                    write(&file, at, Some(entry(n))).unwrap();
                    break;
                }
            }
        }
        for gone in [2, 0, 5, 3] {
            remove(&file, [u64::from(entry(gone).1), 0], entry(gone).0).unwrap();
        }
        let reached = |n: u32| {
            let mut probe = Probe::from(home(entry(n).1));
            while let Some((_, Some(found))) = probe.next(&file).unwrap() {
                if found == entry(n) {
                    return true;
                }
            }
            false
        };
        assert_eq!((0..6).filter(|n| reached(*n)).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn a_damaged_record_is_found_as_such() {
        let (file, mut header) = empty();
        let number = add(&file, &mut header, "example.org");
        file.write(record_at(number) + 100, &[0xff]).unwrap();
        assert_eq!(found(&file, "example.org"), Place::Damaged(number));
    }
}
