//! The counts of a run, and its report (`schema/report.schema.json`).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::error::{KeepError, Naming};
use super::record::{Outcome, Record};
use super::time::Timestamp;

/// How many URLs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Answered, whatever the status.
    pub fetched: u32,
    /// What you have still holds: the server said so, or it is too young to be asked for again.
    pub unchanged: u32,
    /// Refused until we gave up.
    pub refused: u32,
    /// Of those answered, the ones that needed more than one attempt.
    pub retried: u32,
    /// Never answered.
    pub failed: u32,
    /// Not asked: robots.txt.
    pub robots: u32,
    /// Not asked: our decision.
    pub skipped: u32,
    /// Not asked: the run ended first.
    pub not_checked: u32,
}

/// Counts records as they come: one for each host, up to [`Tally::HOSTS_MAX`] hosts, and all together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    totals: Counts,
    other_hosts: Counts,
    bytes: u64,
    hosts: HashMap<Box<str>, Counts>,
}

/// What a run did, for people and for CI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When the run began (a resumed run: this part of it).
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
    /// All URLs.
    pub totals: Counts,
    /// Requests sent, robots.txt, redirects and retries included.
    pub attempts: u64,
    /// Bytes of the bodies kept.
    pub bytes: u64,
    /// By host, as the limits see hosts: an IP address keeps its port.
    pub hosts: BTreeMap<String, Counts>,
    /// Hosts past the number that is listed.
    pub other_hosts: Counts,
}

impl Tally {
    /// Hosts counted apart: some 100 bytes each.
    pub const HOSTS_MAX: usize = 100_000;

    /// Counts one URL.
    pub fn record(&mut self, record: &Record) {
        if record.outcome == Outcome::Fetched {
            self.bytes += record.bytes.unwrap_or(0);
        }
        self.totals.count(record);
        if let Some(host) = Url::parse(&record.url).ok().as_ref().and_then(host_of) {
            self.host(&host).count(record);
        }
    }

    /// Counts many URLs of this one's host that ended alike without a request.
    pub fn record_many(&mut self, url: &Url, outcome: Outcome, many: u32) {
        self.totals.add(outcome, many);
        if let Some(host) = host_of(url) {
            self.host(&host).add(outcome, many);
        }
    }

    /// All hosts together.
    pub fn totals(&self) -> &Counts {
        &self.totals
    }

    /// Bytes of the bodies kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The report of a run between these times that sent so many requests: not all of them are in a record where the run
    /// was stopped, and those for robots.txt are in none.
    pub fn report(&self, started: Timestamp, finished: Timestamp, requests: u64) -> Report {
        Report {
            started,
            finished,
            totals: self.totals,
            attempts: requests,
            bytes: self.bytes,
            hosts: self.hosts.iter().map(|(host, counts)| (host.to_string(), *counts)).collect(),
            other_hosts: self.other_hosts,
        }
    }

    fn host(&mut self, host: &str) -> &mut Counts {
        if !self.hosts.contains_key(host) {
            if self.hosts.len() >= Self::HOSTS_MAX {
                return &mut self.other_hosts;
            }
            self.hosts.insert(host.into(), Counts::default());
        }
        self.hosts.get_mut(host).unwrap_or(&mut self.other_hosts)
    }
}

impl Counts {
    /// All URLs counted.
    pub fn all(&self) -> u64 {
        [self.fetched, self.unchanged, self.refused, self.failed, self.robots, self.skipped, self.not_checked]
            .into_iter()
            .map(u64::from)
            .sum()
    }

    fn count(&mut self, record: &Record) {
        self.add(record.outcome, 1);
        if record.outcome.is_held() && record.attempts as usize > 1 + record.redirects.len() {
            self.retried = self.retried.saturating_add(1);
        }
    }

    fn add(&mut self, outcome: Outcome, many: u32) {
        let count = match outcome {
            Outcome::Fetched => &mut self.fetched,
            Outcome::Unchanged => &mut self.unchanged,
            Outcome::Refused => &mut self.refused,
            Outcome::Failed => &mut self.failed,
            Outcome::Robots => &mut self.robots,
            Outcome::Skipped => &mut self.skipped,
            Outcome::NotChecked => &mut self.not_checked,
        };
        *count = count.saturating_add(many);
    }
}

