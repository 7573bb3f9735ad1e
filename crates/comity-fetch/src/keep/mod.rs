//! What `comity fetch` keeps of the answers: files (`-o`), a WARC (`--warc`), lines (`--jsonl`), any of them at once.
//!
//! ```text
//! Kept::open ─ is_done? ─ validators? ─ (the request) ─ begin ─ write … ─ finish ─► file + description ► WARC ► line
//!                                                            └ hop (a redirect) ─► WARC            └ dropped: nothing
//! ```
//!
//! A URL's line is written last, so a line says that the other outputs hold it too. A process killed at any instant leaves
//! nothing half-written that can be seen but one torn end of the WARC and of the lines, which the next opening cuts off.
//! Only [`Kept::close`] waits for the disk: a power cut may cost what was written since the start, never what was before.
//!
//! Calls block, for a few microseconds; [`Body::finish`] of a [large](Body::is_large) body takes longer, in proportion.
//! Nothing here reads a clock.

mod append;
mod directory;
mod error;
mod exchange;
mod index;
mod jsonl;
mod name;
mod options;
mod record;
mod spool;
mod tally;
mod time;
mod warc;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, Method};
use sha2::{Digest as _, Sha256};
use url::Url;

use append::Earlier;
use directory::Directory;
use jsonl::{Done, Jsonl};
use spool::{Room, Spool};
use warc::{Role, Warc};

pub use directory::Meta;
pub use error::KeepError;
pub use exchange::Exchange;
pub use jsonl::Lines;
pub use name::name_of;
pub use options::Options;
pub use record::{Outcome, Record, Redirect, Validators, Waited};
pub use tally::{Counts, Report, Tally, write_atomically};
pub use time::{NotATimestamp, Timestamp};

/// The open outputs of a run. Cheap to clone; all clones are the same outputs.
#[derive(Clone)]
pub struct Kept {
    outputs: Arc<Outputs>,
}

/// The body of one answer while it arrives. Dropped unfinished, nothing of the exchange is kept.
#[must_use = "dropped unfinished, nothing is kept"]
pub struct Body {
    outputs: Arc<Outputs>,
    spool: Spool,
    payload: Sha256,
    bytes: u64,
    method: Method,
    status: u16,
    final_url: String,
    headers: HeaderMap,
    warc: Option<warc::Pending>,
}

/// What was written by this process, and what was found of the runs before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// URLs recorded.
    pub records: u64,
    /// Bytes of the bodies kept.
    pub bytes: u64,
    /// Bytes of a torn end of the WARC or the lines, cut off when they were opened.
    pub torn_bytes: u64,
    /// Lines found that are no record of ours; they were left as they are.
    pub unreadable_lines: u64,
}

struct Outputs {
    directory: Option<Directory>,
    warc: Option<Warc>,
    /// Where bodies for the WARC alone go when they grow large.
    beside_warc: PathBuf,
    jsonl: Option<Jsonl>,
    resume: bool,
    latest_run_only: bool,
    head: bool,
    run: Timestamp,
    records: AtomicU64,
    bytes: AtomicU64,
    left_open: AtomicBool,
}

/// What is known of the answer an earlier run kept.
struct Last {
    validators: Validators,
    checked: Timestamp,
    /// Where that is known: a line about a 304 does not say when its body came.
    fetched: Option<Timestamp>,
    sha256: Option<String>,
    bytes: Option<u64>,
}

impl Kept {
    /// Opens the outputs, locks them against other runs, reads what earlier runs left if `options` go on with it, and
    /// cuts off what is torn.
    ///
    /// # Errors
    /// [`is_occupied`](KeepError::is_occupied) when a WARC or lines exist and `options` do not say what to do with
    /// them; [`is_in_use`](KeepError::is_in_use); [`is_damaged`](KeepError::is_damaged); what the system refuses.
    pub fn open(options: &Options) -> Result<Self, KeepError> {
        let earlier = match (options.resume || options.if_newer, options.replace) {
            (true, _) => Earlier::Continue,
            (false, true) => Earlier::Replace,
            (false, false) => Earlier::Refuse,
        };
        let latest_run_only = options.resume && options.if_newer;
        let jsonl = options.jsonl.as_ref().map(|lines| Jsonl::open(lines, earlier, options.head)).transpose()?;
        let warc =
            options.warc.as_ref().map(|path| Warc::open(path, earlier, options.head, latest_run_only)).transpose()?;
        let directory = options.directory.as_deref().map(Directory::open).transpose()?;

        let earlier_run = [
            jsonl.as_ref().and_then(|jsonl| jsonl.found().run),
            warc.as_ref().and_then(|warc| warc.found().run),
            directory.as_ref().and_then(Directory::interrupted),
        ];
        let run = match earlier_run.into_iter().flatten().max() {
            Some(run) if options.resume => run,
            // A clock that was set back must not make a new run look older than the last.
            Some(run) => options.now.max(Timestamp::from_millis(run.as_millis() + 1)),
            None => options.now,
        };
        if let Some(warc) = &warc {
            warc.begin(run, options.now, &options.about)?;
        }
        if let Some(directory) = &directory {
            directory.begin(run)?;
        }
        Ok(Self {
            outputs: Arc::new(Outputs {
                directory,
                warc,
                beside_warc: options.warc.as_deref().map(beside).unwrap_or_default(),
                jsonl,
                resume: options.resume,
                latest_run_only,
                head: options.head,
                run,
                records: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                left_open: AtomicBool::new(false),
            }),
        })
    }

