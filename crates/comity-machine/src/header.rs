//! The first block of the file: what it is, its clock, and how far it is filled.

use std::time::Duration;

use comity_core::time::Instant;

use crate::clock::Boot;
use crate::file::PaceFile;
use crate::guard::page;
use crate::index;
use crate::sum::sum;
use crate::trouble::Trouble;

/// What a file's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The pace of scopes.
    Scopes,
    /// Buckets of guards, in so many pages.
    Buckets(u32),
}

/// What the first block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) holds: Holds,
    /// A number of its own for every file that was ever made.
    pub(crate) generation: u64,
    /// It follows on one that was lost while others may know more (X9).
    pub(crate) after_loss: bool,
    /// It was set aside: whoever still has it open looks for its successor.
    pub(crate) retired: bool,
    /// After a loss: every process has told its places again.
    pub(crate) settled: bool,
    /// After a loss: when it was made; the clock's origin until the first claim says.
    pub(crate) born: Instant,
    /// The file's time less the time since boot.
    pub(crate) base: u64,
    /// Whose boot that is.
    pub(crate) boot: Boot,
    /// The file's time at some moment …
    pub(crate) last: u64,
    /// … and the wall clock's at the same.
    pub(crate) last_wall: u64,
    /// Slots of records that were ever used.
    pub(crate) used: u32,
    /// Where the search for a record to use again goes on.
    pub(crate) hand: u32,
    /// Counts what those that wait should hear of.
    pub(crate) news: u64,
    /// When a member last said that it lost the store, or found it again: what others look into the roster for. It stands
    /// beside the header, because that member writes it without the lock.
    pub(crate) alone: u64,
}

/// What stands where the header should be.
pub(crate) enum Found {
    Header(Header),
    /// A file of another version of this format.
    OtherVersion(u32),
    /// Nothing of ours.
    Foreign,
    /// Ours, but not whole.
    Damaged,
}

impl Holds {
    /// Whether a file of the one is of use to whoever looks for the other.
    pub(crate) fn is_like(self, other: Self) -> bool {
        matches!((self, other), (Self::Scopes, Self::Scopes) | (Self::Buckets(_), Self::Buckets(_)))
    }

    /// The length a file has at least when so many slots are used.
    pub(crate) fn least_length(self, used: u32) -> u64 {
        match self {
            Self::Scopes => index::least_length(used),
            Self::Buckets(pages) => page::length(pages),
        }
    }

    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scopes => "the pace of hosts",
            Self::Buckets(_) => "the buckets of guards",
        }
    }
}

impl Header {
    /// A new file's, whose clock goes on with `base` where others run on it.
    pub(crate) fn new(
        holds: Holds,
        generation: u64,
        after_loss: bool,
        base: Option<u64>,
        boot: Boot,
        since_boot: u64,
        wall: u64,
    ) -> Self {
        let base = base.unwrap_or_else(|| wall.saturating_sub(since_boot).max(EARLIEST));
        Self {
            holds,
            generation,
            after_loss,
            retired: false,
            settled: !after_loss,
            born: Instant::ZERO,
            base,
            boot,
            last: base.saturating_add(since_boot),
            last_wall: wall,
            used: 0,
            hand: 0,
            news: 0,
            alone: 0,
        }
    }

    /// The clock of another boot goes on by as much as the wall clock did since.
    pub(crate) fn after_boot(&mut self, boot: Boot, since_boot: u64, wall: u64) {
        self.boot = boot;
        self.last = self.last.saturating_add(wall.saturating_sub(self.last_wall));
        self.last_wall = wall;
        self.base = self.last.saturating_sub(since_boot);
    }

    /// Where boots cannot be told apart by a number, a clock that was further ahead is another boot's.
    pub(crate) fn is_of_an_earlier_boot(&self, since_boot: u64, lease: Duration) -> bool {
        let now = self.base.saturating_add(since_boot);
        !self.boot.is_known() && self.last > now.saturating_add(comity_core::time::nanos(lease))
    }

    /// The length its file has at least.
    pub(crate) fn least_length(&self) -> u64 {
        self.holds.least_length(self.used)
    }

    pub(crate) fn read(file: &PaceFile) -> Result<Found, Trouble> {
        let mut bytes = [0; HEADER_BYTES + 8];
        let length = file.read_some(0, &mut bytes)?;
        let alone = u64::from_le_bytes(core::array::from_fn(|n| bytes[HEADER_BYTES + n]));
        Ok(match Self::from_bytes(&core::array::from_fn(|n| bytes[n]), length) {
            Found::Header(header) => Found::Header(Self { alone, ..header }),
            other => other,
        })
    }

    /// Says that a member lost the store, or found it again. Needs no lock.
    pub(crate) fn say_alone(file: &PaceFile, since_boot: u64) -> Result<(), Trouble> {
        file.write(HEADER_BYTES as u64, &since_boot.to_le_bytes())
    }

