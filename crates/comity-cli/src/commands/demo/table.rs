//! What each host of the town received, beside what Comity believed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use comity::HostState;
use comity_audit::arrivals::Gaps;
use comity_audit::far_end::Arrival;
use comity_audit::town::Town;

use super::starts::Believed;
use crate::screen::words::middle;

/// One host.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Its name.
    pub(super) host: String,
    /// Its hidden rule.
    pub(super) rule: String,
    /// What arrived there, by the far end's clock.
    pub(super) received: Received,
    /// What the pacer said it let start.
    pub(super) believed: Believed,
    /// The interval the pacer holds to be right at the end.
    pub(super) interval: Duration,
}

/// What arrived at a host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Received {
    requests: usize,
    least: Option<Duration>,
    median: Option<Duration>,
    per_second: Option<f64>,
    /// Answers of 429 and 503 it gave.
    refusals: usize,
}

/// A row for each host, in the order of a walk through the town.
pub(super) fn rows(town: &Town, hosts: &[(String, HostState)], believed: &HashMap<String, Believed>) -> Vec<Row> {
    let arrivals = town.far_end().arrivals();
    let interval = |name: &str| hosts.iter().find(|(host, _)| host == name).map(|(_, state)| state.interval);
    let row = |name: &str| Row {
        host: name.to_owned(),
        rule: town.describe(name).unwrap_or_default().to_owned(),
        received: Received::of(&arrivals, name),
        believed: believed.get(name).copied().unwrap_or_default(),
        interval: interval(name).unwrap_or_default(),
    };
    town.hosts().into_iter().map(row).collect()
}

/// The rows as a table of at most 80 columns: numbers, and above them the rule that was found without being told.
pub(super) fn table(rows: &[Row]) -> String {
    let names: Vec<String> = rows.iter().map(|row| middle(&row.host, WIDEST_HOST)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default().max("host".len());
    let mut text = format!(
        "\n{BOLD}{:width$} {:^30} {:^23}{PLAIN}\n{BOLD}{:width$} {:>4} {:>5} {:>6} {:>4} {:>7} {:>6} {:>7} {:>8}{PLAIN}\n",
        "",
        "what the far end received",
        "what Comity believed",
        "host",
        "got",
        "least",
        "median",
        "/s",
        "refused",
        "starts",
        "refused",
        "interval"
    );
    let mut rule = "";
    for (row, name) in rows.iter().zip(names) {
        // Names of one service share a rule; it is said once, above them.
        if row.rule != rule {
            rule = &row.rule;
            for line in wrapped(rule) {
                let _ = writeln!(text, "{DIM}{line}{PLAIN}");
            }
        }
        let received = &row.received;
        let _ = writeln!(
            text,
            "{name:width$} {:>4} {:>5} {:>6} {:>4} {:>7} {:>6} {:>7} {:>8}",
            received.requests,
            millis(received.least),
            millis(received.median),
            received.per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
            received.refusals,
            row.believed.starts,
            row.believed.refusals,
            millis(Some(row.interval)),
        );
    }
    text.push_str("Gaps between arrivals (least, median) and intervals are in milliseconds.\n");
    text
}

/// A rule in lines that fit, the later ones indented.
fn wrapped(rule: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in rule.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() < COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

impl Received {
    fn of(arrivals: &[Arrival], host: &str) -> Self {
        let here: Vec<&Arrival> = arrivals.iter().filter(|arrival| arrival.host == host).collect();
        let gaps = Gaps::of(&here.iter().map(|arrival| arrival.at).collect::<Vec<_>>());
        Self {
            requests: here.len(),
            least: gaps.least(),
            median: gaps.median(),
            per_second: gaps.per_second(),
            refusals: here.iter().filter(|arrival| matches!(arrival.status, Some(429 | 503))).count(),
        }
    }
}

fn millis(span: Option<Duration>) -> String {
    span.map_or_else(|| "-".to_owned(), |span| span.as_millis().to_string())
}

/// Columns of the narrowest terminal that is usual.
const COLUMNS: usize = 80;
/// A longer name is cut in its middle.
const WIDEST_HOST: usize = 25;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(host: &str, at: u64, status: u16) -> Arrival {
        Arrival { host: host.to_owned(), at: Duration::from_millis(at), status: Some(status), ..Arrival::default() }
    }

    #[test]
    fn x4_the_far_ends_log_is_what_is_shown() {
        let arrivals = [
            arrival("a.example", 0, 200),
            arrival("b.example", 10, 200),
            arrival("a.example", 200, 429),
            arrival("a.example", 500, 200),
            arrival("a.example", 800, 503),
        ];
        let received = Received::of(&arrivals, "a.example");
        assert_eq!((received.requests, received.refusals, received.least), (4, 2, Some(Duration::from_millis(200))));
        assert_eq!((received.median, received.per_second), (Some(Duration::from_millis(300)), Some(3.75)));
        assert_eq!(Received::of(&arrivals, "c.example"), Received { least: None, ..Received::default() });
    }

    #[test]
    fn both_sides_stand_in_one_line_under_the_rule() {
        let row = |host: &str| Row {
            host: host.to_owned(),
            rule: "a rule".to_owned(),
            received: Received { requests: 31, least: Some(Duration::from_millis(199)), ..Received::default() },
            believed: Believed { starts: 31, refusals: 2 },
            interval: Duration::from_millis(210),
        };
        let text = table(&[row("a.example"), row("long.a.example")]);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines.iter().filter(|line| line.contains("a rule")).count(), 1, "{text}");
        assert!(lines.contains(&"a.example 31 199 - - 0 31 2 210".to_owned()), "{lines:?}");
    }

    #[test]
    fn the_table_fits_into_80_columns() {
        let town = Town::start().unwrap();
        let mut rows = rows(&town, &[], &HashMap::new());
        for row in &mut rows {
            row.received = Received {
                requests: 9999,
                least: Some(Duration::from_millis(99_999)),
                median: Some(Duration::from_millis(99_999)),
                per_second: Some(99.9),
                refusals: 999,
            };
        }
        rows[0].host = "a-very-long-name-of-a-host.in-a-town.example".to_owned();
        let text = table(&rows).replace(BOLD, "").replace(DIM, "").replace(PLAIN, "");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(rows.iter().all(|row| row.rule.split_whitespace().all(|word| text.contains(word))));
    }
}
