//! The file: positioned reads and writes, and its lock. No mapping: a truncated file is an error and not a crash.
//!
//! Reads and writes are the kernel's own calls, without the C library's bookkeeping: a tenth of a claim.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::trouble::Trouble;

/// An open file.
#[derive(Debug)]
pub(crate) struct PaceFile {
    file: File,
    id: (u64, u64),
}

/// The lock, until it is dropped. The kernel frees it when its holder dies.
#[derive(Debug)]
pub(crate) struct Locked<'a>(&'a File);

/// Lets others run now and then, where this process asks for the lock again and again: the kernel would take the processor
/// away from it some time, most likely while it holds the lock, and those that wait would find it held whenever they look.
#[derive(Debug, Default)]
pub(crate) struct Courtesy {
    sections: u32,
    since: u64,
}

impl Courtesy {
    pub(crate) fn after_a_section(&mut self) {
        self.sections += 1;
        if self.sections < SECTIONS_IN_A_ROW {
            return;
        }
        let now = clock::since_boot();
        if now.saturating_sub(self.since) < comity_core::time::nanos(A_ROW) {
            std::thread::yield_now();
        }
        *self = Self { sections: 0, since: now };
    }
}

impl PaceFile {
    pub(crate) fn new(file: File) -> Result<Self, Trouble> {
        let known = file.metadata()?;
        Ok(Self { id: (known.dev(), known.ino()), file })
    }

    /// Waits for the lock until the deadline.
    pub(crate) fn lock(&self, deadline: Duration) -> Result<Locked<'_>, Trouble> {
        lock_within(&self.file, deadline)
    }

    /// Its length, where it still has a name.
    pub(crate) fn len(&self) -> Result<u64, Trouble> {
        let known = rustix::fs::fstat(&self.file).map_err(std::io::Error::from)?;
        if known.st_nlink == 0 { Err(Trouble::Gone) } else { Ok(known.st_size as u64) }
    }

    pub(crate) fn set_len(&self, length: u64) -> Result<(), Trouble> {
        may_write()?;
        Ok(self.file.set_len(length)?)
    }

    /// Whether this is what the path leads to.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|known| (known.dev(), known.ino()) == self.id)
    }

    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Trouble> {
        if self.read_some(at, into)? < into.len() {
            return Err(Trouble::Damaged("it is shorter than it should be".to_owned()));
        }
        Ok(())
    }

    /// Reads what there is; how many bytes that were.
    pub(crate) fn read_some(&self, at: u64, into: &mut [u8]) -> Result<usize, Trouble> {
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.file, &mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        Ok(done)
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Trouble> {
        may_write()?;
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&self.file, &bytes[done..], at + done as u64) {
                Ok(0) => return Err(std::io::Error::from(std::io::ErrorKind::WriteZero).into()),
                Ok(more) => done += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        Ok(())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!("a lock was not given back: {error}");
        }
    }
}

/// Tries for the lock until the deadline: first at once and again, because it is held for microseconds; then with growing
/// rests, because its holder may have been put to sleep.
pub(crate) fn lock_within(file: &File, deadline: Duration) -> Result<Locked<'_>, Trouble> {
    let mut began = None;
    let mut rest = FIRST_REST;
    for tries in 0.. {
        match file.try_lock() {
            Ok(()) => return Ok(Locked(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        if tries < SPINS {
            for _ in 0..SPIN_LENGTH {
                core::hint::spin_loop();
            }
            continue;
        }
        let now = clock::since_boot();
        let waited = Duration::from_nanos(now.saturating_sub(*began.get_or_insert(now)));
        // One that was not given the processor while it waited has not really tried.
        if waited >= deadline && (tries >= LEAST_TRIES || waited >= deadline * 2) {
            return Err(Trouble::Busy(deadline));
        }
        if tries < SPINS + YIELDS {
            std::thread::yield_now();
        } else {
            clock::rest(rest);
            rest = (rest * 2).min(LONGEST_REST);
        }
    }
    Err(Trouble::Busy(deadline))
}

/// In tests a process can die between any two of its writes.
#[cfg(not(test))]
pub(crate) fn may_write() -> Result<(), Trouble> {
    Ok(())
}

#[cfg(test)]
pub(crate) fn may_write() -> Result<(), Trouble> {
    dying::may_write()
}

/// So many sections …
const SECTIONS_IN_A_ROW: u32 = 32;
/// … within so long are a row.
const A_ROW: Duration = Duration::from_micros(640);
/// Tries without a rest: the lock is held for some microseconds …
const SPINS: u32 = 30;
/// … with so long a breath between them …
const SPIN_LENGTH: u32 = 60;
/// … then so many that let others run …
const YIELDS: u32 = 20;
/// … and so many before the lock is given up.
const LEAST_TRIES: u32 = 150;
/// Rests that grow.
const FIRST_REST: Duration = Duration::from_micros(50);
const LONGEST_REST: Duration = Duration::from_micros(100);

#[cfg(test)]
pub(crate) mod dying {
    use std::cell::Cell;

    use crate::trouble::Trouble;

    thread_local! {
        static WRITES_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// After so many more writes of this thread none reaches the file; `None`: all do.
    pub(crate) fn after(writes: Option<u32>) {
        WRITES_LEFT.set(writes);
    }

    /// Whether that came to pass.
    pub(crate) fn died() -> bool {
        WRITES_LEFT.get() == Some(0)
    }

    pub(super) fn may_write() -> Result<(), Trouble> {
        match WRITES_LEFT.get() {
            None => Ok(()),
            Some(0) => Err(Trouble::Io(std::io::Error::other("the process died"))),
            Some(left) => {
                WRITES_LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }
}
