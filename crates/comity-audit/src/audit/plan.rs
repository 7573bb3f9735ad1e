//! What is to be audited: the command, the promise, the arms.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use serde::Serialize;

use super::law::Law;
use super::unit;

/// An audit to run. [`Plan::new`] fills in what is usual; [`Plan::check`] says what cannot be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program to judge and its arguments.
    pub command: Vec<OsString>,
    /// How many processes run it at once, arm by arm.
    pub arms: Vec<u32>,
    /// Requests each process is asked to make.
    pub requests: u32,
    /// What was promised.
    pub promise: Promise,
    /// Host names each arm has.
    pub hosts: u32,
    /// Requests that are refused.
    pub refusing: Option<Refusing>,
    /// The Crawl-delay in each host's robots.txt; the longer of it and the promised interval holds.
    pub crawl_delay: Option<Duration>,
    /// How long the processes of an arm may run; `None` for three times what the promise needs, and half a minute.
    pub time_limit: Option<Duration>,
    /// Whether processes find the far end as `http_proxy` in their environment.
    pub as_proxy: bool,
}

/// The pace that was promised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Promise {
    /// The least time between two requests at a host.
    #[serde(rename = "interval_ms", serialize_with = "unit::ms")]
    pub interval: Duration,
    /// Requests that may come at once after a rest.
    pub burst: u32,
    /// What is not held against anybody, beside the machine's measured jitter.
    #[serde(rename = "tolerance_ms", serialize_with = "unit::ms")]
    pub tolerance: Duration,
}

/// Which requests are refused at each host. robots.txt is never refused, and not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Refusing {
    /// 429 or 503.
    pub status: u16,
    /// The first so many of a host.
    pub first: u32,
    /// Of the others every so many-th of a host; 0 for none.
    pub every: u32,
    /// What the refusal says in Retry-After, in whole seconds; `None` for nothing.
    #[serde(rename = "retry_after_s", serialize_with = "unit::some_secs")]
    pub retry_after: Option<Duration>,
}

/// A setting that cannot be audited by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {setting} '{value}': allowed {allowed}")]
pub struct PlanError {
    /// Which one.
    pub setting: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub allowed: String,
}

impl Plan {
    /// `command` as two processes with six requests each, at one host that refuses nothing.
    pub fn new(command: Vec<OsString>, promise: Promise) -> Self {
        Self {
            command,
            arms: vec![2],
            requests: 6,
            promise,
            hosts: 1,
            refusing: None,
            crawl_delay: None,
            time_limit: None,
            as_proxy: false,
        }
    }

