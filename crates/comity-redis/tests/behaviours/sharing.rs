//! Several members of one store hold one pace.

use core::num::NonZeroU32;
use std::time::Duration;

use comity_core::limits::all::{Begin, Origin};
use comity_core::limits::{Because, Partial};
use comity_core::signal::{Authoritative, Inferred, Refusal, Signal};
use comity_store::{Readable, Shared};

use crate::member::{Member, Start, least_gap, merged, real_now};
use crate::server::{Server, pause, rules, settings};

const MS: Duration = Duration::from_millis(1);

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

fn places(n: u32) -> Partial {
    Partial { in_flight: NonZeroU32::new(n), ..Partial::default() }
}

fn refused(wait: Option<Duration>) -> Signal {
    let refusal = Some(Refusal { status: 429, wait });
    Signal {
        status: Some(429),
        authoritative: Authoritative { refusal, quotas: Vec::new() },
        inferred: Inferred::Neutral,
    }
}

/// So many members ask for one host until the time is over.
fn crowd(server: &Server, count: usize, template: &Partial, span: Duration, hold: Duration) -> Vec<Vec<Start>> {
    let settings = settings();
    let members: Vec<Member> =
        (0..count).map(|_| Member::join(&server.url(), &settings, rules(&[], template.clone()))).collect();
    let end = real_now() + span;
    let running: Vec<_> = members.into_iter().map(|member| member.run("example.org", end, hold, usize::MAX)).collect();
    running.into_iter().map(|thread| thread.join().expect("it ends")).collect()
}

#[test]
fn x1_any_number_of_members_hold_one_rate() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    for count in [1, 2, 4, 8] {
        let starts = merged(crowd(&server, count, &every(20), MS * 1000, Duration::ZERO));
        assert!((36..=51).contains(&starts.len()), "{count} members made {} starts in a second", starts.len());
        // What a timer and the way to a busy processor take lies between.
        assert!(least_gap(&starts) >= MS * 12, "{count} members: {:?}", least_gap(&starts));
    }
}

#[test]
fn e01_six_members_keep_half_a_second_between_starts() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let starts = merged(crowd(&server, 6, &every(500), MS * 3200, Duration::ZERO));
    assert!((6..=7).contains(&starts.len()), "{}", starts.len());
    assert!(least_gap(&starts) >= MS * 440, "{:?}", least_gap(&starts));
}

#[test]
fn e02_a_window_is_never_overfull_however_many_ask() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let windows = Some(vec!["30/1s".parse().expect("a window")]);
    let starts = merged(crowd(&server, 4, &Partial { windows, ..every(5) }, MS * 2500, Duration::ZERO));
    for span in starts.windows(31) {
        // Half a millisecond: each is told that it starts before it starts.
        assert!(span[30] - span[0] >= MS * 985, "{:?}", span[30] - span[0]);
    }
    assert!(starts.len() >= 75, "{}", starts.len());
}

#[test]
fn e14_a_group_is_one_rate_for_members_that_own_different_hosts() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let end = real_now() + MS * 2000;
    let running: Vec<_> = (0..4)
        .map(|n| {
            let member =
                Member::join(&server.url(), &settings, rules(&[("*.example.org", every(100))], Partial::default()));
            member.run(&format!("h{n}.example.org"), end, Duration::ZERO, usize::MAX)
        })
        .collect();
    let starts = merged(running.into_iter().map(|thread| thread.join().expect("it ends")).collect());
    assert!((16..=21).contains(&starts.len()), "{}", starts.len());
    assert!(least_gap(&starts) >= MS * 80, "{:?}", least_gap(&starts));
}

