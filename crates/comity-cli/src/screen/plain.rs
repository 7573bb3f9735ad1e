//! Progress as lines, a few a minute.

use std::time::Duration;

use comity_fetch::Status;
use jiff::ZonedDateTime;

use super::meter::Meter;
use super::view;

/// Says how far the run is every so often, by the run's own clock.
pub(crate) struct Plain {
    every: Duration,
    next: Duration,
    meter: Meter,
}

impl Plain {
    pub(crate) fn new(every_secs: u64) -> Self {
        let every = Duration::from_secs(every_secs);
        Self { every, next: every, meter: Meter::default() }
    }

    /// The line to say now, if it is time for one.
    pub(crate) fn line(&mut self, status: &Status, now: &ZonedDateTime) -> Option<String> {
        self.meter.note(status);
        if status.elapsed < self.next {
            return None;
        }
        self.next = status.elapsed + self.every;
        Some(view::plain(status, &self.meter, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_every_so_often_and_not_at_the_start() {
        let now: ZonedDateTime = "2026-11-30T13:48:00[UTC]".parse().unwrap();
        let mut plain = Plain::new(5);
        let mut said = Vec::new();
        for tenths in 0..=160 {
            let elapsed = Duration::from_millis(tenths * 100);
            if plain.line(&Status { elapsed, ..Status::default() }, &now).is_some() {
                said.push(elapsed.as_secs());
            }
        }
        assert_eq!(said, [5, 10, 15]);
    }
}
