//! How many are in flight, and the most of them, without a lock (G3).

use std::sync::atomic::{AtomicU32, Ordering};

/// Places in flight. As [`Gate`](comity_core::guard::Gate), for many threads at once.
///
/// Every operation is sequentially consistent: who gives a place back and then finds nobody waiting is sure that whoever
/// comes to wait after that finds the place.
#[derive(Debug)]
pub(super) struct Places {
    taken: Taken,
    most: AtomicU32,
}

/// By itself on a line of the processor's cache: each request writes it, and what is only read stays where it is.
#[derive(Debug)]
#[repr(align(128))]
struct Taken(AtomicU32);

impl Places {
    pub(super) fn new(most: u32) -> Self {
        Self { taken: Taken(AtomicU32::new(0)), most: AtomicU32::new(most.max(1)) }
    }

    /// One more in flight, and how many are then; or none.
    pub(super) fn take(&self) -> Option<u32> {
        let most = self.most();
        let one_more = |taken| if taken < most { Some(taken + 1) } else { None };
        self.taken.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok().map(|before| before + 1)
    }

    /// One less. Only for a place that was taken.
    pub(super) fn give_back(&self) {
        self.taken.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Another number from now on, at least one; those in flight stay.
    pub(super) fn set_most(&self, most: u32) {
        self.most.store(most.max(1), Ordering::SeqCst);
    }

    /// The most.
    pub(super) fn most(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }

    /// How many are.
    pub(super) fn taken(&self) -> u32 {
        self.taken.0.load(Ordering::SeqCst)
    }

    /// Whether one more may be.
    pub(super) fn has_room(&self) -> bool {
        self.taken() < self.most()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g3_never_more_than_the_most_from_many_threads() {
        let (places, now, peak) = (Places::new(3), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        if places.take().is_some() {
                            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            now.fetch_sub(1, Ordering::SeqCst);
                            places.give_back();
                        }
                    }
                });
            }
        });
        assert!((1..=3).contains(&peak.into_inner()));
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn g3_fewer_places_leave_those_in_flight() {
        let places = Places::new(2);
        assert_eq!((places.take(), places.take(), places.take()), (Some(1), Some(2), None));
        places.set_most(0);
        assert_eq!((places.taken(), places.most(), places.has_room()), (2, 1, false));
        places.give_back();
        assert_eq!(places.take(), None);
        places.give_back();
        assert_eq!(places.take(), Some(1));
    }
}
