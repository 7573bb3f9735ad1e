//! How many are in flight (G3), and that the gate is asked before any limit (G4).

use core::time::Duration;

use super::parameter::{self, ParameterError};
use super::{Ruling, Verdict};

/// Requests in flight, and the most of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    most: u32,
    in_flight: u32,
}

/// Turned away at once because too much is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// How long to stay away: a second (G6).
    pub retry: Duration,
}

/// What came of asking the gate and then the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is in flight until [`Gate::release`].
    Admitted(Verdict),
    /// A limit refused it; it is not in flight.
    Refused(Verdict),
    /// The gate shed it; no limit was asked.
    Shed(Shed),
}

impl Gate {
    /// A gate that lets `most` be in flight.
    ///
    /// # Errors
    /// When that is not above zero (G5).
    pub fn new(most: i64) -> Result<Self, ParameterError> {
        Ok(Self { most: parameter::count("max_in_flight", most)?, in_flight: 0 })
    }

    /// One more in flight, or none (G3).
    ///
    /// # Errors
    /// So many are in flight as may be; their number stays.
    pub fn acquire(&mut self) -> Result<(), Shed> {
        if self.in_flight >= self.most {
            return Err(Shed::default());
        }
        self.in_flight += 1;
        Ok(())
    }

    /// One less, and never below none.
    pub fn release(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Another number from now on, at least one; those in flight stay.
    pub fn set_most(&mut self, most: u32) {
        self.most = most.max(1);
    }

    /// The most.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// How many are.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }
}

impl Default for Shed {
    fn default() -> Self {
        Self { retry: SHED_RETRY }
    }
}

/// Asks the gate, then the limits (G4): what is shed takes no token, what is refused gives its place back.
pub fn admit(gate: &mut Gate, limits: impl FnOnce() -> Verdict) -> Admission {
    if let Err(shed) = gate.acquire() {
        return Admission::Shed(shed);
    }
    let verdict = limits();
    if let Ruling::Refused { .. } = verdict.ruling() {
        gate.release();
        return Admission::Refused(verdict);
    }
    Admission::Admitted(verdict)
}

/// G6.
const SHED_RETRY: Duration = Duration::from_secs(1);
