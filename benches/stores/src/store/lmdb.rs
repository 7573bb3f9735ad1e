//! LMDB with nothing synced. (Its lock between processes is not for what may be killed; nobody is here.)

#![expect(
    unsafe_code,
    reason = "opening a mapped file promises that nobody truncates it: the folder is this run's own"
)]

use std::path::Path;

use heed::types::{Bytes, Str};
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::records::{ALL, Record, Turn, names};
use super::work::Store;

struct Lmdb {
    env: Env,
    records: Database<Str, Bytes>,
    names: Vec<[String; 3]>,
}

pub(super) fn prepare(folder: &Path) -> anyhow::Result<()> {
    open(folder, 0).map(drop)
}

pub(super) fn open(folder: &Path, keys: usize) -> anyhow::Result<impl Store + use<>> {
    lmdb(folder, keys)
}

pub(super) fn record_of_all(folder: &Path) -> anyhow::Result<Record> {
    let lmdb = lmdb(folder, 0)?;
    let transaction = lmdb.env.read_txn()?;
    let found = lmdb.records.get(&transaction, ALL)?;
    Ok(found.map_or_else(Record::new, Record::read))
}

fn lmdb(folder: &Path, keys: usize) -> anyhow::Result<Lmdb> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP);
    // SAFETY: the flags give up durability only; the folder is this run's own and nobody truncates the file.
    let env = unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC).open(folder)? };
    let mut transaction = env.write_txn()?;
    let records = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(Lmdb { env, records, names: names(keys) })
}

impl Store for Lmdb {
    fn turn(&mut self, key: usize, turn: Turn) -> anyhow::Result<bool> {
        let mut transaction = self.env.write_txn()?;
        for name in &self.names[key] {
            let mut record = self.records.get(&transaction, name)?.map_or_else(Record::new, Record::read);
            record.take(turn);
            self.records.put(&mut transaction, name, record.bytes())?;
        }
        transaction.commit()?;
        Ok(true)
    }
}

/// Far more than the records take.
const MAP: usize = 64 << 20;
