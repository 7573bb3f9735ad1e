//! What is said at the end of a run.

use std::fmt::Write as _;

use comity_fetch::Stop;
use comity_fetch::keep::{Counts, Report};

use super::view::done;
use super::words::{bytes, clean, count, middle, span};

/// What a report does not hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Why the run ended before its list did.
    pub(crate) stopped: Option<Stop>,
    /// URLs of the list that an earlier run has done.
    pub(crate) earlier: u64,
    /// The run ended because nobody reads standard output any more.
    pub(crate) output_closed: bool,
    /// Answers of 400 and more, where links were checked.
    pub(crate) broken: u32,
    /// An output could not be written, which ended the run.
    pub(crate) broken_off: bool,
    /// Lines of the list that are no URLs.
    pub(crate) malformed: u64,
    /// URLs that were not checked for want of a robots.txt.
    pub(crate) robots_unread: u32,
    /// The first broken links and the first reasons, a line each.
    pub(crate) reasons: Vec<String>,
    /// What might help.
    pub(crate) hints: Vec<String>,
}

/// The summary: all together, by host, the first reasons, hints.
pub(crate) fn summary(report: &Report, beside: &Beside) -> String {
    let mut text = String::new();
    headline(&mut text, report, beside);
    if report.hosts.len() > 1 {
        hosts(&mut text, report);
    }
    if !beside.reasons.is_empty() {
        text.push_str("\nFirst reasons:\n");
        for reason in &beside.reasons {
            let _ = writeln!(text, "  {}", clean(reason));
        }
    }
    for hint in &beside.hints {
        let _ = write!(text, "\nHint: {hint}\n");
    }
    text.truncate(text.trim_end().len());
    text
}

