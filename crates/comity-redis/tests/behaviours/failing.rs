//! The store dies, freezes, forgets and comes back.

use std::time::Duration;

use comity_core::limits::all::{Cells, Origin};
use comity_core::limits::{Because, Partial};
use comity_core::signal::{Authoritative, Inferred, Refusal, Signal};
use comity_redis::{Redis, Settings};
use comity_store::{OnFailure, Shared, StoreError};

use crate::member::{Member, real_now};
use crate::server::{Server, free_port, rules, settings};

const MS: Duration = Duration::from_millis(1);

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

fn refused(wait: Duration) -> Signal {
    let refusal = Some(Refusal { status: 429, wait: Some(wait) });
    Signal {
        status: Some(429),
        authoritative: Authoritative { refusal, quotas: Vec::new() },
        inferred: Inferred::Neutral,
    }
}

/// Waits until the store is found again.
fn until_found(member: &mut Member) {
    let end = real_now() + MS * 5000;
    while member.redis.standing().lost.is_some() {
        assert!(real_now() < end, "it is not found again");
        member.settle(MS * 10);
    }
}

#[test]
fn e08_a_store_that_answers_after_ten_seconds_is_lost_at_the_deadline() {
    let server = Server::start();
    let mut member = Member::join(&server.url(), &settings(), rules(&[], every(1)));
    assert_eq!(member.ask("example.org").map(|grant| grant.from), Ok(Origin::Shared));
    member.settle(MS * 20);
    server.say(&["CLIENT", "PAUSE", "2500", "ALL"]);
    let asked = real_now();
    let first = member.ask("example.org");
    let took = asked.elapsed();
    assert!(took >= MS * 70 && took < MS * 140, "a time-out is a failure: {took:?}");
    assert!(first.is_ok_and(|grant| grant.from == Origin::Degraded) || first.is_err());
    // The next are not each delayed by it.
    let asked = real_now();
    let mut degraded = 0;
    for _ in 0..20 {
        member.settle(MS * 5);
        if let Ok(grant) = member.ask("example.org") {
            assert_eq!(grant.from, Origin::Degraded);
            degraded += 1;
        }
    }
    assert!(asked.elapsed() < MS * 400, "{:?}", asked.elapsed());
    assert!(degraded > 10, "it goes on alone: {degraded}");
    let standing = member.redis.standing();
    assert_eq!(standing.losses, 1);
    assert!(standing.lost.is_some_and(|(_, why)| why.contains("75ms")));
    until_found(&mut member);
    assert_eq!(member.redis.standing().losses, 1);
    member.settle(MS * 20);
    assert_eq!(member.ask("example.org").map(|grant| grant.from), Ok(Origin::Shared));
}

#[test]
fn decision_7_a_killed_store_makes_its_members_slower_and_is_joined_again() {
    let mut server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], every(50)));
    let (mut one, mut other) = (join(), join());
    // Each has heard of the other.
    one.settle(MS * 1200);
    other.settle(MS * 20);
    assert_eq!((one.redis.standing().members, other.redis.standing().members), (2, 2));
    server.kill();
    let (end, gone) = (real_now() + MS * 1500, real_now());
    let running = [one, other].map(|member| member.run("example.org", end, Duration::ZERO, 1000));
    let starts = running.map(|thread| thread.join().expect("it ends"));
    let alone: usize = starts.iter().flatten().filter(|start| start.from == Origin::Degraded).count();
    assert!(alone >= 15, "they go on: {alone}");
    let all = crate::member::merged(starts.to_vec());
    assert!(all.len() <= 31, "together no faster than one: {}", all.len());
    for span in all.windows(5) {
        assert!(span[4] - span[0] >= MS * 170, "{:?} after {:?}", span[4] - span[0], span[0] - gone);
    }
    server.restart();
    let again = Member::join(&server.url(), &settings, rules(&[], every(50)));
    let starts = again.run("example.org", real_now() + MS * 300, Duration::ZERO, 3).join().expect("it ends");
    assert!(starts.iter().all(|start| start.from == Origin::Shared));
}