    /// Whether the plan can be run.
    ///
    /// # Errors
    /// The first setting that is out of bounds, and what its bounds are.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |setting, value: String, allowed: String| Err(PlanError { setting, value, allowed });
        if self.command.is_empty() {
            return wrong("command", String::new(), "is a program and its arguments".to_owned());
        }
        for workers in &self.arms {
            if !(1..=MOST_WORKERS).contains(workers) {
                return wrong("workers", workers.to_string(), format!("are whole numbers from 1 to {MOST_WORKERS}"));
            }
        }
        let mut seen = HashSet::new();
        if let Some(again) = self.arms.iter().find(|workers| !seen.insert(**workers)) {
            let allowed = "is each number once: an arm's host is named after it, so that no arm colours another";
            return wrong("sweep", again.to_string(), allowed.to_owned());
        }
        let most = self.arms.iter().max().copied().unwrap_or_default();
        if most == 0 {
            return wrong("workers", String::new(), "is at least one arm".to_owned());
        }
        if self.requests == 0 || self.requests.saturating_mul(most) > MOST_REQUESTS {
            let allowed =
                format!("are whole numbers from 1 to {}: {MOST_REQUESTS} over all workers", MOST_REQUESTS / most);
            return wrong("requests", self.requests.to_string(), allowed);
        }
        if !(1..=MOST_HOSTS).contains(&self.hosts) {
            return wrong("hosts", self.hosts.to_string(), format!("are whole numbers from 1 to {MOST_HOSTS}"));
        }
        if self.crawl_delay.is_some_and(|delay| !(SHORTEST..=LONGEST).contains(&delay)) {
            let delay = self.crawl_delay.unwrap_or_default();
            return wrong("crawl-delay", format!("{delay:?}"), "are times from 1ms to 1h".to_owned());
        }
        let Promise { interval, burst, tolerance } = self.promise;
        if !(SHORTEST..=LONGEST).contains(&interval) {
            return wrong("interval", format!("{interval:?}"), "are times from 1ms to 1h".to_owned());
        }
        if !(1..=MOST_BURST).contains(&burst) {
            return wrong("burst", burst.to_string(), format!("are whole numbers from 1 to {MOST_BURST}"));
        }
        if tolerance.saturating_mul(2) > self.interval() {
            let allowed = format!("is at most half the interval ({:?}): more would pass anything", self.interval() / 2);
            return wrong("tolerance", format!("{tolerance:?}"), allowed);
        }
        if self.time_limit.is_some_and(|limit| limit.is_zero()) {
            return wrong("time-limit", "0".to_owned(), "are times above 0".to_owned());
        }
        self.refusing.map_or(Ok(()), |refusing| refusing.check())
    }

    /// The interval that is judged by: the promised one, or a longer Crawl-delay.
    pub fn interval(&self) -> Duration {
        self.promise.interval.max(self.crawl_delay.unwrap_or_default())
    }

    /// The law with this much tolerance.
    pub(super) fn law(&self, tolerance: Duration) -> Law {
        Law { interval: self.interval(), burst: self.promise.burst, tolerance }
    }

    /// How long the processes of an arm may run.
    pub(super) fn time_limit(&self, workers: u32) -> Duration {
        let requests = workers.saturating_mul(self.requests);
        let refused = self.refusing.map_or(Duration::ZERO, |refusing| {
            let often = if refusing.every == 0 { 0 } else { requests / refusing.every.max(2) };
            refusing.retry_after.unwrap_or_default().saturating_mul(refusing.first.saturating_add(often))
        });
        let needed = self.interval().saturating_mul(requests).saturating_add(refused);
        self.time_limit.unwrap_or(needed.saturating_mul(3).saturating_add(HALF_A_MINUTE))
    }
}

impl Promise {
    /// One request at a time every `interval`, with the usual tolerance: 5 ms, or a quarter of a very short interval.
    pub fn new(interval: Duration) -> Self {
        Self { interval, burst: 1, tolerance: TOLERANCE.min(interval / 4) }
    }
}

impl Refusing {
    fn check(&self) -> Result<(), PlanError> {
        let wrong =
            |setting, value: String, allowed: &str| Err(PlanError { setting, value, allowed: allowed.to_owned() });
        if !matches!(self.status, 429 | 503) {
            return wrong("refuse", self.status.to_string(), "are 429 and 503");
        }
        if self.every == 1 {
            return wrong("refuse-every", "1".to_owned(), "are whole numbers from 2: something has to be served");
        }
        match self.retry_after {
            Some(span) if span.subsec_nanos() != 0 || span.is_zero() || span > LONGEST => {
                wrong("retry-after", format!("{span:?}"), "are whole seconds from 1s to 1h, as HTTP has them")
            }
            _ => Ok(()),
        }
    }

    /// Whether the `nth` request of a host (from 0) is refused.
    pub(super) fn refuses(&self, nth: u64) -> bool {
        match nth.checked_sub(self.first.into()) {
            None => true,
            Some(later) => self.every != 0 && (later + 1).is_multiple_of(self.every.into()),
        }
    }
}

/// Processes at once: more are no longer a measurement but a load.
const MOST_WORKERS: u32 = 256;

/// Requests of one arm: half of what the far end's log holds, so that retries and the control find room.
const MOST_REQUESTS: u32 = 100_000;

/// Host names of an arm.
const MOST_HOSTS: u32 = 100;

