//! The one task that wakes waiting requests in time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use comity_core::time::Instant;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::inner::Inner;

impl Inner {
    /// Starts the one task that wakes waiting requests in time, unless it runs or a line does its work.
    pub(crate) fn ensure_driver(self: &Arc<Self>) {
        if self.has_line.load(Ordering::Acquire) || self.driven.swap(true, Ordering::AcqRel) {
            return;
        }
        let driver = Driver { inner: Arc::downgrade(self) };
        tokio::spawn(driver.run(Arc::clone(&self.changed), self.clock.clone()));
    }

    /// The line is gone: what still waits is driven as in any pacer.
    pub(crate) fn line_closed(self: &Arc<Self>) {
        self.has_line.store(false, Ordering::Release);
        let mut engine = self.engine.lock();
        engine.cancel_line();
        let others_wait = !engine.schedule.is_empty();
        if others_wait && tokio::runtime::Handle::try_current().is_ok() {
            self.ensure_driver();
        }
        // A grant that came for the line meanwhile is given back.
        let now = self.now();
        self.pump(engine, now);
    }
}

/// It ends with its pacer.
struct Driver {
    inner: Weak<Inner>,
}

impl Driver {
    async fn run(self, changed: Arc<Notify>, clock: Clock) {
        loop {
            let deadline = {
                let Some(inner) = self.inner.upgrade() else { return };
                if inner.has_line.load(Ordering::Acquire) {
                    // The line drives the pacer now; this wake-up may have been its.
                    changed.notify_one();
                    return;
                }
                inner.turn()
            };
            match deadline.and_then(|at| clock.to_tokio(at)) {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, changed.notified()).await;
                }
                None => changed.notified().await,
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        inner.planned.store(u64::MAX, Ordering::Release);
        inner.driven.store(false, Ordering::Release);
        if !inner.has_line.load(Ordering::Acquire) && !inner.engine.lock().is_idle() {
            inner.drive_elsewhere();
        }
    }
}

impl Inner {
    /// The runtime that drove this pacer has ended while others wait, in runtimes of their own perhaps: a thread drives it
    /// from now on.
    fn drive_elsewhere(self: &Arc<Self>) {
        if self.driven.swap(true, Ordering::AcqRel) {
            return;
        }
        let driver = Driver { inner: Arc::downgrade(self) };
        let (changed, clock) = (Arc::clone(&self.changed), self.clock.clone());
        let drive = move || match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(driver.run(changed, clock)),
            Err(error) => tracing::warn!("requests that wait cannot be woken: {error}"),
        };
        if let Err(error) = std::thread::Builder::new().name("comity-driver".to_owned()).spawn(drive) {
            tracing::warn!("requests that wait cannot be woken: {error}");
        }
    }
}

impl Inner {
    /// One turn of the driver: starts what may start, and says when to look again.
    fn turn(self: &Arc<Self>) -> Option<Instant> {
        let now = self.clock.now();
        let mut started = Vec::new();
        let deadline = {
            let mut engine = self.engine.lock();
            while let Some(start) = engine.next_start(now) {
                started.push(start);
            }
            self.tell_first_delays(&mut engine, now);
            let deadline = engine.deadline(now);
            self.planned.store(deadline.map_or(u64::MAX, Instant::as_nanos), Ordering::Release);
            deadline
        };
        for start in started {
            self.hand_over(start);
        }
        deadline
    }
}
