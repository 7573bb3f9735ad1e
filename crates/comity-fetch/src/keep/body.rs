//! The body of one answer, from its head to its place in every output.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, Method};
use sha2::{Digest as _, Sha256};

use super::error::KeepError;
use super::exchange::Exchange;
use super::outputs::Outputs;
use super::record::{Outcome, Record};
use super::spool::{Room, Spool};
use super::warc::{self, Role};

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

impl Body {
    pub(super) fn begin(outputs: Arc<Outputs>, exchange: &Exchange<'_>) -> Self {
        let room = match (&outputs.directory, &outputs.warc) {
            (Some(directory), _) => directory.room(),
            (None, Some(_)) => Room::Unnamed(outputs.beside_warc.clone()),
            (None, None) => Room::Nowhere,
        };
        Self {
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

    /// The body is whole and this was the last exchange for `record.url` (a [`Url`](url::Url) as text) as
    /// [`record.variant`](Record::variant): keeps it in every output. A file is made of what was
    /// [fetched](Outcome::Fetched) alone; a 304 ([unchanged](Outcome::Unchanged)) leaves the old one, and without an old
    /// one becomes [`Outcome::Failed`]. What is known here is filled into the record, which comes back for a
    /// [`Tally`](super::Tally).
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
        let last = if record.outcome == Outcome::Unchanged { outputs.last_of(&record) } else { None };
        if record.outcome == Outcome::Unchanged && last.is_none() {
            // Nobody asked whether something has changed: this is no answer to what was asked.
            record.fail("304, but nothing is kept that it could confirm");
        }
        if record.outcome.is_held() {
            record.checked = Some(record.finished);
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
                confirms = last.as_ref().and_then(|last| last.fetched);
                if let Some(last) = last {
                    last.fill(&mut record);
                }
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

/// A header as text; one that is none cannot be sent back in a conditional request either.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}
