//! `vectors/*.json` through the store, at given times.

use core::time::Duration;

use comity_core::limits::all::{Cells, Claim, Grant, Origin};
use comity_core::limits::{Limits, Route};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Learned, Policy};
use comity_core::scope::{Rules, Target};
use comity_core::signal::{Authoritative, Inferred, NoAnswer, Refusal, Signal};
use comity_core::time::Instant;
use comity_redis::Redis;
use comity_store::{Joined, Store};
use serde_json::Value;

use crate::server::{Server, given, settings};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn vectors_pressure() {
    let _alone = crate::server::busy();
    let server = Server::start();
    for_each_case("pressure", |case| {
        let burst = case["policy"]["burst"].as_u64().unwrap_or(10) as u32;
        let mut bench = Bench::new(&server, Policy::Pressure { burst });
        let mut last: Option<Instant> = None;
        each_step(case, |at, step, expect| match step["event"].as_str() {
            Some("start") => {
                let now = bench.earliest(at);
                let claim = Claim { members: bench.route.members(), cost: 1, asked: at, due: now };
                let grant = bench.store.claim(now, &claim).expect("it may start");
                bench.store.report(now, bench.route.members(), &grant, &signal(200), None);
                expect("start_ms", now.since(bench.origin));
                if let Some(last) = last {
                    expect("gap_ms", now.since(last));
                }
                last = Some(now);
                expect("spacing_ms", bench.learned().interval());
                bench.units(step, at);
            }
            Some("look") => {
                expect("earliest_start_ms", bench.earliest(at).since(bench.origin));
                bench.units(step, at);
            }
            _ => {
                bench.answer(at, at, step);
                bench.units(step, at);
            }
        });
    });
}

#[test]
fn vectors_refusal_and_aimd() {
    let _alone = crate::server::busy();
    let server = Server::start();
    for name in ["refusal", "aimd"] {
        for_each_case(name, |case| {
            // What the core makes of latencies is its own business: here it is bytes.
            if case["steps"].as_array().expect("steps").iter().any(|step| step["outcome"] == "slow") {
                return;
            }
            let span_of = |field: &str| span(&case["policy"][field]);
            let policy = if name == "refusal" {
                Policy::refusal()
            } else {
                Policy::Aimd(AimdSettings {
                    start: span_of("interval_ms"),
                    threshold: span_of("threshold_ms"),
                    floor: span_of("floor_ms"),
                    ceiling: span_of("ceiling_ms"),
                    damping: case["policy"]["responses_per_increase"].as_u64().expect("a number") as u8,
                })
            };
            let mut bench = Bench::new(&server, policy);
            each_step(case, |at, step, expect| {
                bench.answer(at, instant(&step["started_ms"]), step);
                // As another process reads it from the store.
                let learned = bench.read_anew(at);
                expect("interval_ms", learned.interval());
                if let Learned::Aimd(aimd) = &learned {
                    expect("threshold_ms", aimd.threshold());
                }
            });
        });
    }
}

#[test]
fn vectors_adaptive() {
    let _alone = crate::server::busy();
    let server = Server::start();
    for_each_case("adaptive", |case| {
        let span_of = |field: &str| span(&case["policy"][field]);
        let settings = AdaptiveSettings {
            start: span_of("interval_ms"),
            floor: span_of("floor_ms"),
            ceiling: span_of("ceiling_ms"),
        };
        let mut bench = Bench::new(&server, Policy::Adaptive(settings));
        each_step(case, |at, step, expect| {
            bench.answer(at, instant(&step["started_ms"]), step);
            let learned = bench.read_anew(at);
            expect("interval_ms", learned.interval());
            if let Some(in_flight) = step["expect"].get("in_flight") {
                assert_eq!(learned.in_flight().map(u64::from), in_flight.as_u64(), "in flight after {step}");
            }
        });
    });
}

struct Bench<'a> {
    server: &'a Server,
    settings: comity_redis::Settings,
    limits: Limits,
    store: Joined<Redis>,
    route: Route,
    origin: Instant,
}

