//! How many were in flight when each request that still is was started.

use comity_core::time::Instant;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Flights(Vec<(Instant, u32)>);

impl Flights {
    /// A request starts.
    pub(super) fn started(&mut self, now: Instant) {
        let with_it = u32::try_from(self.0.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.0.push((now, with_it));
    }

    /// The request that started then is answered: how many were in flight at its start, itself included.
    pub(super) fn answered(&mut self, started: Instant) -> u32 {
        let place = self.0.iter().position(|(at, _)| *at == started);
        place.map_or(1, |place| self.0.swap_remove(place).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_told_the_number_at_its_start() {
        let mut flights = Flights::default();
        let at = Instant::from_millis;
        flights.started(at(1));
        flights.started(at(2));
        flights.started(at(3));
        assert_eq!(flights.answered(at(2)), 2);
        flights.started(at(4));
        assert_eq!((flights.answered(at(4)), flights.answered(at(3)), flights.answered(at(1))), (3, 3, 1));
        assert_eq!(flights.answered(at(9)), 1);
    }
}
