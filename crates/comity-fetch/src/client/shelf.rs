//! What lies where and since when, within bounds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::options::PoolBounds;

/// Things under keys, the oldest of all found at once.
pub(super) struct Shelf<T> {
    /// Numbers only rise, so the lowest has lain for longest.
    next: u64,
    items: BTreeMap<u64, Item<T>>,
    by_key: HashMap<Arc<str>, VecDeque<u64>>,
}

struct Item<T> {
    key: Arc<str>,
    since: Instant,
    thing: T,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { next: 0, items: BTreeMap::new(), by_key: HashMap::new() }
    }
}

impl<T> Shelf<T> {
    /// The thing put last under `key`, and since when it lay there.
    pub(super) fn pop(&mut self, key: &str) -> Option<(T, Instant)> {
        // The empty queue stays: the next one put here needs no new one. `shrink` bounds how many stay.
        let number = self.by_key.get_mut(key)?.pop_back()?;
        self.items.remove(&number).map(|item| (item.thing, item.since))
    }

    pub(super) fn push(&mut self, key: Arc<str>, thing: T, now: Instant) {
        let number = self.next;
        self.next += 1;
        match self.by_key.get_mut(&key) {
            Some(numbers) => numbers.push_back(number),
            None => {
                self.by_key.insert(Arc::clone(&key), VecDeque::from([number]));
            }
        }
        self.items.insert(number, Item { key, since: now, thing });
    }

    /// Takes out what is over the bounds after one push: of the key pushed to, of all, and of age.
    pub(super) fn shrink(&mut self, bounds: &PoolBounds, now: Instant) -> Vec<T> {
        let mut out = Vec::new();
        let pushed = self.items.last_key_value().and_then(|(_, item)| self.by_key.get_mut(&item.key));
        if let Some(numbers) = pushed
            && numbers.len() > bounds.idle_per_host
        {
            out.extend(numbers.pop_front().and_then(|number| self.items.remove(&number)).map(|item| item.thing));
        }
        while let Some(oldest) = self.items.first_entry() {
            let expired = now.saturating_duration_since(oldest.get().since) > bounds.idle_lifetime;
            if !expired && self.items.len() <= bounds.idle_total {
                break;
            }
            out.extend(self.pop_oldest());
        }
        if self.by_key.len() > 2 * bounds.idle_total + SPARE_KEYS {
            self.by_key.retain(|_, numbers| !numbers.is_empty());
        }
        out
    }

    fn pop_oldest(&mut self) -> Option<T> {
        let (number, item) = self.items.pop_first()?;
        if let Some(numbers) = self.by_key.get_mut(&item.key) {
            numbers.retain(|kept| *kept != number);
        }
        Some(item.thing)
    }
}

/// Empty queues kept beyond need, so that looking for them is rare.
const SPARE_KEYS: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "an Instant has no other origin; the tests only add to it")]
    fn at(seconds: u64) -> Instant {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    fn bounds(per_host: usize, total: usize) -> PoolBounds {
        PoolBounds { idle_per_host: per_host, idle_total: total, idle_lifetime: Duration::from_secs(60) }
    }

    fn put(shelf: &mut Shelf<u32>, key: &str, thing: u32, bounds: &PoolBounds, second: u64) -> Vec<u32> {
        shelf.push(key.into(), thing, at(second));
        shelf.shrink(bounds, at(second))
    }

    #[test]
    fn the_last_one_put_comes_first() {
        let mut shelf = Shelf::default();
        for thing in 1..=2 {
            assert!(put(&mut shelf, "a", thing, &bounds(9, 9), 0).is_empty());
        }
        assert_eq!(shelf.pop("b"), None);
        assert_eq!(shelf.pop("a"), Some((2, at(0))));
        assert_eq!(shelf.pop("a"), Some((1, at(0))));
        assert_eq!(shelf.pop("a"), None);
    }

    #[test]
    fn the_oldest_makes_room_of_its_key_of_all_and_by_age() {
        let mut shelf = Shelf::default();
        let bounds = bounds(2, 3);
        for (thing, key) in [(1, "a"), (2, "a"), (3, "b")] {
            assert!(put(&mut shelf, key, thing, &bounds, 0).is_empty());
        }
        assert_eq!(put(&mut shelf, "a", 4, &bounds, 1), [1]);
        assert_eq!(put(&mut shelf, "c", 5, &bounds, 60), [2]);
        assert_eq!(put(&mut shelf, "c", 6, &bounds, 61), [3]);
        assert_eq!(put(&mut shelf, "d", 7, &bounds, 62), [4]);
        assert_eq!(put(&mut shelf, "d", 8, &self::bounds(0, 9), 62), [7]);
    }

    proptest! {
        #[test]
        fn whatever_is_done_the_bounds_hold_and_nothing_is_lost(
            steps in proptest::collection::vec((any::<bool>(), 0u32..200), 0..600)
        ) {
            let bounds = bounds(2, 5);
            let (mut shelf, mut put_in, mut came_out) = (Shelf::default(), 0, 0);
            for (step, (is_put, key)) in steps.into_iter().enumerate() {
                let key = key.to_string();
                if is_put {
                    put_in += 1;
                    came_out += put(&mut shelf, &key, 0, &bounds, step as u64).len();
                } else {
                    came_out += usize::from(shelf.pop(&key).is_some());
                }
                prop_assert!(shelf.items.len() <= 5 && shelf.by_key.len() <= 2 * 5 + SPARE_KEYS);
                prop_assert!(shelf.by_key.values().all(|numbers| numbers.len() <= 2));
                prop_assert_eq!(shelf.items.len(), shelf.by_key.values().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(put_in, came_out + shelf.items.len());
            }
        }
    }
}
