//! A scope's record: its state, who is in flight, and whose turn it is.
//!
//! A record is kept as the bytes it has in the file; what changes is put in its place and noted, so that what did not
//! change is not written.

use core::num::NonZeroU32;
use std::time::Duration;

use comity_core::limits::{Cell, MEMORY, Part, SNAPSHOT_BYTES, Snapshot};
use comity_core::time::Instant;

use crate::sum::{Key, sum};

/// A record's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    bytes: [u8; RECORD_BYTES],
    changed: bool,
}

/// A member in a record: its slot and its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ref(u32);

/// What a member has in flight at a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Places: what each of its requests costs.
    pub(crate) places: u32,
    /// Its requests under limits that a caller brought, which count towards a learned concurrency alone (T5).
    pub(crate) guests: u32,
}

/// Who last made a scope slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slowed {
    pub(crate) by: u32,
    pub(crate) status: Option<u16>,
    pub(crate) at: Instant,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

impl Ref {
    pub(crate) fn new(slot: u16, incarnation: u16) -> Self {
        Self(u32::from(slot) << 16 | u32::from(incarnation))
    }

    pub(crate) fn slot(self) -> u16 {
        (self.0 >> 16) as u16
    }

    pub(crate) fn incarnation(self) -> u16 {
        self.0 as u16
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn of(number: u32) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }
}

impl Held {
    /// What a request of this part and cost has.
    pub(crate) fn by(part: Part, cost: u32) -> Self {
        match part {
            Part::Learned => Self { places: 0, guests: 1 },
            Part::Own | Part::Bound => Self { places: cost, guests: 0 },
        }
    }

    pub(crate) fn is_nothing(self) -> bool {
        self == Self::default()
    }

    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { places: self.places.saturating_add(other.places), guests: self.guests.saturating_add(other.guests) }
    }

    #[must_use]
    pub(crate) fn less(self, other: Self) -> Self {
        Self { places: self.places.saturating_sub(other.places), guests: self.guests.saturating_sub(other.guests) }
    }

    /// The scope has so much in flight.
    pub(crate) fn put_into(self, cell: &mut Cell) {
        cell.set_in_flight(self.places);
        cell.set_guests(self.guests);
    }

    fn to_number(self) -> u32 {
        self.guests.min(MOST_GUESTS) << PLACES_BITS | self.places.min(MOST_COUNTED)
    }

    fn of_number(number: u32) -> Self {
        Self { places: number & MOST_COUNTED, guests: number >> PLACES_BITS }
    }
}

impl Record {
    /// Room to read one into.
    pub(crate) fn blank() -> Self {
        Self { bytes: [0; RECORD_BYTES], changed: false }
    }

    /// A record of this name.
    pub(crate) fn make(&mut self, key: Key, name: &str) {
        self.bytes = [0; RECORD_BYTES];
        self.bytes[KIND] = KIND_RECORD;
        self.put_u64(KEY, key[0]);
        self.put_u64(KEY + 8, key[1]);
        let (stored, length) = stored_name(key, name);
        self.put(NAME, &stored);
        self.put(NAME_LENGTH, &(length as u16).to_le_bytes());
        self.put_state(&Snapshot::default());
        self.changed = false;
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; RECORD_BYTES] {
        self.changed = false;
        &mut self.bytes
    }

    /// The bytes with their checksum, to write.
    pub(crate) fn sealed(&mut self, generation: u64) -> &[u8; RECORD_BYTES] {
        let sum = sum(generation, &self.bytes[8..]);
        self.bytes[..8].copy_from_slice(&sum.to_le_bytes());
        self.changed = false;
        &self.bytes
    }

    /// Whether these bytes are a whole record of this file.
    pub(crate) fn is_whole(&self, generation: u64) -> bool {
        self.u64(0) == sum(generation, &self.bytes[8..]) && self.bytes[KIND] == KIND_RECORD
    }

