//! The guard's limits against `vectors/guard.json`, to the digit.

use core::time::Duration;

use comity_core::guard::{
    Bucket, FixedWindow, Gate, LeakyBucket, Limit, ParameterError, Ruling, TokenBucket, all, retry_after,
};
use comity_core::time::Instant;
use serde_json::Value;

#[test]
fn vectors_guard() {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().expect("cases");
    assert!(cases.len() > 15);
    for case in cases {
        let limits: Vec<Limit> =
            case["limits"].as_array().expect("limits").iter().map(|limit| limit_of(limit).expect("allowed")).collect();
        let steps = case["steps"].as_array().expect("steps");
        let begins = instant(&steps[0]["at"]);
        let mut buckets: Vec<Bucket> = limits.iter().map(|limit| limit.fresh(begins)).collect();
        for step in steps {
            check(&format!("{}: {step}", case["name"]), step, &limits, &mut buckets);
        }
    }
}

fn check(story: &str, step: &Value, limits: &[Limit], buckets: &mut [Bucket]) {
    let (now, expect) = (instant(&step["at"]), &step["expect"]);
    let costs: Vec<u32> =
        step["cost"].as_array().expect("costs").iter().map(|cost| number(cost).try_into().expect("a cost")).collect();
    if expect["cost_error"] == true {
        let error = limits.iter().zip(&costs).find_map(|(limit, cost)| limit.check_cost(*cost).err()).expect(story);
        assert_eq!(u64::from(error.most), number(&expect["most"]), "{story}");
        return;
    }
    let asked: Vec<(Limit, u32)> = limits.iter().copied().zip(costs).collect();
    let verdict = all::take(now, &asked, buckets);
    match verdict.ruling() {
        Ruling::Admitted { start, .. } => assert_eq!(Some(micros(start)), expect["start"].as_u64(), "{story}"),
        Ruling::Refused { by, retry } => {
            assert_eq!(Some(by as u64), expect["refused_by"].as_u64(), "{story}");
            assert_eq!(Some(retry.as_micros() as u64), expect["retry"].as_u64(), "{story}");
            assert_eq!(Some(retry_after(retry)), expect["retry_after"].as_u64(), "{story}");
        }
    }
    for (nth, left) in verdict.left().iter().enumerate() {
        assert_eq!(Some(u64::from(left.remaining)), expect["remaining"][nth].as_u64(), "limit {nth} of {story}");
        if let Some(retries) = expect.get("retries") {
            let retry = left.retry.map(|retry| retry.as_micros() as u64);
            assert_eq!(retry, retries[nth].as_u64(), "limit {nth} of {story}");
        }
    }
}

/// [`Bucket::take`] by itself decides the same.
#[test]
fn vectors_guard_of_one_bucket() {
    for case in vectors()["cases"].as_array().expect("cases") {
        let limits = case["limits"].as_array().expect("limits");
        let [Ok(Limit::Bucket(limit))] = limits.iter().map(limit_of).collect::<Vec<_>>()[..] else { continue };
        let steps = case["steps"].as_array().expect("steps");
        let mut bucket = Bucket::full(instant(&steps[0]["at"]), &limit);
        for step in steps {
            let expect = &step["expect"];
            let cost = number(&step["cost"][0]).try_into().expect("a cost");
            let retry = match bucket.take(instant(&step["at"]), &limit, cost) {
                Err(error) => {
                    assert_eq!(Some(u64::from(error.most)), expect["most"].as_u64(), "{step}");
                    continue;
                }
                Ok(taken) => taken.err().map(|retry| retry.as_micros() as u64),
            };
            assert_eq!(retry, expect["retry"].as_u64(), "{}: {step}", case["name"]);
        }
    }
}

#[test]
fn vectors_guard_gate() {
    let vectors = vectors();
    let mut gate = Gate::new(integer(&vectors["gate"]["most"])).expect("allowed");
    for step in vectors["gate"]["steps"].as_array().expect("steps") {
        let ok = match step["do"].as_str() {
            Some("acquire") => gate.acquire().is_ok(),
            _ => {
                gate.release();
                true
            }
        };
        assert_eq!(Some(ok), step["expect"]["ok"].as_bool(), "{step}");
        assert_eq!(Some(u64::from(gate.in_flight())), step["expect"]["in_flight"].as_u64(), "{step}");
    }
}

#[test]
fn g5_parameters_that_cannot_be_are_named() {
    for limit in vectors()["refused_parameters"].as_array().expect("parameters") {
        let error = match limit["kind"].as_str() {
            Some("gate") => Gate::new(integer(&limit["most"])).map(drop),
            _ => limit_of(limit).map(drop),
        };
        let error = error.expect_err("it cannot be");
        assert_eq!(Some(error.parameter), limit["wrong"].as_str(), "{limit}");
        let said = error.to_string();
        assert!(said.contains(&error.value) && said.contains(error.allowed), "{said}");
    }
}

fn limit_of(limit: &Value) -> Result<Limit, ParameterError> {
    let int = |name: &str| integer(&limit[name]);
    let span = |name: &str| Duration::from_micros(number(&limit[name]));
    match limit["kind"].as_str() {
        Some("bucket") => TokenBucket::new(int("capacity"), int("refill"), span("interval")).map(Limit::from),
        Some("window") => FixedWindow::new(int("count"), span("window")).map(Limit::from),
        Some("leaky") => LeakyBucket::new(int("rate"), span("per"), int("burst")).map(Limit::from),
        other => panic!("a limit nobody knows: {other:?}"),
    }
}

fn vectors() -> Value {
    let path = format!("{}/../../vectors/guard.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn instant(micros: &Value) -> Instant {
    Instant::from_nanos(number(micros) * 1000)
}

fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1000
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn integer(value: &Value) -> i64 {
    value.as_i64().expect("an integer")
}