impl Report {
    /// Writes it as JSON, so that `path` holds the whole report or what it held before.
    pub fn write(&self, path: &Path) -> Result<(), KeepError> {
        let mut text = match serde_json::to_vec_pretty(self) {
            Ok(text) => text,
            Err(error) => return Err(KeepError::io("write", path, error.into())),
        };
        text.push(b'\n');
        write_atomically(path, &text)
    }
}

/// Gives `path` the content `bytes` at once: by a temporary file beside it, on disk before it takes the name.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), KeepError> {
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        // A pipe or a device has no name to give away.
        return File::options().write(true).open(path).and_then(|mut file| file.write_all(bytes)).naming("write", path);
    }
    let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".comity-part-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less the umask, as any file
    let written = builder.tempfile_in(beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(io::Error::from)
    });
    written.map(drop).naming("write", path)
}

fn host_of(url: &Url) -> Option<String> {
    match url.host()? {
        Host::Domain(name) => Some(name.trim_end_matches('.').to_owned()),
        _ => Some(url[url::Position::BeforeHost..url::Position::AfterPort].to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(url: &str, outcome: Outcome, attempts: u32) -> Record {
        let mut record = Record::new(url, outcome, Timestamp::default(), Timestamp::default());
        record.attempts = attempts;
        record.bytes = Some(10);
        record
    }

    #[test]
    fn h02_answers_after_retry_and_never_answered_are_counted_by_host() {
        let mut tally = Tally::default();
        for (url, outcome, attempts) in [
            ("https://a.test/1", Outcome::Fetched, 1),
            ("http://a.test:8080/2", Outcome::Fetched, 3),
            ("https://a.test./3", Outcome::Unchanged, 2),
            ("https://a.test/4", Outcome::Refused, 6),
            ("https://a.test/5", Outcome::Failed, 1),
            ("https://b.test/6", Outcome::Robots, 0),
            ("http://192.0.2.1:81/7", Outcome::Skipped, 0),
            ("not a URL", Outcome::NotChecked, 0),
        ] {
            tally.record(&record(url, outcome, attempts));
        }
        let report = tally.report(Timestamp::from_millis(1), Timestamp::from_millis(2), 16);
        let hosts: Vec<&str> = report.hosts.keys().map(String::as_str).collect();
        assert_eq!(hosts, ["192.0.2.1:81", "a.test", "b.test"]);
        let a = Counts { fetched: 2, unchanged: 1, refused: 1, retried: 2, failed: 1, ..Counts::default() };
        assert_eq!(report.hosts["a.test"], a);
        assert_eq!(report.totals, Counts { robots: 1, skipped: 1, not_checked: 1, ..a });
        assert_eq!((report.attempts, report.bytes), (16, 20));
    }

    #[test]
    fn a_redirect_is_no_retry() {
        let mut redirected = record("https://a.test/", Outcome::Fetched, 2);
        redirected.redirects.push(super::super::Redirect { status: 301, to: "https://b.test/".to_owned() });
        let mut tally = Tally::default();
        tally.record(&redirected);
        assert_eq!(tally.totals().retried, 0);
        redirected.attempts = 3;
        tally.record(&redirected);
        assert_eq!(tally.totals().retried, 1);
    }

    #[test]
    fn hosts_past_the_bound_are_counted_together() {
        let mut tally = Tally::default();
        for n in 0..Tally::HOSTS_MAX + 5 {
            tally.record(&record(&format!("https://h{n}.test/"), Outcome::Fetched, 1));
        }
        assert_eq!((tally.hosts.len(), tally.other_hosts.fetched), (Tally::HOSTS_MAX, 5));
        tally.record(&record("https://h1.test/", Outcome::Fetched, 1));
        assert_eq!(tally.hosts["h1.test"].fetched, 2);
    }

    #[test]
    fn a_report_is_written_whole_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let mut tally = Tally::default();
        for n in 0..2 {
            tally.record(&record("https://a.test/", Outcome::Fetched, 1));
            let report = tally.report(Timestamp::from_millis(n), Timestamp::from_millis(n), 1);
            report.write(&path).unwrap();
            assert_eq!(serde_json::from_slice::<Report>(&std::fs::read(&path).unwrap()).unwrap(), report);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = write_atomically(&dir.path().join("none/report.json"), b"").unwrap_err();
        assert!(error.to_string().ends_with("none/report.json"));
    }
}
