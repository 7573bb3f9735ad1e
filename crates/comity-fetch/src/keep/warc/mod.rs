//! `--warc`: WARC 1.1 (ISO 28500:2017). A `warcinfo` record a process, then for each exchange a `request` and a `response`
//! (for 304 a `revisit`), and a `metadata` record where the answer was waited for.
//!
//! An exchange is appended by one call, so a killed run leaves at most its last exchange torn; [`scan`] finds that end.
//! Three fields of ours, which other readers skip: `Comity-Provisional` on an exchange that is nobody's answer (a
//! redirect, a refusal), `Comity-For` on an answer that came from another URL than the one asked for, `Comity-Variant` on
//! an answer to another request than the plain one.

mod gzip;
mod ids;
mod scan;
mod text;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use http::{Method, StatusCode, Version};
use sha2::{Digest as _, Sha256};

use super::answers::Wanted;
use super::append::{Appender, Earlier};
use super::error::{KeepError, Naming};
use super::exchange::Exchange;
use super::index::Key;
use super::record::{Record, Waited};
use super::spool::Spool;
use super::time::Timestamp;
use gzip::Deflaters;
use ids::Ids;
use scan::Found;
use text::Header;

pub(super) use text::hex;

pub(super) struct Warc {
    file: Mutex<Appender>,
    path: PathBuf,
    /// None: records are plain.
    deflaters: Option<Deflaters>,
    ids: Ids,
    warcinfo: String,
    found: Found,
}

/// An exchange whose body is still on its way.
pub(super) struct Pending {
    target: String,
    at: Timestamp,
    peer: Option<IpAddr>,
    http2: bool,
    has_body: bool,
    unchanged: bool,
    request: Vec<u8>,
    response: Vec<u8>,
    block: Sha256,
}

/// What an exchange was to the URL that was asked for.
pub(super) enum Role<'a> {
    /// A redirect, or an answer that was tried again.
    Hop,
    /// Its last answer, and when what it confirms was fetched.
    Last { record: &'a Record, confirms: Option<Timestamp> },
}

impl Warc {
    pub(super) fn open(
        path: &Path,
        earlier: Earlier,
        wanted: Wanted,
        latest_run_only: bool,
    ) -> Result<Self, KeepError> {
        let gzipped = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        let mut file = Appender::open(path, earlier)?;
        let found =
            if file.len() > 0 { scan::scan(&mut file, gzipped, wanted, latest_run_only)? } else { Found::default() };
        let ids = Ids::new().naming("find randomness for", path)?;
        let warcinfo = ids.next();
        let deflaters = gzipped.then(Deflaters::default);
        Ok(Self { file: Mutex::new(file), path: path.to_owned(), deflaters, ids, warcinfo, found })
    }

    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// Whether an earlier run's answer to a request is in the file, whole.
    pub(super) fn holds(&self, key: Key) -> bool {
        self.found.index.place(key).is_some_and(|place| place & scan::BROKEN == 0)
    }

    /// Says who writes, under which run.
    pub(super) fn begin(&self, run: Timestamp, now: Timestamp, about: &[(String, String)]) -> Result<(), KeepError> {
        let mut fields = String::new();
        for (name, value) in about {
            text::push_field(&mut fields, name, value);
        }
        text::push_field(&mut fields, "format", "WARC File Format 1.1");
        text::push_field(&mut fields, "conformsTo", CONFORMS_TO);
        text::push_field(&mut fields, scan::RUN, &run.to_string());

        let mut header = Header::new("warcinfo", &self.warcinfo, now);
        if let Some(name) = self.path.file_name() {
            header.field("WARC-Filename", &name.to_string_lossy());
        }
        header.field("Content-Type", "application/warc-fields");
        header.field("WARC-Block-Digest", &digest(Sha256::digest(fields.as_bytes()).as_slice()));
        let mut out = Vec::new();
        self.record(&mut out, header, fields.len() as u64, &mut fields.as_bytes()).naming("write", &self.path)?;
        self.append(&out, None)
    }

    /// Takes the heads; the body's bytes follow by [`Pending::body`].
    pub(super) fn start(&self, exchange: &Exchange<'_>) -> Pending {
        let response = exchange.response_head();
        let mut target = exchange.url.clone();
        target.set_fragment(None);
        // Refused only by URLs that have no such parts.
        let _ = target.set_username("");
        let _ = target.set_password(None);
        Pending {
            target: target.into(),
            at: exchange.at,
            peer: exchange.peer,
            http2: exchange.version == Version::HTTP_2,
            has_body: exchange.method != Method::HEAD,
            unchanged: exchange.status == StatusCode::NOT_MODIFIED,
            request: exchange.request_head(),
            block: Sha256::new_with_prefix(&response),
            response,
        }
    }

    /// Appends the exchange: one call, but for a body that outgrew memory.
    pub(super) fn write(
        &self,
        pending: &Pending,
        spool: &mut Spool,
        bytes: u64,
        payload: &[u8],
        role: &Role<'_>,
    ) -> Result<(), KeepError> {
        if !spool.is_in_file() {
            let mut out = Vec::with_capacity(2048 + pending.response.len() + bytes as usize);
            self.exchange(&mut out, pending, spool, bytes, payload, role).naming("write", &self.path)?;
            return self.append(&out, None);
        }
        let beside = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::tempfile_in(beside).naming("make a temporary file in", beside)?;
        self.exchange(&mut file, pending, spool, bytes, payload, role).naming("write beside", &self.path)?;
        self.append(&[], Some(&mut file))
    }

