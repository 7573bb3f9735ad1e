//! A word that ends every wait, and locks that a panic elsewhere does not spoil.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Told once that it is time to stop; every wait on it ends then.
#[derive(Debug, Default)]
pub struct Stop {
    told: Mutex<bool>,
    news: Condvar,
}

impl Stop {
    /// Nobody was told yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells all that wait now or later.
    pub fn now(&self) {
        *lock(&self.told) = true;
        self.news.notify_all();
    }

    /// Whether it was told.
    pub fn told(&self) -> bool {
        *lock(&self.told)
    }

    /// Waits so long, or until it is told; says whether it was.
    pub fn wait(&self, span: Duration) -> bool {
        let told = lock(&self.told);
        if span.is_zero() {
            return *told;
        }
        let (told, _) = self.news.wait_timeout_while(told, span, |told| !*told).unwrap_or_else(PoisonError::into_inner);
        *told
    }
}

/// A lock that a panicked script did not spoil: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_span_or_with_the_word() {
        let stop = Stop::new();
        assert!(!stop.wait(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| stop.wait(Duration::from_secs(600)));
            stop.now();
            assert!(waits.join().unwrap());
        });
        assert!(stop.told() && stop.wait(Duration::ZERO));
    }
}
