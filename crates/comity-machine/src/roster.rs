//! The processes that share a store, and which of them live.
//!
//! A member holds the lock of a file of its own for as long as it lives: the kernel frees it the instant the process is
//! killed. In it stands its last sign of life, so that one that was stopped loses its places after the lease.

use std::fs::{File, OpenOptions, TryLockError};
use std::num::NonZeroU32;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use comity_core::time::Instant;

use crate::clock::{self, Boot};
use crate::file::may_write;
use crate::place::{Place, cannot};
use crate::record::Ref;
use crate::trouble::Trouble;
use crate::trust::open_itself;

/// The members' files, as one of them sees them.
#[derive(Debug)]
pub(crate) struct Roster {
    place: Place,
    boot: Boot,
    lease: Duration,
    me: Option<Arc<Own>>,
    /// Members whose files are missing, and since when: they are given up after a lease.
    missing: Vec<(u16, u64)>,
}

/// This process's own file.
#[derive(Debug)]
pub(crate) struct Own {
    file: File,
    pub(crate) me: Ref,
    last_beat: AtomicU64,
}

/// What a member's file says.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) member: Ref,
    pub(crate) name: String,
    pub(crate) joined: Instant,
    /// Time since boot of its last sign of life.
    pub(crate) beat: u64,
    pub(crate) base: u64,
    /// The generation of the file that it has told its places.
    told: u64,
    pub(crate) lives: bool,
    /// It lost the store lately, and goes on with a part of every limit.
    pub(crate) is_alone: bool,
}

/// Those that share a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) members: NonZeroU32,
    /// Which of them this process is, from 0.
    pub(crate) rank: u32,
    /// Whether another of them lost the store.
    pub(crate) any_alone: bool,
}

impl Roster {
    pub(crate) fn new(place: Place, boot: Boot, lease: Duration) -> Self {
        Self { place, boot, lease, me: None, missing: Vec::new() }
    }

