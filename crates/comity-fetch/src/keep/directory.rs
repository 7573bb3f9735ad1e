//! `-o DIR`: a file a request (see [`name_of`]), and beside it what is known about it.
//!
//! Everything is written under `DIR/.comity-part/` first and renamed, so a name that can be seen is whole. When a file is
//! replaced its description goes first and comes last: a body never stands beside the description of another.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use url::Url;

use super::append::lock;
use super::error::{KeepError, Naming};
use super::name::{META, name_of};
use super::record::Record;
use super::spool::{Room, Spool, write_and_rename};
use super::time::Timestamp;

/// What `NAME.meta.json` says about the file `NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The URL asked for.
    pub url: String,
    /// Where the answer came from, after redirects.
    pub final_url: Option<String>,
    /// The method of the last request; `HEAD` has no file `NAME`.
    pub method: String,
    /// Which of the requests for this URL it answers; `null` for a plain one.
    #[serde(default)]
    pub variant: Option<String>,
    /// The answer's status.
    pub status: Option<u16>,
    /// The answer's headers in order; bytes over 127 are read as ISO 8859-1.
    pub headers: Vec<(String, String)>,
    /// `ETag`, the newest the server sent.
    pub etag: Option<String>,
    /// `Last-Modified`, the newest the server sent.
    pub last_modified: Option<String>,
    /// When the file was fetched.
    pub fetched: Timestamp,
    /// When the server last said that it still holds; `fetched` at first.
    pub checked: Timestamp,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: Option<String>,
    /// Its length.
    pub bytes: Option<u64>,
    /// Requests sent for it the last time.
    pub attempts: u32,
    /// The run that last checked it.
    pub run: Timestamp,
}

pub(super) struct Directory {
    root: PathBuf,
    parts: PathBuf,
    /// Held while we live; where directories cannot be locked there is none.
    lock: Option<File>,
    next_part: AtomicU64,
    interrupted: Option<Timestamp>,
}

impl Directory {
    /// Opens or makes it, and clears away what a killed run left half-written.
    pub(super) fn open(root: &Path) -> Result<Self, KeepError> {
        let parts = root.join(PARTS);
        fs::create_dir_all(&parts).naming("create the directory", &parts)?;
        let handle = File::open(root).ok();
        if let Some(handle) = &handle {
            lock(handle, root)?;
        }
        let interrupted = fs::read_to_string(parts.join(RUN)).ok().and_then(|text| text.trim().parse().ok());
        for entry in fs::read_dir(&parts).naming("read", &parts)? {
            let entry = entry.naming("read", &parts)?;
            if entry.file_name() != RUN {
                fs::remove_file(entry.path()).naming("remove", &entry.path())?;
            }
        }
        Ok(Self { root: root.to_owned(), parts, lock: handle, next_part: AtomicU64::new(0), interrupted })
    }

    /// The run that was going on when its process ended.
    pub(super) fn interrupted(&self) -> Option<Timestamp> {
        self.interrupted
    }

    pub(super) fn begin(&self, run: Timestamp) -> Result<(), KeepError> {
        write_and_rename(&self.next_part(), &self.parts.join(RUN), run.to_string().as_bytes())
    }

    /// The run is over. One that was stopped early stays marked as interrupted.
    pub(super) fn close(&self, finished: bool) -> Result<(), KeepError> {
        if finished {
            let marker = self.parts.join(RUN);
            absent_is_fine(fs::remove_file(&marker)).naming("remove", &marker)?;
            // Bodies still on their way keep their directory; it is cleared at the next opening.
            let _ = fs::remove_dir(&self.parts);
        }
        Ok(())
    }

    /// A place for a body that grows large.
    pub(super) fn room(&self) -> Room {
        Room::Named(self.next_part())
    }

    /// What is kept of this request for `url` and whole: described, and of the length described.
    pub(super) fn kept(&self, url: &Url, variant: Option<&str>) -> Option<Meta> {
        let path = self.path(url, variant);
        let meta: Meta = serde_json::from_slice(&fs::read(with_meta(&path)).ok()?).ok()?;
        let whole = meta.method == "HEAD" || fs::metadata(&path).is_ok_and(|file| Some(file.len()) == meta.bytes);
        let same = without_fragment(&meta.url) == without_fragment(url.as_str()) && meta.variant.as_deref() == variant;
        (whole && same).then_some(meta)
    }

    /// Keeps a body and its description under the name of `record.url` and its variant.
    pub(super) fn keep(&self, record: &Record, headers: &HeaderMap, spool: &mut Spool) -> Result<(), KeepError> {
        let path = self.path(&self.parse(&record.url)?, record.variant.as_deref());
        if record.method != "HEAD" {
            let meta = with_meta(&path);
            absent_is_fine(fs::remove_file(&meta)).naming("replace", &meta)?;
            spool.persist(&path)?;
        }
        self.describe(
            &path,
            &Meta {
                url: record.url.clone(),
                final_url: record.final_url.clone(),
                method: record.method.clone(),
                variant: record.variant.clone(),
                status: record.status,
                headers: headers.iter().map(|(name, value)| (name.to_string(), latin1(value.as_bytes()))).collect(),
                etag: record.etag.clone(),
                last_modified: record.last_modified.clone(),
                fetched: record.finished,
                checked: record.finished,
                sha256: record.sha256.clone(),
                bytes: record.bytes,
                attempts: record.attempts,
                run: record.run,
            },
        )
    }

