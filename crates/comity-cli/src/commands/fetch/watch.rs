//! Watches a run: the screen, a line per URL on standard output, and what the report does not hold.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;

use std::time::Duration;

use comity_fetch::keep::{Counts, Outcome, Record, Report, Timestamp};
use comity_fetch::{Observer, SharedPace, Status};
use tokio::sync::Notify;

use super::reasons::Reasons;
use crate::screen::words::clean;
use crate::screen::{Screen, log, print, say};

/// Watches a run.
pub(crate) struct Watch {
    screen: Screen,
    quiet: bool,
    prints_lines: bool,
    /// Whether standard output is a terminal, where the live view has to make room for a line.
    lines_are_seen: bool,
    checks_links: bool,
    /// Told when nobody reads standard output any more.
    closed: Arc<Notify>,
    seen: Seen,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Answers of 400 and more, where links are checked.
    pub(crate) broken: u32,
    /// URLs that ended with the 429 they got.
    pub(crate) too_many: u32,
    /// Why URLs were not fetched, and which links are broken.
    pub(crate) reasons: Reasons,
    /// URLs that were not checked for want of a robots.txt.
    pub(crate) robots_unread: u32,
    /// Standard output does not take any more.
    pub(crate) output_closed: bool,
    /// What became of the URLs so far.
    pub(super) counts: Counts,
    /// Bytes of bodies so far.
    pub(super) bytes: u64,
    /// Where the run was at the last look: its list's length, its requests, its time.
    pub(super) at: (u64, u64, Duration),
    /// How it stood with the shared pace then.
    pub(super) shared: Option<SharedPace>,
}

impl Watch {
    pub(crate) fn new(
        screen: Screen,
        quiet: bool,
        prints_lines: bool,
        checks_links: bool,
        closed: Arc<Notify>,
    ) -> Self {
        let lines_are_seen = std::io::stdout().is_terminal();
        Self { screen, quiet, prints_lines, lines_are_seen, checks_links, closed, seen: Seen::default() }
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Takes the screen away.
    pub(crate) fn clear(&mut self) {
        self.screen.clear();
    }
}

impl Observer for Watch {
    fn status(&mut self, status: &Status) {
        self.seen.at = (status.total, status.requests, status.elapsed);
        self.seen.shared.clone_from(&status.shared);
        for warning in log::warnings() {
            self.notice(&warning);
        }
        self.screen.status(status);
    }

    fn record(&mut self, record: &Record) {
        self.seen.note(record, self.checks_links);
        if self.prints_lines && !self.seen.output_closed {
            let line = line(record);
            let printed = if self.lines_are_seen { self.screen.aside(|| print(&line)) } else { print(&line) };
            if printed.is_err() {
                self.seen.output_closed = true;
                self.closed.notify_one();
            }
        }
    }

    fn notice(&mut self, text: &str) {
        if !self.quiet {
            self.screen.aside(|| say(&format!("comity: {}", clean(text))));
        }
    }
}

impl Seen {
    fn note(&mut self, record: &Record, checks_links: bool) {
        let is_error = record.status.is_some_and(|status| status >= 400);
        if checks_links && record.outcome == Outcome::Fetched && is_error {
            self.broken += 1;
            self.reasons.note_broken(record, record.status.unwrap_or_default());
        }
        if record.outcome == Outcome::Refused && record.status == Some(429) {
            self.too_many += 1;
        }
        let why = why(record).unwrap_or_default();
        if record.outcome == Outcome::NotChecked && why.starts_with(ROBOTS_UNREAD) {
            self.robots_unread += 1;
        }
        // What was not checked without a reason was so because the run ended, and the headline says that.
        if !record.outcome.is_held() && (record.outcome != Outcome::NotChecked || !why.is_empty()) {
            self.reasons.note(word(record.outcome), record, why);
        }
        self.count(record);
    }

    fn count(&mut self, record: &Record) {
        let counts = &mut self.counts;
        let count = match record.outcome {
            Outcome::Fetched => &mut counts.fetched,
            Outcome::Unchanged => &mut counts.unchanged,
            Outcome::Refused => &mut counts.refused,
            Outcome::Failed => &mut counts.failed,
            Outcome::Robots => &mut counts.robots,
            Outcome::Skipped => &mut counts.skipped,
            Outcome::NotChecked => &mut counts.not_checked,
        };
        *count = count.saturating_add(1);
        if record.outcome == Outcome::Fetched {
            self.bytes += record.bytes.unwrap_or_default();
        }
    }

    /// What a run has come to that ended without a report, because an output could not be written;
    /// `listed` URLs were there where it ended before the first look at it.
    pub(crate) fn report(&self, listed: u64) -> Report {
        let (total, attempts, elapsed) = self.at;
        let total = if total == 0 { listed } else { total };
        let mut totals = self.counts;
        let missing = u32::try_from(total.saturating_sub(totals.all())).unwrap_or(u32::MAX);
        totals.not_checked = totals.not_checked.saturating_add(missing);
        Report {
            started: Timestamp::default(),
            finished: Timestamp::from_millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)),
            totals,
            attempts,
            bytes: self.bytes,
            hosts: BTreeMap::new(),
            other_hosts: Counts::default(),
        }
    }
}

