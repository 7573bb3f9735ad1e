//! The arms: hosts with hidden limits, and what is to be reached at them.

use std::time::Duration;

use super::limit::Limit;

/// Hosts, what is asked of them, and the goals.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Each host's invented name and what it allows.
    pub(super) hosts: Vec<(String, Limit)>,
    /// URLs asked of each host.
    pub(super) urls: usize,
    /// A run is stopped after so long.
    pub(super) at_most: Duration,
    /// The rate a tool is given that has to be told one (`curl --rate`).
    pub(super) told: &'static str,
    /// Of the first run.
    pub(super) cold: Vec<Goal>,
    /// Of the second run, with what the first one learned.
    pub(super) again: Vec<Goal>,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// At least so many of 100 possible URLs are got.
    Got(f64),
    /// At most so many refusals.
    Refused(usize),
    /// At most so many seconds.
    Seconds(f64),
    /// At least so many percent of the capacity are used, until all URLs are got or the run is stopped: in a first run after
    /// the first tenth of that, in a second one from the start.
    Used(f64),
    /// At most so many of 100 requests are refused.
    RefusedPercent(f64),
    /// On the mean over the run, at most so many of our requests wait in the host's queue.
    Queue(f64),
}

impl Arm {
    /// The URLs of all hosts, the hosts in turn.
    pub(super) fn list(&self) -> Vec<String> {
        let of_each = |n| self.hosts.iter().map(move |(host, _)| format!("http://{host}/{n:06}"));
        (1..=self.urls).flat_map(of_each).collect()
    }

    /// The longest of its hosts' windows, where any has windows: runs begin at its borders.
    pub(super) fn window(&self) -> Option<Duration> {
        self.hosts.iter().filter_map(|(_, limit)| limit.window()).max()
    }

    /// How long to leave the hosts alone until the first run is forgotten.
    pub(super) fn recovery(&self) -> Duration {
        self.hosts.iter().map(|(_, limit)| limit.recovery()).max().unwrap_or_default()
    }
}

/// The arms at which real tools were compared: lists that end.
pub(super) fn arms() -> Vec<Arm> {
    let arm = |name, about, limit, told, cold| Arm {
        name,
        about,
        hosts: vec![host(name, limit)],
        urls: 600,
        at_most: s(120),
        told,
        cold,
        again: vec![Goal::Refused(1)],
    };
    vec![
        arm(
            "bucket-10",
            "token bucket, 10/s, burst 20",
            BUCKET_10,
            "10/s",
            vec![Goal::Got(100.0), Goal::Refused(3), Goal::Seconds(64.0)],
        ),
        // The clock ends this one: of the last token nobody can be sure, hence not all of what is possible.
        arm("bucket-1", "token bucket, 1/s, burst 5", BUCKET_1, "1/s", vec![Goal::Got(99.0), Goal::Refused(3)]),
        arm(
            "bucket-100",
            "token bucket, 100/s, burst 50",
            BUCKET_100,
            "100/s",
            vec![Goal::Got(100.0), Goal::Refused(3), Goal::Seconds(10.0)],
        ),
        arm("window-60", "fixed window, 60 a minute", WINDOW_60, "60/m", vec![Goal::Got(100.0), Goal::Refused(6)]),
        arm(
            "queue-4",
            "queue before 4 workers of 200 ms",
            QUEUE_4,
            "20/s",
            vec![Goal::Got(100.0), Goal::Refused(0), Goal::Seconds(34.0)],
        ),
        Arm {
            name: "five-hosts",
            about: "all of these at once, 120 URLs each",
            hosts: vec![
                host("bucket-10", BUCKET_10),
                host("bucket-1", BUCKET_1),
                host("bucket-100", BUCKET_100),
                host("window-60", WINDOW_60),
                host("queue-4", QUEUE_4),
            ],
            urls: 120,
            // The slowest host needs 115 s for its 120: a run that is stopped at 120 s would prove nothing.
            at_most: s(130),
            told: "5/s",
            cold: vec![Goal::Got(100.0), Goal::Refused(15), Goal::Seconds(122.0)],
            again: vec![Goal::Refused(1)],
        },
    ]
}

/// The worlds of the simulator, as real servers: lists that do not end before `time` has passed.
pub(super) fn worlds(time: Duration) -> Vec<Arm> {
    let world = |name, about, limit: Limit, goals: &[Goal]| {
        let enough = limit.capacity() * time.as_secs_f64() * 1.25 + 1000.0;
        Arm {
            name,
            about,
            hosts: vec![host(name, limit)],
            urls: enough as usize,
            at_most: time,
            told: "10/s",
            cold: goals.to_vec(),
            again: match limit.service() {
                Some(_) => goals.to_vec(),
                None => vec![Goal::Used(98.0), Goal::RefusedPercent(0.1)],
            },
        }
    };
    let bucket = [Goal::Used(95.0), Goal::RefusedPercent(0.5)];
    let window = [Goal::Used(95.0), Goal::RefusedPercent(1.0)];
    let queue = [Goal::Used(90.0), Goal::Queue(1.0)];
    vec![
        world("bucket-10", "token bucket, 10/s, burst 20", BUCKET_10, &bucket),
        world("bucket-100", "token bucket, 100/s, burst 50", BUCKET_100, &bucket),
        world("window-10", "fixed window, 10 a second", WINDOW_10, &window),
        world("window-60", "fixed window, 60 a minute", WINDOW_60, &window),
        world("queue-4", "queue before 4 workers of 200 ms", QUEUE_4, &queue),
        world("queue-16", "queue before 16 workers of 100 ms", QUEUE_16, &queue),
        world("mix", "80 % from a cache in 5 ms, the rest from 2 workers of 400 ms", MIX, &[Goal::Queue(2.0)]),
    ]
}

/// A name of the zone that is set aside for private use: no resolver knows it, and link checkers pass over `.example`.
fn host(name: &str, limit: Limit) -> (String, Limit) {
    (format!("{name}.internal"), limit)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const BUCKET_10: Limit = Limit::Bucket { every: ms(100), burst: 20 };
const BUCKET_1: Limit = Limit::Bucket { every: s(1), burst: 5 };
const BUCKET_100: Limit = Limit::Bucket { every: ms(10), burst: 50 };
const WINDOW_10: Limit = Limit::Window { count: 10, per: s(1) };
const WINDOW_60: Limit = Limit::Window { count: 60, per: s(60) };
const QUEUE_4: Limit = Limit::Queue { workers: 4, service: ms(200) };
const QUEUE_16: Limit = Limit::Queue { workers: 16, service: ms(100) };
const MIX: Limit = Limit::Mix { workers: 2, service: ms(400) };
