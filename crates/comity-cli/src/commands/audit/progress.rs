//! How far an audit is, on standard error.

use std::io::Write as _;
use std::time::Duration;

use comity_audit::audit::Event;

use crate::flags::screen::Show;
use crate::screen::say;
use crate::screen::words::{clean, count, span};

/// Shows where the audit is: on a terminal a line that changes, elsewhere a line when an arm begins and every so often.
pub(super) struct Progress {
    show: Show,
    show_output: bool,
    /// The arm that was last told of.
    arm: Option<u32>,
    /// When the next line is due in this arm.
    next: Duration,
    /// Whether a line stands on the terminal that will be drawn over.
    stands: bool,
}

impl Progress {
    pub(super) fn new(show: Show, show_output: bool) -> Self {
        Self { show, show_output, arm: None, next: Duration::ZERO, stands: false }
    }

    /// Shows what happened, where it is time to.
    pub(super) fn note(&mut self, event: Event<'_>) {
        if let Event::Line { worker, line } = event {
            if self.show_output {
                self.clear();
                say(&format!("w{worker}| {}", clean(line)));
            }
            return;
        }
        if let Some(line) = self.line(event) {
            match self.show {
                Show::Live => self.draw(&line),
                Show::Plain { .. } => say(&format!("comity: {line}")),
                Show::Nothing => {}
            }
        }
    }

    /// Takes the changing line away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.stands) {
            write(ERASE);
        }
    }

    /// The line to show now, if it is time for one.
    fn line(&mut self, event: Event<'_>) -> Option<String> {
        let every = match self.show {
            Show::Live => LIVE,
            Show::Plain { every_secs } => Duration::from_secs(every_secs),
            Show::Nothing => return None,
        };
        match event {
            Event::Controls => Some("controls first: clients that share nothing".to_owned()),
            Event::Progress { workers, waiting, received, expected, elapsed } => {
                if self.arm != Some(workers) {
                    (self.arm, self.next) = (Some(workers), Duration::ZERO);
                }
                if elapsed < self.next || waiting == 0 {
                    return None;
                }
                self.next = elapsed + every;
                let (workers, elapsed) =
                    (count(workers.into(), "worker"), span(Duration::from_secs(elapsed.as_secs())));
                Some(format!("{workers}, {waiting} at work: {received} of {expected} requests after {elapsed}"))
            }
            Event::Line { .. } => None,
        }
    }

    fn draw(&mut self, line: &str) {
        let columns =
            terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(columns, _)| usize::from(columns.0));
        let line: String = line.chars().take(columns.saturating_sub(1)).collect();
        write(&format!("{ERASE}{line}"));
        self.stands = true;
    }
}

/// A terminal that is gone is no error.
fn write(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Back to the first column, and nothing from there on.
const ERASE: &str = "\r\x1b[K";

/// How often the line on a terminal changes.
const LIVE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(workers: u32, millis: u64) -> Event<'static> {
        let elapsed = Duration::from_millis(millis);
        Event::Progress { workers, waiting: workers, received: 3, expected: 36, elapsed }
    }

    #[test]
    fn an_arm_is_told_of_when_it_begins_and_every_so_often() {
        let mut progress = Progress::new(Show::Plain { every_secs: 5 }, false);
        assert!(progress.line(Event::Controls).is_some());
        let told: Vec<u64> = (0..1200).map(|n| n * 10).filter(|&ms| progress.line(at(6, ms)).is_some()).collect();
        assert_eq!(told, [0, 5000, 10_000]);
        let next = progress.line(at(8, 10)).unwrap();
        assert_eq!(next, "8 workers, 8 at work: 3 of 36 requests after 0 s");
        let mut nothing = Progress::new(Show::Nothing, false);
        assert!(nothing.line(at(6, 0)).is_none() && nothing.line(Event::Controls).is_none());
    }
}