/// A URL's line on standard output: `STATUS BYTES URL`, then where it led and why it is not simply fetched.
pub(crate) fn line(record: &Record) -> String {
    let answered = matches!(record.outcome, Outcome::Fetched | Outcome::Unchanged | Outcome::Refused);
    let status = match record.status {
        Some(status) if answered => status.to_string(),
        _ => word(record.outcome).to_owned(),
    };
    let bytes = record.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let mut line = format!("{status} {bytes} {}", record.url);
    if let Some(last) = record.final_url.as_ref().filter(|last| **last != record.url) {
        line.push_str(&format!(" -> {last}"));
    }
    if !record.outcome.is_held()
        && let Some(why) = why(record)
    {
        line.push_str(&format!("  {why}"));
    }
    format!("{}\n", clean(&line))
}

fn why(record: &Record) -> Option<&str> {
    record.reason.as_deref().or(record.error.as_deref())
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Fetched => "fetched",
        Outcome::Unchanged => "unchanged",
        Outcome::Refused => "refused",
        Outcome::Failed => "failed",
        Outcome::Robots => "robots",
        Outcome::Skipped => "skipped",
        Outcome::NotChecked => "not_checked",
    }
}

/// How the reason begins where no robots.txt was to be had.
const ROBOTS_UNREAD: &str = "robots.txt could not be read";

#[cfg(test)]
mod tests {
    use super::*;
    use comity_fetch::keep::Timestamp;

    fn record(outcome: Outcome, status: Option<u16>) -> Record {
        let mut record = Record::new("https://a.example/x", outcome, Timestamp::default(), Timestamp::default());
        record.status = status;
        record
    }

    #[test]
    fn a_line_per_url() {
        let mut fetched = record(Outcome::Fetched, Some(200));
        fetched.bytes = Some(1234);
        fetched.final_url = Some(fetched.url.clone());
        assert_eq!(line(&fetched), "200 1234 https://a.example/x\n");
        fetched.final_url = Some("https://b.example/y".to_owned());
        assert_eq!(line(&fetched), "200 1234 https://a.example/x -> https://b.example/y\n");
        let mut refused = record(Outcome::Refused, Some(429));
        refused.reason = Some("gave up after 5 retries".to_owned());
        assert_eq!(line(&refused), "429 - https://a.example/x  gave up after 5 retries\n");
        let mut failed = record(Outcome::Failed, Some(200));
        failed.error = Some("connection\nclosed".to_owned());
        assert_eq!(line(&failed), "failed - https://a.example/x  connection closed\n");
        assert_eq!(line(&record(Outcome::NotChecked, None)), "not_checked - https://a.example/x\n");
    }

    #[test]
    fn broken_links_are_counted_where_links_are_checked() {
        let mut seen = Seen::default();
        for status in [200, 399, 400, 404, 500] {
            seen.note(&record(Outcome::Fetched, Some(status)), true);
        }
        seen.note(&record(Outcome::Fetched, Some(404)), false);
        assert_eq!(seen.broken, 3);
    }

    #[test]
    fn the_first_reasons_are_kept() {
        let mut seen = Seen::default();
        seen.note(&record(Outcome::Fetched, Some(200)), false);
        seen.note(&record(Outcome::NotChecked, None), false);
        for _ in 0..10 {
            let mut refused = record(Outcome::Refused, Some(429));
            refused.reason = Some("asked to wait 2 h".to_owned());
            seen.note(&refused, false);
        }
        assert_eq!(seen.too_many, 10);
        assert_eq!(seen.reasons.lines(), ["refused      https://a.example/x  asked to wait 2 h  (10 like this)"]);
    }

    #[test]
    fn a_robots_txt_that_cannot_be_read_is_told_apart_from_limits() {
        let mut seen = Seen::default();
        for why in ["robots.txt could not be read: 503", "waited longer than 5 s"] {
            let mut left = record(Outcome::NotChecked, None);
            left.reason = Some(why.to_owned());
            seen.note(&left, false);
        }
        assert_eq!((seen.robots_unread, seen.reasons.lines().len()), (1, 2));
    }

    #[test]
    fn a_run_that_broke_off_has_counts_so_far() {
        let mut seen = Seen { at: (10, 7, Duration::from_secs(3)), ..Seen::default() };
        for status in [200, 404] {
            seen.note(&record(Outcome::Fetched, Some(status)), false);
        }
        seen.note(&record(Outcome::Failed, None), false);
        let report = seen.report(12);
        assert_eq!((report.totals.fetched, report.totals.failed, report.totals.not_checked), (2, 1, 7));
        assert_eq!((report.attempts, report.finished.as_millis()), (7, 3_000));
        assert_eq!(Seen::default().report(12).totals.not_checked, 12);
    }
}