/// A burst for which a control can still be made to fail in reasonable time.
const MOST_BURST: u32 = 1000;

/// Below this, a gap on loopback is the scheduler's affair.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// What two sockets and a scheduler may add to an honest gap or take from it.
const TOLERANCE: Duration = Duration::from_millis(5);

/// For processes to begin and end.
const HALF_A_MINUTE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new(vec!["true".into()], Promise::new(Duration::from_millis(500)))
    }

    fn refused(change: impl FnOnce(&mut Plan)) -> &'static str {
        let mut plan = plan();
        change(&mut plan);
        let error = plan.check().unwrap_err();
        assert!(!error.allowed.is_empty(), "{error}");
        error.setting
    }

    #[test]
    fn what_cannot_be_audited_is_named() {
        assert_eq!(plan().check(), Ok(()));
        let refusing = Refusing { status: 429, first: 0, every: 10, retry_after: None };
        assert_eq!(refused(|plan| plan.command.clear()), "command");
        assert_eq!(refused(|plan| plan.arms = vec![0]), "workers");
        assert_eq!(refused(|plan| plan.arms = vec![257]), "workers");
        assert_eq!(refused(|plan| plan.arms.clear()), "workers");
        assert_eq!(refused(|plan| plan.arms = vec![2, 1, 2]), "sweep");
        assert_eq!(refused(|plan| plan.requests = 0), "requests");
        assert_eq!(refused(|plan| plan.requests = 50_001), "requests");
        assert_eq!(refused(|plan| plan.hosts = 0), "hosts");
        assert_eq!(refused(|plan| plan.promise.interval = Duration::ZERO), "interval");
        assert_eq!(refused(|plan| plan.promise.burst = 0), "burst");
        assert_eq!(refused(|plan| plan.promise.tolerance = Duration::from_millis(251)), "tolerance");
        assert_eq!(refused(|plan| plan.crawl_delay = Some(Duration::ZERO)), "crawl-delay");
        assert_eq!(refused(|plan| plan.time_limit = Some(Duration::ZERO)), "time-limit");
        assert_eq!(refused(|plan| plan.refusing = Some(Refusing { status: 500, ..refusing })), "refuse");
        assert_eq!(refused(|plan| plan.refusing = Some(Refusing { every: 1, ..refusing })), "refuse-every");
        let retry_after = Some(Duration::from_millis(1500));
        assert_eq!(refused(|plan| plan.refusing = Some(Refusing { retry_after, ..refusing })), "retry-after");
    }

    #[test]
    fn the_first_and_every_so_many_th_are_refused() {
        let refused = |first, every| {
            let refusing = Refusing { status: 429, first, every, retry_after: None };
            (0..8).filter(|&nth| refusing.refuses(nth)).collect::<Vec<u64>>()
        };
        assert_eq!(refused(0, 3), [2, 5]);
        assert_eq!(refused(2, 0), [0, 1]);
        assert_eq!(refused(1, 4), [0, 4]);
    }

    #[test]
    fn a_crawl_delay_that_is_longer_is_what_holds() {
        let mut plan = plan();
        plan.crawl_delay = Some(Duration::from_secs(2));
        assert_eq!(plan.interval(), Duration::from_secs(2));
        plan.crawl_delay = Some(Duration::from_millis(2));
        assert_eq!(plan.interval(), Duration::from_millis(500));
    }

    #[test]
    fn a_time_limit_leaves_room_for_pauses() {
        let mut plan = plan();
        assert_eq!(plan.time_limit(6), Duration::from_secs(3 * 18 + 30));
        let retry_after = Some(Duration::from_secs(2));
        plan.refusing = Some(Refusing { status: 429, first: 1, every: 10, retry_after });
        assert_eq!(plan.time_limit(6), Duration::from_secs(3 * (18 + 8) + 30));
        plan.time_limit = Some(Duration::from_secs(9));
        assert_eq!(plan.time_limit(6), Duration::from_secs(9));
    }
}
