//! SIGHUP, SIGTERM, Ctrl-C.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::town::{Guard, answer, ask, far_end, head, until, upstream};

fn write(path: &Path, burst: u32) {
    std::fs::write(path, format!("[[limit]]\nname = \"each\"\nrate = \"1/h\"\nburst = {burst}\n")).unwrap();
}

#[test]
fn settings_are_read_again_at_sighup_and_what_is_wrong_changes_nothing() {
    let far_end = far_end();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("guard.toml");
    write(&config, 1);
    let guard = Guard::start(far_end.addr(), &["--config", config.to_str().unwrap()]);
    assert_eq!([guard.get("/").status, guard.get("/").status], [200, 429]);

    std::fs::write(&config, "[[limit]]\nrate = \"0/s\"\n").unwrap();
    guard.signal("-HUP");
    guard.hears("nothing is changed: --config");
    assert!(guard.words().contains("`rate = \"0/s\"` in [[limit]] 1: allowed is"), "{}", guard.words());
    assert_eq!(guard.get("/").status, 429, "the old limit holds");

    std::fs::write(&config, "[[limit]]\nname = \"other\"\nrate = \"1/h\"\nburst = 3\n").unwrap();
    guard.signal("-HUP");
    let event = guard.event();
    assert_eq!(event["event"], "reloaded");
    assert!(event["holds"][0].as_str().unwrap().contains("3 at once, then 1 per 3600 s"), "{event}");
    assert_eq!([0; 4].map(|_| guard.get("/").status), [200, 200, 200, 429]);
    let reloads =
        ["done", "failed"].map(|result| guard.metric(&format!("comity_guard_reloads_total{{result=\"{result}\"}}")));
    assert_eq!(reloads, [1, 1]);
}

/// An upstream that answers each request when it is told to, or never.
fn held() -> (std::net::SocketAddr, impl Fn()) {
    let (release, told) = channel::<()>();
    let told = Arc::new(Mutex::new(told));
    let address = upstream(move |mut stream: TcpStream| {
        head(&mut stream);
        if told.lock().unwrap().recv().is_ok() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
        }
    });
    (address, move || release.send(()).unwrap())
}

#[test]
fn what_is_in_flight_at_sigterm_is_served() {
    let (upstream, release) = held();
    let mut guard = Guard::start(upstream, &["--max-in-flight", "4"]);
    let mut waiting = ask(guard.at[0], "/", &[]);
    until("it is in flight", || guard.metric("comity_guard_in_flight") == 1);
    guard.signal("-TERM");
    guard.hears("ending");
    until("nobody else gets in", || TcpStream::connect(guard.at[0]).is_err());
    let health = crate::town::get(guard.admin, "/healthz", &[]);
    assert_eq!(health.status, 503, "whoever asks for its health sends nothing new");
    release();
    let mut bytes = Vec::new();
    waiting.read_to_end(&mut bytes).unwrap();
    let answer = answer(&bytes);
    assert_eq!((answer.status, answer.body.as_str()), (200, "done"));
    assert_eq!(guard.ended().code(), Some(0));
    let event = guard.event();
    assert_eq!((event["event"].as_str(), event["counted"]["admitted"].as_u64()), (Some("ended"), Some(1)));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (upstream, _release) = held();
    for (first, second) in [("-TERM", "-INT"), ("-INT", "-TERM")] {
        let mut guard = Guard::start(upstream, &["--max-in-flight", "4"]);
        let _waiting = ask(guard.at[0], "/", &[]);
        until("it is in flight", || guard.metric("comity_guard_in_flight") == 1);
        guard.signal(first);
        guard.hears("ending");
        guard.signal(second);
        assert_eq!(guard.ended().code(), Some(130));
    }
}

#[test]
fn what_does_not_end_is_cut_off_after_the_drain_time() {
    let (upstream, _release) = held();
    let mut guard = Guard::start(upstream, &["--max-in-flight", "4", "--drain-time", "200ms"]);
    let mut waiting = ask(guard.at[0], "/", &[]);
    until("it is in flight", || guard.metric("comity_guard_in_flight") == 1);
    guard.signal("-TERM");
    assert_eq!(guard.ended().code(), Some(0));
    let mut bytes = Vec::new();
    assert!(waiting.read_to_end(&mut bytes).is_err() || bytes.is_empty(), "{bytes:?}");
}
