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

mod answers;
mod append;
mod body;
mod directory;
mod error;
mod exchange;
mod index;
mod jsonl;
mod name;
mod options;
mod outputs;
mod record;
mod spool;
mod tally;
mod time;
mod warc;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::Method;
use url::Url;

use answers::Wanted;
use append::Earlier;
use directory::Directory;
use jsonl::Jsonl;
use outputs::Outputs;
use warc::Warc;

pub use body::Body;
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
        let wanted = Wanted { head: options.head };
        let jsonl = options.jsonl.as_ref().map(|lines| Jsonl::open(lines, earlier, wanted)).transpose()?;
        let warc = options.warc.as_ref().map(|path| Warc::open(path, earlier, wanted, latest_run_only)).transpose()?;
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
                wanted,
                run,
                records: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                left_open: AtomicBool::new(false),
            }),
        })
    }

    /// Whether a resumed run leaves this request for `url` alone: every output holds its
    /// [complete](Outcome::is_complete) outcome, which in a `HEAD` run is not a status of 400 or more. Always `false` in a
    /// run that does not resume, and for standard output alone.
    ///
    /// The `variant` is that of the [list](crate::list::List::variant), as in [`Record::variant`].
    pub fn is_done(&self, url: &Url, variant: Option<&str>) -> bool {
        self.outputs.is_done(url, variant)
    }

    /// URLs are left that no record tells of: a run that is resumed goes on with them.
    pub fn leave_open(&self) {
        self.outputs.left_open.store(true, Ordering::Relaxed);
    }

    /// Whether this run goes on with an earlier one.
    pub fn resumes(&self) -> bool {
        self.outputs.resume
    }

    /// What to ask "if newer" with: from the description of the file kept, or, without a directory, from the last line.
    /// `None` when nothing is kept, or not whole.
    pub fn validators(&self, url: &Url, variant: Option<&str>) -> Option<Validators> {
        let validators = self.outputs.last(url, variant)?.validators;
        (validators != Validators::default()).then_some(validators)
    }

    /// When the answer kept was last fetched, or confirmed by the server.
    pub fn fetched_at(&self, url: &Url, variant: Option<&str>) -> Option<Timestamp> {
        Some(self.outputs.last(url, variant)?.checked)
    }

    /// When this run began; for a resumed run, when the run it resumes began.
    pub fn run(&self) -> Timestamp {
        self.outputs.run
    }

    /// A response's head has arrived; its body follows.
    pub fn begin(&self, exchange: &Exchange<'_>) -> Body {
        Body::begin(Arc::clone(&self.outputs), exchange)
    }

    /// Records a URL without an answer to keep. The record as written comes back, for a [`Tally`].
    ///
    /// [`Outcome::Unchanged`] says that nobody was asked because what is kept is young enough: what is known of it is
    /// carried over, and it grows no younger by that. With nothing kept it becomes [`Outcome::Failed`].
    ///
    /// # Errors
    /// When an output cannot be written.
    pub fn note(&self, mut record: Record) -> Result<Record, KeepError> {
        record.run = self.outputs.run;
        if self.outputs.wanted.head && record.variant.is_none() {
            Method::HEAD.as_str().clone_into(&mut record.method);
        }
        if record.outcome == Outcome::Unchanged {
            match self.outputs.last_of(&record) {
                Some(last) => {
                    last.fill(&mut record);
                    if let Some(directory) = &self.outputs.directory {
                        directory.still_holds(&record)?;
                    }
                }
                None => record.fail("nothing is kept that could still hold"),
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

fn beside(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests;
