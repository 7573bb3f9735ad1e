//! How far a simulation is, on a terminal.

use std::io::Write as _;

use super::runs::Job;
use crate::screen::frame::Frame;

/// A line that changes with every run that ended, where there is a terminal.
pub(super) struct Progress {
    shown: bool,
    frame: Frame,
    ended: usize,
    all: usize,
}

impl Progress {
    /// Of so many runs; `shown` says whether it is wanted.
    pub(super) fn new(shown: bool, all: usize) -> Self {
        Self { shown, frame: Frame::default(), ended: 0, all }
    }

    /// A run ended.
    pub(super) fn done(&mut self, job: &Job<'_>) {
        self.ended += 1;
        if self.shown {
            let columns = columns();
            let line: String = self.line(job).chars().take(columns.saturating_sub(1)).collect();
            write(&self.frame.draw(vec![line], columns));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        write(&self.frame.erase(columns()));
    }

    fn line(&self, job: &Job<'_>) -> String {
        format!("{} of {} runs: {}, {}, seed {}", self.ended, self.all, job.scenario.name, job.policy, job.seed)
    }
}

fn columns() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(columns, _)| usize::from(columns.0))
}

/// A terminal that is gone is no error.
fn write(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
