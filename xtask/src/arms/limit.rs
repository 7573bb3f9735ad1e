//! What a host allows and does not tell, and what could be had of it.

use std::time::Duration;

use serde_json::{Value, json};

/// One hidden limit. Where it is not a queue, an answer takes 20 ms.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// Full at first; one token comes back `every` so often.
    Bucket { every: Duration, burst: u32 },
    /// So many in each window; windows follow each other from the server's start.
    Window { count: u32, per: Duration },
    /// Never refuses: what cannot be served yet waits.
    Queue { workers: u32, service: Duration },
    /// On the mean 80 of 100 URLs come from a cache in 5 ms; the others are a queue's. Where chance leaves the queue fewer, more
    /// than its capacity is served.
    Mix { workers: u32, service: Duration },
}

impl Limit {
    /// As the far end's process reads it.
    pub(super) fn spec(self) -> Value {
        match self {
            Limit::Bucket { every, burst } => {
                json!({"bucket": {"every_us": micros(every), "burst": burst}, "service_ms": ANSWER.as_millis() as u64})
            }
            Limit::Window { count, per } => {
                json!({"window": {"count": count, "per_ms": micros(per) / 1000}, "service_ms": ANSWER.as_millis() as u64})
            }
            Limit::Queue { workers, service } => queue(workers, service),
            Limit::Mix { workers, service } => {
                let mut spec = queue(workers, service);
                spec["cached"] = json!({"percent": CACHED_PERCENT, "service_ms": CACHE.as_millis() as u64});
                spec
            }
        }
    }

    /// What it serves in the long run, in requests a second.
    pub(super) fn capacity(self) -> f64 {
        match self {
            Limit::Bucket { every, .. } => 1.0 / every.as_secs_f64(),
            Limit::Window { count, per } => f64::from(count) / per.as_secs_f64(),
            Limit::Queue { workers, service } => f64::from(workers) / service.as_secs_f64(),
            Limit::Mix { workers, service } => {
                let origin = f64::from(workers) / service.as_secs_f64();
                origin * 100.0 / f64::from(100 - CACHED_PERCENT)
            }
        }
    }

    /// The most it serves from one time of its clock to another to somebody who knows all about it, if it is rested.
    pub(super) fn possible(self, from: Duration, until: Duration) -> f64 {
        let span = until.saturating_sub(from);
        let possible = match self {
            Limit::Bucket { burst, .. } => f64::from(burst) + self.capacity() * span.as_secs_f64(),
            Limit::Window { count, per } => {
                let (first, after) = (from.as_nanos() / per.as_nanos(), until.as_nanos().div_ceil(per.as_nanos()));
                f64::from(count) * after.saturating_sub(first) as f64
            }
            Limit::Queue { .. } | Limit::Mix { .. } => self.capacity() * span.as_secs_f64(),
        };
        // A thousandth of a request is arithmetic, not a request.
        (possible + 0.001).floor()
    }

    /// How long after the last request it is as if nobody had ever come; of a window, its borders tell that.
    pub(super) fn recovery(self) -> Duration {
        match self {
            Limit::Bucket { every, burst } => every * burst,
            Limit::Window { .. } => Duration::ZERO,
            Limit::Queue { service, .. } | Limit::Mix { service, .. } => service * 10,
        }
    }

    /// The length of its windows, where it has any.
    pub(super) fn window(self) -> Option<Duration> {
        match self {
            Limit::Window { per, .. } => Some(per),
            _ => None,
        }
    }

    /// The time a worker takes, where a queue stands before workers.
    pub(super) fn service(self) -> Option<Duration> {
        match self {
            Limit::Queue { service, .. } | Limit::Mix { service, .. } => Some(service),
            _ => None,
        }
    }
}

fn queue(workers: u32, service: Duration) -> Value {
    json!({"queue": {"workers": workers, "service_ms": micros(service) / 1000}})
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// How long a host that does not queue takes over an answer.
const ANSWER: Duration = Duration::from_millis(20);

/// Of 100 URLs of a mixed host, those its cache holds.
const CACHED_PERCENT: u32 = 80;

/// What the cache takes.
const CACHE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_possible_counts_bursts_and_whole_windows() {
        let bucket = Limit::Bucket { every: Duration::from_millis(100), burst: 20 };
        assert_eq!(bucket.possible(s(7), s(67)), 620.0);
        let window = Limit::Window { count: 60, per: s(60) };
        assert_eq!(window.possible(s(0), s(120)), 120.0);
        assert_eq!(window.possible(s(25), s(145)), 180.0);
        let queue = Limit::Queue { workers: 4, service: Duration::from_millis(200) };
        assert_eq!(queue.possible(s(0), s(30)), 600.0);
    }

    #[test]
    fn a_mixed_host_can_serve_what_its_origin_leaves_to_its_cache() {
        let mix = Limit::Mix { workers: 2, service: Duration::from_millis(400) };
        assert_eq!(mix.capacity(), 25.0);
    }
}
