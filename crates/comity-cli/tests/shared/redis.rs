//! One pace through Redis.

use std::time::Duration;

use crate::far_end::{Ground, HOST};
use crate::machine::pass;
use crate::servers::{Front, Server, free_port};
use crate::workers::{Crew, faketime};

const HALF: Duration = Duration::from_millis(500);

/// Commands under which each worker's clock is ten seconds off the one before.
fn skewed(workers: usize) -> Vec<Vec<String>> {
    (0..workers)
        .map(|worker| {
            let offset = i64::try_from(worker).unwrap() * 10 - 20;
            vec!["env".to_owned(), format!("LD_PRELOAD={}", faketime()), format!("FAKETIME={offset:+}s")]
        })
        .collect()
}

fn crew<'a>(ground: &'a Ground, url: &str, interval: Duration, pages: usize, workers: usize) -> Crew<'a> {
    let commands = skewed(workers);
    let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let words: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    Crew::new(ground, url, interval, pages).before(&words)
}

#[test]
fn x1_any_number_of_machines_keep_one_pace_with_skewed_clocks() {
    let server = Server::start();
    println!("processes  rate/s  least gap  jitter   (clocks ten seconds apart)");
    for workers in [1, 2, 4, 6, 8] {
        server.ask("FLUSHALL");
        let mut ground = Ground::new();
        crew(&ground, &server.url(), HALF, 3.max(8 / workers), workers).run(workers);
        let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
        let rate = gaps.per_second().unwrap();
        println!("{workers:>9}  {rate:>6.3}  {:>9.1?}  {jitter:.1?}", gaps.least().unwrap());
        ground.held(HOST, HALF, jitter).unwrap();
        assert!((1.9..=2.01).contains(&rate), "{workers} processes: {rate}/s");
    }
}

/// Six workers at ten a second while something happens to their server.
fn through(what: &str, fault: impl FnOnce(&mut Server)) {
    let mut server = Server::start();
    let mut ground = Ground::new();
    let interval = Duration::from_millis(100);
    let at_work = crew(&ground, &server.url(), interval, 15, 6).start_all(6);
    pass(Duration::from_millis(1500));
    fault(&mut server);
    at_work.all_done();
    let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
    println!("{what}: least gap {:.1?}, {:.2}/s of 10", gaps.least().unwrap(), gaps.per_second().unwrap());
    assert_eq!(gaps.arrivals(), 90);
    ground.held(HOST, interval, jitter).unwrap();
}

#[test]
fn x9_a_server_that_is_killed_and_started_again_makes_nobody_faster() {
    through("killed and started again", |server| {
        server.kill();
        pass(Duration::from_secs(2));
        server.restart();
    });
}

#[test]
fn x9_a_frozen_server_makes_nobody_faster() {
    through("frozen for two seconds", |server| {
        server.ask("CLIENT PAUSE 2000 ALL");
    });
}

#[test]
fn x9_a_flushed_server_makes_nobody_faster() {
    through("flushed five times", |server| {
        for _ in 0..5 {
            server.ask("FLUSHALL");
            pass(Duration::from_millis(300));
        }
    });
}

#[test]
fn x9_a_failover_to_a_replica_makes_nobody_faster() {
    let mut first = Server::start_with(free_port(), &["--repl-diskless-sync-delay", "0"]);
    let port = first.port.to_string();
    let replica = Server::start_with(free_port(), &["--replicaof", "127.0.0.1", &port]);
    let front = Front::of(&first);
    let mut ground = Ground::new();
    let interval = Duration::from_millis(100);
    let at_work = crew(&ground, &format!("redis://127.0.0.1:{}", front.port), interval, 15, 6).start_all(6);
    pass(Duration::from_secs(3));
    assert!(replica.ask("DBSIZE") != ":0", "the replica follows");
    first.kill();
    pass(Duration::from_millis(500));
    replica.ask("REPLICAOF NO ONE");
    front.turn_to(&replica);
    at_work.all_done();
    let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
    println!("failed over: least gap {:.1?}, {:.2}/s of 10", gaps.least().unwrap(), gaps.per_second().unwrap());
    assert_eq!(gaps.arrivals(), 90);
    ground.held(HOST, interval, jitter).unwrap();
}

/// Arrivals while the server is gone for three seconds, of three workers at ten a second that were told what to do then.
fn while_gone(on_failure: &str) -> usize {
    let mut server = Server::start();
    let ground = Ground::new();
    let at_work = Crew::new(&ground, &server.url(), Duration::from_millis(100), 20)
        .flags(&["--shared-failure", on_failure])
        .start_all(3);
    pass(Duration::from_millis(1500));
    server.kill();
    // What was granted before may still come.
    pass(Duration::from_millis(300));
    let gone = ground.far_end.now();
    pass(Duration::from_millis(2500));
    let back = ground.far_end.now();
    server.restart();
    at_work.all_done();
    let times = ground.far_end.times(HOST);
    assert_eq!(times.len(), 60, "all is fetched in the end");
    times.iter().filter(|at| **at > gone && **at < back).count()
}

#[test]
fn decision_7_what_happens_without_the_server_is_what_was_asked_for() {
    let [share, pause, local] = ["share", "pause", "local"].map(while_gone);
    println!("in 2.5 s without a server: {share} arrivals with share, {pause} with pause, {local} with local");
    assert_eq!(pause, 0, "nothing starts");
    assert!((5..=27).contains(&share), "together at most the promised rate: {share}");
    assert!(local > 27, "as if alone, three times the rate: {local}");
}

#[test]
fn a_server_that_is_not_there_is_told_at_once() {
    let port = free_port();
    let list = tempfile::NamedTempFile::new().unwrap();
    let mut command = std::process::Command::new(crate::workers::comity());
    command.args(["fetch", "--shared", &format!("redis://127.0.0.1:{port}"), "-i"]).arg(list.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("127.0.0.1:{port}")) && output.stdout.is_empty(), "{said}");
}
