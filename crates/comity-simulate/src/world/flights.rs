//! The requests that are in flight.

use comity_core::signal::NoAnswer;
use comity_core::time::Instant;

use crate::clients::Start;

/// A request in flight.
#[derive(Debug)]
pub(super) struct Flight {
    /// How it started.
    pub(super) start: Start,
    /// When.
    pub(super) at: Instant,
    /// Its party, by its number.
    pub(super) party: u32,
    /// What will come of it.
    pub(super) status: Result<u16, NoAnswer>,
    /// The header fields that come with it.
    pub(super) fields: Vec<(&'static str, String)>,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(super) struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    pub(super) fn add(&mut self, flight: Flight) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(flight);
                slot
            }
            None => {
                self.slots.push(Some(flight));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Flight> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Flight> {
        let flight = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(flight)
    }
}
