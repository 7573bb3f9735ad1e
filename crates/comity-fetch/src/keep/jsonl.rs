//! `--jsonl`: one [`Record`] a line, each written by one call; read back to resume and to ask "if newer".

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::answers::Wanted;
use super::append::{Appender, Earlier};
use super::error::{KeepError, Naming};
use super::index::{Index, Key};
use super::record::{Outcome, Record};
use super::time::Timestamp;

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Standard output (`-`): nothing can be read back from it.
    Stdout,
    /// A file.
    File(PathBuf),
}

pub(super) struct Jsonl {
    sink: Sink,
    found: Found,
}

/// What the lines of earlier runs say.
#[derive(Default)]
pub(super) struct Found {
    /// Lines with a complete outcome: four times the offset, plus what it came to.
    index: Index,
    /// The latest run's name, and the offset of its first line.
    pub(super) run: Option<Timestamp>,
    run_begins: u64,
    /// Lines that are no record; they are left where they are.
    pub(super) unreadable: u64,
    /// Bytes of a torn last line, cut off.
    pub(super) torn: u64,
}

/// How far a URL got, as a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// The answer is held, so the other outputs should hold it too.
    Held,
    /// There is nothing to hold.
    Verdict,
}

enum Sink {
    Stdout,
    File(Mutex<Appender>),
}

impl Jsonl {
    pub(super) fn open(lines: &Lines, earlier: Earlier, wanted: Wanted) -> Result<Self, KeepError> {
        let path = match lines {
            Lines::Stdout => return Ok(Self { sink: Sink::Stdout, found: Found::default() }),
            Lines::File(path) => path,
        };
        let mut file = Appender::open(path, earlier)?;
        let found = if file.len() > 0 { scan(&mut file, wanted)? } else { Found::default() };
        Ok(Self { sink: Sink::File(Mutex::new(file)), found })
    }

    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// Whether lines can be read back.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.sink, Sink::File(_))
    }

    /// How far a request got, in any run or in the latest alone.
    pub(super) fn done(&self, key: Key, latest_run_only: bool) -> Option<Done> {
        let (offset, done) = self.place(key)?;
        (!latest_run_only || offset >= self.found.run_begins).then_some(done)
    }

    /// The last complete line of an earlier run about a request.
    pub(super) fn last(&self, key: Key) -> Option<Record> {
        let Sink::File(file) = &self.sink else { return None };
        let (offset, _) = self.place(key)?;
        let line = file.lock().unwrap_or_else(PoisonError::into_inner).line_at(offset).ok()?;
        serde_json::from_slice(&line).ok()
    }

    fn place(&self, key: Key) -> Option<(u64, Done)> {
        let place = self.found.index.place(key)?;
        let done = match place & 3 {
            HELD => Done::Held,
            VERDICT => Done::Verdict,
            _ => return None,
        };
        Some((place >> 2, done))
    }

    pub(super) fn write(&self, record: &Record) -> Result<(), KeepError> {
        let mut line = Vec::with_capacity(768);
        if let Err(error) = serde_json::to_writer(&mut line, record) {
            return Err(KeepError::io("write", &self.path(), error.into()));
        }
        line.push(b'\n');
        match &self.sink {
            Sink::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).append(&line, None),
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&line).and_then(|()| stdout.flush()).naming("write", Path::new(STDOUT))
            }
        }
    }

    pub(super) fn sync(&self) -> Result<(), KeepError> {
        match &self.sink {
            Sink::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).sync(),
            Sink::Stdout => Ok(()),
        }
    }

    fn path(&self) -> PathBuf {
        match &self.sink {
            Sink::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).path().to_owned(),
            Sink::Stdout => PathBuf::from(STDOUT),
        }
    }
}

/// The keys a scan needs, borrowed from the line.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    outcome: Outcome,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    variant: Option<String>,
    #[serde(default)]
    run: Timestamp,
}

/// Reads all lines and cuts off what has no end: a line is complete with its newline, and not before.
fn scan(file: &mut Appender, wanted: Wanted) -> Result<Found, KeepError> {
    let mut found = Found::default();
    let mut entries = Vec::new();
    let mut whole = 0;
    let path = file.path().to_owned();
    let mut reader = BufReader::with_capacity(SCAN_BUFFER, file.reader()?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).naming("read", &path)?;
        if line.last() != Some(&b'\n') {
            found.torn = read as u64;
            break;
        }
        match serde_json::from_slice::<Line<'_>>(&line) {
            Ok(line) => {
                if found.run.is_none_or(|run| line.run > run) {
                    found.run = Some(line.run);
                    found.run_begins = whole;
                }
                if line.outcome.is_complete() && wanted.is_ours(line.variant.as_deref(), &line.method) {
                    let state = match line.outcome {
                        Outcome::Robots => VERDICT,
                        _ if wanted.is_broken(line.status) => BROKEN,
                        _ => HELD,
                    };
                    entries.push((Key::of(&line.url, line.variant.as_deref()), whole << 2 | state));
                }
            }
            Err(_) => found.unreadable += 1,
        }
        whole += read as u64;
    }
    if found.torn > 0 {
        file.cut(whole)?;
    }
    found.index = Index::new(entries);
    Ok(found)
}