    /// Whether nothing was ever written here.
    pub(crate) fn is_blank(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    pub(crate) fn key(&self) -> Key {
        [self.u64(KEY), self.u64(KEY + 8)]
    }

    pub(crate) fn name(&self) -> &str {
        let length = usize::from(self.u16(NAME_LENGTH)).min(RECORD_BYTES - NAME);
        core::str::from_utf8(&self.bytes[NAME..NAME + length]).unwrap_or_default()
    }

    /// Whether it is the record of this name.
    pub(crate) fn is_of(&self, key: Key, name: &str) -> bool {
        let (stored, length) = stored_name(key, name);
        self.key() == key && self.name().as_bytes() == &stored[..length]
    }

    /// The state; `None` where another version of the core wrote it.
    pub(crate) fn state(&self) -> Option<Snapshot> {
        let bytes: &[u8; SNAPSHOT_BYTES] = self.bytes[STATE..STATE + SNAPSHOT_BYTES].try_into().ok()?;
        Snapshot::from_bytes(bytes).ok()
    }

    pub(crate) fn put_state(&mut self, state: &Snapshot) {
        self.put(STATE, &state.to_bytes());
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_nanos(self.u64(INTERVAL))
    }

    pub(crate) fn put_interval(&mut self, interval: Duration) {
        self.put_u64(INTERVAL, comity_core::time::nanos(interval));
    }

    pub(crate) fn most_in_flight(&self) -> Option<u32> {
        Some(self.u32(MOST_IN_FLIGHT)).filter(|most| *most != 0)
    }

    pub(crate) fn put_most_in_flight(&mut self, most: Option<u32>) {
        self.put_u32(MOST_IN_FLIGHT, most.unwrap_or(0));
    }

    /// The page of its windows' log; 0 where it has none.
    pub(crate) fn log(&self) -> u32 {
        self.u32(LOG)
    }

    pub(crate) fn put_log(&mut self, page: u32) {
        self.put_u32(LOG, page);
    }

    /// Since when there is a place free, as far as anybody said.
    pub(crate) fn freed_at(&self) -> Instant {
        Instant::from_nanos(self.u64(FREED_AT))
    }

    pub(crate) fn put_freed_at(&mut self, at: Instant) {
        self.put_u64(FREED_AT, at.as_nanos());
    }

    /// The longest of its windows.
    pub(crate) fn longest_window(&self) -> Duration {
        Duration::from_nanos(self.u64(LONGEST_WINDOW))
    }

    pub(crate) fn put_longest_window(&mut self, window: Duration) {
        self.put_u64(LONGEST_WINDOW, comity_core::time::nanos(window));
    }

    /// When its clocks let the next request start.
    pub(crate) fn ready(&self) -> Instant {
        Instant::from_nanos(self.u64(READY))
    }

    pub(crate) fn put_ready(&mut self, at: Instant) {
        self.put_u64(READY, at.as_nanos());
    }

    /// Whose request is the trial after a pause.
    pub(crate) fn trial(&self) -> Option<Ref> {
        Ref::of(self.u32(TRIAL))
    }

    pub(crate) fn put_trial(&mut self, member: Option<Ref>) {
        self.put_u32(TRIAL, member.map_or(0, Ref::number));
    }

    /// How often it was forgotten on purpose.
    pub(crate) fn forgets(&self) -> u32 {
        self.u32(FORGETS)
    }

    pub(crate) fn put_forgets(&mut self, forgets: u32) {
        self.put_u32(FORGETS, forgets);
    }

    pub(crate) fn slowed(&self) -> Option<Slowed> {
        let at = Instant::from_nanos(self.u64(SLOWED + 8));
        (at != Instant::ZERO).then(|| Slowed {
            by: self.u32(SLOWED),
            status: Some(self.u16(SLOWED + 4)).filter(|status| *status != 0),
            at,
            from: Duration::from_nanos(self.u64(SLOWED + 16)),
            to: Duration::from_nanos(self.u64(SLOWED + 24)),
        })
    }

    pub(crate) fn put_slowed(&mut self, slowed: Option<Slowed>) {
        let mut bytes = [0; 32];
        if let Some(slowed) = slowed {
            bytes[..4].copy_from_slice(&slowed.by.to_le_bytes());
            bytes[4..6].copy_from_slice(&slowed.status.unwrap_or(0).to_le_bytes());
            bytes[8..16].copy_from_slice(&slowed.at.as_nanos().to_le_bytes());
            bytes[16..24].copy_from_slice(&comity_core::time::nanos(slowed.from).to_le_bytes());
            bytes[24..].copy_from_slice(&comity_core::time::nanos(slowed.to).to_le_bytes());
        }
        self.put(SLOWED, &bytes);
    }

    /// Whether one came lately under the kind of policy whose learned state is kept. Past that another may take its place.
    pub(crate) fn learned_counts(&self, now: Instant) -> bool {
        Instant::from_nanos(self.u64(LEARNED_AT)).after(MEMORY) > now
    }

    /// When one last came under the kind of policy whose learned state is kept.
    pub(crate) fn put_learned_at(&mut self, at: Instant) {
        self.put_u64(LEARNED_AT, at.as_nanos());
    }

    /// The longest interval that those who share it brought lately, and by whom.
    pub(crate) fn longest_interval(&self, now: Instant) -> Option<(Duration, Ref)> {
        let (nanos, by) = self.brought(LONGEST_INTERVAL, now)?;
        Some((Duration::from_nanos(nanos), by))
    }

    /// The least burst that those who share it brought lately, and by whom.
    pub(crate) fn least_burst(&self, now: Instant) -> Option<(NonZeroU32, Ref)> {
        let (burst, by) = self.brought(LEAST_BURST, now)?;
        Some((NonZeroU32::new(burst as u32)?, by))
    }

    /// Notes the spacing that a member brings. The strictest counts for a while after each of its claims.
    pub(crate) fn bring(&mut self, now: Instant, member: Ref, interval: Duration, burst: NonZeroU32) {
        let span = BROUGHT_FOR.max(interval.saturating_mul(3));
        let (longest, least) = (self.longest_interval(now), self.least_burst(now));
        if longest.is_none_or(|(longest, by)| interval >= longest || by == member) {
            self.put_brought(LONGEST_INTERVAL, comity_core::time::nanos(interval), now, span, member);
        }
        if least.is_none_or(|(least, by)| burst <= least || by == member) {
            self.put_brought(LEAST_BURST, u64::from(burst.get()), now, span, member);
        }
    }

    /// This member is gone: what it brought counts only until others that brought the same can have come.
    pub(crate) fn brings_no_more(&mut self, now: Instant, member: Ref) {
        let until = now.after(BROUGHT_FOR).as_nanos();
        for at in [LONGEST_INTERVAL, LEAST_BURST] {
            if self.u32(at + 16) == member.number() && self.u64(at + 8) > until {
                self.put_u64(at + 8, until);
            }
        }
    }

    fn brought(&self, at: usize, now: Instant) -> Option<(u64, Ref)> {
        let counts = self.u64(at + 8) > now.as_nanos();
        counts.then(|| Some((self.u64(at), Ref::of(self.u32(at + 16))?))).flatten()
    }

    /// What is renewed soon enough is not written at each claim.
    fn put_brought(&mut self, at: usize, value: u64, now: Instant, span: Duration, by: Ref) {
        let still = now.after(span / 4 * 3).as_nanos();
        if self.u64(at) != value || self.u64(at + 8) < still {
            self.put_u64(at, value);
            self.put_u64(at + 8, now.after(span).as_nanos());
            self.put_u32(at + 16, by.number());
        }
    }

    /// Who is in flight, with what it has.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Ref, Held)> {
        let held = |n: usize| Held::of_number(self.u32(PLACES + n * 8 + 4));
        (0..MOST_PLACES).filter_map(move |n| Some((Ref::of(self.u32(PLACES + n * 8))?, held(n))))
    }