    /// What is kept still holds, as of `record.checked`: only its description changes.
    pub(super) fn still_holds(&self, record: &Record) -> Result<(), KeepError> {
        let url = self.parse(&record.url)?;
        let variant = record.variant.as_deref();
        let Some(meta) = self.kept(&url, variant) else { return Ok(()) };
        let meta = Meta {
            etag: record.etag.clone(),
            last_modified: record.last_modified.clone(),
            checked: record.checked.unwrap_or(meta.checked),
            attempts: if record.attempts > 0 { record.attempts } else { meta.attempts },
            run: record.run,
            ..meta
        };
        self.describe(&self.path(&url, variant), &meta)
    }

    fn describe(&self, path: &Path, meta: &Meta) -> Result<(), KeepError> {
        let path = with_meta(path);
        let mut text = Vec::with_capacity(1024);
        if let Err(error) = serde_json::to_writer_pretty(&mut text, meta) {
            return Err(KeepError::io("write", &path, error.into()));
        }
        text.push(b'\n');
        write_and_rename(&self.next_part(), &path, &text)
    }

    fn next_part(&self) -> PathBuf {
        self.parts.join(self.next_part.fetch_add(1, Ordering::Relaxed).to_string())
    }

    fn path(&self, url: &Url, variant: Option<&str>) -> PathBuf {
        self.root.join(name_of(url, variant))
    }

    fn parse(&self, url: &str) -> Result<Url, KeepError> {
        Url::parse(url).map_err(|_| KeepError::not_a_url(&self.root, url))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // At once, even while a child process that was just started still shares the handle.
        let _ = self.lock.as_ref().map(File::unlock);
    }
}

fn with_meta(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(META);
    path.into()
}

fn without_fragment(url: &str) -> &str {
    url.split('#').next().unwrap_or(url)
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// In the directory itself, so that a rename never crosses file systems. No host's directory begins with a dot.
const PARTS: &str = ".comity-part";

/// Names the run while it goes on.
const RUN: &str = "run";

#[cfg(test)]
mod tests {
    use super::super::record::Outcome;
    use super::*;

    const URL: &str = "https://a.test/x.html";

    fn record(bytes: &[u8], millis: i64) -> Record {
        let time = Timestamp::from_millis(millis);
        let mut record = Record::new(URL, Outcome::Fetched, time, time);
        record.bytes = Some(bytes.len() as u64);
        record.etag = Some(format!("\"{millis}\""));
        record.checked = Some(time);
        record.run = time;
        record
    }

    fn keep(directory: &Directory, bytes: &[u8], millis: i64) {
        let mut spool = Spool::new(directory.room());
        spool.write(bytes).unwrap();
        directory.keep(&record(bytes, millis), &HeaderMap::new(), &mut spool).unwrap();
    }

    fn kept(directory: &Directory) -> Option<Meta> {
        directory.kept(&Url::parse(URL).unwrap(), None)
    }

    #[test]
    fn a_body_is_kept_with_its_description_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(dir.path()).unwrap();
        assert!(kept(&directory).is_none());
        keep(&directory, b"first", 1);
        keep(&directory, b"second", 2);
        assert_eq!(fs::read(dir.path().join("a.test/x.html")).unwrap(), b"second");
        let meta = kept(&directory).unwrap();
        assert_eq!((meta.fetched, meta.bytes), (Timestamp::from_millis(2), Some(6)));
        assert!(directory.kept(&Url::parse("https://a.test/x.html#part").unwrap(), None).is_some());

        directory.still_holds(&record(b"", 9)).unwrap();
        let meta = kept(&directory).unwrap();
        assert_eq!((meta.fetched, meta.checked), (Timestamp::from_millis(2), Timestamp::from_millis(9)));
        assert_eq!(meta.etag.as_deref(), Some("\"9\""));
    }

    #[test]
    fn a_file_without_description_or_of_another_length_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(dir.path()).unwrap();
        keep(&directory, b"whole", 1);
        let (file, meta) = (dir.path().join("a.test/x.html"), dir.path().join("a.test/x.html.meta.json"));
        fs::write(&file, "who").unwrap();
        assert!(kept(&directory).is_none());
        fs::write(&file, "whole").unwrap();
        assert!(kept(&directory).is_some());
        let text = fs::read(&meta).unwrap();
        for len in 0..text.len() - 2 {
            fs::write(&meta, &text[..len]).unwrap();
            assert!(kept(&directory).is_none(), "described by {len} bytes");
        }
    }

    #[test]
    fn what_a_killed_run_left_is_cleared_and_its_run_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let run = Timestamp::from_millis(5);
        let directory = Directory::open(dir.path()).unwrap();
        directory.begin(run).unwrap();
        fs::write(directory.next_part(), "half").unwrap();
        drop(directory);
        let directory = Directory::open(dir.path()).unwrap();
        assert_eq!(directory.interrupted(), Some(run));
        assert_eq!(fs::read_dir(dir.path().join(PARTS)).unwrap().count(), 1);
        directory.close(true).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn one_run_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Directory::open(dir.path()).unwrap();
        assert!(Directory::open(dir.path()).err().unwrap().is_in_use());
    }

    #[test]
    fn a_file_where_a_directory_is_needed_is_a_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(dir.path()).unwrap();
        fs::write(dir.path().join("a.test"), "").unwrap();
        let mut spool = Spool::new(directory.room());
        let error = directory.keep(&record(b"", 1), &HeaderMap::new(), &mut spool).unwrap_err();
        assert!(error.to_string().contains("a.test"), "{error}");
        assert_eq!(fs::read_dir(dir.path().join(PARTS)).unwrap().count(), 0);
    }
}
