//! The floor: the kernel's file lock around three positioned reads and writes, and not a thought in between.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::records::{BYTES, Record, Turn, most, slots};
use super::work::Store;

struct Bare(File);

pub(super) fn prepare(folder: &Path, keys: usize) -> anyhow::Result<()> {
    Ok(std::fs::write(folder.join(NAME), vec![0; BYTES * most(keys)])?)
}

pub(super) fn open(folder: &Path) -> anyhow::Result<impl Store + use<>> {
    Ok(Bare(OpenOptions::new().read(true).write(true).open(folder.join(NAME))?))
}

pub(super) fn record_of_all(folder: &Path) -> anyhow::Result<Record> {
    let bytes = std::fs::read(folder.join(NAME))?;
    Ok(Record::read(&bytes[..BYTES]))
}

impl Store for Bare {
    fn turn(&mut self, key: usize, turn: Turn) -> anyhow::Result<bool> {
        self.0.lock()?;
        let mut record = Record::new();
        for slot in slots(key) {
            let at = (slot * BYTES) as u64;
            self.0.read_exact_at(record.bytes_mut(), at)?;
            record.take(turn);
            self.0.write_all_at(record.bytes(), at)?;
        }
        self.0.unlock()?;
        Ok(true)
    }
}

const NAME: &str = "records";
