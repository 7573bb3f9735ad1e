//! What the operator is told: words, metrics, the access log, the dry run.

use std::net::Ipv4Addr;
use std::path::Path;

use serde_json::Value;

use crate::town::{Guard, command, far_end, get, until};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn it_says_what_holds_and_where() {
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "10/s", "--burst", "20", "--max-in-flight", "64"]);
    guard.hears("in flight: at most 64, the rest is shed at once");
    let words = guard.words();
    assert!(words.starts_with(&format!("comity: http://{} guards http://{}", guard.at[0], far_end.addr())), "{words}");
    assert!(words.contains("each client: 20 at once, then 1 per 100 ms (10/s)"), "{words}");
    assert_ne!(guard.at[0].port(), 0, "the port that port 0 became");
}

#[test]
fn metrics_are_what_the_clients_saw() {
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "1/h", "--burst", "7", "--exempt", "/free"]);
    let seen: Vec<u16> = (0..12).map(|_| guard.get("/").status).collect();
    assert_eq!(guard.get("/free").status, 200);
    let count = |status: u16| seen.iter().filter(|seen| **seen == status).count() as u64;
    let requests = |outcome: &str| guard.metric(&format!("comity_guard_requests_total{{outcome=\"{outcome}\"}}"));
    assert_eq!((requests("admitted"), requests("refused")), (count(200), count(429)));
    assert_eq!((requests("exempt"), requests("shed")), (1, 0));
    assert_eq!(guard.metric("comity_guard_refused_total{limit=\"each\"}"), 5);
    assert_eq!((guard.metric("comity_guard_upstream_answers_total"), far_end.kept()), (8, 8));
    assert_eq!((guard.metric("comity_guard_keys"), guard.metric("comity_guard_heads_total")), (1, 13));
    until("none is in flight", || guard.metric("comity_guard_in_flight") == 0);
    assert_eq!(get(guard.admin, "/healthz", &[]).status, 200);
    assert_eq!(get(guard.admin, "/", &[]).status, 404);
    assert_eq!(guard.get("/metrics").status, 429, "clients are not told of it: it is a path as any other");
}

#[test]
fn a_dry_run_lets_all_pass_and_marks_what_would_have_been_refused() {
    let far_end = far_end();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let words = ["--rate", "1/h", "--burst", "2", "--dry-run", "--access-log", log.to_str().unwrap()];
    let guard = Guard::start(far_end.addr(), &words);
    for _ in 0..5 {
        assert_eq!(guard.get("/").status, 200);
    }
    assert_eq!(guard.metric("comity_guard_would_total{outcome=\"refuse\"}"), 3);
    assert_eq!(guard.metric("comity_guard_requests_total{outcome=\"admitted\"}"), 5);
    until("all lines are there", || lines(&log).len() == 5);
    let outcomes: Vec<Value> = lines(&log).iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["admitted", "admitted", "would_refuse", "would_refuse", "would_refuse"]);
    assert!(guard.words().contains("dry run: nothing is refused"), "{}", guard.words());
}

#[test]
fn each_request_is_a_line_of_the_access_log_without_secrets() {
    let far_end = far_end();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let words = ["--rate", "1/h", "--key", "header:X-Api-Key", "--access-log", log.to_str().unwrap()];
    let mut guard = Guard::start(far_end.addr(), &words);
    let fields = [("X-Api-Key", "sk-secret"), ("Authorization", "Bearer secret"), ("User-Agent", "a \"quoted\" one")];
    for status in [200, 429] {
        assert_eq!(guard.get_as("/a%22b?token=secret", &fields).status, status);
    }
    guard.signal("-TERM");
    assert_eq!(guard.ended().code(), Some(0));
    let lines = lines(&log);
    let [served, refused] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((served["outcome"].as_str(), served["status"].as_u64()), (Some("admitted"), Some(200)));
    assert_eq!((refused["outcome"].as_str(), refused["status"].as_u64()), (Some("refused"), Some(429)));
    assert_eq!((served["path"].as_str(), served["user_agent"].as_str()), (Some("/a%22b"), Some("a \"quoted\" one")));
    assert_eq!((refused["rule"].as_str(), refused["query"].is_null()), (Some("each"), true));
    assert!(refused["wait_ms"].as_f64().unwrap() > 3_000_000.0, "{refused}");
    assert!(served["bytes"].as_u64().unwrap() > 0 && served["complete"] == true, "{served}");
    assert!(served["key"].as_str().unwrap().starts_with("name-"), "{served}");
    assert!(!std::fs::read_to_string(&log).unwrap().contains("secret"), "{lines:?}");
}

#[test]
fn g7_one_who_comes_by_ipv4_to_all_addresses_counts_as_that() {
    let far_end = far_end();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let words = ["--rate", "1/h", "--burst", "2", "--access-log", log.to_str().unwrap()];
    let guard = Guard::start_at(&[":0"], far_end.addr(), &words);
    assert_eq!(get((Ipv4Addr::LOCALHOST, guard.at[0].port()).into(), "/", &[]).status, 200);
    until("its line is there", || lines(&log).len() == 1);
    let line = &lines(&log)[0];
    assert_eq!(line["key"], "127.0.0.1");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
}

#[test]
fn an_access_log_begins_anew_at_sighup() {
    let far_end = far_end();
    let dir = tempfile::tempdir().unwrap();
    let (log, moved) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let guard = Guard::start(
        far_end.addr(),
        &["--max-in-flight", "9", "--access-log", log.to_str().unwrap(), "--access-log-query"],
    );
    guard.get("/first?a=b");
    until("its line is there", || lines(&log).len() == 1);
    assert_eq!(lines(&log)[0]["query"], "a=b");
    std::fs::rename(&log, &moved).unwrap();
    guard.signal("-HUP");
    assert_eq!(guard.event()["event"], "reloaded");
    until("there is a new one", || log.exists());
    guard.get("/second");
    until("its line is there", || lines(&log).len() == 1);
    assert_eq!((lines(&log)[0]["path"].as_str(), lines(&moved).len()), (Some("/second"), 1));
}

#[test]
fn a_check_says_what_would_hold_and_listens_nowhere() {
    // Somebody else has the port: whoever listened there would fail.
    let far_end = far_end();
    let taken = far_end.addr().to_string();
    let words = ["--listen", &taken, "--upstream", "http://127.0.0.1:1", "--rate", "1/60s", "--burst", "20", "--check"];
    let checked = command().args(words).arg("--json").output().unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success() && said.contains("20 at once, then 1 per 60 s"), "{said}");
    let event: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((event["event"].as_str(), event["listening"].as_array().unwrap().len()), (Some("checked"), 0));
}
