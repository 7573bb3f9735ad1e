//! The vectors, with every step taken by another member than the one before: what stands in the file is all there is.

use comity_core::limits::ScopeId;
use comity_core::limits::all::{Cells as _, Origin};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Learned};
use comity_core::signal::NoAnswer;
use serde_json::Value;

use super::*;

#[test]
fn vectors_pressure() {
    each_case("pressure", |case| {
        let burst = case["policy"]["burst"].as_u64().unwrap_or(10) as u32;
        let policy = Policy::Pressure { burst };
        let mut members = members_under(Limits { policy, retry_after_limit: SEC * 60, ..Limits::none() });
        let mut last: Option<Instant> = None;
        for (n, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let member = &mut members[n % 2];
            let now = instant(&step["at_ms"]);
            match step["event"].as_str() {
                Some("start") => {
                    let mut start = now;
                    let grant = loop {
                        match member.claim_of(start, HOST, now, 1) {
                            Ok(grant) => break grant,
                            Err(wait) => start = wait.until,
                        }
                    };
                    expect(step, "start_ms", start.since(instant(&Value::from(0))));
                    if let Some(last) = last {
                        expect(step, "gap_ms", start.since(last));
                    }
                    last = Some(start);
                    member.learn(start, HOST, &grant, &served());
                    member.release(start, HOST, &grant);
                    expect(step, "spacing_ms", learned(member).interval());
                }
                Some("look") => {
                    let until = member.claim_without_starting(now);
                    expect(step, "earliest_start_ms", until.since(instant(&Value::from(0))));
                }
                _ => member.learn(now, HOST, &grant_of(now), &signal_of(step)),
            }
            if let (Some(units), Learned::Pressure(pressure)) = (step["expect"]["pressure"].as_u64(), learned(member)) {
                assert_eq!(u64::from(pressure.pressure(now)), units, "{step}");
            }
        }
    });
}

#[test]
fn vectors_refusal() {
    each_case("refusal", |case| {
        let mut members = members_under(Limits { policy: Policy::refusal(), ..Limits::none() });
        for (n, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let member = &mut members[n % 2];
            member.learn(instant(&step["at_ms"]), HOST, &grant_of(instant(&step["started_ms"])), &signal_of(step));
            expect(step, "interval_ms", learned(member).interval());
        }
    });
}

#[test]
fn vectors_aimd() {
    each_case("aimd", |case| {
        // Latency's part needs samples that are no steps of the case; the core's own test has them.
        if case["steps"].as_array().unwrap().iter().any(|step| step["outcome"] == "slow") {
            return;
        }
        let given = |name: &str| span(&case["policy"][name]);
        let policy = Policy::Aimd(AimdSettings {
            start: given("interval_ms"),
            threshold: given("threshold_ms"),
            floor: given("floor_ms"),
            ceiling: given("ceiling_ms"),
            damping: case["policy"]["responses_per_increase"].as_u64().unwrap() as u8,
        });
        let mut members = members_under(Limits { policy, ..Limits::none() });
        for (n, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let member = &mut members[n % 2];
            member.learn(instant(&step["at_ms"]), HOST, &grant_of(instant(&step["started_ms"])), &signal_of(step));
            expect(step, "interval_ms", learned(member).interval());
            if let Learned::Aimd(aimd) = learned(member) {
                expect(step, "threshold_ms", aimd.threshold());
            }
        }
    });
}

#[test]
fn vectors_adaptive() {
    each_case("adaptive", |case| {
        let given = |name: &str| span(&case["policy"][name]);
        let settings =
            AdaptiveSettings { start: given("interval_ms"), floor: given("floor_ms"), ceiling: given("ceiling_ms") };
        let mut members = members_under(Limits { policy: Policy::Adaptive(settings), ..Limits::none() });
        for (n, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let member = &mut members[n % 2];
            let (now, grant) = (instant(&step["at_ms"]), grant_of(instant(&step["started_ms"])));
            member.learn_after(now, HOST, &grant, &signal_of(step), step.get("latency_ms").map(span));
            let learned = learned(member);
            expect(step, "interval_ms", learned.interval());
            if let Some(in_flight) = step["expect"].get("in_flight") {
                assert_eq!(learned.in_flight().map(u64::from), in_flight.as_u64(), "in flight after {step}");
            }
        }
    });
}

impl Member {
    /// When a request could start that asks now.
    fn claim_without_starting(&mut self, now: Instant) -> Instant {
        let scope = self.scope();
        // A look at the file, then at what it said.
        let route = self.route(HOST);
        self.machine.declare(&mut self.memory, now, scope, Duration::ZERO);
        let claim = Claim::at_once(route.members(), 1, now);
        comity_core::limits::all::decide(&self.memory, now, &claim).map_or_else(|wait| wait.until, |()| now)
    }

    fn scope(&mut self) -> ScopeId {
        self.route(HOST).members()[0].scope
    }
}

fn learned(member: &mut Member) -> Learned {
    let scope = member.scope();
    *member.memory.cell(scope).learned()
}

/// Two members; their file goes when they do.
fn members_under(limits: Limits) -> Vec<Member> {
    let town = Town::under(Rules::builder(limits).build());
    let members = town.members(2);
    // The files stay open, and the test's directory stays until the process ends.
    KEPT.with_borrow_mut(|kept| kept.push(town));
    members
}

thread_local! {
    static KEPT: std::cell::RefCell<Vec<Town>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn each_case(name: &str, check: impl Fn(&Value)) {
    let path = format!("{}/../../vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    cases.iter().for_each(check);
}

/// A hundred nanoseconds are room for rounding at each step.
fn expect(step: &Value, name: &str, got: Duration) {
    if let Some(expected) = step["expect"].get(name) {
        let expected = span(expected);
        assert!(got.abs_diff(expected) <= Duration::from_nanos(100), "{name}: {got:?} in {step}");
    }
}

fn grant_of(start: Instant) -> Grant {
    Grant { start, late_by: None, cost: 1, trials: 0, from: Origin::Shared }
}

fn instant(value: &Value) -> Instant {
    Instant::ZERO.after(SEC * 1_000_000).after(span(value))
}

fn span(value: &Value) -> Duration {
    Duration::from_nanos((value.as_f64().unwrap() * 1e6).round() as u64)
}

fn signal_of(step: &Value) -> Signal {
    let inferred =
        |status, inferred| Signal { status: Some(status), authoritative: Authoritative::default(), inferred };
    match step["outcome"].as_str() {
        Some("ok") => served(),
        Some("refused") => refused(step.get("retry_after_ms").map(span)),
        Some("error") => inferred(500, Inferred::ServerError),
        Some("no_answer") => Signal::no_answer(NoAnswer::Reset),
        Some("neutral") => inferred(404, Inferred::Neutral),
        other => panic!("an outcome nobody knows: {other:?}"),
    }
}
