//! The one file of this crate that reads clocks.
//!
//! The file's clock is the machine's clock since boot, which also runs while the machine sleeps (E06), plus a base that
//! the header keeps: chosen once as the wall clock's date, and chosen anew after a boot so that the file's clock goes on
//! by as much as the wall clock did. So pauses and last starts survive a reboot (decision 3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use comity_core::time::Instant;
use comity_store::ReadClock;

use crate::sum::sum;

/// Which boot of which machine the clock belongs to, and which view of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    /// The boot.
    pub(crate) id: u64,
    /// The time namespace: in another one the same clock reads otherwise.
    pub(crate) namespace: u64,
}

/// The file's clock as this process reads it. Clones read the same.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    base: Arc<AtomicU64>,
}

impl Boot {
    /// This one.
    pub(crate) fn of_this_machine() -> Self {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        let id = match id.trim_ascii() {
            [] => Self::UNKNOWN,
            id => sum(2, id),
        };
        Self { id, namespace: sum(3, namespace.as_os_str().as_encoded_bytes()) }
    }

    /// The kernel numbers its boots.
    pub(crate) fn is_known(self) -> bool {
        self.id != Self::UNKNOWN
    }

    /// What stands for the boot where the kernel does not say.
    pub(crate) const UNKNOWN: u64 = 0;
}

impl Clock {
    pub(crate) fn new(base: u64) -> Self {
        Self { base: Arc::new(AtomicU64::new(base)) }
    }

    /// The file's time.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.base().saturating_add(since_boot()))
    }

    pub(crate) fn base(&self) -> u64 {
        self.base.load(Ordering::Relaxed)
    }

    pub(crate) fn set_base(&self, base: u64) {
        self.base.store(base, Ordering::Relaxed);
    }

    pub(crate) fn reader(&self) -> ReadClock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// Nanoseconds since the machine's boot, asleep or awake.
pub(crate) fn since_boot() -> u64 {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(id);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this file reads the clocks: the date goes on while the machine is off")]
pub(crate) fn wall() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Lets others run for a while.
#[expect(clippy::disallowed_methods, reason = "the wait for a lock that has no queue, bounded by the lock's deadline")]
pub(crate) fn rest(span: Duration) {
    std::thread::sleep(span);
}
