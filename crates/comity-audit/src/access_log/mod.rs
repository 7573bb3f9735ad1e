//! Arrivals as a server's own access log tells of them, and what they say about each client's pace.
//!
//! ```
//! use comity_audit::access_log::{self, LogTable, Verdict};
//! use std::time::Duration;
//!
//! let log = br#"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 2326
//! 192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /b HTTP/1.1" 200 2326
//! 192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /c HTTP/1.1" 429 0
//! 192.0.2.7 - - [10/Oct/2000:13:55:46 -0700] "GET /c HTTP/1.1" 200 2326
//! "#;
//! let log = access_log::read(&log[..])?;
//! let verdicts = access_log::judge(&log, Duration::from_secs(2), Duration::ZERO, 1);
//! assert_eq!(verdicts[0].verdict, Verdict::Fails); // three within a second, where two seconds each were promised
//! println!("{}", LogTable(&verdicts));
//! # Ok::<(), access_log::LogError>(())
//! ```
//!
//! # What is exact, and what is not
//!
//! A server writes a line when the answer *ends*, so the order of lines is not the order of arrivals: times are sorted
//! before they are judged. What a time means depends on who wrote it:
//!
//! | log | its time | taken as the arrival |
//! |---|---|---|
//! | Apache `%t` | when the request was received | as it stands |
//! | nginx JSON with `request_time` | when the answer ended | the time less `request_time` |
//! | Caddy JSON with `duration` in seconds | when the answer ended | `ts` less `duration` |
//! | Traefik JSON | `StartUTC`: when the request was received | as it stands |
//! | Traefik JSON without `StartUTC` | when the answer ended | `time` less `Duration` (nanoseconds) |
//! | Envoy `start_time`, load balancers' `request_creation_time` | when the request was received | as it stands |
//! | nginx's text formats, any other JSON | when the answer ended, or not known | as it stands: **not exact** |
//!
//! In the last case a slow answer makes its request look late and the next one close behind it, so a single short gap
//! there is a hint rather than proof. Clocks that were set back or forward while the log was written show in it, too.
//!
//! Times are no finer than the log's [`grain`](Log::grain): most servers write whole seconds. [`judge`] blames nothing
//! that rounding may explain. Where a proxy stands before the server, the client is whatever address the server logs,
//! which may be the proxy's. Text formats are read as UTC where they name no offset.

mod common;
mod input;
mod json;
mod judge;
mod time;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, BufRead};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub use judge::{ClientVerdict, LogTable, Verdict, Window, judge};

use input::{Input, Line};
use time::Stamp;

/// Reads a whole access log in one pass; its format is that of its first readable line.
///
/// A line that cannot be read (of another format, truncated, of more than 64 KiB, with a time before 1973) is counted in
/// [`Log::skipped`]; blank lines and comments (`#`) are not. Bytes that are no UTF-8 are replaced. A line costs 16 bytes
/// of memory; names of clients, hosts and agents are kept once.
///
/// # Errors
///
/// When reading fails, and when there is no readable line at all.
pub fn read(input: impl BufRead) -> Result<Log, LogError> {
    let mut reading = Reading::default();
    let mut input = Input::new(input);
    while let Some(line) = input.next()? {
        match line {
            Line::TooLong(beginning) => reading.skip(&beginning),
            Line::Whole(text) => {
                let text = text.trim();
                if !text.is_empty() && !text.starts_with('#') {
                    reading.take(text);
                }
            }
        }
    }
    reading.finish()
}

/// The arrivals an access log tells of.
#[derive(Clone, Debug)]
pub struct Log {
    /// The format its first readable line had.
    pub format: Format,
    /// How fine its times are: what lies within one grain cannot be told apart. Where lines differ, at least 95 of 100
    /// are as fine as that.
    pub grain: Duration,
    /// Lines that could not be read.
    pub skipped: u64,
    entries: Vec<Entry>,
    parties: Vec<Arc<Party>>,
}

impl Log {
    /// How many lines were read.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no line was read; never so for a log that [`read`] returned.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The lines that were read, in the order of the file.
    pub fn lines(&self) -> impl Iterator<Item = Logged<'_>> {
        self.entries.iter().filter_map(|entry| {
            let party = self.parties.get(entry.party as usize)?;
            Some(Logged {
                at: Duration::from_nanos(entry.at),
                client: &party.client,
                host: party.host.as_deref(),
                status: entry.status,
                agent: party.agent.as_deref(),
            })
        })
    }
}

/// One line of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged<'a> {
    /// When the request arrived, as exactly as the log tells (see [the module](self)), since the Unix epoch.
    pub at: Duration,
    /// The address, or the name, of who asked; without a port.
    pub client: &'a str,
    /// The host that was asked for, in lower case and without a port, where the log says.
    pub host: Option<&'a str>,
    /// The status of the answer; `None` where the log says there was none.
    pub status: Option<u16>,
    /// What the client called itself, where the log says.
    pub agent: Option<&'a str>,
}

/// How an access log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Common Log Format, with or without a virtual host before it.
    Common,
    /// Combined Log Format: Common with referrer and user agent.
    Combined,
    /// A JSON object on each line.
    JsonLines,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Common => "Common Log Format",
            Self::Combined => "Combined Log Format",
            Self::JsonLines => "JSON lines",
        })
    }
}