#[test]
fn x8_nobody_who_waits_gets_less_than_half_its_share() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    for (template, hold) in [(every(20), Duration::ZERO), (every(3), Duration::ZERO), (places(1), MS * 8)] {
        let starts = crowd(&server, 4, &template, MS * 3200, hold);
        let mut all: Vec<_> = starts
            .iter()
            .enumerate()
            .flat_map(|(who, starts)| starts.iter().map(move |start| (start.at, who)))
            .collect();
        all.sort_unstable();
        assert!(all.len() > 100, "{template:?}: {}", all.len());
        // While all of them wait: not in the last tenth.
        for window in all[10..all.len() - all.len() / 10].windows(100) {
            for who in 0..4 {
                let got = window.iter().filter(|(_, other)| *other == who).count();
                assert!(got >= 12, "{template:?}: {got} of 100 starts for one of four");
            }
        }
    }
}

#[test]
fn x8_a_freed_place_is_noticed_at_once() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], places(1)));
    let mut one = join();
    let route = one.route("example.org");
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        assert!(one.start_soon("example.org"));
        let grant = one.start(&route, real_now() + MS * 1000, 1).expect("a place");
        let waiting = join().run("example.org", real_now() + MS * 3000, Duration::ZERO, 1);
        one.settle(MS * 150);
        let freed = real_now();
        one.release(&route, &grant);
        let started = waiting.join().expect("it ends")[0].at;
        assert!(started >= freed, "two in one place");
        took.push(started - freed);
    }
    took.sort_unstable();
    // Half of them, for a processor that others use as well.
    assert!(took[2] < MS * 50, "{took:?}");
}

#[test]
fn x8_a_pause_reaches_the_others_and_its_end_too() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], Partial::default()));
    let (mut one, mut other) = (join(), join());
    let route = one.route("example.org");
    let grant = one.ask("example.org").expect("free");
    one.learn(&route, &grant, &refused(Some(MS * 60_000)));
    one.release(&route, &grant);
    one.settle(MS * 20);
    let wait = other.ask("example.org").expect_err("a pause");
    assert_eq!(wait.because, Because::Pause);
    let left = wait.until.since(other.now());
    assert!(left > MS * 59_000 && left <= MS * 60_000, "{left:?}");
    // A person lifts it.
    let host = route.members()[0].scope;
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let waiting = join().run("example.org", real_now() + MS * 3000, Duration::ZERO, 1);
        one.settle(MS * 150);
        let lifted = real_now();
        let now = one.now();
        one.redis.forget(&mut one.memory, now, &[host]);
        let started = waiting.join().expect("it ends")[0].at;
        assert!(started >= lifted, "during the pause");
        took.push(started - lifted);
        one.learn(&route, &grant, &refused(Some(MS * 60_000)));
        one.settle(MS * 20);
    }
    took.sort_unstable();
    assert!(took[2] < MS * 50, "{took:?}");
}

#[test]
fn t7_after_a_pause_one_request_of_all_members_tries() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], Partial::default()));
    let (mut one, mut other) = (join(), join());
    let route = one.route("example.org");
    let grant = one.ask("example.org").expect("free");
    one.learn(&route, &grant, &refused(Some(MS * 100)));
    one.release(&route, &grant);
    one.settle(MS * 120);
    let trial = one.ask("example.org").expect("the trial");
    assert_eq!(trial.trials, 1);
    let wait = other.ask("example.org").expect_err("one at a time");
    assert_eq!(wait.because, Because::AfterPause);
    one.release(&route, &trial);
    one.settle(MS * 20);
    let second = other.ask("example.org").expect("another may try");
    assert_eq!(second.trials, 1, "the first proved nothing");
}

#[test]
fn t7_a_pause_reaches_starts_that_others_reserved_ahead() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], every(20)));
    let (mut one, mut other) = (join(), join());
    one.settle(MS * 50);
    let route = other.route("example.org");
    let refused_of = other.ask("example.org").expect("free");
    let end = real_now() + MS * 600;
    let running = one.run("example.org", end, Duration::ZERO, 1000);
    other.settle(MS * 300);
    other.learn(&route, &refused_of, &refused(Some(MS * 5000)));
    let paused = real_now();
    other.settle(MS * 20);
    let starts = running.join().expect("it ends");
    assert!(starts.len() >= 8, "{}", starts.len());
    let after: Vec<Duration> = starts.iter().filter(|s| s.at > paused + MS * 5).map(|s| s.at - paused).collect();
    assert!(after.is_empty(), "starts after the pause was heard: {after:?}");
}

