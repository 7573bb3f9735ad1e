//! Several members on one file, in virtual time.

mod alone;
mod concurrency;
mod crash;
mod differing;
mod history;
mod lives;
mod loss;
mod sharing;
mod turns;
mod vectors;

use core::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use comity_core::limits::all::{Begin, Claim, Grant};
use comity_core::limits::{Limits, Partial, Route, Wait};
use comity_core::policy::Policy;
use comity_core::scope::{Pattern, Rules, Target};
use comity_core::signal::{Authoritative, Inferred, Refusal, Signal};
use comity_core::time::Instant;
use comity_store::{Asked, Claimed, Lesson, Memory, MemorySettings, Shared as _, Store as _};
use tempfile::TempDir;

use crate::file::dying;
use crate::{Machine, Settings};

/// A file and the rules that all its members go by.
struct Town {
    directory: TempDir,
    rules: Arc<Rules>,
    settings: Settings,
}

/// A member: a process of its own, but for the process.
struct Member {
    memory: Memory,
    machine: Machine,
}

impl Town {
    fn new(written: &[(&str, Partial)], template: Partial) -> Self {
        let retry_after_limit = SEC * 3600;
        let mut builder = Rules::builder(Limits { policy: Policy::refusal(), retry_after_limit, ..Limits::none() });
        builder.template(template);
        for (pattern, partial) in written {
            builder.rule(Pattern::parse(pattern).unwrap(), partial.clone());
        }
        Self::under(builder.build())
    }

    fn under(rules: Rules) -> Self {
        let settings = Settings { lock_deadline: Duration::from_secs(5), ..Settings::default() };
        Self { directory: tempfile::tempdir().unwrap(), rules: Arc::new(rules), settings }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("pace")
    }

    fn member(&self) -> Member {
        Member {
            memory: Memory::new(Arc::clone(&self.rules), MemorySettings::default()),
            machine: Machine::open(self.path(), self.settings).unwrap(),
        }
    }

    fn members(&self, count: usize) -> Vec<Member> {
        (0..count).map(|_| self.member()).collect()
    }

    /// The files that were set aside.
    fn set_aside(&self) -> usize {
        let names = self.directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().contains(".damaged-")).count()
    }
}

impl Member {
    fn route(&mut self, host: &str) -> Route {
        self.memory.route(at(0), &Target::host(host), None).unwrap()
    }

    fn claim(&mut self, now: Instant, host: &str) -> Result<Grant, Wait> {
        self.claim_of(now, host, now, 1)
    }

    fn claim_of(&mut self, now: Instant, host: &str, asked: Instant, waiting: u32) -> Result<Grant, Wait> {
        self.claim_due(now, host, (asked, now), waiting)
    }

    /// `asked` and `due` of the claim.
    fn claim_due(
        &mut self,
        now: Instant,
        host: &str,
        (asked, due): (Instant, Instant),
        waiting: u32,
    ) -> Result<Grant, Wait> {
        let route = self.route(host);
        let claim = Claim { members: route.members(), cost: 1, asked, due };
        match self.machine.claim(&mut self.memory, now, &claim, Asked { id: 1, waiting }) {
            Claimed::Now(answer) => answer,
            Claimed::Later => panic!("a machine answers at once"),
        }
    }

    fn begin(&mut self, now: Instant, host: &str, grant: &mut Grant) -> Begin {
        let route = self.route(host);
        self.machine.begin(&mut self.memory, now, route.members(), grant)
    }

    fn learn(&mut self, now: Instant, host: &str, grant: &Grant, signal: &Signal) {
        self.learn_after(now, host, grant, signal, None);
    }

    fn learn_after(&mut self, now: Instant, host: &str, grant: &Grant, signal: &Signal, latency: Option<Duration>) {
        let route = self.route(host);
        let lesson = Lesson { grant, signal, latency };
        self.machine.learn(&mut self.memory, now, route.members(), &lesson);
    }

    fn release(&mut self, now: Instant, host: &str, grant: &Grant) {
        let route = self.route(host);
        self.machine.release(&mut self.memory, now, route.members(), grant);
    }

    fn forget(&mut self, now: Instant, host: &str) {
        let scopes: Vec<_> = self.route(host).members().iter().map(|member| member.scope).collect();
        self.machine.forget(&mut self.memory, now, &scopes);
    }

    fn news(&mut self, now: Instant) -> bool {
        self.machine.news(&mut self.memory, now).all_changed
    }

    fn is_lost(&self) -> bool {
        self.machine.standing().lost.is_some()
    }

    /// Killed: nothing more of it reaches a file, and the kernel frees its locks.
    fn kill(self) {
        dying::after(Some(0));
        drop(self);
        dying::after(None);
    }

    /// Stopped for so long: no signs of life since.
    fn stop_for(&self, span: Duration) {
        self.machine.watch().frozen.store(true, Ordering::Relaxed);
        self.machine.own().unwrap().age(span);
    }
}

/// A start: when, and whose.
type Start = (Instant, usize);

/// Members that always have requests waiting for `host`, each of which takes so long. They ask when they were told to, the
/// first of them first; `late` says how late each comes.
fn run(
    members: &mut [Member],
    host: impl Fn(usize) -> String,
    takes: Duration,
    from: Instant,
    to: Instant,
    mut late: impl FnMut(usize) -> Duration,
) -> Vec<Start> {
    let mut starts = Vec::new();
    let mut asks: Vec<Instant> = vec![from; members.len()];
    let mut dues: Vec<Instant> = asks.clone();
    let mut asked_since: Vec<Instant> = vec![from; members.len()];
    let mut flights: Vec<(Instant, usize, Grant)> = Vec::new();
    loop {
        let landing = flights.iter().enumerate().min_by_key(|(_, (end, ..))| *end).map(|(n, (end, ..))| (*end, n));
        let (ask, who) = asks.iter().enumerate().map(|(who, ask)| (*ask, who)).min().unwrap();
        if let Some((end, flight)) = landing.filter(|(end, _)| *end <= ask) {
            let (_, who, grant) = flights.swap_remove(flight);
            members[who].release(end, &host(who), &grant);
            if asks[who] > end {
                (asks[who], dues[who]) = (end, end);
            }
            continue;
        }
        if ask >= to {
            return starts;
        }
        match members[who].claim_due(ask, &host(who), (asked_since[who], dues[who]), 2) {
            Ok(grant) => {
                starts.push((ask, who));
                flights.push((ask.after(takes), who, grant));
                (asked_since[who], dues[who]) = (ask, ask);
            }
            Err(wait) => {
                assert!(wait.until > ask, "told to ask at once: {wait:?}");
                dues[who] = wait.until;
                asks[who] = if wait.until == Instant::FAR { wait.until } else { wait.until.after(late(who)) };
            }
        }
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

fn places(n: u32) -> Partial {
    Partial { in_flight: NonZeroU32::new(n), ..Partial::default() }
}

fn windows(texts: &[&str]) -> Partial {
    let windows = texts.iter().map(|text| text.parse().unwrap()).collect();
    Partial { windows: Some(windows), ..Partial::default() }
}

fn refused(wait: Option<Duration>) -> Signal {
    let refusal = Some(Refusal { status: 429, wait });
    Signal {
        status: Some(429),
        authoritative: Authoritative { refusal, quotas: Vec::new() },
        inferred: Inferred::Neutral,
    }
}

fn served() -> Signal {
    Signal { status: Some(200), authoritative: Authoritative::default(), inferred: Inferred::Healthy }
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = crate::sum::sum(self.0, &[1]);
        (self.0 >> 16) % n
    }
}

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);
const HOST: &str = "a.example.org";