impl<'a> Bench<'a> {
    fn new(server: &'a Server, policy: Policy) -> Self {
        let limits = Limits { policy, retry_after_limit: Duration::from_secs(60), ..Limits::none() };
        let settings = settings();
        let mut store = given(&server.url(), settings.clone(), Rules::builder(limits.clone()).build());
        let origin = Instant::ZERO.after(DAY);
        let route = store.route(origin, &Target::host("example.org"), None).expect("a route");
        Self { server, settings, limits, store, route, origin }
    }

    fn learned(&self) -> Learned {
        *self.store.cell(self.route.members()[0].scope).learned()
    }

    fn earliest(&self, at: Instant) -> Instant {
        let members = self.route.members();
        comity_core::limits::all::decide(&self.store, at, &Claim::at_once(members, 1, at))
            .map_or_else(|wait| wait.until, |()| at)
    }

    /// An answer to a request that is no part of the story.
    fn answer(&mut self, at: Instant, started: Instant, step: &Value) {
        let grant = Grant { start: started, late_by: None, cost: 0, trials: 0, from: Origin::Shared };
        let latency = step.get("latency_ms").map(span);
        self.store.learn(at, self.route.members(), &grant, &signal_of(step), latency);
    }

    fn read_anew(&mut self, at: Instant) -> Learned {
        // By its answer, what was taught before has been heard.
        let _ = self.store.claim(at, &Claim::at_once(self.route.members(), 1, at));
        let rules = Rules::builder(self.limits.clone()).build();
        let mut other = given(&self.server.url(), self.settings.clone(), rules);
        let route = other.route(at, &Target::host("example.org"), None).expect("a route");
        // A claim that is refused reads, and one that is not is of no account here.
        let _ = other.claim(at, &Claim::at_once(route.members(), 1, at));
        *other.cell(route.members()[0].scope).learned()
    }

    fn units(&self, step: &Value, at: Instant) {
        if let (Some(expected), Learned::Pressure(pressure)) = (step["expect"]["pressure"].as_u64(), self.learned()) {
            assert_eq!(u64::from(pressure.pressure(at)), expected, "pressure after {step}");
        }
    }
}

fn signal(status: u16) -> Signal {
    let inferred = match status {
        200 => Inferred::Healthy,
        500 => Inferred::ServerError,
        _ => Inferred::Neutral,
    };
    let refusal = (status == 429).then_some(Refusal { status, wait: None });
    Signal { status: Some(status), authoritative: Authoritative { refusal, quotas: Vec::new() }, inferred }
}

fn signal_of(step: &Value) -> Signal {
    match step["outcome"].as_str() {
        Some("ok") => signal(200),
        Some("refused") => {
            let mut signal = signal(429);
            let wait = step.get("retry_after_ms").map(span);
            signal.authoritative.refusal = Some(Refusal { status: 429, wait });
            signal
        }
        Some("error") => signal(500),
        Some("no_answer") => Signal::no_answer(NoAnswer::Reset),
        Some("neutral") => signal(404),
        other => panic!("an outcome nobody knows: {other:?}"),
    }
}

fn for_each_case(name: &str, mut run: impl FnMut(&Value)) {
    let path = format!("{}/../../vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let vectors: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    for case in vectors["cases"].as_array().expect("cases") {
        let mut case = case.clone();
        case["tolerance_ns"] = vectors["tolerance_ns"].clone();
        run(&case);
    }
}

fn each_step(case: &Value, mut run: impl FnMut(Instant, &Value, &dyn Fn(&str, Duration))) {
    let tolerance = Duration::from_nanos(case["tolerance_ns"].as_u64().expect("a tolerance"));
    for step in case["steps"].as_array().expect("steps") {
        let expect = |name: &str, got: Duration| {
            let Some(wanted) = step["expect"].get(name) else { return };
            let missed = got.abs_diff(span(wanted));
            assert!(missed <= tolerance, "{}: {name} is {got:?} after {step}", case["name"]);
        };
        run(instant(&step["at_ms"]), step, &expect);
    }
}

fn span(millis: &Value) -> Duration {
    Duration::from_nanos((millis.as_f64().expect("milliseconds") * 1e6).round() as u64)
}

/// A day after the origin, which means "never" to a record.
fn instant(millis: &Value) -> Instant {
    Instant::ZERO.after(DAY).after(span(millis))
}
