//! The script decides as the core does: random histories through both.

use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{Claim, Grant};
use comity_core::limits::{Because, Limits, Partial, Route, Wait};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Policy};
use comity_core::scope::Target;
use comity_core::signal::{Authoritative, Inferred, NoAnswer, Quota, Refusal, Signal};
use comity_core::time::Instant;
use comity_redis::Settings;
use comity_store::{Memory, MemorySettings, OwnLimits, Shared, Store};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::server::{Server, given, rules, settings};

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    /// Until the last wait is over.
    PassWait,
    Claim {
        host: usize,
        cost: u32,
        asked_ago: u64,
        due_ago: u64,
        own: bool,
    },
    Learn {
        grant: usize,
        answer: Reply,
    },
    Release {
        grant: usize,
    },
    Declare {
        host: usize,
        seconds: u64,
    },
    Forget {
        host: usize,
    },
}

#[derive(Clone, Debug)]
enum Reply {
    Served(u64),
    NotFound,
    Error,
    Silence,
    Refused(Option<u64>),
    Quota { limit: Option<u64>, left: u64, resets: u64 },
}

const HOSTS: [&str; 4] = ["a.example.org", "b.example.org", "example.org", "other.example"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reply = prop_oneof![
        4 => (1u64..3000).prop_map(Reply::Served),
        1 => Just(Reply::NotFound),
        1 => Just(Reply::Error),
        1 => Just(Reply::Silence),
        2 => prop::option::of(1u64..20_000).prop_map(Reply::Refused),
        1 => (prop::option::of(1u64..20), 0u64..10, 1u64..30).prop_map(|(limit, left, resets)| Reply::Quota { limit, left, resets }),
    ];
    let step = prop_oneof![
        3 => prop_oneof![Just(0), 1u64..50_000, 50_000u64..3_000_000, Just(90_000_000), Just(3_700_000_000), Just(200_000_000_000)]
            .prop_map(Step::Pass),
        3 => Just(Step::PassWait),
        8 => (0usize..4, prop_oneof![5 => Just(1u32), 1 => 2u32..5], 0u64..100_000, 0u64..8_000, prop::bool::weighted(0.25))
            .prop_map(|(host, cost, asked_ago, due_ago, own)| Step::Claim { host, cost, asked_ago, due_ago, own }),
        4 => (0usize..8, reply).prop_map(|(grant, answer)| Step::Learn { grant, answer }),
        4 => (0usize..8).prop_map(|grant| Step::Release { grant }),
        1 => (0usize..4, 0u64..4).prop_map(|(host, seconds)| Step::Declare { host, seconds }),
        1 => (0usize..4).prop_map(|host| Step::Forget { host }),
    ];
    prop::collection::vec(step, 1..60)
}

fn limits() -> impl Strategy<Value = Partial> {
    let policy = prop_oneof![
        Just(Policy::Off),
        Just(Policy::pressure()),
        Just(Policy::refusal()),
        Just(Policy::Aimd(AimdSettings { damping: 1, ..AimdSettings::default() })),
        // One whose pace binds, and one whose concurrency does.
        Just(Policy::Adaptive(AdaptiveSettings::default())),
        Just(Policy::Adaptive(AdaptiveSettings { start: Duration::ZERO, ..AdaptiveSettings::default() })),
    ];
    let windows = prop_oneof![
        3 => Just(None),
        1 => Just(Some(vec!["5/2s".parse().expect("a window"), "9/10s".parse().expect("a window")])),
    ];
    (prop::option::of(1u64..2000), 1u32..5, prop::option::of(1u32..5), windows, policy).prop_map(
        |(interval, burst, places, windows, policy)| Partial {
            interval: interval.map(Duration::from_millis),
            burst: NonZeroU32::new(burst),
            in_flight: places.and_then(NonZeroU32::new),
            windows,
            policy: Some(policy),
            ..Partial::default()
        },
    )
}

fn signal(reply: &Reply) -> (Signal, Option<Duration>) {
    let of = |status, inferred, authoritative| Signal { status: Some(status), authoritative, inferred };
    match reply {
        Reply::Served(ms) => (of(200, Inferred::Healthy, Authoritative::default()), Some(Duration::from_millis(*ms))),
        Reply::NotFound => (of(404, Inferred::Neutral, Authoritative::default()), None),
        Reply::Error => (of(500, Inferred::ServerError, Authoritative::default()), None),
        Reply::Silence => (Signal::no_answer(NoAnswer::Reset), None),
        Reply::Refused(wait) => {
            let refusal = Some(Refusal { status: 429, wait: wait.map(Duration::from_millis) });
            (of(429, Inferred::Neutral, Authoritative { refusal, quotas: Vec::new() }), None)
        }
        Reply::Quota { limit, left, resets } => {
            let quota = Quota {
                limit: *limit,
                window: None,
                remaining: Some(*left),
                resets_in: Some(Duration::from_secs(*resets)),
            };
            (of(200, Inferred::Healthy, Authoritative { refusal: None, quotas: vec![quota] }), None)
        }
    }
}

fn kind(because: &Because) -> core::mem::Discriminant<Because> {
    core::mem::discriminant(because)
}

/// Whole microseconds, and one for each interval that was rounded up.
fn near(a: Instant, b: Instant, most: Duration) -> bool {
    a == b || a.since(b) <= most && b.since(a) <= most
}

