//! What clients get.

use crate::town::{Guard, Redis, far_end, wait};

#[test]
fn g2_a_client_that_waits_exactly_retry_after_is_let_in() {
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "1/2s", "--burst", "2"]);
    for round in 0..2 {
        let refused = std::iter::repeat_with(|| guard.get("/")).take(4).find(|answer| answer.status == 429);
        let refused = refused.expect("two at once, the third is refused");
        let seconds = refused.retry_after().as_secs();
        assert!((1..=2).contains(&seconds), "{refused:?}");
        assert_eq!(refused.field("ratelimit"), format!("\"each\";r=0;t={seconds}"));
        wait(refused.retry_after());
        assert_eq!(guard.get("/").status, 200, "in round {round}, after {seconds} s");
    }
}

#[test]
fn g6_one_status_and_twelve_bytes_where_that_is_asked_for() {
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "1/h", "--status", "503"]);
    assert_eq!(guard.get("/").status, 200);
    let refused = guard.get("/");
    assert_eq!((refused.status, refused.body.as_str()), (503, "lim rejected"));
    assert!(refused.retry_after().as_secs() > 3000, "{refused:?}");
    assert_eq!(far_end.kept(), 1, "what is refused never arrives");
}

#[test]
fn g24_each_client_has_a_bucket_of_its_own() {
    let far_end = far_end();
    let words = ["--rate", "1/h", "--burst", "2", "--key", "header:X-Api-Key", "--exempt", "/healthz"];
    let guard = Guard::start(far_end.addr(), &words);
    let statuses = |key: &str| [0; 3].map(|_| guard.get_as("/", &[("X-Api-Key", key)]).status);
    assert_eq!(statuses("one"), [200, 200, 429]);
    assert_eq!(statuses("other"), [200, 200, 429]);
    let exempt = guard.get_as("/healthz", &[("X-Api-Key", "one")]);
    assert_eq!(exempt.status, 200, "nothing holds that back");
}

#[test]
fn g10_by_default_nobody_is_believed() {
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "1/h", "--burst", "2"]);
    let statuses: Vec<u16> =
        (0..4).map(|n| guard.get_as("/", &[("X-Forwarded-For", &format!("198.51.100.{n}"))]).status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    let arrived = far_end.arrivals();
    assert_eq!(arrived[0].header("x-forwarded-for"), Some("127.0.0.1"), "what it forged goes no further");
}

#[test]
fn g10_a_trusted_proxy_is_believed_from_the_right() {
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "1/h", "--trusted-proxy", "127.0.0.0/8"]);
    let ask = |forwarded: &str| guard.get_as("/", &[("X-Forwarded-For", forwarded)]).status;
    assert_eq!([ask("spoof-1, 203.0.113.9"), ask("spoof-2, 203.0.113.9"), ask("203.0.113.10")], [200, 429, 200]);
    assert_eq!(far_end.arrivals()[1].header("x-forwarded-for"), Some("203.0.113.10, 127.0.0.1"));
    assert!(guard.words().contains("believed, in x-forwarded-for: 127.0.0.0/8"), "{}", guard.words());
}

#[test]
fn limits_by_route_hold_beside_the_flags() {
    let far_end = far_end();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("guard.toml");
    let text = "[[limit]]\nname = \"login\"\npath = \"/login\"\nmethods = [\"GET\"]\nrate = \"1/h\"\n";
    std::fs::write(&config, text).unwrap();
    let words = ["--config", config.to_str().unwrap(), "--rate", "1/h", "--burst", "5"];
    let guard = Guard::start(far_end.addr(), &words);
    assert_eq!(["/login", "/login/a", "//login", "/"].map(|path| guard.get(path).status), [200, 429, 429, 200]);
    let refused = guard.get("/login");
    assert_eq!(refused.field("ratelimit-policy"), "\"login\";q=1;w=3600");
    assert_eq!(guard.metric("comity_guard_refused_total{limit=\"login\"}"), 3);
    assert_eq!(guard.metric("comity_guard_refused_total{limit=\"each\"}"), 0);
}

#[test]
fn an_upstream_that_is_not_there_is_a_502_with_its_reason() {
    // Whoever had the port is gone.
    let gone = far_end().addr();
    let guard = Guard::start(gone, &["--max-in-flight", "1"]);
    let failed = guard.get("/");
    assert_eq!((failed.status, failed.field("proxy-status")), (502, "comity-guard; error=connection_refused"));
    assert_eq!(guard.metric("comity_guard_upstream_failures_total{error=\"connection_refused\"}"), 1);
    assert_eq!(guard.get("/").status, 502, "its place is free again");
}

#[test]
fn x1_guards_that_share_hold_one_limit() {
    let far_end = far_end();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("limits");
    let statuses = |shared: &[&str]| {
        let words = [&["--rate", "1/h", "--burst", "3"], shared].concat();
        let guards = [0; 2].map(|_| Guard::start(far_end.addr(), &words));
        let statuses = [0, 1, 0, 1, 0, 1].map(|guard| guards[guard].get("/").status);
        (statuses.iter().filter(|status| **status == 200).count(), guards[0].words())
    };
    let redis = Redis::start();
    let (served, words) = statuses(&["--shared", &redis.url(), "--shared-name", "shop"]);
    assert_eq!(served, 3, "one bucket for both: {words}");
    assert!(words.contains("shared as shop with every guard that names the same server"), "{words}");
    let (served, _) = statuses(&["--shared", &redis.url(), "--shared-name", "forum"]);
    assert_eq!(served, 3, "another service shares nothing with it");
    let (served, words) = statuses(&["--shared", file.to_str().unwrap()]);
    assert_eq!(served, 3, "one bucket for both");
    assert!(words.contains("shared with every guard that names"), "{words}");
    let (served, _) = statuses(&[]);
    assert_eq!(served, 6, "without it, one each");
}
