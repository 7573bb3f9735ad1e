//! The live view on a terminal.

use comity_fetch::Status;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::ZonedDateTime;

use super::meter::Meter;
use super::view;

/// A bar for the whole and a line for each of the slowest hosts, redrawn in place.
pub(crate) struct Live {
    multi: MultiProgress,
    whole: ProgressBar,
    hosts: Vec<ProgressBar>,
    meter: Meter,
}

impl Live {
    pub(crate) fn new(colours: bool) -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_A_SECOND));
        let whole = multi.add(ProgressBar::new(0));
        whole.set_style(style(if colours { "{bar:24.green/dim} {wide_msg}" } else { "[{bar:24}] {wide_msg}" }));
        Self { multi, whole, hosts: Vec::new(), meter: Meter::default() }
    }

    /// Shows where the run is now. Lines are cut at the terminal's width as it is when they are drawn.
    pub(crate) fn show(&mut self, status: &Status, now: &ZonedDateTime) {
        self.meter.note(status);
        self.whole.set_length(status.total);
        self.whole.set_position(view::done(&status.counts));
        self.whole.set_message(view::overall(status, &self.meter));
        let lines = view::hosts(status, ROWS, now);
        while self.hosts.len() > lines.len() {
            if let Some(gone) = self.hosts.pop() {
                self.multi.remove(&gone);
            }
        }
        for (n, line) in lines.into_iter().enumerate() {
            if n == self.hosts.len() {
                let row = self.multi.add(ProgressBar::new_spinner());
                row.set_style(style("  {wide_msg}"));
                self.hosts.push(row);
            }
            self.hosts[n].set_message(line);
        }
    }

    /// Does something that writes to the terminal while the view is out of the way.
    pub(crate) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        self.multi.suspend(write)
    }

    /// Takes the view away.
    pub(crate) fn clear(&mut self) {
        self.hosts.clear();
        let _ = self.multi.clear();
    }
}

/// The templates are ours; one that cannot be read would cost its looks and nothing else.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("━╸─")
}

/// Host lines shown: the view has to leave room on a small terminal.
const ROWS: usize = 8;
const REDRAWS_A_SECOND: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use comity_fetch::HostLine;

    #[test]
    fn the_templates_can_be_read() {
        for template in ["{bar:24.green/dim} {wide_msg}", "[{bar:24}] {wide_msg}", "  {wide_msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn rows_come_and_go_with_the_hosts() {
        let now: ZonedDateTime = "2026-11-30T13:48:00[UTC]".parse().unwrap();
        let mut live = Live::new(false);
        let host = |n: u32| HostLine { host: format!("{n}.example"), left: n, because: String::new(), wait: None };
        for rows in [3, 0, 20, 1] {
            live.show(&Status { slowest: (0..rows).map(host).collect(), ..Status::default() }, &now);
            assert_eq!(live.hosts.len(), ROWS.min(rows as usize));
        }
        live.clear();
        assert!(live.hosts.is_empty());
    }
}
