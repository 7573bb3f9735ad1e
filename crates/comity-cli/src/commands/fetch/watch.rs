//! Watches a run: the screen, a line a URL on standard output, and what the report does not hold.

use std::io::IsTerminal as _;
use std::sync::Arc;

use comity_fetch::keep::{Outcome, Record};
use comity_fetch::{Observer, Status};
use tokio::sync::Notify;

use crate::screen::words::clean;
use crate::screen::{Screen, print, say};

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
    /// The first URLs that were not fetched, with why.
    pub(crate) reasons: Vec<String>,
    /// Standard output does not take any more.
    pub(crate) output_closed: bool,
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
        }
        if record.outcome == Outcome::Refused && record.status == Some(429) {
            self.too_many += 1;
        }
        // What was not checked has one reason, the end of the run, and the headline says it.
        let telling = !record.outcome.is_held() && record.outcome != Outcome::NotChecked;
        if telling && self.reasons.len() < REASONS {
            self.reasons.push(format!(
                "{:8}  {}  {}",
                word(record.outcome),
                record.url,
                why(record).unwrap_or_default()
            ));
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

/// Enough to see what is wrong, few enough to be read.
const REASONS: usize = 5;

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
    fn a_line_a_url() {
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
        assert_eq!((seen.reasons.len(), seen.too_many), (REASONS, 10));
        assert_eq!(seen.reasons[0], "refused   https://a.example/x  asked to wait 2 h");
    }
}
