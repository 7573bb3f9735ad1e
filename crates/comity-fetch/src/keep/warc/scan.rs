//! Reads a WARC of ours back: which answers it holds, and where its last whole exchange ends.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};

use flate2::bufread::GzDecoder;

use super::super::answers::Wanted;
use super::super::append::Appender;
use super::super::error::{KeepError, Naming};
use super::super::index::{Index, Key};
use super::super::time::Timestamp;

/// On an exchange that is nobody's answer: a redirect, a refusal.
pub(super) const PROVISIONAL: &str = "Comity-Provisional";

/// On an answer: the URL that was asked for.
pub(super) const FOR: &str = "Comity-For";

/// On an answer: which of the requests for the URL it answers, where that is not the plain one.
pub(super) const VARIANT: &str = "Comity-Variant";

/// In a `warcinfo` block: the run that follows.
pub(super) const RUN: &str = "comity-run";

/// What an earlier run left.
#[derive(Default)]
pub(in super::super) struct Found {
    /// Answers: twice the offset, plus [`BROKEN`] where it is a broken link.
    pub(super) index: Index,
    /// The latest run's name.
    pub(in super::super) run: Option<Timestamp>,
    /// Bytes of a torn end, cut off.
    pub(in super::super) torn: u64,
}

/// Beside an answer's place: it hides an earlier one, and is asked for again.
pub(super) const BROKEN: u64 = 1;

/// Reads all of the file, and cuts off an exchange that has no end. Damage before the end is an error: cutting there
/// would lose what follows. Of the answers those that are `wanted` count, and where told so those alone that come after
/// the latest run's first `warcinfo`.
pub(super) fn scan(
    file: &mut Appender,
    gzipped: bool,
    wanted: Wanted,
    latest_run_only: bool,
) -> Result<Found, KeepError> {
    let path = file.path().to_owned();
    let mut source = Source { reader: BufReader::with_capacity(BUFFER, file.reader()?), at: 0, ended: false };
    let mut answers = Answers { wanted, latest_run_only, entries: Vec::new(), run: None, method: "GET" };
    // Where the last whole exchange ends: a request without its response is none.
    let mut whole = 0;
    let torn = loop {
        let begin = source.at;
        source.ended = false;
        match next(&mut source, gzipped) {
            Ok(None) => break begin > whole,
            Ok(Some(record)) => {
                answers.take(&record, begin);
                if record.kind != "request" {
                    whole = source.at;
                }
            }
            Err(_) if source.ended || source.at >= file.len() => break true,
            Err(_) if source.only_zeros_from(begin).naming("read", &path)? => break true,
            Err(error) if error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::InvalidInput => {
                return Err(KeepError::damaged(&path, begin));
            }
            Err(error) => return Err(KeepError::io("read", &path, error)),
        }
    };
    let mut found = Found { index: Index::new(answers.entries), run: answers.run, torn: 0 };
    if torn {
        found.torn = file.len() - whole;
        file.cut(whole)?;
    }
    Ok(found)
}

struct Answers {
    wanted: Wanted,
    latest_run_only: bool,
    entries: Vec<(Key, u64)>,
    run: Option<Timestamp>,
    /// Of the request before; all but `HEAD` are one here.
    method: &'static str,
}

impl Answers {
    fn take(&mut self, record: &Scanned, offset: u64) {
        match record.kind.as_str() {
            "warcinfo" => {
                let run = record.start.split("\r\n").find_map(|line| field(line, RUN)).and_then(|run| run.parse().ok());
                if run > self.run {
                    self.run = run;
                    if self.latest_run_only {
                        self.entries.clear();
                    }
                }
            }
            "request" => self.method = if record.start.starts_with("HEAD ") { "HEAD" } else { "GET" },
            "response" | "revisit" if !record.provisional => {
                let variant = record.variant.as_deref();
                if self.wanted.is_ours(variant, self.method) {
                    let broken = if self.wanted.is_broken(status(&record.start)) { BROKEN } else { 0 };
                    self.entries.push((Key::of(&record.url, variant), offset << 1 | broken));
                }
            }
            _ => {}
        }
    }
}

/// The status in `HTTP/1.1 404`.
fn status(start: &str) -> Option<u16> {
    start.get(9..12)?.parse().ok()
}

