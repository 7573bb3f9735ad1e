//! One pace through Redis.

use std::time::Duration;

use crate::far_end::{Ground, HOST, held};
use crate::machine::pass;
use crate::servers::Server;
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

fn crew<'a>(ground: &'a Ground, server: &Server, interval: Duration, pages: usize, workers: usize) -> Crew<'a> {
    let commands = skewed(workers);
    let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let words: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    Crew::new(ground, &server.url(), interval, pages).before(&words)
}

#[test]
fn x1_any_number_of_machines_keep_one_pace_with_skewed_clocks() {
    let server = Server::start();
    println!("processes  rate/s  least gap  jitter   (clocks ten seconds apart)");
    for workers in [1, 2, 4, 6, 8] {
        server.ask("FLUSHALL");
        let mut ground = Ground::new();
        crew(&ground, &server, HALF, 3.max(8 / workers), workers).run(workers);
        let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
        let rate = gaps.per_second().unwrap();
        println!("{workers:>9}  {rate:>6.3}  {:>9.1?}  {jitter:.1?}", gaps.least().unwrap());
        held(&gaps, HALF, jitter).unwrap();
        assert!((1.9..=2.01).contains(&rate), "{workers} processes: {rate}/s");
    }
}

/// Six workers at ten a second while something happens to their server.
fn through(what: &str, fault: impl FnOnce(&mut Server)) {
    let mut server = Server::start();
    let mut ground = Ground::new();
    let interval = Duration::from_millis(100);
    let at_work = crew(&ground, &server, interval, 15, 6).start_all(6);
    pass(Duration::from_millis(1500));
    fault(&mut server);
    at_work.all_done();
    let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
    println!("{what}: least gap {:.1?}, {:.2}/s of 10", gaps.least().unwrap(), gaps.per_second().unwrap());
    assert_eq!(gaps.arrivals(), 90);
    held(&gaps, interval, jitter).unwrap();
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
