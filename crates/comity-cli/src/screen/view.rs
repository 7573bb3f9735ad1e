//! The lines of the progress, from a status.

use comity_fetch::keep::Counts;
use comity_fetch::{HostLine, Status};
use jiff::ZonedDateTime;

use super::meter::Meter;
use super::words::{bytes, clean, count, cut, per_second, span, when};

/// Everything at a glance: `120/300  12/s  5 in flight  1.2 MB  about 25 s left`, and what went wrong so far.
pub(crate) fn overall(status: &Status, meter: &Meter) -> String {
    let done = done(&status.counts);
    let mut parts = vec![
        format!("{done}/{}", status.total),
        per_second(meter.rate()),
        format!("{} in flight", status.active),
        bytes(status.bytes),
    ];
    if let Some(left) = meter.left() {
        parts.push(format!("about {} left", span(left)));
    }
    let counts = &status.counts;
    let troubles = [(counts.refused, "refused"), (counts.failed, "failed"), (counts.robots, "robots")];
    parts.extend(troubles.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    parts.join("  ")
}

/// The slowest hosts, at most `rows` of them: `a.example  left 120  interval 500ms  in 0.3 s`.
pub(crate) fn hosts(status: &Status, rows: usize, now: &ZonedDateTime) -> Vec<String> {
    let shown = &status.slowest[..status.slowest.len().min(rows)];
    let names: Vec<String> = shown.iter().map(|line| cut(&clean(&line.host), WIDEST_HOST)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let digits = shown.iter().map(|line| line.left.to_string().len()).max().unwrap_or_default();
    let mut lines: Vec<String> = shown
        .iter()
        .zip(&names)
        .map(|(line, name)| format!("{name:width$}  left {:>digits$}  {}", line.left, why(line, now)))
        .collect();
    let others = status.hosts_left.saturating_sub(shown.len());
    if !lines.is_empty() && others > 0 {
        lines.push(format!("and {} with URLs left", count(others as u64, "other host")));
    }
    lines
}

/// One line for where nothing can be drawn over.
pub(crate) fn plain(status: &Status, meter: &Meter, now: &ZonedDateTime) -> String {
    let mut text = format!("comity: {} after {}", overall(status, meter).replace("  ", ", "), span(status.elapsed));
    if let Some(slowest) = status.slowest.first() {
        let why = why(slowest, now).replace("  ", " ");
        text.push_str(&format!("; slowest {} (left {}): {why}", clean(&slowest.host), slowest.left));
    }
    text
}

/// URLs that are done: all but those whose turn never came.
pub(crate) fn done(counts: &Counts) -> u64 {
    let each = [counts.fetched, counts.unchanged, counts.refused, counts.failed, counts.robots, counts.skipped];
    each.into_iter().map(u64::from).sum()
}

fn why(line: &HostLine, now: &ZonedDateTime) -> String {
    format!("{}  {}", clean(&line.because), when(line.wait, now))
}

/// A host's name is cut here, so that the reason still fits on a usual terminal.
const WIDEST_HOST: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn now() -> ZonedDateTime {
        "2026-11-30T13:48:00[UTC]".parse().unwrap()
    }

    fn host(host: &str, left: u32, because: &str, millis: Option<u64>) -> HostLine {
        let wait = millis.map(Duration::from_millis);
        HostLine { host: host.to_owned(), left, because: because.to_owned(), wait }
    }

    fn status() -> Status {
        Status {
            total: 300,
            counts: Counts { fetched: 118, failed: 2, retried: 7, ..Counts::default() },
            active: 5,
            requests: 130,
            bytes: 1_234_567,
            elapsed: Duration::from_secs(20),
            slowest: vec![
                host("a.example", 120, "interval 500ms", Some(300)),
                host("long-name.example", 7, "paused by the server", Some(900_000)),
                host("c.example", 2, "1 in flight", None),
            ],
            hosts_left: 9,
        }
    }

    /// A meter that has seen the run at a steady pace.
    fn meter() -> Meter {
        let mut meter = Meter::default();
        meter.note(&Status::default());
        meter.note(&status());
        meter
    }

    #[test]
    fn the_whole_is_seen_at_a_glance() {
        assert_eq!(overall(&status(), &meter()), "120/300  6.0/s  5 in flight  1.2 MB  about 30 s left  2 failed");
        assert_eq!(overall(&Status::default(), &Meter::default()), "0/0  0/s  0 in flight  0 B");
    }

    #[test]
    fn h06_every_waiting_host_says_which_limit_binds_and_until_when() {
        assert_eq!(
            hosts(&status(), 10, &now()),
            [
                "a.example          left 120  interval 500ms  in 0.3 s",
                "long-name.example  left   7  paused by the server  until 14:03",
                "c.example          left   2  1 in flight  when an answer comes",
                "and 6 other hosts with URLs left",
            ]
        );
    }

    #[test]
    fn no_more_rows_than_there_is_room_for() {
        let lines = hosts(&status(), 1, &now());
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("8 other hosts"), "{lines:?}");
        assert!(hosts(&Status::default(), 10, &now()).is_empty());
    }

    #[test]
    fn a_plain_line_holds_the_same() {
        let line = plain(&status(), &meter(), &now());
        assert!(line.starts_with("comity: 120/300, 6.0/s, 5 in flight"), "{line}");
        assert!(line.ends_with("after 20 s; slowest a.example (left 120): interval 500ms in 0.3 s"), "{line}");
    }

    #[test]
    fn what_a_server_says_cannot_draw_on_the_screen() {
        let lines = Status { slowest: vec![host("a\x1b[2J", 1, "x\ny", None)], ..status() };
        assert!(hosts(&lines, 5, &now()).iter().all(|line| !line.contains(char::is_control)));
        assert!(!plain(&lines, &meter(), &now()).contains(char::is_control));
    }
}
