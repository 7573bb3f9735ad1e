//! The guard as its clients find it, judged by what arrived behind it: our own client, and many that heed nothing.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comity_audit::far_end::FarEnd;

use crate::town::{Guard, far_end, get, wait};

#[test]
fn our_own_client_is_refused_at_most_once_per_idle_start() {
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "5/s", "--burst", "5"]);
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("urls.txt");
    let mut urls = std::fs::File::create(&list).unwrap();
    (0..15).for_each(|n| writeln!(urls, "http://guarded.example/{n}").unwrap());
    let refused = || guard.metric("comity_guard_requests_total{outcome=\"refused\"}");
    for start in 1..=2u64 {
        let before = refused();
        let fetched = Command::new(assert_cmd::cargo::cargo_bin("comity"))
            .args(["fetch", "-q", "--profile", "api", "--contact", "a@example.org", "-i", list.to_str().unwrap()])
            .args(["--connect-to", &format!("guarded.example:80:{}", guard.at[0]), "--jsonl", "/dev/null"])
            .env("COMITY_SHARED", "none")
            .env_remove("http_proxy")
            .output()
            .unwrap();
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        assert!(refused() - before <= 1, "{} refusals at start {start}", refused() - before);
        assert_eq!(far_end.kept() as u64, 15 * start, "all of them were served, each once");
        // An idle start: the guard's bucket is full again, and the client knows nothing.
        wait(Duration::from_secs(1));
    }
}

/// A request that arrived: not let in before it was sent, nor after it arrived.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    sent: Duration,
    arrived: Duration,
}

/// Clients that heed nothing, for so long; what arrived of them at the far end.
fn hammer(far_end: &FarEnd, at: SocketAddr, time: Duration) -> Vec<Admitted> {
    let over = AtomicBool::new(false);
    let mut sent: Vec<(String, Duration)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let over = &over;
                scope.spawn(move || {
                    let mut sent = Vec::new();
                    for n in 0.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        let path = format!("/{client}/{n}");
                        let now = far_end.now();
                        if get(at, &path, &[]).status == 200 {
                            sent.push((path, now));
                        }
                    }
                    sent
                })
            })
            .collect();
        wait(time);
        over.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    sent.sort();
    let arrivals = far_end.arrivals();
    assert_eq!(far_end.unrecorded().overflowed, 0);
    assert_eq!(arrivals.len(), sent.len(), "what arrived was let in, and what was let in arrived");
    let sent_at =
        |path: &str| sent.binary_search_by(|(known, _)| known.as_str().cmp(path)).map(|at| sent[at].1).unwrap();
    arrivals.iter().map(|arrival| Admitted { sent: sent_at(&arrival.path), arrived: arrival.at }).collect()
}

/// Whether in some window more were let in than `burst` and what the rate gives in it, whenever between sending and
/// arrival each was: no delay of the machine's can break this law.
fn breaks_the_law(admitted: &[Admitted], burst: usize, per_second: f64) -> Option<String> {
    let mut ends: Vec<Duration> = admitted.iter().map(|one| one.arrived).collect();
    ends.sort_unstable();
    for from in admitted.iter().map(|one| one.sent) {
        for to in ends.iter().copied().filter(|to| *to >= from) {
            let inside = admitted.iter().filter(|one| one.sent >= from && one.arrived <= to).count();
            let window = (to - from).as_secs_f64();
            let allowed = burst as f64 + window * per_second;
            if inside as f64 > allowed {
                return Some(format!("{inside} within {window:.3} s, where {allowed:.1} were allowed"));
            }
        }
    }
    None
}

#[test]
fn x4_what_arrives_behind_the_guard_in_any_window_is_within_the_law() {
    let (far_end, time) = (far_end(), Duration::from_secs(3));
    let guard = Guard::start(far_end.addr(), &["--rate", "20/s", "--burst", "10"]);
    let admitted = hammer(&far_end, guard.at[0], time);
    assert_eq!(breaks_the_law(&admitted, 10, 20.0), None);
    // It is a limit, not a wall: the burst and most of three seconds' rate came through.
    assert!(admitted.len() >= 10 + 30, "{}", admitted.len());
    assert!(guard.metric("comity_guard_requests_total{outcome=\"refused\"}") > 50, "the clients heeded nothing");
}

#[test]
fn x5_the_control_without_a_guard_breaks_it() {
    let far_end = far_end();
    let admitted = hammer(&far_end, far_end.addr(), Duration::from_millis(300));
    let told = breaks_the_law(&admitted[..admitted.len().min(400)], 10, 20.0);
    assert!(told.is_some(), "{} arrived", admitted.len());
}

/// `comity audit` over two processes of curl that heed nothing: its exit code and what it prints.
fn audited(guarded: bool) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let comity = assert_cmd::cargo::cargo_bin("comity");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guard/hammer.sh");
    let mut command = Command::new(&comity);
    command.args(["audit", "-q", "--rate", "2/s", "--burst", "5", "--tolerance", "250ms"]);
    command.args(["--workers", "2", "--requests", "6", "--", "sh"]).arg(script).env("FOLDER", folder.path());
    if guarded {
        command.env("GUARD", &comity);
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn x6_the_auditor_passes_what_the_guard_lets_through_and_fails_the_same_without_it() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skipped("curl is not installed");
    }
    let (code, told) = audited(true);
    assert!(code == Some(0) && told.contains("Verdict: passes"), "{told}");
    let (code, told) = audited(false);
    assert!(code == Some(1) && told.contains("Verdict: fails"), "{told}");
}

/// Says so past the test runner's capture.
fn skipped(lacking: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {lacking}");
}