/// Why an access log was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The input could not be read.
    #[error("the access log could not be read")]
    Read(#[from] io::Error),
    /// There is no line in it.
    #[error("the access log is empty")]
    Empty,
    /// None of its lines is in a format that is read.
    #[error(
        "no line of the access log could be read; the first is \"{first}\". \
         Read are the Common and the Combined Log Format (Apache, nginx; with a virtual host before it, too), and JSON \
         lines with a time, a client and a status (nginx, Caddy, Traefik, Apache, HAProxy, Envoy)"
    )]
    NothingReadable {
        /// The beginning of the first line, escaped.
        first: String,
    },
}

/// What a parser finds in a line.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    stamp: Stamp,
    status: Option<u16>,
    party: Party,
}

/// Who asked whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Party {
    client: String,
    host: Option<String>,
    agent: Option<String>,
}

impl Party {
    /// `None` where there is no client to speak of. Names are bounded, and free of what would command a terminal.
    fn new(client: &str, host: Option<&str>, agent: Option<&str>) -> Option<Self> {
        Some(Self {
            client: address(said(client)?),
            host: host.and_then(said).map(host_name),
            agent: agent.and_then(said).map(plain),
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Nanoseconds since the Unix epoch.
    at: u64,
    party: u32,
    status: Option<u16>,
}

/// A log while it is read.
#[derive(Default)]
struct Reading {
    format: Option<Format>,
    skipped: u64,
    first: Option<String>,
    entries: Vec<Entry>,
    parties: Vec<Arc<Party>>,
    numbers: HashMap<Arc<Party>, u32>,
    /// Lines by the resolution of their time, in nanoseconds.
    resolutions: BTreeMap<u64, usize>,
}

impl Reading {
    fn take(&mut self, text: &str) {
        let format = self.format.unwrap_or(if text.starts_with('{') { Format::JsonLines } else { Format::Common });
        let row = if format == Format::JsonLines { json::row(text) } else { common::row(text) };
        let Some((stamp, status, number)) = row.and_then(|row| Some((row.stamp, row.status, self.number(row.party)?)))
        else {
            return self.skip(text);
        };
        let names_agent = self.parties.get(number as usize).is_some_and(|party| party.agent.is_some());
        self.format = Some(if format == Format::Common && names_agent { Format::Combined } else { format });
        *self.resolutions.entry(stamp.resolution).or_default() += 1;
        self.entries.push(Entry { at: stamp.nanos, party: number, status });
    }

    fn skip(&mut self, text: &str) {
        self.skipped += 1;
        self.first.get_or_insert_with(|| text.chars().take(MOST_QUOTED).flat_map(char::escape_debug).collect());
    }

    /// The number of a party, which it gets when it is first seen.
    fn number(&mut self, party: Party) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&party) {
            return Some(number);
        }
        let number = u32::try_from(self.parties.len()).ok()?;
        let party = Arc::new(party);
        self.parties.push(Arc::clone(&party));
        self.numbers.insert(party, number);
        Some(number)
    }

    fn finish(self) -> Result<Log, LogError> {
        let grain = self.grain();
        let Self { format, skipped, first, entries, parties, .. } = self;
        match (format, first) {
            (Some(format), _) => Ok(Log { format, grain, skipped, entries, parties }),
            (None, Some(first)) => Err(LogError::NothingReadable { first }),
            (None, None) => Err(LogError::Empty),
        }
    }

    /// The resolution all but a few lines have. Writers that leave out closing zeros make one time in ten look coarser
    /// than it is, which errs on the client's side.
    fn grain(&self) -> Duration {
        let mut coarser = 0;
        for (&resolution, lines) in self.resolutions.iter().rev() {
            coarser += lines;
            if coarser * 100 > self.entries.len() * COARSE_PERCENT {
                return Duration::from_nanos(resolution);
            }
        }
        Duration::ZERO
    }
}

/// What a field says; `-` says nothing.
fn said(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty() && *text != "-")
}

/// An address in its canonical spelling and without a port, or a name as it is.
fn address(text: &str) -> String {
    parse_address(text).map_or_else(|| plain(text), |address| address.to_canonical().to_string())
}

/// An IP address, with or without brackets and a port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| text.parse().ok().map(|with_port: SocketAddr| with_port.ip()))
}

/// A host's name: all ports of a host are one party.
fn host_name(text: &str) -> String {
    if let Some(address) = parse_address(text) {
        return address.to_string();
    }
    let name = match text.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => text,
    };
    plain(name.trim_end_matches('.')).to_lowercase()
}

/// A name, bounded and without control characters.
fn plain(text: &str) -> String {
    text.chars().take(MOST_NAMED).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Characters of a name that are kept: a host's name has at most 253, and an agent's says who it is by then.
const MOST_NAMED: usize = 256;
/// Characters of the first line that an error quotes.
const MOST_QUOTED: usize = 120;
/// So many lines of a hundred may be coarser than the grain. Where zeros are left out, one line in a hundred looks a
/// hundred times coarser than it is; where a log was begun in another format, a good part of it does.
const COARSE_PERCENT: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn addresses_have_one_spelling() {
        for (given, kept) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:5000", "192.0.2.1"),
            ("2001:DB8:0::1", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("client.example.net", "client.example.net"),
            ("a\u{1b}[31m", "a\u{fffd}[31m"),
        ] {
            assert_eq!(address(given), kept, "{given}");
        }
    }

    #[test]
    fn hosts_have_no_port_and_no_case() {
        for (given, kept) in [
            ("Example.ORG:443", "example.org"),
            ("example.org.", "example.org"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("192.0.2.9:8080", "192.0.2.9"),
            ("_", "_"),
        ] {
            assert_eq!(host_name(given), kept, "{given}");
        }
    }
}
