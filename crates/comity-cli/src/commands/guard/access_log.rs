//! The access log: JSON lines, written by a thread of their own so that no request waits for a disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use comity_guard::{Decision, Outcome};
use serde::Serialize;

use crate::flags::guard::LogTo;
use crate::screen::say;

/// One request, as it is logged: `schema/guard-access.schema.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Line {
    /// When its head had been read, in UTC.
    pub(super) time: String,
    /// Whom it counted as; of a name only a part of its digest. Null where no limit asked.
    pub(super) key: Option<String>,
    /// The other end of its connection.
    pub(super) peer: Option<String>,
    pub(super) protocol: String,
    pub(super) tls: bool,
    pub(super) method: String,
    pub(super) host: Option<String>,
    pub(super) path: String,
    /// Null unless it was asked for.
    pub(super) query: Option<String>,
    pub(super) user_agent: Option<String>,
    pub(super) outcome: &'static str,
    /// The limit that refused or delayed it.
    pub(super) rule: Option<String>,
    /// The wait that it was told of, or had.
    pub(super) wait_ms: Option<f64>,
    /// Null where the client went before there was one.
    pub(super) status: Option<u16>,
    /// Until the head of the answer.
    pub(super) head_ms: Option<f64>,
    /// Until the answer was handed over or given up.
    pub(super) total_ms: f64,
    /// Bytes of the answer's body.
    pub(super) bytes: u64,
    /// Whether all of the body was handed over.
    pub(super) complete: bool,
}

/// What the guard decided of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decided {
    pub(super) key: Option<String>,
    pub(super) outcome: &'static str,
    pub(super) rule: Option<String>,
    pub(super) wait_ms: Option<f64>,
}

impl From<&Decision<'_>> for Decided {
    fn from(decision: &Decision<'_>) -> Self {
        let key = decision.key.map(|key| key.to_string());
        let (outcome, rule, wait) = match (decision.outcome, decision.dry_run) {
            (Outcome::Admitted, _) => ("admitted", None, None),
            (Outcome::Delayed { rule, wait }, false) => ("delayed", Some(rule), Some(wait)),
            (Outcome::Delayed { rule, wait }, true) => ("would_delay", Some(rule), Some(wait)),
            (Outcome::Refused { rule, retry }, false) => ("refused", Some(rule), Some(retry)),
            (Outcome::Refused { rule, retry }, true) => ("would_refuse", Some(rule), Some(retry)),
            (Outcome::Shed, false) => ("shed", None, None),
            (Outcome::Shed, true) => ("would_shed", None, None),
        };
        let wait_ms = wait.map(|wait| wait.as_secs_f64() * 1000.0);
        Self { key, outcome, rule: rule.map(str::to_owned), wait_ms }
    }
}

/// An open log.
pub(super) struct AccessLog {
    lines: SyncSender<Message>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Lines that were not written, because the disk could not follow or would not take them.
    lost: std::sync::Arc<AtomicU64>,
    pub(super) with_query: bool,
}

enum Message {
    Line(Box<Line>),
    Reopen,
    End,
}