    pub(crate) fn write(&self, file: &PaceFile) -> Result<(), Trouble> {
        file.write(0, &self.to_bytes())
    }

    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
        bytes[20] = u8::from(self.after_loss);
        bytes[21] = u8::from(self.retired);
        bytes[22] = u8::from(self.settled);
        // A file of buckets has no hand.
        let (kind, hand) = match self.holds {
            Holds::Scopes => (KIND_SCOPES, self.hand),
            Holds::Buckets(pages) => (KIND_BUCKETS, pages),
        };
        bytes[23] = kind;
        let words = [
            self.generation,
            self.born.as_nanos(),
            self.base,
            self.boot.id,
            self.boot.namespace,
            self.last,
            self.last_wall,
            u64::from(self.used) << 32 | u64::from(hand),
            self.news,
        ];
        for (at, word) in bytes[24..].chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let sum = sum(HEADER_SEED, &bytes[16..]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER_BYTES], length: usize) -> Found {
        if length < 20 || bytes[..8] != *MAGIC {
            return Found::Foreign;
        }
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        let version = word(16) as u32;
        if version != VERSION {
            return Found::OtherVersion(version);
        }
        if word(8) != sum(HEADER_SEED, &bytes[16..]) || length < HEADER_BYTES {
            return Found::Damaged;
        }
        let hand = word(80) as u32;
        let (holds, hand) = match bytes[23] {
            KIND_SCOPES => (Holds::Scopes, hand),
            KIND_BUCKETS => (Holds::Buckets(hand), 0),
            _ => return Found::Damaged,
        };
        Found::Header(Self {
            holds,
            after_loss: bytes[20] == 1,
            retired: bytes[21] == 1,
            settled: bytes[22] == 1,
            generation: word(24),
            born: Instant::from_nanos(word(32)),
            base: word(40),
            boot: Boot { id: word(48), namespace: word(56) },
            last: word(64),
            last_wall: word(72),
            used: (word(80) >> 32) as u32,
            hand,
            news: word(88),
            alone: 0,
        })
    }
}

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 128;
const MAGIC: &[u8; 8] = b"COMITYPC";
/// A file of another version is not read.
const VERSION: u32 = 3;
const KIND_SCOPES: u8 = 0;
const KIND_BUCKETS: u8 = 1;
const HEADER_SEED: u64 = 11;
/// A machine whose clock was never set starts here, so that "an hour ago" is never before the origin.
const EARLIEST: u64 = 1_000_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;
    const BOOT: Boot = Boot { id: 1, namespace: 2 };

    fn header() -> Header {
        Header {
            used: 7,
            hand: 3,
            news: 9,
            ..Header::new(Holds::Scopes, 5, true, None, BOOT, 100 * SEC, 1_790_000_000 * SEC)
        }
    }

    #[test]
    fn a_header_comes_back_from_its_bytes() {
        let of_buckets = Header { holds: Holds::Buckets(300), hand: 0, ..header() };
        for header in [header(), of_buckets] {
            match Header::from_bytes(&header.to_bytes(), HEADER_BYTES) {
                Found::Header(read) => assert_eq!(read, header),
                _ => panic!("not read"),
            }
        }
    }

    #[test]
    fn e13_without_a_number_of_the_boot_a_clock_that_went_back_tells() {
        let lease = Duration::from_secs(10);
        let nameless = Header { boot: Boot { id: Boot::UNKNOWN, namespace: 2 }, ..header() };
        assert!(!nameless.is_of_an_earlier_boot(95 * SEC, lease), "signs of life are not given at each moment");
        assert!(nameless.is_of_an_earlier_boot(5 * SEC, lease));
        assert!(!header().is_of_an_earlier_boot(5 * SEC, lease), "the number says that it is the same");
    }

    #[test]
    fn what_is_no_header_is_told_apart() {
        let whole = header().to_bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = whole;
            bytes[at] ^= byte;
            Header::from_bytes(&bytes, HEADER_BYTES)
        };
        assert!(matches!(with(0, 1), Found::Foreign));
        assert!(matches!(with(90, 1), Found::Damaged));
        assert!(matches!(Header::from_bytes(&whole, 60), Found::Damaged));
        assert!(matches!(Header::from_bytes(&[0; HEADER_BYTES], 0), Found::Foreign));
    }

    #[test]
    fn e13_the_clock_goes_on_over_a_reboot_by_the_wall_clock() {
        let mut header = header();
        let before = header.last;
        header.after_boot(Boot { id: 2, ..BOOT }, 5 * SEC, (1_790_000_000 + 60) * SEC);
        assert_eq!(header.base + 5 * SEC, before + 60 * SEC, "a minute went by");
        header.after_boot(Boot { id: 3, ..BOOT }, 5 * SEC, 1_000 * SEC);
        assert_eq!(header.base + 5 * SEC, before + 60 * SEC, "a wall clock that went back stops it, no more");
    }
}