#[test]
fn x9_a_restarted_store_is_told_what_its_members_remember() {
    let mut server = Server::start();
    let settings = settings();
    let mut member = Member::join(&server.url(), &settings, rules(&[], every(2000)));
    let route = member.route("paused.example");
    let grant = member.ask("paused.example").expect("free");
    member.learn(&route, &grant, &refused(MS * 60_000));
    member.release(&route, &grant);
    member.ask("spaced.example").expect("free");
    member.settle(MS * 20);
    server.kill();
    member.ask("other.example").expect("the loss is noticed");
    server.restart();
    until_found(&mut member);
    member.settle(MS * 20);
    let wait = member.ask("paused.example").expect_err("the pause is remembered");

    assert_eq!(wait.because, Because::Pause);
    let wait = member.ask("spaced.example").expect_err("the last start is remembered");
    assert_eq!(wait.because, Because::Interval(MS * 2000));
    // And by way of the store, by a member that came later.
    let mut later = Member::join(&server.url(), &settings, rules(&[], every(2000)));
    let wait = later.ask("paused.example").expect_err("it is told");
    assert_eq!(wait.because, Because::Pause);
}

#[test]
fn x9_after_a_flush_the_burst_is_spent_for_those_who_know_nothing_too() {
    let server = Server::start();
    let settings = settings();
    let template = Partial { burst: core::num::NonZeroU32::new(4), ..every(400) };
    let join = || Member::join(&server.url(), &settings, rules(&[], template.clone()));
    let (mut one, mut other) = (join(), join());
    for _ in 0..4 {
        one.ask("example.org").expect("the burst");
    }
    one.settle(MS * 10);
    server.say(&["FLUSHALL"]);
    // It never asked for this host, but it knew the generation.
    let wait = other.ask("example.org").expect_err("the burst is spent");
    let left = wait.until.since(other.now());
    assert!(left > MS * 300 && left <= MS * 400, "{left:?}");
    let wait = one.ask("example.org").expect_err("its own floor");
    assert!(wait.until.since(one.now()) > MS * 250);
    // One that joins after the loss is told of it.
    let mut newcomer = join();
    newcomer.ask("other.example").expect_err("no burst");
}

#[test]
fn x9_a_forgotten_pause_is_not_brought_back_by_those_who_remember() {
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], Partial::default()));
    let (mut one, mut other) = (join(), join());
    let route = one.route("example.org");
    let grant = one.ask("example.org").expect("free");
    one.learn(&route, &grant, &refused(MS * 60_000));
    one.release(&route, &grant);
    one.settle(MS * 10);
    let theirs = other.route("example.org");
    other.ask("example.org").expect_err("a pause");
    let now = other.now();
    other.redis.forget(&mut other.memory, now, &[theirs.members()[0].scope]);
    other.settle(MS * 10);
    // The other waits there already, and goes first.
    let end = real_now() + MS * 500;
    other.start(&theirs, end, 1).expect("free for all");
    one.start(&route, end, 1).expect("its memory of the pause is of before");
    assert!(one.memory.cell(route.members()[0].scope).paused_until() <= one.now());
}

#[test]
fn decision_7_what_happens_alone_is_a_choice() {
    for (choice, starts) in [(OnFailure::Pause, 0), (OnFailure::Local, 5)] {
        let mut server = Server::start();
        let settings = Settings { on_failure: choice, ..settings() };
        let mut member = Member::join(&server.url(), &settings, rules(&[], Partial::default()));
        server.kill();
        member.settle(MS * 100);
        let started = (0..5).filter(|_| member.ask("example.org").is_ok()).count();
        assert_eq!(started, starts, "{choice}");
    }
}

#[test]
fn a_store_that_is_not_there_is_named_at_the_start() {
    let port = free_port();
    let error = match Redis::open(&format!("redis://:secret@127.0.0.1:{port}"), settings()) {
        Ok(_) => panic!("nobody is there"),
        Err(error) => error,
    };
    assert!(matches!(&error, StoreError::OutOfReach(what) if what.contains(&format!("127.0.0.1:{port}"))), "{error}");
    assert!(!error.to_string().contains("secret"));
}