    /// Puts what a member has in place of what it had. False where there is no room for another member.
    pub(crate) fn put_places(&mut self, member: Ref, held: Held) -> bool {
        let of = |n: usize| PLACES + n * 8;
        let own = (0..MOST_PLACES).find(|n| self.u32(of(*n)) == member.number());
        match (own, held.to_number()) {
            (None, 0) => true,
            (Some(n), 0) => {
                self.put_u64(of(n), 0);
                true
            }
            (own, count) => match own.or_else(|| (0..MOST_PLACES).find(|n| self.u32(of(*n)) == 0)) {
                Some(n) => {
                    self.put_u32(of(n), member.number());
                    self.put_u32(of(n) + 4, count);
                    true
                }
                None => false,
            },
        }
    }

    /// Whether a member's places can be counted here.
    pub(crate) fn has_room_for(&self, member: Ref) -> bool {
        (0..MOST_PLACES).any(|n| [0, member.number()].contains(&self.u32(PLACES + n * 8)))
    }

    /// Members that wait, in the order of their turns.
    pub(crate) fn turns(&self) -> impl Iterator<Item = Ref> {
        (0..MOST_TURNS).map_while(|n| Ref::of(self.u32(TURNS + n * 4)))
    }

    /// How many are before this one; all where it is not among them.
    pub(crate) fn ahead_of(&self, member: Ref) -> u32 {
        self.turns().take_while(|other| *other != member).count() as u32
    }