    /// Joins, or joins again: under a slot that nobody holds and an incarnation it never had.
    pub(crate) fn join(&mut self, base: u64, joined: Instant) -> Result<(), Trouble> {
        self.me = None;
        self.place.make_members()?;
        for slot in 0..MOST_SLOTS {
            let path = self.place.members.join(slot.to_string());
            let file = match self.place.open(&path) {
                Ok(file) => file,
                // Another user's.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && path.exists() => continue,
                Err(error) => return Err(cannot("open", &path, &error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            let mut known = [0; MEMBER_BYTES];
            let before =
                if file.read_at(&mut known, 0)? < MEMBER_BYTES { None } else { Some(word(&known, INCARNATION)) };
            // In a new file it starts anywhere, so that no record remembers another by the same number.
            let before = before.unwrap_or_else(|| clock::since_boot() ^ u64::from(std::process::id()) << 5);
            let incarnation = (before as u16).wrapping_add(1).max(1);
            let name = own_name();
            let mut bytes = [0; MEMBER_BYTES];
            for (at, value) in [
                (INCARNATION, u64::from(incarnation)),
                (BASE, base),
                (BOOT, self.boot.id),
                (JOINED, joined.as_nanos()),
                (BEAT, clock::since_boot()),
                (NAME_LENGTH, name.len() as u64),
            ] {
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            bytes[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
            may_write()?;
            file.write_all_at(&bytes, 0)?;
            let last_beat = AtomicU64::new(clock::since_boot());
            self.me = Some(Arc::new(Own { file, me: Ref::new(slot, incarnation), last_beat }));
            return Ok(());
        }
        Err(Trouble::Unusable(format!("{} processes share {} already", MOST_SLOTS, self.place.path.display())))
    }

    /// This process.
    pub(crate) fn me(&self) -> Option<Ref> {
        self.me.as_ref().map(|own| own.me)
    }

    pub(crate) fn own(&self) -> Option<&Arc<Own>> {
        self.me.as_ref()
    }

    /// Whether others have given this process up, or its file is gone.
    pub(crate) fn was_given_up(&self) -> bool {
        self.me.as_ref().is_none_or(|own| {
            let mut ended = [0; 8];
            let ended = own.file.read_exact_at(&mut ended, ENDED as u64).map(|()| u64::from_le_bytes(ended));
            !own.is_named() || !ended.is_ok_and(|ended| ended != u64::from(own.me.incarnation()))
        })
    }

    /// Whether this member lives. One that does not is ended, so that it notices should it wake.
    pub(crate) fn lives(&mut self, member: Ref) -> bool {
        if self.me() == Some(member) {
            return true;
        }
        let Some(seen) = self.look(member.slot()) else { return self.is_missed(member.slot()) };
        self.missing.retain(|(slot, _)| *slot != member.slot());
        if seen.member != member {
            return false;
        }
        if !seen.lives {
            self.end(member);
        }
        seen.lives
    }

    /// All that live, in the order of their slots.
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.read().unwrap_or_default()
    }

    /// The same; `None` where it cannot be read.
    fn read(&self) -> Option<Vec<Seen>> {
        let entries = self.place.members.read_dir().ok()?;
        let slots = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u16>().ok());
        let mut all: Vec<Seen> = slots.filter_map(|slot| self.look(slot)).filter(|seen| seen.lives).collect();
        all.sort_unstable_by_key(|seen| seen.member.slot());
        Some(all)
    }

    /// Counts those that live; `None` where that cannot be told, or this process is not among them.
    pub(crate) fn count(&self) -> Option<Count> {
        let all = self.read()?;
        let rank = all.iter().position(|seen| Some(seen.member) == self.me())?;
        let any_alone = all.iter().enumerate().any(|(n, seen)| n != rank && seen.is_alone);
        Some(Count { members: NonZeroU32::new(u32::try_from(all.len()).ok()?)?, rank: rank as u32, any_alone })
    }

    /// Whether others live.
    pub(crate) fn has_others(&self) -> bool {
        self.all().iter().any(|seen| Some(seen.member) != self.me())
    }

    /// The base of the clock that others run on.
    pub(crate) fn base(&self) -> Option<u64> {
        self.all().iter().map(|seen| seen.base).max()
    }

    /// Notes that this process has told the file of this generation its places.
    pub(crate) fn tell(&self, generation: u64) -> Result<(), Trouble> {
        match &self.me {
            Some(own) => {
                may_write()?;
                Ok(own.file.write_all_at(&generation.to_le_bytes(), TOLD as u64)?)
            }
            None => Ok(()),
        }
    }

    /// Whether all that live have.
    pub(crate) fn all_told(&self, generation: u64) -> bool {
        self.all().iter().all(|seen| seen.told == generation || Some(seen.member) == self.me())
    }

    /// A member's name, whether it lives or not.
    pub(crate) fn name(&self, member: Ref) -> String {
        match self.look(member.slot()) {
            Some(seen) if seen.member == member => seen.name,
            _ => format!("member {}.{}", member.slot(), member.incarnation()),
        }
    }

    /// A member leaves of itself, or is given up by others.
    pub(crate) fn end(&self, member: Ref) {
        if may_write().is_err() {
            return;
        }
        let ended = u64::from(member.incarnation()).to_le_bytes();
        let path = self.place.members.join(member.slot().to_string());
        let wrote =
            open_itself(OpenOptions::new().write(true), &path).and_then(|file| file.write_all_at(&ended, ENDED as u64));
        if let Err(error) = wrote {
            tracing::debug!("a member that is gone was not told so: {error}");
        }
    }

    /// Leaves: the slot is free at once.
    pub(crate) fn leave(&mut self) {
        if let Some(own) = self.me.take() {
            self.end(own.me);
            if let Err(error) = own.file.unlock() {
                tracing::debug!("a member's lock was not given back: {error}");
            }
        }
    }

    fn look(&self, slot: u16) -> Option<Seen> {
        let path = self.place.members.join(slot.to_string());
        let file = open_itself(OpenOptions::new().read(true), &path).ok()?;
        let mut bytes = [0; MEMBER_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let incarnation = word(&bytes, INCARNATION) as u16;
        let member = Ref::new(slot, incarnation);
        let length = (word(&bytes, NAME_LENGTH) as usize).min(MEMBER_BYTES - NAME);
        let beat = word(&bytes, BEAT);
        let now = clock::since_boot();
        let fresh = now.saturating_sub(beat) <= comity_core::time::nanos(self.lease);
        let alone = word(&bytes, ALONE);
        let ended = word(&bytes, ENDED) == u64::from(incarnation);
        // The cheap signs first; a lock that can be had is nobody's.
        let lives = self.me() == Some(member)
            || fresh
                && !ended
                && word(&bytes, BOOT) == self.boot.id
                && matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        Some(Seen {
            member,
            name: String::from_utf8_lossy(&bytes[NAME..NAME + length]).into_owned(),
            joined: Instant::from_nanos(word(&bytes, JOINED)),
            beat,
            base: word(&bytes, BASE),
            told: word(&bytes, TOLD),
            lives,
            is_alone: alone != 0 && now.saturating_sub(alone) <= comity_core::time::nanos(ALONE_FOR),
        })
    }

    /// A member whose file is missing may live: it makes the file again when it notices. It is given up after a lease.
    fn is_missed(&mut self, slot: u16) -> bool {
        let now = clock::since_boot();
        let since = match self.missing.iter().find(|(missing, _)| *missing == slot) {
            Some((_, since)) => *since,
            None => {
                self.missing.push((slot, now));
                now
            }
        };
        now.saturating_sub(since) <= comity_core::time::nanos(self.lease)
    }
}

impl Own {
    /// A sign of life. True where the last one is so long ago that others may have given this process up.
    pub(crate) fn beat(&self, lease: Duration) -> bool {
        let now = clock::since_boot();
        let since = now.saturating_sub(self.last_beat.swap(now, Ordering::Relaxed));
        let wrote = self.file.write_all_at(&now.to_le_bytes(), BEAT as u64);
        wrote.is_err() || since > comity_core::time::nanos(lease / 2)
    }

    /// Says that this process lost the store, or found it again.
    pub(crate) fn say_alone(&self, alone: bool) -> Result<(), Trouble> {
        may_write()?;
        let since_boot = if alone { clock::since_boot() } else { 0 };
        Ok(self.file.write_all_at(&since_boot.to_le_bytes(), ALONE as u64)?)
    }

    /// Whether the file still has its name.
    pub(crate) fn is_named(&self) -> bool {
        self.file.metadata().is_ok_and(|known| known.nlink() > 0)
    }

    /// How long ago the last one was.
    pub(crate) fn since_beat(&self) -> Duration {
        Duration::from_nanos(clock::since_boot().saturating_sub(self.last_beat.load(Ordering::Relaxed)))
    }

    /// As if this process had stood still since then.
    #[cfg(test)]
    pub(crate) fn age(&self, span: Duration) {
        let then = clock::since_boot().saturating_sub(comity_core::time::nanos(span));
        self.last_beat.store(then, Ordering::Relaxed);
        self.file.write_all_at(&then.to_le_bytes(), BEAT as u64).unwrap();
    }
}

/// `name-of-the-machine:process-id`, and a number where this process is several members.
fn own_name() -> String {
    static JOINED: AtomicU32 = AtomicU32::new(0);
    let uname = rustix::system::uname();
    let machine: String = uname.nodename().to_string_lossy().chars().take(64).collect();
    let id = std::process::id();
    let name = match JOINED.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{machine}:{id}"),
        n => format!("{machine}:{id}.{}", n + 1),
    };
    name.chars().take(MEMBER_BYTES - NAME).filter(char::is_ascii).collect()
}

fn word(bytes: &[u8; MEMBER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]))
}

/// So long after it said so others count on a member's being alone. It says so again as long as it asks for anything.
const ALONE_FOR: Duration = Duration::from_secs(60);
/// More processes than share a machine's pace.
const MOST_SLOTS: u16 = 4096;

// Where what stands in a member's file. Others write where it ended, and nothing else.
const INCARNATION: usize = 0;
const BASE: usize = 8;
const BOOT: usize = 16;
const JOINED: usize = 24;
const TOLD: usize = 32;
const BEAT: usize = 40;
const ENDED: usize = 48;
const NAME_LENGTH: usize = 56;
const ALONE: usize = 64;
const NAME: usize = 72;
const MEMBER_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);
    const BOOT: Boot = Boot { id: 1, namespace: 1 };

    fn rosters(count: usize) -> (tempfile::TempDir, Vec<Roster>) {
        let there = tempfile::tempdir().unwrap();
        let place = Place::prepare(&there.path().join("pace")).unwrap();
        let join = |_| {
            let mut roster = Roster::new(place.clone(), BOOT, LEASE);
            roster.join(7, Instant::from_millis(1)).unwrap();
            roster
        };
        (there, (0..count).map(join).collect())
    }

    #[test]
    fn a_killed_member_is_gone_at_once_and_its_slot_is_taken_under_another_incarnation() {
        let (_there, mut all) = rosters(3);
        let gone = all[1].me().unwrap();
        assert!(all[0].lives(gone));
        assert_eq!(all[0].all().len(), 3);
        drop(all.remove(1));
        assert!(!all[0].lives(gone));
        assert_eq!(all[0].all().len(), 2);
        let mut next = Roster::new(all[0].place.clone(), BOOT, LEASE);
        next.join(7, Instant::ZERO).unwrap();
        let came = next.me().unwrap();
        assert!(came.slot() == gone.slot() && came != gone);
        assert!(!all[0].lives(gone) && all[0].lives(came));
    }

    #[test]
    fn e11_a_stopped_member_is_given_up_after_the_lease_and_notices() {
        let (_there, mut all) = rosters(2);
        let stopped = all[1].me().unwrap();
        all[1].own().unwrap().age(LEASE - Duration::from_secs(1));
        assert!(all[0].lives(stopped));
        all[1].own().unwrap().age(LEASE + Duration::from_secs(1));
        assert!(!all[1].was_given_up());
        assert!(!all[0].lives(stopped));
        assert!(all[1].was_given_up());
        assert!(all[1].own().unwrap().beat(LEASE), "its first beat tells it to look");
        assert!(!all[0].lives(stopped), "and does not bring it back");
        all[1].join(7, Instant::ZERO).unwrap();
        assert!(!all[1].was_given_up());
        let again = all[1].me().unwrap();
        assert!(again != stopped && all[0].lives(again));
    }

    #[test]
    fn a_member_whose_file_is_deleted_is_not_given_up_at_once() {
        let (_there, mut all) = rosters(2);
        let other = all[1].me().unwrap();
        std::fs::remove_dir_all(&all[0].place.members).unwrap();
        assert!(all[0].lives(other));
        assert!(all[1].was_given_up());
        all[1].join(7, Instant::ZERO).unwrap();
    }

    #[test]
    fn a_member_whose_file_is_there_again_is_missed_anew_the_next_time() {
        let (_there, mut all) = rosters(2);
        let other = all[1].me().unwrap();
        let file = all[0].place.members.join(other.slot().to_string());
        let aside = file.with_extension("aside");
        std::fs::rename(&file, &aside).unwrap();
        assert!(all[0].lives(other) && all[0].missing.len() == 1);
        std::fs::rename(&aside, &file).unwrap();
        assert!(all[0].lives(other) && all[0].missing.is_empty());
    }
}