/// What matters of one record.
#[derive(Default)]
struct Scanned {
    kind: String,
    url: String,
    variant: Option<String>,
    provisional: bool,
    /// How its block begins.
    start: String,
}

fn next(source: &mut Source<'_>, gzipped: bool) -> io::Result<Option<Scanned>> {
    if source.fill_buf()?.is_empty() {
        return Ok(None);
    }
    if !gzipped {
        let (mut record, length) = header(source)?;
        let rest = start(source, &mut record, length)?;
        source.skip(rest)?;
        record_end(source)?;
        return Ok(Some(record));
    }
    let mut member = BufReader::new(GzDecoder::new(&mut *source));
    let (mut record, length) = header(&mut member)?;
    let rest = start(&mut member, &mut record, length)?;
    if io::copy(&mut (&mut member).take(rest), &mut io::sink())? < rest {
        return Err(invalid("a member shorter than its record"));
    }
    record_end(&mut member)?;
    if member.read(&mut [0])? > 0 {
        return Err(invalid("a member longer than its record"));
    }
    Ok(Some(record))
}

fn header(reader: &mut dyn BufRead) -> io::Result<(Scanned, u64)> {
    let mut reader = reader.take(HEADER_MAX);
    let mut record = Scanned::default();
    let mut length = None;
    if !line(&mut reader)?.starts_with("WARC/1.") {
        return Err(invalid("no record begins here"));
    }
    let mut target = String::new();
    loop {
        let line = line(&mut reader)?;
        if line.is_empty() {
            break;
        }
        if let Some(kind) = field(&line, "WARC-Type") {
            record.kind = kind.to_owned();
        } else if let Some(url) = field(&line, "WARC-Target-URI") {
            target = url.to_owned();
        } else if let Some(url) = field(&line, FOR) {
            record.url = url.to_owned();
        } else if let Some(variant) = field(&line, VARIANT) {
            record.variant = Some(variant.to_owned());
        } else if let Some(bytes) = field(&line, "Content-Length") {
            length = bytes.parse().ok();
        } else if field(&line, PROVISIONAL).is_some() {
            record.provisional = true;
        }
    }
    if record.url.is_empty() {
        record.url = target;
    }
    Ok((record, length.ok_or_else(|| invalid("a record without a length"))?))
}

/// Reads the beginning of a block that tells something; how much is left of it.
fn start(reader: &mut dyn BufRead, record: &mut Scanned, length: u64) -> io::Result<u64> {
    let wanted = match record.kind.as_str() {
        "warcinfo" => length.min(HEADER_MAX),
        "request" => length.min(5),
        "response" | "revisit" => length.min(12),
        _ => 0,
    };
    let mut start = vec![0; wanted as usize];
    reader.read_exact(&mut start)?;
    record.start = String::from_utf8_lossy(&start).into_owned();
    Ok(length - wanted)
}

fn record_end(reader: &mut dyn BufRead) -> io::Result<()> {
    let mut end = [0; super::RECORD_END.len()];
    reader.read_exact(&mut end)?;
    if end == super::RECORD_END { Ok(()) } else { Err(invalid("a record does not end where it says")) }
}

fn line(reader: &mut dyn BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None if line.ends_with(b"\n") => Err(invalid("a line that ends otherwise")),
        None => Err(invalid("a line without an end")),
    }
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    found.eq_ignore_ascii_case(name).then(|| value.trim())
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The file from its start: where we are, and whether its end was met.
struct Source<'a> {
    reader: BufReader<&'a File>,
    at: u64,
    ended: bool,
}

impl Source<'_> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let step = i64::try_from(bytes).map_err(|_| invalid("a length out of reach"))?;
        self.reader.seek_relative(step)?;
        self.at += bytes;
        Ok(())
    }

    /// A power cut can leave a file longer than what was written to it.
    fn only_zeros_from(&mut self, begin: u64) -> io::Result<bool> {
        self.reader.seek(io::SeekFrom::Start(begin))?;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(true);
            }
            if buffer.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            let len = buffer.len();
            self.reader.consume(len);
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let buffer = self.reader.fill_buf()?;
        self.ended |= buffer.is_empty();
        Ok(buffer)
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.reader.consume(bytes);
    }
}

/// URLs in it may be long; more than this is not a header.
const HEADER_MAX: u64 = 1 << 20;

const BUFFER: usize = 256 * 1024;
