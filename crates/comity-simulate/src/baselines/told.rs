//! An oracle: it knows what the host serves in the long run, and keeps that rate. A bound, not a program.
//!
//! It starts at its rate from the first request and leaves a burst unused, so that a policy that learns and uses the burst
//! may serve more; on a fixed window it is never refused.

use super::fixed::{Beat, Fixed};
use super::{LONGEST, seconds};

/// An oracle for a host that serves `capacity` requests a second; what is no rate means that it serves nothing.
pub(super) fn told(capacity: f64, in_flight: u32) -> Fixed {
    let interval = if capacity > 0.0 { seconds(1.0 / capacity) } else { LONGEST };
    Fixed::new(interval, in_flight, Beat::Metronome)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use comity_core::time::Instant;

    use super::*;
    use crate::baselines::{Baseline as _, Start};

    #[test]
    fn it_keeps_the_rate_it_was_told_to_the_request() {
        let mut told = told(8.0, 4);
        let mut starts = 0;
        for milli in 0..10_000 {
            let now = Instant::from_millis(milli);
            while told.may_start(now, 0) == Start::Now {
                told.started(now);
                starts += 1;
            }
        }
        assert_eq!(starts, 80);
        assert_eq!(told.interval(), Some(Duration::from_millis(125)));
    }

    #[test]
    fn what_is_no_rate_is_none() {
        for capacity in [f64::NAN, 0.0, -3.0, f64::MIN_POSITIVE] {
            assert_eq!(told(capacity, 1).interval(), Some(LONGEST), "{capacity}");
        }
        assert_eq!(told(f64::INFINITY, 1).interval(), Some(Duration::ZERO));
    }
}
