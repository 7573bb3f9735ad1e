//! The live view on a terminal.

use std::io::Write as _;

use comity_fetch::Status;
use jiff::ZonedDateTime;

use super::frame::Frame;
use super::meter::Meter;
use super::view;

/// A bar for the whole and a line for each of the slowest hosts, redrawn in place.
#[derive(Default)]
pub(crate) struct Live {
    colours: bool,
    frame: Frame,
    meter: Meter,
}

impl Live {
    pub(crate) fn new(colours: bool) -> Self {
        Self { colours, ..Self::default() }
    }

    /// Shows where the run is now.
    pub(crate) fn show(&mut self, status: &Status, now: &ZonedDateTime) {
        self.meter.note(status);
        let (columns, rows) = size();
        let lines = self.lines(status, now, columns, rows);
        write(&self.frame.draw(lines, columns));
    }

    /// Does something that writes to the terminal while the view is out of the way.
    pub(crate) fn aside<R>(&mut self, act: impl FnOnce() -> R) -> R {
        self.clear();
        act()
    }

    /// Takes the view away.
    pub(crate) fn clear(&mut self) {
        write(&self.frame.erase(size().0));
    }

    /// The lines for a terminal of this size; none is as wide as it is, and there are fewer than it has rows.
    fn lines(&self, status: &Status, now: &ZonedDateTime, columns: usize, rows: usize) -> Vec<String> {
        let width = columns.saturating_sub(1);
        let cut = |line: String| line.chars().take(width).collect::<String>();
        if columns < TINY {
            return vec![cut(view::overall(status, &self.meter, width))];
        }
        let bar = if columns < NARROW { BAR_NARROW } else { BAR };
        let whole = view::overall(status, &self.meter, width - bar - 1);
        let mut lines = vec![format!("{} {whole}", self.bar(status, bar))];
        let hosts = view::hosts(status, HOSTS.min(rows.saturating_sub(3)), width - INDENT.len(), now);
        lines.extend(hosts.into_iter().map(|line| cut(format!("{INDENT}{line}"))));
        lines
    }

    fn bar(&self, status: &Status, width: usize) -> String {
        let done = view::done(&status.counts).min(status.total);
        let full = match status.total {
            0 => 0,
            total => usize::try_from(done * width as u64 / total).unwrap_or(width),
        };
        let (full, rest) = ("━".repeat(full), "─".repeat(width - full));
        if self.colours { format!("{GREEN}{full}{PLAIN}{DIM}{rest}{PLAIN}") } else { format!("{full}{rest}") }
    }
}

/// Columns and rows of the terminal on standard error.
fn size() -> (usize, usize) {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((columns, rows)) if columns.0 > 0 && rows.0 > 0 => (columns.0.into(), rows.0.into()),
        _ => (80, 24),
    }
}

/// A terminal that is gone is no error.
fn write(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Host lines shown: the view has to leave room on a small terminal.
const HOSTS: usize = 8;
const INDENT: &str = "  ";
const BAR: usize = 24;
/// Below so many columns, numbers need the room more than the bar.
const NARROW: usize = 80;
const BAR_NARROW: usize = 8;
/// Below so many, there is room for the numbers of the whole and nothing else.
const TINY: usize = 40;

const GREEN: &str = "\x1b[32m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use super::*;
    use comity_fetch::HostLine;
    use comity_fetch::keep::Counts;
    use std::time::Duration;

    fn status(hosts: u32) -> Status {
        let host = |n: u32| HostLine {
            host: format!("{n}.a-rather-long-name.of-a-host.example"),
            left: 19 + n,
            because: "interval 1s".to_owned(),
            wait: Some(Duration::from_millis(300)),
        };
        let counts = Counts { fetched: 150, ..Counts::default() };
        Status { total: 300, counts, slowest: (0..hosts).map(host).collect(), hosts_left: 30, ..Status::default() }
    }

    fn lines(status: &Status, columns: usize, rows: usize) -> Vec<String> {
        let now: ZonedDateTime = "2026-11-30T13:48:00[UTC]".parse().unwrap();
        Live::new(false).lines(status, &now, columns, rows)
    }

    #[test]
    fn the_view_fits_into_any_terminal() {
        for columns in [1, 10, 20, 30, 50, 80, 200] {
            for rows in [1, 5, 24] {
                let lines = lines(&status(10), columns, rows);
                assert!(
                    lines.iter().all(|line| line.chars().count() < columns.max(1) || line.is_empty()),
                    "{columns}: {lines:?}"
                );
                assert!(lines.len() < rows.max(3), "{rows}: {lines:?}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_costs_names_and_no_numbers() {
        let lines = lines(&status(3), 50, 24);
        assert!(lines[0].starts_with("━━━━──── 150/300"), "{lines:?}");
        for (n, line) in lines[1..4].iter().enumerate() {
            assert!(line.ends_with(&format!("left {}  interval 1s  in 0.3 s", 19 + n)), "{line}");
            assert!(line.starts_with(&format!("  {n}.a-")) && line.contains("…"), "{line}");
        }
    }

    #[test]
    fn the_bar_is_as_full_as_the_list_is_done() {
        let bar = |done: u32, total| {
            let counts = Counts { fetched: done, ..Counts::default() };
            Live::new(false).bar(&Status { total, counts, ..Status::default() }, 4)
        };
        assert_eq!([bar(0, 0), bar(1, 2), bar(4, 4), bar(9, 4)], ["────", "━━──", "━━━━", "━━━━"]);
    }
}