    /// Whether a resumed run leaves `url` alone: every output holds its [complete](Outcome::is_complete) outcome.
    /// Always `false` in a run that does not resume, and for standard output alone.
    pub fn is_done(&self, url: &Url) -> bool {
        self.outputs.is_done(url)
    }

    /// What to ask "if newer" with: from the description of the file kept, or, without a directory, from the last line.
    /// `None` when nothing is kept, or not whole.
    pub fn validators(&self, url: &Url) -> Option<Validators> {
        let validators = self.outputs.last(url)?.validators;
        (validators != Validators::default()).then_some(validators)
    }

    /// When the answer kept for `url` was last fetched or confirmed.
    pub fn fetched_at(&self, url: &Url) -> Option<Timestamp> {
        Some(self.outputs.last(url)?.checked)
    }

    /// When this run began; for a resumed run, when the run it resumes began.
    pub fn run(&self) -> Timestamp {
        self.outputs.run
    }

    /// A response's head has arrived; its body follows.
    pub fn begin(&self, exchange: &Exchange<'_>) -> Body {
        let outputs = Arc::clone(&self.outputs);
        let room = match (&outputs.directory, &outputs.warc) {
            (Some(directory), _) => directory.room(),
            (None, Some(_)) => Room::Unnamed(outputs.beside_warc.clone()),
            (None, None) => Room::Nowhere,
        };
        Body {
            spool: Spool::new(room),
            payload: Sha256::new(),
            bytes: 0,
            method: exchange.method.clone(),
            status: exchange.status.as_u16(),
            final_url: exchange.url.to_string(),
            headers: exchange.headers.clone(),
            warc: outputs.warc.as_ref().map(|warc| warc.start(exchange)),
            outputs,
        }
    }

    /// Records a URL without an answer to keep. The record as written comes back, for a [`Tally`].
    ///
    /// # Errors
    /// When an output cannot be written.
    pub fn note(&self, mut record: Record) -> Result<Record, KeepError> {
        record.run = self.outputs.run;
        if self.outputs.head {
            Method::HEAD.as_str().clone_into(&mut record.method);
        }
        if record.outcome == Outcome::Unchanged {
            self.outputs.fill_from_last(&mut record);
            if let Some(directory) = &self.outputs.directory {
                directory.still_holds(&record)?;
            }
        }
        self.outputs.line(record)
    }

    /// Waits until all is on disk, and marks the run as finished unless URLs were left
    /// [refused](Outcome::Refused) or [not checked](Outcome::NotChecked).
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn close(&self) -> Result<Summary, KeepError> {
        let outputs = &*self.outputs;
        let mut summary = Summary {
            records: outputs.records.load(Ordering::Relaxed),
            bytes: outputs.bytes.load(Ordering::Relaxed),
            ..Summary::default()
        };
        if let Some(warc) = &outputs.warc {
            warc.sync()?;
            summary.torn_bytes += warc.found().torn;
        }
        if let Some(jsonl) = &outputs.jsonl {
            jsonl.sync()?;
            summary.torn_bytes += jsonl.found().torn;
            summary.unreadable_lines = jsonl.found().unreadable;
        }
        if let Some(directory) = &outputs.directory {
            directory.close(!outputs.left_open.load(Ordering::Relaxed))?;
        }
        Ok(summary)
    }
}

