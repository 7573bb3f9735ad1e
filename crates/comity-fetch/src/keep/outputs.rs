//! The outputs of a run, and what they say together.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use url::Url;

use super::answers::Wanted;
use super::directory::{Directory, Meta};
use super::error::KeepError;
use super::index::Key;
use super::jsonl::{Done, Jsonl};
use super::record::{Outcome, Record, Validators};
use super::time::Timestamp;
use super::warc::Warc;

pub(super) struct Outputs {
    pub(super) directory: Option<Directory>,
    pub(super) warc: Option<Warc>,
    /// Where bodies for the WARC alone go when they grow large.
    pub(super) beside_warc: PathBuf,
    pub(super) jsonl: Option<Jsonl>,
    pub(super) resume: bool,
    pub(super) latest_run_only: bool,
    pub(super) wanted: Wanted,
    pub(super) run: Timestamp,
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) left_open: AtomicBool,
}

/// What is known of the answer an earlier run kept.
pub(super) struct Last {
    pub(super) validators: Validators,
    pub(super) checked: Timestamp,
    /// Where that is known: a line about a 304 does not say when its body came.
    pub(super) fetched: Option<Timestamp>,
    pub(super) sha256: Option<String>,
    pub(super) bytes: Option<u64>,
}

impl Outputs {
    pub(super) fn is_done(&self, url: &Url, variant: Option<&str>) -> bool {
        if !self.resume {
            return false;
        }
        let key = Key::of(url.as_str(), variant);
        let lines = self.jsonl.as_ref().filter(|jsonl| jsonl.is_file());
        match lines.map(|lines| lines.done(key, self.latest_run_only)) {
            Some(None) => return false,
            Some(Some(Done::Verdict)) => return true,
            Some(Some(Done::Held)) => {}
            None if self.warc.is_none() && self.directory.is_none() => return false,
            None => {}
        }
        self.warc.as_ref().is_none_or(|warc| warc.holds(key))
            && self.directory.as_ref().is_none_or(|directory| {
                let since = directory.interrupted().filter(|_| self.latest_run_only);
                directory.kept(url, variant).is_some_and(|meta| self.counts(&meta) && Some(meta.run) >= since)
            })
    }

    pub(super) fn last(&self, url: &Url, variant: Option<&str>) -> Option<Last> {
        if let Some(directory) = &self.directory {
            let meta = directory.kept(url, variant).filter(|meta| self.counts(meta))?;
            return Some(Last {
                validators: Validators { etag: meta.etag, last_modified: meta.last_modified },
                checked: meta.checked,
                fetched: Some(meta.fetched),
                sha256: meta.sha256,
                bytes: meta.bytes,
            });
        }
        let key = Key::of(url.as_str(), variant);
        let record = self.jsonl.as_ref()?.last(key).filter(|record| record.outcome.is_held())?;
        Some(Last {
            validators: Validators { etag: record.etag, last_modified: record.last_modified },
            checked: record.checked.unwrap_or(record.finished),
            fetched: (record.outcome == Outcome::Fetched).then_some(record.finished),
            sha256: record.sha256,
            bytes: record.bytes,
        })
    }

    /// What is kept of the request that `record` is about.
    pub(super) fn last_of(&self, record: &Record) -> Option<Last> {
        self.last(&Url::parse(&record.url).ok()?, record.variant.as_deref())
    }

    pub(super) fn line(&self, record: Record) -> Result<Record, KeepError> {
        if let Some(jsonl) = &self.jsonl {
            jsonl.write(&record)?;
        }
        if matches!(record.outcome, Outcome::Refused | Outcome::NotChecked) {
            self.left_open.store(true, Ordering::Relaxed);
        }
        self.records.fetch_add(1, Ordering::Relaxed);
        Ok(record)
    }

    fn counts(&self, meta: &Meta) -> bool {
        self.wanted.is_ours(meta.variant.as_deref(), &meta.method) && !self.wanted.is_broken(meta.status)
    }
}

impl Last {
    /// Carries what is kept over into the record that says it still holds.
    pub(super) fn fill(self, record: &mut Record) {
        record.bytes = self.bytes;
        record.sha256 = self.sha256;
        record.checked.get_or_insert(self.checked);
        record.etag = record.etag.take().or(self.validators.etag);
        record.last_modified = record.last_modified.take().or(self.validators.last_modified);
    }
}
