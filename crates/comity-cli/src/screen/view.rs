//! The lines of the progress, from a status.

use comity_fetch::keep::Counts;
use comity_fetch::{HostLine, Status};
use jiff::ZonedDateTime;

use super::meter::Meter;
use super::words::{bytes, clean, count, cut_words, middle, per_second, span, when};

/// Everything at a glance: `120/300  12/s  5 in flight  1.2 MB  about 25 s left`, and what went wrong so far; as much of
/// it as fits into `width`.
pub(crate) fn overall(status: &Status, meter: &Meter, width: usize) -> String {
    let done = done(&status.counts);
    // Beside each part, how soon it may be left out.
    let mut parts = vec![
        (0, format!("{done}/{}", status.total)),
        (3, per_second(meter.rate())),
        (4, format!("{} in flight", status.active)),
        (5, bytes(status.bytes)),
    ];
    if let Some(left) = meter.left() {
        parts.push((2, format!("about {} left", span(left))));
    }
    let counts = &status.counts;
    let troubles = [(counts.refused, "refused"), (counts.failed, "failed"), (counts.robots, "robots")];
    parts.extend(troubles.iter().filter(|(n, _)| *n > 0).map(|(n, what)| (1, format!("{n} {what}"))));
    if let Some(lost_for) = status.shared.as_ref().and_then(|shared| shared.lost_for) {
        parts.push((1, format!("shared pace lost for {}", span(lost_for))));
    }
    if let Some(limit) = status.uplink {
        parts.push((1, format!("our uplink is slow: {limit} at once")));
    }
    loop {
        let text = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join("  ");
        let least = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank).map(|(n, _)| n);
        match least {
            Some(least) if parts.len() > 1 && text.chars().count() > width => drop(parts.remove(least)),
            _ => return text,
        }
    }
}

/// The slowest hosts, at most `rows` of them and a line for the others: `a.example  left 120  interval 500ms  in 0.3 s`.
/// What does not fit into `width` is cut from the names first, from the reasons then, from the numbers never.
pub(crate) fn hosts(status: &Status, rows: usize, width: usize, now: &ZonedDateTime) -> Vec<String> {
    // The last host takes the line that would say that there is another one.
    let all = rows > 0 && status.slowest.len() == rows + 1 && status.hosts_left == status.slowest.len();
    let shown = &status.slowest[..status.slowest.len().min(rows + usize::from(all))];
    let digits = shown.iter().map(|line| line.left.to_string().len()).max().unwrap_or_default();
    let reasons: Vec<(String, String)> =
        shown.iter().map(|line| (clean(&line.because), when(line.wait, now))).collect();

    let names: Vec<String> = shown.iter().map(|line| clean(&line.host)).collect();
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or_default();
    let left = "  left ".len() + digits;
    let reason = widest(&mut reasons.iter().map(|(because, when)| 4 + because.chars().count() + when.chars().count()));
    let room = width.saturating_sub(left + reason).clamp(LEAST_HOST, WIDEST_HOST);
    let name_width =
        room.min(width.saturating_sub(left)).min(widest(&mut names.iter().map(|name| name.chars().count())));

    let rows = shown.iter().zip(&names).zip(&reasons).map(|((line, name), (because, when))| {
        let start = format!("{:name_width$}  left {:>digits$}", middle(name, name_width), line.left);
        let room = width.saturating_sub(start.chars().count() + 4 + when.chars().count());
        match cut_words(because, room) {
            Some(because) => format!("{start}  {because}  {when}"),
            None if start.chars().count() + 2 + when.chars().count() <= width => format!("{start}  {when}"),
            None => start,
        }
    });
    let mut lines: Vec<String> = rows.collect();
    let others = status.hosts_left.saturating_sub(shown.len());
    if !lines.is_empty() && others > 0 {
        let text = format!("and {} with URLs left", count(others as u64, "other host"));
        lines.extend(cut_words(&text, width));
    }
    lines
}

/// One line for where nothing can be drawn over.
pub(crate) fn plain(status: &Status, meter: &Meter, now: &ZonedDateTime) -> String {
    let mut text =
        format!("comity: {} after {}", overall(status, meter, usize::MAX).replace("  ", ", "), span(status.elapsed));
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
/// Fewer characters tell no host from another.
const LEAST_HOST: usize = 12;

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
            shared: None,
            uplink: None,
        }
    }

    #[test]
    fn a10_a_slow_uplink_of_our_own_is_seen() {
        let text = overall(&Status { uplink: Some(12), ..status() }, &meter(), 200);
        assert!(text.contains("our uplink is slow: 12 at once"), "{text}");
        assert!(!overall(&status(), &meter(), 200).contains("uplink"));
    }

    #[test]
    fn decision_7_a_lost_shared_pace_is_seen() {
        let lost_for = Some(Duration::from_secs(12));
        let shared = Some(comity_fetch::SharedPace { lost_for, ..comity_fetch::SharedPace::default() });
        let text = overall(&Status { shared, ..status() }, &meter(), 200);
        assert!(text.contains("shared pace lost for 12 s"), "{text}");
        assert!(!overall(&status(), &meter(), 200).contains("shared pace"));
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
        assert_eq!(overall(&status(), &meter(), 80), "120/300  6.0/s  5 in flight  1.2 MB  about 30 s left  2 failed");
        assert_eq!(overall(&Status::default(), &Meter::default(), 80), "0/0  0/s  0 in flight  0 B");
    }

    #[test]
    fn h06_every_waiting_host_says_which_limit_binds_and_until_when() {
        assert_eq!(
            hosts(&status(), 10, 80, &now()),
            [
                "a.example          left 120  interval 500ms  in 0.3 s",
                "long-name.example  left   7  paused by the server  until 14:03 UTC",
                "c.example          left   2  1 in flight  when an answer comes",
                "and 6 other hosts with URLs left",
            ]
        );
    }

    #[test]
    fn no_more_rows_than_there_is_room_for() {
        let lines = hosts(&status(), 1, 80, &now());
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("8 other hosts"), "{lines:?}");
        assert!(hosts(&Status::default(), 10, 80, &now()).is_empty());
    }

    #[test]
    fn whole_parts_are_left_out_where_there_is_no_room() {
        assert_eq!(overall(&status(), &meter(), 46), "120/300  6.0/s  about 30 s left  2 failed");
        assert_eq!(overall(&status(), &meter(), 30), "120/300  2 failed");
        assert_eq!(overall(&status(), &meter(), 3), "120/300");
    }

    #[test]
    fn names_are_cut_before_reasons_and_numbers_never() {
        assert_eq!(
            hosts(&status(), 10, 58, &now())[..3],
            [
                "a.example     left 120  interval 500ms  in 0.3 s",
                "long-n…ample  left   7  paused by the …  until 14:03 UTC",
                "c.example     left   2  1 in flight  when an answer comes",
            ]
        );
    }

    #[test]
    fn one_host_more_takes_the_line_that_would_tell_of_it() {
        let all = |hosts: u32| Status {
            slowest: (0..hosts).map(|n| host(&format!("{n}.example"), 1, "x", None)).collect(),
            hosts_left: hosts as usize,
            ..status()
        };
        assert!(hosts(&all(4), 3, 80, &now())[3].starts_with("3.example"));
        assert_eq!(hosts(&all(5), 3, 80, &now())[3], "and 2 other hosts with URLs left");
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
        assert!(hosts(&lines, 5, 80, &now()).iter().all(|line| !line.contains(char::is_control)));
        assert!(!plain(&lines, &meter(), &now()).contains(char::is_control));
    }
}