    pub(super) fn sync(&self) -> Result<(), KeepError> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).sync()
    }

    fn append(&self, bytes: &[u8], rest: Option<&mut File>) -> Result<(), KeepError> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).append(bytes, rest)
    }

    fn exchange<W: Write>(
        &self,
        out: &mut W,
        pending: &Pending,
        spool: &mut Spool,
        bytes: u64,
        payload: &[u8],
        role: &Role<'_>,
    ) -> io::Result<()> {
        let (request, response) = (self.ids.next(), self.ids.next());

        let mut header = self.header("request", &request, pending);
        header.field("WARC-Concurrent-To", &response);
        header.field("Content-Type", "application/http; msgtype=request");
        header.field("WARC-Block-Digest", &digest(Sha256::digest(&pending.request).as_slice()));
        self.record(out, header, pending.request.len() as u64, &mut pending.request.as_slice())?;

        let mut header = self.header(if pending.unchanged { "revisit" } else { "response" }, &response, pending);
        header.field("WARC-Concurrent-To", &request);
        header.field("Content-Type", "application/http; msgtype=response");
        header.field("WARC-Block-Digest", &digest(pending.block.clone().finalize().as_slice()));
        if pending.http2 {
            header.field("WARC-Protocol", "h2");
        }
        match role {
            Role::Last { record, .. } if record.outcome.is_held() => {
                if record.url != pending.target {
                    header.field(scan::FOR, &record.url);
                }
                if let Some(variant) = &record.variant {
                    header.field(scan::VARIANT, variant);
                }
            }
            _ => header.field(scan::PROVISIONAL, "yes"),
        }
        match (pending.unchanged, role) {
            (true, Role::Last { record, confirms }) if record.outcome.is_held() => {
                header.field("WARC-Profile", NOT_MODIFIED);
                header.field("WARC-Refers-To-Target-URI", &pending.target);
                if let Some(fetched) = confirms {
                    header.field("WARC-Refers-To-Date", &fetched.to_string());
                }
                if let Some(sha256) = &record.sha256 {
                    header.field("WARC-Payload-Digest", &format!("sha256:{sha256}"));
                }
            }
            (true, _) => header.field("WARC-Profile", NOT_MODIFIED),
            (false, _) if pending.has_body => header.field("WARC-Payload-Digest", &digest(payload)),
            (false, _) => {}
        }
        let length = pending.response.len() as u64 + bytes;
        self.record(out, header, length, &mut pending.response.as_slice().chain(spool.reader()?))?;

        match role {
            Role::Last { record, .. } if record.attempts > 1 || !record.waits.is_empty() => {
                self.metadata(out, pending, &response, record)
            }
            _ => Ok(()),
        }
    }

    /// Why the answer came when it did.
    fn metadata<W: Write>(&self, out: &mut W, pending: &Pending, about: &str, record: &Record) -> io::Result<()> {
        let mut fields = String::new();
        text::push_field(&mut fields, "attempts", &record.attempts.to_string());
        for Waited { ms, scope, because } in &record.waits {
            text::push_field(&mut fields, "waited", &format!("{ms} ms for {scope}: {because}"));
        }
        let mut header = self.header("metadata", &self.ids.next(), pending);
        header.field("WARC-Concurrent-To", about);
        header.field("Content-Type", "application/warc-fields");
        header.field("WARC-Block-Digest", &digest(Sha256::digest(fields.as_bytes()).as_slice()));
        self.record(out, header, fields.len() as u64, &mut fields.as_bytes())
    }

    /// What all records of an exchange begin with.
    fn header(&self, kind: &str, id: &str, pending: &Pending) -> Header {
        let mut header = Header::new(kind, id, pending.at);
        header.field("WARC-Target-URI", &pending.target);
        header.field("WARC-Warcinfo-ID", &self.warcinfo);
        if let (Some(peer), true) = (pending.peer, kind != "metadata") {
            header.field("WARC-IP-Address", &peer.to_string());
        }
        header
    }

    /// One record, in a gzip member of its own where the file's name asks for that.
    fn record<W: Write>(&self, out: &mut W, header: Header, length: u64, block: &mut dyn Read) -> io::Result<()> {
        let header = header.finish(length);
        let mut record = header.as_bytes().chain(block.take(length)).chain(RECORD_END);
        match &self.deflaters {
            Some(deflaters) => deflaters.member(&mut record, out),
            None => io::copy(&mut record, out).map(|_| ()),
        }
    }
}

impl Pending {
    pub(super) fn body(&mut self, bytes: &[u8]) {
        self.block.update(bytes);
    }
}

/// Hexadecimal, so that it is the same text as `sha256` elsewhere in our outputs.
fn digest(sha256: &[u8]) -> String {
    format!("sha256:{}", hex(sha256))
}

/// ISO 28500:2017 section 4: a record ends with two newlines.
const RECORD_END: &[u8] = b"\r\n\r\n";

/// Section 6.7.3 of the same.
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";

/// The standard's public text, as crawlers name it.
const CONFORMS_TO: &str = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/";

#[cfg(test)]
mod tests;
