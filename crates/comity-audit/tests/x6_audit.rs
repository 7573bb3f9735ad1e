//! Small programs judged as real processes, by what the far end received of them.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop at what should not happen; clippy excuses only #[test] functions"
)]

use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use comity_audit::Stop;
use comity_audit::audit::{AuditError, ControlKind, Event, Plan, Promise, Refusing, Report, Verdict, Watch, run};
use serde_json::Value;

/// A run in a directory of its own, where the clients' lock is.
struct Judged {
    report: Report,
}

/// The example's client, with `LOCK` replaced by a lock of this run.
fn client(words: &str, lock: &str) -> Vec<OsString> {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/paced_client");
    assert!(program.exists(), "{} is built by `cargo test -p comity-audit`", program.display());
    let words = words.split(' ').map(|word| if word == "LOCK" { lock } else { word });
    [program.into_os_string()].into_iter().chain(words.map(OsString::from)).collect()
}

/// Much of the interval is tolerated: a busy machine is not what is tested here, and what breaks the promise here breaks it
/// by far more.
fn promise() -> Promise {
    Promise { interval: INTERVAL, burst: 1, tolerance: INTERVAL * 2 / 5 }
}

/// For runs in which nothing arrives: the shortest controls.
fn quick() -> Promise {
    Promise::new(Duration::from_millis(10))
}

fn judge(words: &str, change: impl FnOnce(&mut Plan)) -> Judged {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("lock");
    let mut plan = Plan { requests: 3, ..Plan::new(client(words, lock.to_str().unwrap()), promise()) };
    change(&mut plan);
    let watch: Watch = Arc::new(|_| {});
    Judged { report: run(&plan, &Stop::new(), &watch).unwrap() }
}

impl Judged {
    fn told(&self) -> String {
        self.report.to_string()
    }
}

#[test]
fn x4_processes_that_share_a_pace_pass_whatever_their_number() {
    let judged = judge("shared 150 LOCK", |plan| plan.arms = vec![1, 3]);
    let report = &judged.report;
    assert_eq!(report.verdict, Verdict::Passes, "{}", judged.told());
    assert_eq!(report.arms.iter().map(|arm| arm.workers).collect::<Vec<_>>(), [1, 3]);
    let three = &report.arms[1].hosts[0];
    assert_eq!((three.host.as_str(), three.measure.arrivals, three.measure.short_gaps), ("audit-3.example", 9, 0));
    assert!(three.measure.over_promised.is_some_and(|over| over < 1.1), "{}", judged.told());
    assert!((0..3).all(|worker| three.seen.iter().filter(|seen| seen.worker == Some(worker)).count() == 3));
    assert!(report.arms[1].processes.iter().all(|process| process.said.as_deref() == Some("3 sent")));
}

#[test]
fn x4_processes_that_share_nothing_fail_with_about_n_times_the_rate() {
    let judged = judge("alone 150", |plan| (plan.arms, plan.requests) = (vec![4], 5));
    let report = &judged.report;
    assert_eq!(report.verdict, Verdict::Fails, "{}", judged.told());
    let host = &report.arms[0].hosts[0];
    let over = host.measure.over_promised.unwrap();
    assert!((2.5..6.0).contains(&over), "{over}: {}", judged.told());
    assert!(host.measure.short_gaps > 0 && !report.why.is_empty(), "{}", judged.told());
}

#[test]
fn x5_controls_stand_beside_every_arm_and_came_out_as_they_must() {
    let judged = judge("alone 150", |plan| plan.arms = vec![1]);
    let report = &judged.report;
    assert_eq!(report.verdict, Verdict::Passes, "{}", judged.told());
    let [unshared, alone] = &report.controls[..] else { panic!("{}", judged.told()) };
    assert_eq!((unshared.kind, unshared.clients, unshared.beside), (ControlKind::Unshared, 2, None));
    assert_eq!((alone.kind, alone.clients, alone.beside), (ControlKind::Alone, 1, Some(1)));
    assert!(unshared.measure.over_promised.is_some_and(|over| over > 1.5), "{}", judged.told());
    assert!(alone.measure.gaps >= 3 && alone.measure.short_gaps == 0, "{}", judged.told());
    let arm = &report.arms[0];
    assert_eq!(arm.tolerance, report.promise.tolerance + arm.jitter);
    assert!(judged.told().contains("fails, as it must") && judged.told().contains("passes, as it must"));
}