    /// Takes this one, and all before it, out of the line.
    pub(crate) fn pass(&mut self, member: Ref) {
        let after =
            if self.turns().any(|other| other == member) { self.ahead_of(member) as usize + 1 } else { usize::MAX };
        let mut left: [u32; MOST_TURNS] = [0; MOST_TURNS];
        for (place, other) in left.iter_mut().zip(self.turns().skip(after)) {
            *place = other.number();
        }
        self.put_turns(left);
    }

    /// Takes this one out of the line.
    pub(crate) fn leave(&mut self, member: Ref) {
        let mut left: [u32; MOST_TURNS] = [0; MOST_TURNS];
        for (place, other) in left.iter_mut().zip(self.turns().filter(|other| *other != member)) {
            *place = other.number();
        }
        self.put_turns(left);
    }

    /// Puts this one at the end of the line, where it is not in it and there is room.
    pub(crate) fn queue(&mut self, member: Ref) {
        let length = self.turns().count();
        if length < MOST_TURNS && self.ahead_of(member) as usize == length {
            self.put_u32(TURNS + length * 4, member.number());
        }
    }

    /// Whether dropping it loses nothing: an hour after its last start and pause nothing that was learned counts (decision 8).
    pub(crate) fn is_as_new(&self, now: Instant) -> bool {
        self.state().is_some_and(|state| {
            let rest = MEMORY.max(self.longest_window()).max(self.interval());
            state.crawl_delay.is_zero()
                && state.last_start.after(rest) <= now
                && state.pause.until().after(MEMORY) <= now
                && state.spacing.is_over(now, self.interval())
                && state.pace.is_over(now, self.interval())
                && state.quota.is_none_or(|quota| quota.resets <= now)
        })
    }

    fn put_turns(&mut self, turns: [u32; MOST_TURNS]) {
        for (n, turn) in turns.into_iter().enumerate() {
            self.put_u32(TURNS + n * 4, turn);
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let place = &mut self.bytes[at..at + bytes.len()];
        if place != bytes {
            place.copy_from_slice(bytes);
            self.changed = true;
        }
    }

    fn put_u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(core::array::from_fn(|n| self.bytes[at + n]))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(core::array::from_fn(|n| self.bytes[at + n]))
    }
}

/// Whether a page that begins with these bytes is a log.
pub(crate) fn begins_a_log(first: &Record) -> bool {
    first.bytes[KIND] == KIND_LOG
}

/// A name as a record keeps it: what is too long ends with its key.
fn stored_name(key: Key, name: &str) -> ([u8; RECORD_BYTES - NAME], usize) {
    let mut stored = [0; RECORD_BYTES - NAME];
    if name.len() <= stored.len() {
        stored[..name.len()].copy_from_slice(name.as_bytes());
        return (stored, name.len());
    }
    let mut cut = stored.len() - 34;
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    let short = format!("{}~{:016x}{:016x}", &name[..cut], key[0], key[1]);
    stored[..short.len()].copy_from_slice(short.as_bytes());
    (stored, short.len())
}

/// A record's length: four to a page, so that none crosses one.
pub(crate) const RECORD_BYTES: usize = 1024;
/// A page's length.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Records to a page.
pub(crate) const RECORDS_A_PAGE: u32 = (PAGE_BYTES / RECORD_BYTES) as u32;
/// Members that can be in flight at one scope at once.
const MOST_PLACES: usize = 40;
/// Of a member's number the low bits are its places, and the others its guests.
const PLACES_BITS: u32 = 20;
/// No host is asked a million requests at once by one process …
const MOST_COUNTED: u32 = (1 << PLACES_BITS) - 1;
/// … nor learns a concurrency of four thousand.
const MOST_GUESTS: u32 = u32::MAX >> PLACES_BITS;
/// Members that can stand in line at one scope.
const MOST_TURNS: usize = 24;
/// How long after its claims a process's spacing holds for all who share a scope; three intervals where those are longer.
const BROUGHT_FOR: Duration = Duration::from_secs(5);