#[test]
fn decision_2_a_start_that_is_used_late_keeps_the_whole_gap_to_the_next() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], every(500)));
    let (mut one, other) = (join(), join());
    let route = one.route("example.org");
    let mut grant = one.ask("example.org").expect("free");
    pause(MS * 40);
    let (used, now) = (real_now(), one.now());
    assert_eq!(one.redis.begin(&mut one.memory, now, route.members(), &mut grant), Begin::Go);
    one.settle(MS * 20);
    let next = other.run("example.org", used + MS * 1500, Duration::ZERO, 1).join().expect("it ends");
    // A millisecond: the two processes' ideas of the store's clock differ.
    assert!(next[0].at - used >= MS * 499, "{:?}", next[0].at - used);
    assert!(next[0].at - used <= MS * 600, "{:?}", next[0].at - used);
}

#[test]
fn t8_a_burst_refused_together_teaches_once_whoever_sent_it() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let mut members: Vec<Member> =
        (0..4).map(|_| Member::join(&server.url(), &settings, rules(&[], Partial::default()))).collect();
    let mut grants = Vec::new();
    for member in &mut members {
        grants.push(member.ask("example.org").expect("free"));
        member.settle(MS * 5);
    }
    for (member, grant) in members.iter_mut().zip(&grants) {
        let route = member.route("example.org");
        member.learn(&route, grant, &refused(None));
        member.release(&route, grant);
    }
    for member in &mut members {
        member.settle(MS * 30);
    }
    let wait = members[0].ask("example.org").expect_err("paced");
    assert_eq!(wait.because, Because::Pace(MS * 250), "not doubled four times");
    let listing = members[0].redis.list().expect("it answers");
    let lowered = listing.scopes[0].lowered.clone().expect("it was made slower");
    assert_eq!((lowered.status, lowered.to), (Some(429), MS * 250));
}

#[test]
fn e10_places_held_longer_than_the_lease_are_renewed_and_those_of_the_dead_come_back() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = comity_redis::Settings { lease: MS * 600, ..settings() };
    let join = || Member::join(&server.url(), &settings, rules(&[], places(1)));
    let (mut one, mut other) = (join(), join());
    let held = one.ask("example.org").expect("a place");
    // Twice the lease, with nothing but signs of life.
    one.settle(MS * 1200);
    let wait = other.ask("example.org").expect_err("it is still held");
    assert_eq!(wait.because, Because::InFlight(1));
    assert_eq!(held.from, Origin::Shared);
    // It dies without a word: its thread goes on, but nobody asks it for signs of life of its places.
    pause(MS * 800);
    other.ask("example.org").expect("the lease is over");
    drop(one);
}

#[test]
fn x1_a_member_that_leaves_gives_its_places_back_at_once() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], places(1)));
    let (mut one, mut other) = (join(), join());
    one.ask("example.org").expect("a place");
    other.ask("example.org").expect_err("it is held");
    assert_eq!(other.redis.list().expect("it answers").members.len(), 2);
    drop(one);
    other.ask("example.org").expect("it came back");
    let listing = other.redis.list().expect("it answers");
    assert_eq!(listing.members.len(), 1);
    assert_eq!(listing.scopes[0].places, [(other.redis.member().to_owned(), 1)]);
    assert_eq!(listing.scopes[0].most_in_flight, Some(1));
    assert_eq!(other.redis.forget_by_name(Some("example.org")), Ok(1));
    assert_eq!(other.redis.forget_by_name(Some("nobody.example")), Ok(0));
}
