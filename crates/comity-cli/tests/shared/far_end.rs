//! The ground workers meet on, and what it says of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use comity_audit::arrivals::Gaps;
use comity_audit::control::control_run;
use comity_audit::far_end::{Arrival, FarEnd, Host, World};

/// The host that workers ask. It resolves nowhere; only the far end plays it.
pub(crate) const HOST: &str = "shop.example";

/// A far end, and a perfect client beside it that measures the machine's own unrest.
pub(crate) struct Ground {
    pub(crate) far_end: FarEnd,
    control: Option<JoinHandle<Duration>>,
    done: Arc<AtomicBool>,
    _quiet: Option<RwLockReadGuard<'static, ()>>,
}

/// Tests that measure gaps may run beside each other, but not beside one that keeps every core busy.
static QUIET: RwLock<()> = RwLock::new(());

/// Waits until no other test measures, and lets none begin.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    QUIET.write().unwrap_or_else(PoisonError::into_inner)
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::with(World::new().default_host(Host::new()))
    }

    /// For a test that is alone, and measures no gap.
    pub(crate) fn busy() -> Self {
        Self {
            far_end: FarEnd::start(World::new().default_host(Host::new())).unwrap(),
            control: None,
            done: Arc::default(),
            _quiet: None,
        }
    }

    pub(crate) fn with(world: World) -> Self {
        let quiet = QUIET.read().unwrap_or_else(PoisonError::into_inner);
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let control = std::thread::spawn(move || {
            let far_end = FarEnd::start(World::new().default_host(Host::new())).unwrap();
            let mut worst = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                far_end.clear();
                control_run(&far_end, "control.example", CONTROL, 10).unwrap();
                let gaps = Gaps::of(&far_end.times("control.example"));
                worst = worst.max(CONTROL.saturating_sub(gaps.least().unwrap_or(CONTROL)));
            }
            worst
        });
        Self { far_end: FarEnd::start(world).unwrap(), control: Some(control), done, _quiet: Some(quiet) }
    }

    /// How much shorter than its spacing a perfect client's shortest gap was meanwhile. The control ends with it.
    pub(crate) fn jitter(&mut self) -> Duration {
        self.done.store(true, Ordering::Relaxed);
        self.control.take().map(|control| control.join().unwrap()).unwrap_or_default()
    }

    /// What arrived at a host, in order.
    pub(crate) fn arrivals(&self, host: &str) -> Vec<Arrival> {
        let mut arrivals: Vec<_> = self.far_end.arrivals().into_iter().filter(|a| a.host == host).collect();
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }

    /// No gap may be shorter than the interval by more than the machine's own jitter and what timers are off by. The first
    /// request of a process is written by code that runs for the first time, after the last look at its permit: it may be as
    /// late as a grant may be used.
    pub(crate) fn held(&self, host: &str, interval: Duration, jitter: Duration) -> Result<(), String> {
        let arrivals = self.arrivals(host);
        let mut seen = HashSet::new();
        for pair in arrivals.windows(2) {
            let first = seen.insert(worker_of(&pair[0]));
            let late = if first { late_by(interval) } else { timers(interval) };
            let (gap, least) = (pair[1].at - pair[0].at, interval.saturating_sub(jitter + late));
            if gap < least {
                let after = pair[0].target();
                return Err(format!("a gap of {gap:?} after {after}, of {interval:?} less {late:?} and {jitter:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn gaps(&self, host: &str) -> Gaps {
        Gaps::of(&self.far_end.times(host))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Whose request it is, by its path.
pub(crate) fn worker_of(arrival: &Arrival) -> Option<usize> {
    arrival.target().rsplit_once("/w")?.1.split('/').next()?.parse().ok()
}

/// No gap may be shorter than the interval by more than the machine's own jitter and what timers are off by.
pub(crate) fn held(gaps: &Gaps, interval: Duration, jitter: Duration) -> Result<(), String> {
    let least = interval.saturating_sub(jitter + timers(interval));
    let short = gaps.below(least);
    if short == 0 {
        return Ok(());
    }
    Err(format!(
        "{short} of {} gaps are shorter than {least:?} (interval {interval:?}, jitter {jitter:?}); the least is {:?}",
        gaps.count(),
        gaps.least()
    ))
}

const CONTROL: Duration = Duration::from_millis(20);
/// What a timer of one millisecond and a wake-up are late on a machine whose every core is busy.
fn timers(interval: Duration) -> Duration {
    late_by(interval).min(Duration::from_millis(10))
}

/// How late a grant may be used.
fn late_by(interval: Duration) -> Duration {
    Duration::from_millis(3).max(interval / 10)
}
