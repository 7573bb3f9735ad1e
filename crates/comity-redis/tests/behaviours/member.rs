//! A process that shares the store: a thread with a memory, a store, and a queue for one host.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Real};

use comity_core::limits::all::{Begin, Claim, Effects, Grant, Origin};
use comity_core::limits::{Route, Wait};
use comity_core::scope::{Rules, Target};
use comity_core::signal::Signal;
use comity_core::time::Instant;
use comity_redis::{Redis, Settings};
use comity_store::{Asked, Claimed, Lesson, Memory, MemorySettings, ReadClock, Shared, Store};

pub(crate) struct Member {
    pub(crate) memory: Memory,
    pub(crate) redis: Redis,
    clock: ReadClock,
    came: Arc<(Mutex<bool>, Condvar)>,
    claims: u64,
    changed: bool,
}

/// A start as it happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) at: Real,
    pub(crate) from: Origin,
}

impl Member {
    pub(crate) fn join(url: &str, settings: &Settings, rules: Rules) -> Self {
        let mut redis = Redis::open(url, settings.clone()).expect("the server answers");
        let came = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&came);
        redis.on_news(Arc::new(move || {
            *told.0.lock().expect("no thread panicked") = true;
            told.1.notify_all();
        }));
        let memory = Memory::new(Arc::new(rules), MemorySettings::default());
        Self { memory, clock: redis.clock(), redis, came, claims: 0, changed: false }
    }

    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    pub(crate) fn route(&mut self, host: &str) -> Route {
        let now = self.now();
        self.memory.route(now, &Target::host(host), None).expect("a route")
    }

    /// One claim and its answer.
    pub(crate) fn claim(&mut self, route: &Route, asked: Instant, due: Instant, waiting: u32) -> Result<Grant, Wait> {
        self.claims += 1;
        let now = self.now();
        let claim = Claim { members: route.members(), cost: 1, asked, due: due.min(now) };
        let id = self.claims;
        match self.redis.claim(&mut self.memory, now, &claim, Asked { id, waiting }) {
            Claimed::Now(answer) => answer,
            Claimed::Later => loop {
                self.sleep(Duration::from_millis(20));
                let news = self.news();
                if let Some((_, answer)) = news.answers.into_iter().find(|(of, _)| *of == id) {
                    return answer;
                }
            },
        }
    }

    /// Claims at once.
    pub(crate) fn ask(&mut self, host: &str) -> Result<Grant, Wait> {
        let route = self.route(host);
        let now = self.now();
        self.claim(&route, now, now, 1)
    }

    /// Waits in its queue until it starts. `None` where that is not before the end.
    pub(crate) fn start(&mut self, route: &Route, end: Real, waiting: u32) -> Option<Grant> {
        let asked = self.now();
        let mut due = asked;
        loop {
            if real_now() >= end {
                return None;
            }
            self.changed = false;
            let wait = match self.claim(route, asked, due, waiting) {
                Ok(mut grant) => {
                    self.wait_until(grant.start, end, true);
                    let now = self.now();
                    match self.redis.begin(&mut self.memory, now, route.members(), &mut grant) {
                        Begin::Go | Begin::Restamped => return Some(grant),
                        Begin::TooLate => {
                            self.redis.release(&mut self.memory, now, route.members(), &grant);
                            due = self.now();
                            continue;
                        }
                    }
                }
                Err(wait) => wait,
            };
            due = if self.wait_until(wait.until, end, false) { wait.until } else { Instant::FAR };
        }
    }

    /// True where the time was waited out, false where something changed.
    fn wait_until(&mut self, until: Instant, end: Real, whatever_comes: bool) -> bool {
        loop {
            let now = self.now();
            if now >= until || real_now() >= end {
                return true;
            }
            if self.changed && !whatever_comes {
                return false;
            }
            let news = self.news();
            self.changed |= news.all_changed || !news.changed.is_empty();
            let again = news.again.map_or(Duration::from_millis(100), |again| again.since(now));
            if !self.changed || whatever_comes {
                self.sleep(again.clamp(Duration::from_micros(100), Duration::from_millis(100)).min(until.since(now)));
            }
        }
    }

    pub(crate) fn news(&mut self) -> comity_store::News {
        let now = self.now();
        self.redis.news(&mut self.memory, now)
    }

    fn sleep(&self, span: Duration) {
        let came = self.came.0.lock().expect("no thread panicked");
        let waited = self.came.1.wait_timeout_while(came, span, |came| !*came);
        *waited.expect("no thread panicked").0 = false;
    }

    pub(crate) fn release(&mut self, route: &Route, grant: &Grant) {
        let now = self.now();
        self.redis.release(&mut self.memory, now, route.members(), grant);
    }

    pub(crate) fn learn(&mut self, route: &Route, grant: &Grant, signal: &Signal) -> Effects {
        let now = self.now();
        let lesson = Lesson { grant, signal, latency: Some(Duration::from_millis(20)) };
        self.redis.learn(&mut self.memory, now, route.members(), &lesson)
    }

    /// Lets what is under way come.
    pub(crate) fn settle(&mut self, span: Duration) {
        let end = real_now() + span;
        while real_now() < end {
            self.sleep(Duration::from_millis(5));
            let news = self.news();
            self.changed |= news.all_changed || !news.changed.is_empty();
        }
    }

    /// Starts requests in a thread of its own until the end, each held so long; returns when they started.
    pub(crate) fn run(mut self, host: &str, end: Real, hold: Duration, most: usize) -> JoinHandle<Vec<Start>> {
        let host = host.to_owned();
        std::thread::spawn(move || {
            let route = self.route(&host);
            let mut starts = Vec::new();
            while starts.len() < most {
                let waiting = u32::try_from(most - starts.len()).unwrap_or(u32::MAX);
                let Some(grant) = self.start(&route, end, waiting) else { break };
                starts.push(Start { at: real_now(), from: grant.from });
                if !hold.is_zero() {
                    self.settle(hold);
                }
                self.release(&route, &grant);
            }
            starts
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "what is judged is when requests left, whatever the store's clock says")]
pub(crate) fn real_now() -> Real {
    Real::now()
}

/// All starts in order.
pub(crate) fn merged(starts: Vec<Vec<Start>>) -> Vec<Real> {
    let mut all: Vec<Real> = starts.into_iter().flatten().map(|start| start.at).collect();
    all.sort_unstable();
    all
}

pub(crate) fn least_gap(starts: &[Real]) -> Duration {
    starts.windows(2).map(|pair| pair[1] - pair[0]).min().expect("two starts")
}

impl Member {
    /// Starts one request within a second, by way of the store, and gives its place back.
    pub(crate) fn start_soon(&mut self, host: &str) -> bool {
        let route = self.route(host);
        let Some(grant) = self.start(&route, real_now() + Duration::from_secs(1), 1) else { return false };
        self.release(&route, &grant);
        grant.from == Origin::Shared
    }
}