#[test]
fn x5_a_run_in_which_nothing_arrived_is_void_and_says_why() {
    let judged = judge("idle", |plan| plan.promise = quick());
    assert_eq!(judged.report.verdict, Verdict::Void, "{}", judged.told());
    assert!(judged.told().contains("too few to judge") && judged.told().contains("workers 0, 1"), "{}", judged.told());
}

#[test]
fn x6_a_process_that_hangs_is_ended_at_the_limit_and_told_of() {
    let judged = judge("hang", |plan| (plan.promise, plan.time_limit) = (quick(), Some(Duration::from_millis(300))));
    assert_eq!(judged.report.verdict, Verdict::Void);
    let arm = &judged.report.arms[0];
    assert!(arm.processes.iter().all(|process| process.timed_out), "{}", judged.told());
    assert!(arm.notes[0].contains("time limit") && arm.took < Duration::from_secs(20), "{}", judged.told());
}

#[test]
fn x6_a_pause_that_is_not_kept_is_seen_and_one_that_is_kept_is_not_held_against_anybody() {
    let retry_after = Some(Duration::from_secs(1));
    let refusing = Some(Refusing { status: 429, first: 1, every: 0, retry_after });
    let rude = judge("rude 150 LOCK", |plan| (plan.refusing, plan.requests) = (refusing, 2));
    let host = &rude.report.arms[0].hosts[0];
    assert_eq!((rude.report.verdict, host.refused), (Verdict::Fails, 1), "{}", rude.told());
    assert!(host.during_pauses >= 1 && host.measure.short_gaps == 0, "{}", rude.told());
    assert!(rude.told().contains("in a pause"), "{}", rude.told());

    let patient = judge("shared 150 LOCK", |plan| (plan.refusing, plan.requests) = (refusing, 2));
    assert_eq!(patient.report.verdict, Verdict::Passes, "{}", patient.told());
    assert_eq!(patient.report.arms[0].hosts[0].refused, 1);
}

#[test]
fn x6_a_burst_is_allowed_where_it_was_promised() {
    let bursty = |burst| {
        judge("burst 2 150 LOCK", move |plan| {
            (plan.arms, plan.requests) = (vec![1], 4);
            plan.promise.burst = burst;
        })
    };
    let promised = bursty(2);
    assert_eq!(promised.report.verdict, Verdict::Passes, "{}", promised.told());
    let not_promised = bursty(1);
    assert_eq!(not_promised.report.verdict, Verdict::Fails, "{}", not_promised.told());
    assert_eq!(not_promised.report.arms[0].hosts[0].measure.short_gaps, 1);
}

#[test]
fn x6_each_of_several_hosts_is_judged_by_itself() {
    let judged = judge("shared 150 LOCK", |plan| (plan.arms, plan.hosts, plan.requests) = (vec![2], 2, 4));
    let hosts: Vec<_> = judged.report.arms[0].hosts.iter().map(|host| (host.host.as_str(), host.seen.len())).collect();
    assert_eq!(hosts, [("audit-2-1.example", 4), ("audit-2-2.example", 4)]);
    assert_eq!(judged.report.verdict, Verdict::Passes, "{}", judged.told());
}

#[test]
fn x6_the_json_is_as_its_schema_says() {
    let schema: Value = serde_json::from_str(include_str!("../../../schema/audit.schema.json")).unwrap();
    let retry_after = Some(Duration::from_secs(1));
    let refusing = Some(Refusing { status: 503, first: 0, every: 4, retry_after });
    let failing = judge("alone 150", |plan| plan.refusing = refusing);
    let void = judge("idle", |plan| (plan.promise, plan.crawl_delay) = (quick(), Some(Duration::from_millis(20))));
    for judged in [failing, void] {
        let written = serde_json::to_value(&judged.report).unwrap();
        assert_eq!(valid(&schema, &schema, &written), Ok(()), "{written:#}");
    }
    // The check checks.
    let mut spoilt = serde_json::to_value(judge("idle", |plan| plan.promise = quick()).report).unwrap();
    spoilt["arms"][0]["took_ms"] = "soon".into();
    assert!(valid(&schema, &schema, &spoilt).unwrap_err().contains("took_ms"));
}