/// What a complete line came to: an answer that is held, nothing to hold (robots.txt), a broken link. The last hides what
/// was held before, and is asked for again.
const HELD: u64 = 0;
const VERDICT: u64 = 1;
const BROKEN: u64 = 2;

/// What errors call it.
const STDOUT: &str = "standard output";

/// A scan of a million lines reads some 600 MB.
const SCAN_BUFFER: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(url: &str, outcome: Outcome, run: i64) -> Record {
        let mut record = Record::new(url, outcome, Timestamp::from_millis(run), Timestamp::from_millis(run + 5));
        record.run = Timestamp::from_millis(run);
        record.etag = Some(format!("\"{run}\""));
        record
    }

    fn open(path: &Path, earlier: Earlier) -> Jsonl {
        Jsonl::open(&Lines::File(path.to_owned()), earlier, Wanted { head: false }).unwrap()
    }

    #[test]
    fn killed_at_every_byte_the_lines_that_were_whole_are_done_and_the_torn_one_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let urls = ["https://a.test/1", "https://a.test/é\"", "https://b.test/3"];
        let jsonl = open(&path, Earlier::Refuse);
        urls.iter().for_each(|url| jsonl.write(&record(url, Outcome::Fetched, 1)).unwrap());
        drop(jsonl);
        let whole = std::fs::read(&path).unwrap();

        for len in 0..=whole.len() {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, &whole[..len]).unwrap();
            let lines = whole[..len].iter().filter(|&&byte| byte == b'\n').count();
            let jsonl = open(&path, Earlier::Continue);
            let done: Vec<bool> = urls.iter().map(|url| jsonl.done(Key::of(url, None), true).is_some()).collect();
            assert_eq!(done, [lines > 0, lines > 1, lines > 2], "cut at {len}");
            for url in &urls[lines..] {
                jsonl.write(&record(url, Outcome::Fetched, 1)).unwrap();
            }
            drop(jsonl);
            assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {len}");
        }
    }

    #[test]
    fn only_what_has_an_answer_or_may_not_be_asked_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let outcomes = [
            (Outcome::Fetched, Some(Done::Held)),
            (Outcome::Unchanged, Some(Done::Held)),
            (Outcome::Robots, Some(Done::Verdict)),
            (Outcome::Refused, None),
            (Outcome::Failed, None),
            (Outcome::Skipped, None),
            (Outcome::NotChecked, None),
        ];
        let jsonl = open(&path, Earlier::Refuse);
        for (outcome, _) in outcomes {
            jsonl.write(&record(&format!("https://a.test/{outcome:?}"), outcome, 1)).unwrap();
        }
        drop(jsonl);
        let jsonl = open(&path, Earlier::Continue);
        for (outcome, done) in outcomes {
            assert_eq!(jsonl.done(Key::of(&format!("https://a.test/{outcome:?}"), None), false), done);
        }
        drop(jsonl);
        let head = Jsonl::open(&Lines::File(path), Earlier::Continue, Wanted { head: true }).unwrap();
        assert_eq!(head.done(Key::of("https://a.test/Fetched", None), false), None, "a GET run is not a HEAD run");
    }

    #[test]
    fn runs_follow_each_other_and_the_last_answer_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        std::fs::write(&path, "not a record\n\n").unwrap();
        let jsonl = open(&path, Earlier::Continue);
        for (url, outcome, run) in [
            ("https://a.test/1", Outcome::Fetched, 1),
            ("https://a.test/2", Outcome::Fetched, 1),
            ("https://a.test/1", Outcome::Unchanged, 2),
            ("https://a.test/1", Outcome::Failed, 2),
            ("https://a.test/2", Outcome::Failed, 2),
        ] {
            jsonl.write(&record(url, outcome, run)).unwrap();
        }
        drop(jsonl);
        let jsonl = open(&path, Earlier::Continue);
        assert_eq!(jsonl.found().unreadable, 2);
        assert_eq!(jsonl.found().run, Some(Timestamp::from_millis(2)));
        assert_eq!(jsonl.done(Key::of("https://a.test/1", None), true), Some(Done::Held));
        assert_eq!(jsonl.done(Key::of("https://a.test/2", None), true), None);
        assert_eq!(jsonl.done(Key::of("https://a.test/2", None), false), Some(Done::Held));
        assert_eq!(jsonl.last(Key::of("https://a.test/1", None)).unwrap().etag.as_deref(), Some("\"2\""));
        assert_eq!(jsonl.last(Key::of("https://a.test/2", None)).unwrap().etag.as_deref(), Some("\"1\""));
        assert!(jsonl.last(Key::of("https://a.test/3", None)).is_none());
    }
}