fn headline(text: &mut String, report: &Report, beside: &Beside) {
    let totals = &report.totals;
    let millis = report.finished.as_millis().saturating_sub(report.started.as_millis());
    let took = span(std::time::Duration::from_millis(u64::try_from(millis).unwrap_or_default()));
    let all = all(totals);
    let left = u64::from(totals.not_checked);
    match beside.stopped {
        _ if beside.broken_off => {
            let _ = write!(text, "{BOLD}Ended by an error after {took}: {} done, {left} not done{PLAIN}", all - left);
        }
        Some(Stop::Interrupted) if beside.output_closed => {
            let _ = write!(
                text,
                "{BOLD}Stopped after {took} because nobody reads the output: {} done, {left} not{PLAIN}",
                all - left
            );
        }
        Some(Stop::Interrupted) => {
            let _ = write!(text, "{BOLD}Interrupted after {took}: {} done, {left} not done{PLAIN}", all - left);
        }
        Some(Stop::Limited) => {
            let _ =
                write!(text, "{BOLD}Stopped after {took} because rate limited: {} done, {left} not{PLAIN}", all - left);
        }
        None => {
            let _ = write!(text, "{BOLD}{} in {took}{PLAIN}", count(all, "URL"));
        }
    }
    let not_checked = match beside.stopped {
        None | Some(Stop::Limited) if !beside.broken_off => "not checked because limited",
        _ => "not checked",
    };
    let unread = beside.robots_unread.min(totals.not_checked);
    let words: Vec<String> = [
        (totals.fetched, "fetched"),
        (totals.unchanged, "unchanged"),
        (totals.refused, "refused"),
        (totals.failed, "never answered"),
        (totals.robots, "disallowed by robots.txt"),
        (totals.skipped, "skipped"),
        (totals.not_checked - unread, not_checked),
        (unread, "not checked because robots.txt could not be read"),
        (beside.broken, "broken (of those fetched)"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{n} {what}"))
    .collect();
    if !words.is_empty() {
        let _ = write!(text, ": {}", words.join(", "));
    }
    let _ = write!(text, ".\n{}, {}", count(report.attempts, "request"), bytes(report.bytes));
    if totals.retried > 0 {
        let _ = write!(text, ", {} answered after a retry", totals.retried);
    }
    if beside.earlier > 0 {
        let _ = write!(text, "; {} done by an earlier run", count(beside.earlier, "URL"));
    }
    match beside.malformed {
        0 => {}
        1 => text.push_str("; 1 line of the list is no URL"),
        lines => {
            let _ = write!(text, "; {lines} lines of the list are no URLs");
        }
    }
    text.push_str(".\n");
}

/// A table of the hosts with most URLs; columns without any number are left out.
fn hosts(text: &mut String, report: &Report) {
    let mut hosts: Vec<(&str, Counts)> = report.hosts.iter().map(|(host, counts)| (host.as_str(), *counts)).collect();
    hosts.sort_by_key(|(_, counts)| std::cmp::Reverse(all(counts)));
    let others = all(&report.other_hosts);
    // One host more takes the line that would say that there is one more.
    let shown = if hosts.len() == HOSTS_SHOWN + 1 && others == 0 { HOSTS_SHOWN + 1 } else { HOSTS_SHOWN };
    let more = hosts.len().saturating_sub(shown);
    hosts.truncate(shown);
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|(_, of)| hosts.iter().any(|(_, counts)| of(counts) > 0)).collect();
    let names: Vec<String> = hosts.iter().map(|(host, _)| middle(&clean(host), WIDEST_HOST)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default().max("host".len());
    let _ = write!(text, "\n{BOLD}{:width$}", "host");
    for (name, _) in &columns {
        let _ = write!(text, "  {name:>CELL$}");
    }
    let _ = writeln!(text, "{PLAIN}");
    for ((_, counts), name) in hosts.iter().zip(&names) {
        let _ = write!(text, "{name:width$}");
        for (_, of) in &columns {
            let _ = match of(counts) {
                0 => write!(text, "  {:>CELL$}", "·"),
                n => write!(text, "  {n:>CELL$}"),
            };
        }
        text.push('\n');
    }
    if more > 0 || others > 0 {
        let _ = write!(text, "and {}", count(more as u64, "more host"));
        if others > 0 {
            let _ = write!(text, ", {} at hosts not listed", count(others, "URL"));
        }
        text.push('\n');
    }
}

/// URLs that were counted, whatever became of them.
pub(crate) fn all(counts: &Counts) -> u64 {
    done(counts) + u64::from(counts.not_checked)
}

type Column = (&'static str, fn(&Counts) -> u32);

const COLUMNS: [Column; 8] = [
    ("fetched", |counts| counts.fetched),
    ("unchanged", |counts| counts.unchanged),
    ("refused", |counts| counts.refused),
    ("retried", |counts| counts.retried),
    ("failed", |counts| counts.failed),
    ("not checked", |counts| counts.not_checked),
    ("robots", |counts| counts.robots),
    ("skipped", |counts| counts.skipped),
];

/// Hosts in the table.
const HOSTS_SHOWN: usize = 20;

/// A longer name is cut in its middle, so that the table fits on a usual terminal.
const WIDEST_HOST: usize = 40;

/// The widest column's name.
const CELL: usize = 11;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use super::*;
    use comity_fetch::keep::Timestamp;
    use std::collections::BTreeMap;

    fn report(hosts: impl IntoIterator<Item = (String, Counts)>, totals: Counts) -> Report {
        Report {
            started: Timestamp::from_millis(1_000),
            finished: Timestamp::from_millis(201_000),
            totals,
            attempts: 412,
            bytes: 3_200_000,
            hosts: BTreeMap::from_iter(hosts),
            other_hosts: Counts::default(),
        }
    }

    fn words(report: &Report, beside: &Beside) -> String {
        summary(report, beside).replace(BOLD, "").replace(PLAIN, "")
    }

    #[test]
    fn h01_h02_what_was_limited_is_a_class_of_its_own() {
        let totals = Counts { fetched: 280, retried: 12, failed: 3, not_checked: 17, ..Counts::default() };
        let text = words(&report([], totals), &Beside { broken: 20, ..Beside::default() });
        assert_eq!(
            text,
            "300 URLs in 3 min 20 s: 280 fetched, 3 never answered, 17 not checked because limited, \
             20 broken (of those fetched).\n412 requests, 3.2 MB, 12 answered after a retry."
        );
    }

    #[test]
    fn h08_an_interrupted_run_says_what_is_done_and_what_is_not() {
        let totals = Counts { fetched: 100, refused: 1, not_checked: 199, ..Counts::default() };
        let text = words(&report([], totals), &Beside { stopped: Some(Stop::Interrupted), ..Beside::default() });
        assert!(text.starts_with("Interrupted after 3 min 20 s: 101 done, 199 not done: 100 fetched"), "{text}");
    }

    #[test]
    fn what_an_earlier_run_did_is_told_apart() {
        let text = words(&report([], Counts::default()), &Beside { earlier: 7, ..Beside::default() });
        assert!(text.ends_with("412 requests, 3.2 MB; 7 URLs done by an earlier run."), "{text}");
    }

    #[test]
    fn a_closed_output_is_no_interruption() {
        let totals = Counts { fetched: 1, not_checked: 2, ..Counts::default() };
        let beside = Beside { stopped: Some(Stop::Interrupted), output_closed: true, ..Beside::default() };
        let text = words(&report([], totals), &beside);
        assert!(text.contains("because nobody reads the output: 1 done, 2 not"), "{text}");
    }

    #[test]
    fn h10_a_run_stopped_by_limits_says_so() {
        let totals = Counts { fetched: 1, refused: 20, not_checked: 9, ..Counts::default() };
        let text = words(&report([], totals), &Beside { stopped: Some(Stop::Limited), ..Beside::default() });
        assert!(text.contains("because rate limited: 21 done, 9 not"), "{text}");
    }

    #[test]
    fn hosts_are_a_table_without_empty_columns() {
        let a = Counts { fetched: 5, retried: 1, ..Counts::default() };
        let b = Counts { fetched: 50, refused: 2, ..Counts::default() };
        let hosts = [("a.example".to_owned(), a), ("bb.example".to_owned(), b)];
        let text = words(&report(hosts, Counts::default()), &Beside::default());
        let table: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            table,
            [
                "host            fetched      refused      retried",
                "bb.example           50            2            ·",
                "a.example             5            ·            1",
            ]
        );
    }

    #[test]
    fn the_twenty_largest_hosts_are_shown_and_the_rest_counted() {
        let host = |n: u32| (format!("h{n}.example"), Counts { fetched: n, ..Counts::default() });
        let mut report = report((1..=25).map(host), Counts::default());
        report.other_hosts.fetched = 1;
        let text = words(&report, &Beside::default());
        assert!(text.contains("h25.example") && text.contains("h6.example") && !text.contains("h5.example"), "{text}");
        assert!(text.ends_with("and 5 more hosts, 1 URL at hosts not listed"), "{text}");
    }

    #[test]
    fn one_host_more_is_shown_instead_of_counted_and_long_names_are_cut() {
        let host = |n: u32| (format!("h{n}.example"), Counts { fetched: n, ..Counts::default() });
        let mut hosts: BTreeMap<String, Counts> = (1..=20).map(host).collect();
        hosts.insert(format!("{}.example", "x".repeat(60)), Counts { fetched: 100, ..Counts::default() });
        let text = words(&report(hosts, Counts::default()), &Beside::default());
        assert!(text.contains("h1.example ") && !text.contains("more host"), "{text}");
        assert!(text.contains(&format!("\n{}…{}  ", "x".repeat(20), "xxxxxxxxxxx.example")), "{text}");
    }

    #[test]
    fn lines_that_are_no_urls_are_counted() {
        let text = |malformed| words(&report([], Counts::default()), &Beside { malformed, ..Beside::default() });
        assert!(text(1).ends_with("; 1 line of the list is no URL."), "{}", text(1));
        assert!(text(3).ends_with("; 3 lines of the list are no URLs."), "{}", text(3));
    }

    #[test]
    fn b15_a_robots_txt_that_cannot_be_read_is_no_limit() {
        let totals = Counts { not_checked: 5, ..Counts::default() };
        let text = words(&report([], totals), &Beside { robots_unread: 3, ..Beside::default() });
        let told = "2 not checked because limited, 3 not checked because robots.txt could not be read";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn a_run_ended_by_an_error_says_what_is_done() {
        let totals = Counts { fetched: 4, not_checked: 6, ..Counts::default() };
        let text = words(&report([], totals), &Beside { broken_off: true, ..Beside::default() });
        let told = "Ended by an error after 3 min 20 s: 4 done, 6 not done: 4 fetched, 6 not checked.";
        assert!(text.starts_with(told), "{text}");
    }

    #[test]
    fn reasons_and_hints_come_last() {
        let beside = Beside {
            reasons: vec!["refused  https://a.example/  429\u{1b}".to_owned()],
            hints: vec!["try --retries 5".to_owned()],
            ..Beside::default()
        };
        let text = words(&report([], Counts::default()), &beside);
        assert!(
            text.ends_with("First reasons:\n  refused  https://a.example/  429 \n\nHint: try --retries 5"),
            "{text}"
        );
    }
}