/// What `$ref`, `type`, `enum`, `properties`, `required`, `additionalProperties` and `items` of a schema say of a value.
fn valid(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(path) = schema["$ref"].as_str() {
        return valid(root, root.pointer(path.trim_start_matches('#')).unwrap(), value);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let tried: Vec<_> = choices.iter().map(|choice| valid(root, choice, value)).collect();
        return if tried.iter().any(Result::is_ok) { Ok(()) } else { Err(format!("{tried:?}")) };
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let is = |named: &Value| match named.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("null") => value.is_null(),
        other => panic!("a type that is not known: {other:?}"),
    };
    if !types.iter().any(is) {
        return Err(format!("{value} is not {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|choices| !choices.contains(value)) {
        return Err(format!("{value} is none of {}", schema["enum"]));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let described = schema["properties"].get(key).ok_or(format!("{key} is not described"))?;
        valid(root, described, inner).map_err(|error| format!("{key}: {error}"))?;
    }
    if value.is_object() {
        assert_eq!(schema["additionalProperties"], false);
        let required = schema["required"].as_array().unwrap();
        let missing = required.iter().find(|key| value.get(key.as_str().unwrap()).is_none());
        missing.map_or(Ok(()), |key| Err(format!("{key} is missing")))?;
    }
    value.as_array().into_iter().flatten().try_for_each(|inner| valid(root, &schema["items"], inner))
}

#[test]
fn x6_what_a_process_prints_is_passed_on_and_its_last_word_stands_in_the_table() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let watch: Watch = {
        let heard = Arc::clone(&heard);
        Arc::new(move |event| {
            if let Event::Line { worker, line } = event {
                heard.lock().unwrap().push((worker, line.to_owned()));
            }
        })
    };
    let script = "echo one; echo 'comity-audit: {worker} of '$COMITY_WORKERS >&2; echo three; exit 7";
    let plan = Plan::new(["sh", "-c", script].map(OsString::from).to_vec(), quick());
    let report = run(&plan, &Stop::new(), &watch).unwrap();
    let told = report.to_string();
    assert!(told.contains("worker 1 (0 arrived, exit code 7): 1 of 2"), "{told}");
    assert!(told.contains("workers 0, 1: exit code 7"), "{told}");
    assert!(heard.lock().unwrap().contains(&(0, "three".to_owned())), "{heard:?}");
}

#[test]
fn x6_proxy_settings_point_here_or_nowhere() {
    let script = "echo proxy=$http_proxy. $COMITY_TARGET_ADDR";
    for (as_proxy, told) in [(false, "proxy=. http://127.0.0.1:"), (true, "proxy=http://127.0.0.1:")] {
        let plan = Plan { as_proxy, ..Plan::new(["sh", "-c", script].map(OsString::from).to_vec(), quick()) };
        let watch: Watch = Arc::new(|_| {});
        let report = run(&plan, &Stop::new(), &watch).unwrap();
        let said = report.arms[0].processes[0].said.clone().unwrap();
        assert!(said.starts_with(told), "{said}");
    }
}

#[test]
fn x6_a_program_that_cannot_be_started_is_named() {
    let plan = Plan::new(vec!["/nowhere/at/all".into()], quick());
    let watch: Watch = Arc::new(|_| {});
    let error = run(&plan, &Stop::new(), &watch).unwrap_err();
    assert!(matches!(&error, AuditError::Start { .. }) && error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[test]
fn x6_told_to_stop_the_processes_are_ended() {
    let stop = Arc::new(Stop::new());
    let watch: Watch = {
        let stop = Arc::clone(&stop);
        Arc::new(move |event| {
            if matches!(event, Event::Line { .. }) {
                stop.now();
            }
        })
    };
    let plan = Plan::new(["sh", "-c", "echo here; sleep 600"].map(OsString::from).to_vec(), quick());
    assert!(matches!(run(&plan, &stop, &watch), Err(AuditError::Stopped)));
}

/// Long beside what a busy machine adds to a gap.
const INTERVAL: Duration = Duration::from_millis(150);