fn same(server: &Server, template: Partial, group: Partial, steps: &[Step]) -> Result<(), TestCaseError> {
    let written = [("*.example.org", group)];
    let mut core = Memory::new(Arc::new(rules(&written, template.clone())), MemorySettings::default());
    // Whoever has requests under way is alive here, however long they take.
    let alive = Settings { lease: Duration::from_secs(400 * 86_400), ..settings() };
    let mut redis = given(&server.url(), alive, rules(&written, template));
    let own = OwnLimits {
        set: 1,
        limits: Arc::new(Limits { interval: Duration::from_millis(20), policy: Policy::Off, ..Limits::none() }),
    };
    let mut now = Instant::from_millis(1_000_000_000);
    let mut last_wait: Option<(Wait, Wait)> = None;
    let mut grants: Vec<(Route, Grant, Route, Grant)> = Vec::new();
    let mut rested = false;
    let mut rounded = Duration::from_micros(1);
    for step in steps {
        match step {
            Step::Pass(micros) => {
                now = now.after(Duration::from_micros(*micros));
                rested |= *micros >= 60_000_000;
            }
            Step::PassWait => {
                if let Some((a, b)) = last_wait.filter(|(a, _)| a.until != Instant::FAR) {
                    let until = a.until.max(b.until).as_nanos().div_ceil(1000) * 1000;
                    now = now.max(Instant::from_nanos(until));
                }
            }
            Step::Claim { host, cost, asked_ago, due_ago, own: with_own } => {
                rounded += Duration::from_micros(u64::from(*cost) * 2);
                let own = with_own.then_some(&own);
                let ours = core.route(now, &Target::host(HOSTS[*host]), own).expect("a route");
                let theirs = redis.route(now, &Target::host(HOSTS[*host]), own).expect("a route");
                let asked = now.before(Duration::from_micros(*asked_ago));
                let due = now.before(Duration::from_micros(*due_ago));
                let of = |route: &Route| route.members().to_vec();
                let (mine, other) = (of(&ours), of(&theirs));
                let a = core.claim(now, &Claim { members: &mine, cost: *cost, asked, due });
                let b = redis.claim(now, &Claim { members: &other, cost: *cost, asked, due });
                match (a, b) {
                    (Ok(a), Ok(b)) => {
                        prop_assert!(near(a.start, b.start, Duration::ZERO), "{a:?} {b:?}");
                        prop_assert_eq!(a.trials, b.trials);
                        let (late, other) = (a.late_by.unwrap_or_default(), b.late_by.unwrap_or_default());
                        prop_assert!(late.abs_diff(other) <= rounded, "{a:?} {b:?}");
                        prop_assert_eq!(a.late_by.is_some(), b.late_by.is_some());
                        grants.push((ours, a, theirs, b));
                    }
                    (Err(a), Err(b)) => {
                        prop_assert!(near(a.until, b.until, rounded), "{a:?} {b:?} at {now:?}");
                        if a.until == b.until {
                            prop_assert_eq!(kind(&a.because), kind(&b.because));
                        }
                        last_wait = Some((a, b));
                    }
                    // It was let start in the very microsecond that was rounded.
                    (Ok(_), Err(b)) if b.until.since(now) <= rounded => return Ok(()),
                    (a, b) => prop_assert!(false, "at {now:?} the core says {a:?}, the store {b:?}"),
                }
            }
            Step::Learn { grant, answer } => {
                if grants.is_empty() {
                    continue;
                }
                rounded += Duration::from_micros(2);
                let (ours, a, theirs, b) = &grants[grant % grants.len()];
                let (signal, latency) = signal(answer);
                let did = core.learn(now, ours.members(), a, &signal, latency);
                let others = redis.learn(now, theirs.members(), b, &signal, latency);
                prop_assert_eq!(did.freed, others.freed);
                // A record that has expired has no old quota for a new one to take the place of.
                let expired = rested && others.sooner & !did.sooner == 0;
                prop_assert!(did.sooner == others.sooner || expired, "{did:?} {others:?}");
            }
            Step::Release { grant } => {
                if grants.is_empty() {
                    continue;
                }
                let (ours, a, theirs, b) = grants.remove(grant % grants.len());
                let did = core.release(now, ours.members(), &a);
                let others = redis.release(now, theirs.members(), &b);
                prop_assert_eq!(did, others);
            }
            Step::Declare { host, seconds } => {
                use comity_core::limits::all::Cells;
                let delay = Duration::from_secs(*seconds);
                if let Some(scope) = core.find_host(&Target::host(HOSTS[*host])) {
                    core.cell_mut(scope).set_crawl_delay(delay);
                }
                let (shared, memory) = redis.parts();
                if let Some(scope) = memory.find_host(&Target::host(HOSTS[*host])) {
                    shared.declare(memory, now, scope, delay);
                }
            }
            Step::Forget { host } => {
                use comity_core::limits::all::Cells;
                if let Some(scope) = core.find_host(&Target::host(HOSTS[*host])) {
                    core.cell_mut(scope).forget();
                }
                let (shared, memory) = redis.parts();
                if let Some(scope) = memory.find_host(&Target::host(HOSTS[*host])) {
                    shared.forget(memory, now, &[scope]);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn decision_9_the_script_decides_as_the_core_does() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    runner
        .run(&(limits(), limits(), steps()), |(template, group, steps)| same(&server, template, group, &steps))
        .unwrap_or_else(|error| panic!("{error}"));
}
