//! The policies against `vectors/*.json`.

use core::time::Duration;

use comity_core::limits::all::{self, Claim};
use comity_core::limits::{Cell, Limits};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Fact, Learned, Outcome, Policy};
use comity_core::signal::Signal;
use comity_core::time::Instant;
use serde_json::Value;

use crate::world::{MS, free, host, no_answer, refused_for, signal};

#[test]
fn vectors_pressure() {
    for_each_case("vectors/pressure.json", |case| {
        let burst = case["policy"]["burst"].as_u64().unwrap_or(10) as u32;
        let limits = Limits { policy: Policy::Pressure { burst }, retry_after_limit: MS * 60_000, ..free() };
        let mut cells = vec![Cell::new(limits.into())];
        let mut last_start: Option<Instant> = None;
        each_step(case, |at, step, expect| match step["event"].as_str() {
            Some("start") => {
                let start = start(&mut cells, at);
                expect("start_ms", start.since(Instant::ZERO));
                if let Some(last) = last_start {
                    expect("gap_ms", start.since(last));
                }
                last_start = Some(start);
                expect("spacing_ms", cells[0].learned().interval());
                units(step, &cells[0], at);
            }
            Some("look") => {
                expect("earliest_start_ms", earliest(&cells, at).since(Instant::ZERO));
                let mut asking = *cells[0].learned();
                asking.started(at);
                expect("spacing_ms", asking.interval());
                units(step, &cells[0], at);
            }
            _ => {
                answer(&mut cells, at, &signal_of(step));
                units(step, &cells[0], at);
            }
        });
    });
}

#[test]
fn vectors_refusal() {
    for_each_case("vectors/refusal.json", |case| {
        let policy = Policy::refusal();
        let mut learned = policy.fresh();
        each_step(case, |at, step, expect| {
            let fact =
                Fact { started: instant(&step["started_ms"]), outcome: outcome(step, advice(step)), latency: None };
            learned.taught(at, &fact, &policy);
            expect("interval_ms", learned.interval());
        });
    });
}

#[test]
fn vectors_aimd() {
    for_each_case("vectors/aimd.json", |case| {
        let given = |name: &str| span(&case["policy"][name]);
        let settings = AimdSettings {
            start: given("interval_ms"),
            threshold: given("threshold_ms"),
            floor: given("floor_ms"),
            ceiling: given("ceiling_ms"),
            damping: case["policy"]["responses_per_increase"].as_u64().expect("a number") as u8,
        };
        let policy = Policy::Aimd(settings);
        let mut learned = policy.fresh();
        let mut changed = false;
        each_step(case, |at, step, expect| {
            let slow = step["outcome"] == "slow";
            // Samples of requests started before the last change move the latency and nothing else.
            if changed {
                for latency in if slow { [MS * 10, MS * 1000] } else { [MS * 10; 2] } {
                    for _ in 0..16 {
                        let fact = Fact { started: Instant::ZERO, outcome: Outcome::Served, latency: Some(latency) };
                        learned.taught(at, &fact, &policy);
                    }
                }
            }
            let fact = Fact {
                started: instant(&step["started_ms"]),
                outcome: outcome(step, None),
                latency: slow.then_some(MS * 1000),
            };
            let before = learned.interval();
            learned.taught(at, &fact, &policy);
            changed |= learned.interval() != before;
            expect("interval_ms", learned.interval());
            if let Learned::Aimd(aimd) = &learned {
                expect("threshold_ms", aimd.threshold());
            }
        });
    });
}

#[test]
fn vectors_adaptive() {
    for_each_case("vectors/adaptive.json", |case| {
        let given = |name: &str| span(&case["policy"][name]);
        let settings =
            AdaptiveSettings { start: given("interval_ms"), floor: given("floor_ms"), ceiling: given("ceiling_ms") };
        let policy = Policy::Adaptive(settings);
        let mut learned = policy.fresh();
        each_step(case, |at, step, expect| {
            let fact = Fact {
                started: instant(&step["started_ms"]),
                outcome: outcome(step, advice(step)),
                latency: step.get("latency_ms").map(span),
            };
            learned.taught(at, &fact, &policy);
            expect("interval_ms", learned.interval());
            if let Some(in_flight) = step["expect"].get("in_flight") {
                assert_eq!(learned.in_flight().map(u64::from), in_flight.as_u64(), "in flight after {step}");
            }
        });
    });
}

/// Books a start that is asked for at `at`, and lets its host serve it.
fn start(cells: &mut Vec<Cell>, asked: Instant) -> Instant {
    let now = earliest(cells, asked);
    let route = host(0);
    let grant =
        all::claim(cells, now, &Claim { members: route.members(), cost: 1, asked, due: now }).expect("it may start");
    all::settle(cells, now, route.members(), &grant, &signal(200), None);
    now
}

fn earliest(cells: &Vec<Cell>, at: Instant) -> Instant {
    let route = host(0);
    all::decide(cells, at, &Claim::at_once(route.members(), 1, at)).map_or_else(|wait| wait.until, |()| at)
}

/// An answer to a request that is no part of the story.
fn answer(cells: &mut Vec<Cell>, at: Instant, signal: &Signal) {
    let route = host(0);
    let mut elsewhere = vec![Cell::new(free().into())];
    let claim = Claim::at_once(route.members(), 1, at);
    let grant = all::claim(&mut elsewhere, at, &claim).expect("nothing holds it back there");
    all::settle(cells, at, route.members(), &grant, signal, None);
}

fn units(step: &Value, cell: &Cell, at: Instant) {
    if let (Some(expected), Learned::Pressure(pressure)) = (step["expect"]["pressure"].as_u64(), cell.learned()) {
        assert_eq!(u64::from(pressure.pressure(at)), expected, "pressure after {step}");
    }
}

fn signal_of(step: &Value) -> Signal {
    match step["outcome"].as_str() {
        Some("ok") => signal(200),
        Some("refused") => match step.get("retry_after_ms") {
            Some(wait) => refused_for(429, span(wait)),
            None => signal(429),
        },
        Some("error") => signal(500),
        Some("no_answer") => no_answer(),
        Some("neutral") => signal(404),
        other => panic!("an outcome nobody knows: {other:?}"),
    }
}

fn advice(step: &Value) -> Option<Duration> {
    step.get("retry_after_ms").and_then(Value::as_u64).map(Duration::from_millis)
}

fn outcome(step: &Value, advice: Option<Duration>) -> Outcome {
    match step["outcome"].as_str() {
        Some("ok" | "slow") => Outcome::Served,
        Some("refused") => Outcome::Refused { advice },
        Some("error") => Outcome::ServerError,
        Some("no_answer") => Outcome::NoAnswer,
        Some("neutral") => Outcome::Neutral,
        other => panic!("an outcome nobody knows: {other:?}"),
    }
}

fn for_each_case(file: &str, run: impl Fn(&Value)) {
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let vectors: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let cases = vectors["cases"].as_array().expect("cases");
    assert!(cases.len() > 5, "{path} has its cases");
    for case in cases {
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

fn instant(millis: &Value) -> Instant {
    Instant::ZERO.after(span(millis))
}