impl Body {
    /// The next bytes of the body, with chunking undone and content coding left as received.
    ///
    /// # Errors
    /// When a temporary file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), KeepError> {
        self.bytes += bytes.len() as u64;
        self.payload.update(bytes);
        if let Some(pending) = &mut self.warc {
            pending.body(bytes);
        }
        self.spool.write(bytes)
    }

    /// Whether the body outgrew memory (256 KiB): finishing it then takes time in proportion, off the async workers.
    pub fn is_large(&self) -> bool {
        self.spool.is_in_file()
    }

    /// The body is whole and this was the last exchange for `record.url` (a [`Url`] as text): keeps it in every output. A file is made of
    /// what was [fetched](Outcome::Fetched) alone; a 304 ([unchanged](Outcome::Unchanged)) leaves the old one. What is
    /// known here is filled into the record, which comes back for a [`Tally`].
    ///
    /// # Errors
    /// When an output cannot be written; that output then holds nothing of it, and no line says that it does.
    pub fn finish(mut self, mut record: Record) -> Result<Record, KeepError> {
        let outputs = &*self.outputs;
        let payload = self.payload.clone().finalize();
        record.run = outputs.run;
        record.status.get_or_insert(self.status);
        record.final_url.get_or_insert_with(|| std::mem::take(&mut self.final_url));
        self.method.as_str().clone_into(&mut record.method);
        if record.outcome.is_held() {
            record.etag = text(&self.headers, &ETAG);
            record.last_modified = text(&self.headers, &LAST_MODIFIED);
        }

        let mut confirms = None;
        match record.outcome {
            Outcome::Fetched => {
                if self.method != Method::HEAD {
                    record.bytes = Some(self.bytes);
                    record.sha256 = Some(warc::hex(&payload));
                }
                if let Some(directory) = &outputs.directory {
                    directory.keep(&record, &self.headers, &mut self.spool)?;
                }
                outputs.bytes.fetch_add(self.bytes, Ordering::Relaxed);
            }
            Outcome::Unchanged => {
                confirms = outputs.fill_from_last(&mut record);
                if let Some(directory) = &outputs.directory {
                    directory.still_holds(&record)?;
                }
            }
            _ => {}
        }
        if let (Some(warc), Some(pending)) = (&outputs.warc, self.warc.take()) {
            let role = Role::Last { record: &record, confirms };
            warc.write(&pending, &mut self.spool, self.bytes, &payload, &role)?;
        }
        outputs.line(record)
    }

    /// The body is whole, and another exchange for the same URL follows (a redirect, a retry): the WARC keeps it.
    ///
    /// # Errors
    /// When the WARC cannot be written.
    pub fn hop(mut self) -> Result<(), KeepError> {
        match (&self.outputs.warc, self.warc.take()) {
            (Some(warc), Some(pending)) => {
                warc.write(&pending, &mut self.spool, self.bytes, &self.payload.finalize(), &Role::Hop)
            }
            _ => Ok(()),
        }
    }
}

impl Outputs {
    fn is_done(&self, url: &Url) -> bool {
        if !self.resume {
            return false;
        }
        let lines = self.jsonl.as_ref().filter(|jsonl| jsonl.is_file());
        match lines.map(|lines| lines.done(url.as_str(), self.latest_run_only)) {
            Some(None) => return false,
            Some(Some(Done::Verdict)) => return true,
            Some(Some(Done::Held)) => {}
            None if self.warc.is_none() && self.directory.is_none() => return false,
            None => {}
        }
        self.warc.as_ref().is_none_or(|warc| warc.holds(url.as_str()))
            && self.directory.as_ref().is_none_or(|directory| {
                let since = directory.interrupted().filter(|_| self.latest_run_only);
                directory.kept(url).is_some_and(|meta| self.is_our_method(&meta.method) && Some(meta.run) >= since)
            })
    }

    fn last(&self, url: &Url) -> Option<Last> {
        if let Some(directory) = &self.directory {
            let meta = directory.kept(url).filter(|meta| self.is_our_method(&meta.method))?;
            return Some(Last {
                validators: Validators { etag: meta.etag, last_modified: meta.last_modified },
                checked: meta.checked,
                fetched: Some(meta.fetched),
                sha256: meta.sha256,
                bytes: meta.bytes,
            });
        }
        let record = self.jsonl.as_ref()?.last(url.as_str()).filter(|record| record.outcome.is_held())?;
        Some(Last {
            validators: Validators { etag: record.etag, last_modified: record.last_modified },
            checked: record.finished,
            fetched: (record.outcome == Outcome::Fetched).then_some(record.finished),
            sha256: record.sha256,
            bytes: record.bytes,
        })
    }

    /// Carries what is kept over into the record of an answer that confirms it; when that was fetched.
    fn fill_from_last(&self, record: &mut Record) -> Option<Timestamp> {
        let last = self.last(&Url::parse(&record.url).ok()?)?;
        record.bytes = last.bytes;
        record.sha256 = last.sha256;
        record.etag = record.etag.take().or(last.validators.etag);
        record.last_modified = record.last_modified.take().or(last.validators.last_modified);
        last.fetched
    }

    fn line(&self, record: Record) -> Result<Record, KeepError> {
        if let Some(jsonl) = &self.jsonl {
            jsonl.write(&record)?;
        }
        if matches!(record.outcome, Outcome::Refused | Outcome::NotChecked) {
            self.left_open.store(true, Ordering::Relaxed);
        }
        self.records.fetch_add(1, Ordering::Relaxed);
        Ok(record)
    }

    fn is_our_method(&self, method: &str) -> bool {
        (method == "HEAD") == self.head
    }
}

/// A header as text; one that is none cannot be sent back in a conditional request either.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn beside(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests;
