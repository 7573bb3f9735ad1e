//! Decision 9: that a record expires is never to be observed.

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::HashMap;

use comity_core::limits::Partial;
use comity_core::limits::all::{Claim, Grant};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Policy};
use comity_core::scope::Target;
use comity_core::signal::{Authoritative, Inferred, Refusal, Signal};
use comity_core::time::Instant;
use comity_redis::Settings;
use comity_store::Store;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::server::{Server, given, rules, settings};

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Claim(usize),
    Answer(Option<Option<u64>>),
}

const HOSTS: [&str; 2] = ["a.example.org", "example.org"];
const DAY: u64 = 86_400_000;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        // Milliseconds: around the expiry of spacings and windows, of what is remembered an hour, of what is kept for long.
        4 => prop_oneof![0u64..2000, 59_000u64..75_000, 3_590_000u64..3_700_000, Just(DAY), Just(29 * DAY), Just(31 * DAY)]
            .prop_map(Step::Pass),
        4 => (0usize..2).prop_map(Step::Claim),
        4 => prop::option::of(prop::option::of(1u64..30_000)).prop_map(Step::Answer),
    ];
    prop::collection::vec(step, 1..40)
}

fn limits() -> impl Strategy<Value = Partial> {
    let policy = prop_oneof![
        Just(Policy::Off),
        Just(Policy::pressure()),
        Just(Policy::refusal()),
        Just(Policy::Aimd(AimdSettings { damping: 1, ..AimdSettings::default() })),
        Just(Policy::Adaptive(AdaptiveSettings::default())),
    ];
    (prop::option::of(1u64..90_000), 1u32..5, prop::bool::ANY, policy).prop_map(|(interval, burst, windows, policy)| {
        Partial {
            interval: interval.map(Duration::from_millis),
            burst: NonZeroU32::new(burst),
            windows: windows.then(|| vec!["3/70s".parse().expect("a window")]),
            policy: Some(policy),
            ..Partial::default()
        }
    })
}

fn signal(answer: &Option<Option<u64>>) -> Signal {
    match answer {
        None => Signal { status: Some(200), authoritative: Authoritative::default(), inferred: Inferred::Healthy },
        Some(wait) => {
            let refusal = Some(Refusal { status: 429, wait: wait.map(Duration::from_millis) });
            let authoritative = Authoritative { refusal, quotas: Vec::new() };
            Signal { status: Some(429), authoritative, inferred: Inferred::Neutral }
        }
    }
}

/// When each record of a prefix expires, on the clock of the given times.
fn expiries(server: &Server, settings: &Settings, now: Instant) -> HashMap<String, Instant> {
    let names =
        ["a.example.org", "a.example.org#log", "example.org", "example.org#log", "*.example.org", "*.example.org#log"];
    let keys = names.map(|name| format!("{}:{{example.org}}:{name}", settings.prefix));
    let left =
        |key: &String| server.say(&["PTTL", key]).trim().strip_prefix(':')?.parse::<i64>().ok().filter(|ms| *ms >= 0);
    let due = |key: String| left(&key).map(|ms| (key, now.after(Duration::from_millis(ms.unsigned_abs()))));
    keys.into_iter().filter_map(due).collect()
}

fn unobserved(server: &Server, template: &Partial, group: &Partial, steps: &[Step]) -> Result<(), TestCaseError> {
    let (kept, expiring) = (settings(), settings());
    let make = |settings: &Settings| {
        given(&server.url(), settings.clone(), rules(&[("*.example.org", group.clone())], template.clone()))
    };
    let (mut a, mut b) = (make(&kept), make(&expiring));
    let mut now = Instant::from_millis(5_000_000_000);
    let mut due = HashMap::new();
    let mut open: Option<(usize, Grant, Grant)> = None;
    for step in steps {
        match step {
            Step::Pass(millis) => {
                // Whoever has a request under way is alive, and says so.
                if open.is_some() && *millis > 5000 {
                    continue;
                }
                now = now.after(Duration::from_millis(*millis));
                let over: Vec<&String> = due.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key).collect();
                for key in &over {
                    server.say(&["DEL", key]);
                }
                if !over.is_empty() && open.is_none() {
                    // Nobody remembers it either.
                    (a, b) = (make(&kept), make(&expiring));
                }
            }
            Step::Claim(host) if open.is_none() => {
                let route = a.route(now, &Target::host(HOSTS[*host]), None).expect("a route");
                let other = b.route(now, &Target::host(HOSTS[*host]), None).expect("a route");
                let one = a.claim(now, &Claim::at_once(route.members(), 1, now));
                let two = b.claim(now, &Claim::at_once(other.members(), 1, now));
                match (one, two) {
                    (Ok(one), Ok(two)) => {
                        prop_assert_eq!(one, two);
                        open = Some((*host, one, two));
                    }
                    (Err(one), Err(two)) => prop_assert_eq!((one.until, one.because), (two.until, two.because)),
                    (one, two) => prop_assert!(false, "kept: {one:?}, expired: {two:?}"),
                }
            }
            Step::Answer(answer) => {
                let Some((host, one, two)) = open.take() else { continue };
                let route = a.route(now, &Target::host(HOSTS[host]), None).expect("a route");
                let other = b.route(now, &Target::host(HOSTS[host]), None).expect("a route");
                a.report(now, route.members(), &one, &signal(answer), None);
                b.report(now, other.members(), &two, &signal(answer), None);
            }
            Step::Claim(_) => {}
        }
        if !matches!(step, Step::Pass(_)) {
            // Once this is answered, what was told before has been heard.
            let route = b.route(now, &Target::host("elsewhere.example"), None).expect("a route");
            let _ = b.claim(now, &Claim::at_once(route.members(), 1, now));
            due.extend(expiries(server, &expiring, now));
        }
    }
    Ok(())
}

#[test]
fn decision_9_expiry_is_never_observed() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    runner
        .run(&(limits(), limits(), steps()), |(template, group, steps)| unobserved(&server, &template, &group, &steps))
        .unwrap_or_else(|error| panic!("{error}"));
}