// Where what stands. The checksum comes first, over all that follows it.
pub(crate) const KIND: usize = 8;
pub(crate) const NAME_LENGTH: usize = 10;
const FORGETS: usize = 12;
pub(crate) const KEY: usize = 16;
const STATE: usize = 32;
const INTERVAL: usize = STATE + SNAPSHOT_BYTES;
const MOST_IN_FLIGHT: usize = INTERVAL + 8;
const LOG: usize = MOST_IN_FLIGHT + 4;
const FREED_AT: usize = LOG + 4;
const LONGEST_WINDOW: usize = FREED_AT + 8;
const READY: usize = LONGEST_WINDOW + 8;
const TRIAL: usize = READY + 8;
const SLOWED: usize = TRIAL + 8;
const LEARNED_AT: usize = SLOWED + 32;
const LONGEST_INTERVAL: usize = LEARNED_AT + 8;
const LEAST_BURST: usize = LONGEST_INTERVAL + 20;
const PLACES: usize = LEAST_BURST + 20;
const TURNS: usize = PLACES + MOST_PLACES * 8;
const NAME: usize = TURNS + MOST_TURNS * 4;

const KIND_RECORD: u8 = 1;
pub(crate) const KIND_LOG: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::key;

    fn record(name: &str) -> Record {
        let mut record = Record::blank();
        record.make(key(name), name);
        record
    }

    fn held(places: u32, guests: u32) -> Held {
        Held { places, guests }
    }

    fn member(n: u16) -> Ref {
        Ref::new(n, 1)
    }

    #[test]
    fn a_damaged_record_is_seen() {
        let mut one = record("example.org");
        one.sealed(5);
        assert!(one.is_whole(5) && !one.is_whole(6));
        for at in [0, 9, 40, RECORD_BYTES - 1] {
            let mut other = one.clone();
            other.bytes_mut()[at] ^= 1;
            assert!(!other.is_whole(5), "byte {at}");
        }
        assert!(!Record::blank().is_whole(5) && Record::blank().is_blank());
    }

    #[test]
    fn long_names_are_told_apart() {
        let long = format!("example.org/{}", "ü".repeat(300));
        let other = format!("{long}x");
        assert!(record(&long).is_of(key(&long), &long));
        assert!(!record(&long).is_of(key(&other), &other));
        assert!(record(&long).name().starts_with("example.org/ü"));
        assert!(record("*").is_of(key("*"), "*"));
    }

    #[test]
    fn places_are_each_members_own() {
        let mut record = record("example.org");
        for n in 0..MOST_PLACES as u16 {
            assert!(record.put_places(member(n), held(2, 0)));
        }
        assert!(!record.put_places(member(99), held(1, 0)), "full");
        assert!(record.put_places(member(3), held(7, 5)) && record.put_places(member(4), held(0, 0)));
        assert!(record.put_places(member(99), held(0, 1)), "a guest is counted as well");
        let all = record.places().fold(Held::default(), |all, (_, held)| all.and(held));
        assert_eq!(all, held(2 * 38 + 7, 6));
    }

    #[test]
    fn more_than_can_be_counted_is_the_most_that_can() {
        for (places, guests) in [(0, 0), (1, 0), (0, 1), (MOST_COUNTED, MOST_GUESTS)] {
            assert_eq!(Held::of_number(held(places, guests).to_number()), held(places, guests));
        }
        assert_eq!(Held::of_number(held(u32::MAX, u32::MAX).to_number()), held(MOST_COUNTED, MOST_GUESTS));
    }

    #[test]
    fn the_line_keeps_its_order() {
        let mut record = record("example.org");
        for n in [5, 6, 7, 5] {
            record.queue(member(n));
        }
        let line = |record: &Record| record.turns().map(Ref::slot).collect::<Vec<_>>();
        assert_eq!(line(&record), [5, 6, 7]);
        assert_eq!((record.ahead_of(member(7)), record.ahead_of(member(9))), (2, 3));
        record.pass(member(6));
        assert_eq!(line(&record), [7]);
        record.queue(member(5));
        record.leave(member(7));
        assert_eq!(line(&record), [5]);
        record.pass(member(8));
        assert_eq!(line(&record), [0u16; 0], "one that was not in line passes all");
    }

    #[test]
    fn nothing_is_noted_as_changed_that_is_not() {
        let mut record = record("example.org");
        record.put_interval(Duration::ZERO);
        record.put_places(member(1), Held::default());
        record.leave(member(1));
        assert!(!record.is_changed());
        record.queue(member(1));
        assert!(record.is_changed());
    }
}