impl AccessLog {
    /// Opens a log and starts its writer.
    ///
    /// # Errors
    /// The file cannot be appended to; names it.
    pub(super) fn open(to: &LogTo, with_query: bool) -> io::Result<Self> {
        let out = Out::open(to)?;
        let (lines, messages) = sync_channel(MOST_WAITING);
        let (to, lost) = (to.clone(), std::sync::Arc::<AtomicU64>::default());
        let counting = std::sync::Arc::clone(&lost);
        let writer = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || Writer { to, out, lost: counting, told: false }.run(&messages))?;
        Ok(Self { lines, writer: Mutex::new(Some(writer)), lost, with_query })
    }

    /// Writes a line soon.
    pub(super) fn write(&self, line: Line) {
        if self.lines.try_send(Message::Line(Box::new(line))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file anew: whoever moved it away gets no more lines.
    pub(super) fn reopen(&self) {
        // A writer that has ended has said why.
        let _ = self.lines.send(Message::Reopen);
    }

    /// Lines that were not written.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes what is there, and ends.
    pub(super) fn close(&self) {
        let _ = self.lines.send(Message::End);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

/// Whether a log could be opened; a file that is not there is not made.
pub(super) fn check(to: &LogTo) -> io::Result<()> {
    match to {
        LogTo::File(path) if !path.exists() => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if folder.is_dir() { Ok(()) } else { Err(named(path, &io::ErrorKind::NotFound.into())) }
        }
        to => Out::open(to).map(drop),
    }
}

struct Writer {
    to: LogTo,
    out: Out,
    lost: std::sync::Arc<AtomicU64>,
    /// Whether somebody was told that lines are lost.
    told: bool,
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut next = messages.recv().ok();
        while let Some(message) = next {
            match message {
                Message::Line(line) => self.write(&line),
                Message::Reopen => self.reopen(),
                Message::End => break,
            }
            next = match messages.try_recv() {
                Ok(message) => Some(message),
                Err(TryRecvError::Disconnected) => None,
                // Whoever follows the log sees what there is.
                Err(TryRecvError::Empty) => {
                    let flushed = self.out.flush();
                    self.check(flushed);
                    messages.recv().ok()
                }
            };
        }
        let flushed = self.out.flush();
        self.check(flushed);
    }

    fn write(&mut self, line: &Line) {
        let written = serde_json::to_writer(&mut self.out, line).map_err(io::Error::from);
        let written = written.and_then(|()| self.out.write_all(b"\n"));
        self.check(written);
    }

    fn reopen(&mut self) {
        let flushed = self.out.flush();
        self.check(flushed);
        match Out::open(&self.to) {
            Ok(out) => (self.out, self.told) = (out, false),
            Err(error) => say(&format!("comity: the access log stays where it was: {error}")),
        }
    }

    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.lost.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut self.told, true) {
                say(&format!("comity: lines of the access log are lost: {error}"));
            }
        }
    }
}

enum Out {
    Stdout(BufWriter<io::Stdout>),
    File(BufWriter<File>),
}

impl Out {
    fn open(to: &LogTo) -> io::Result<Self> {
        match to {
            LogTo::Stdout => Ok(Self::Stdout(BufWriter::new(io::stdout()))),
            LogTo::File(path) => {
                let file = File::options().append(true).create(true).open(path).map_err(|error| named(path, &error))?;
                Ok(Self::File(BufWriter::new(file)))
            }
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File(out) => out.flush(),
        }
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    let allowed = "allowed is a file that can be appended to";
    io::Error::new(error.kind(), format!("{}: {error}; {allowed}", path.display()))
}

/// Lines that wait for the disk at most, some MB. More are lost and counted: a full disk stops no request.
const MOST_WAITING: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::schema;

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_what_the_schema_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let log = AccessLog::open(&LogTo::File(path.clone()), false).unwrap();
        let full = Line {
            key: Some("192.0.2.1".into()),
            peer: Some("192.0.2.1:1".into()),
            host: Some("a".into()),
            query: Some("x=1".into()),
            user_agent: Some("b".into()),
            outcome: "refused",
            rule: Some("each".into()),
            wait_ms: Some(100.0),
            status: Some(429),
            head_ms: Some(0.1),
            ..Line::default()
        };
        log.write(full);
        log.write(Line { outcome: "abandoned", path: "a\"\n\u{1b}".into(), ..Line::default() });
        log.close();
        let schema = serde_json::from_str(include_str!("../../../../../schema/guard-access.schema.json")).unwrap();
        let lines = lines(&path);
        assert_eq!((lines.len(), log.lost()), (2, 0));
        lines.iter().for_each(|line| schema::check(&schema, &schema, line, "line"));
    }

    #[test]
    fn a_log_that_was_moved_away_begins_anew_at_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
        let log = AccessLog::open(&LogTo::File(path.clone()), false).unwrap();
        log.write(Line::default());
        log.reopen();
        // The rename may come before or after the first line is written: the same file has it either way.
        std::fs::rename(&path, &moved).unwrap();
        log.reopen();
        log.write(Line::default());
        log.close();
        assert_eq!((lines(&moved).len(), lines(&path).len()), (1, 1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_loses_lines_and_counts_them() {
        let log = AccessLog::open(&LogTo::File("/dev/full".into()), false).unwrap();
        log.write(Line::default());
        log.close();
        assert!(log.lost() > 0);
    }

    #[test]
    fn a_file_that_cannot_be_is_named() {
        let to = LogTo::File("no/such/dir/a.log".into());
        for error in [AccessLog::open(&to, false).err().unwrap(), check(&to).unwrap_err()] {
            assert!(error.to_string().starts_with("no/such/dir/a.log: "), "{error}");
        }
        let dir = tempfile::tempdir().unwrap();
        check(&LogTo::File(dir.path().join("new.log"))).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "checking leaves nothing behind");
    }
}
