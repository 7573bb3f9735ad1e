//! Members whose configurations differ share one record.

use std::time::Duration;

use comity_core::limits::all::Claim;
use comity_core::limits::{Because, Partial};
use comity_core::policy::Policy;
use comity_core::scope::Target;
use comity_core::signal::{Authoritative, Inferred, Refusal, Signal};
use comity_core::time::Instant;
use comity_redis::Redis;
use comity_store::{Joined, Store};

use crate::member::{Member, real_now};
use crate::server::{Server, given, pause, rules, settings};

const MS: Duration = Duration::from_millis(1);

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

#[test]
fn c05_a_longer_windows_log_outlives_a_start_under_a_shorter() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let windows = |text: &str| Partial { windows: Some(vec![text.parse().expect("a window")]), ..Partial::default() };
    let mut long = Member::join(&server.url(), &settings, rules(&[], windows("5/1h")));
    let mut short = Member::join(&server.url(), &settings, rules(&[], windows("2/10ms")));
    for _ in 0..5 {
        long.ask("example.org").expect("one of five");
    }
    pause(MS * 30);
    short.ask("example.org").expect("its window is empty");
    long.ask("example.org").expect_err("five an hour");
}

#[test]
fn x8_a_member_with_a_slower_limit_is_not_starved_by_one_with_a_faster() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let slow = Member::join(&server.url(), &settings, rules(&[], every(500)));
    let fast = Member::join(&server.url(), &settings, rules(&[], every(20)));
    let end = real_now() + MS * 2600;
    let running = [slow, fast].map(|member| member.run("example.org", end, Duration::ZERO, 1000));
    let starts = running.map(|thread| thread.join().expect("it ends"));
    assert!(starts[0].len() >= 2 && starts[1].len() >= 2, "{} and {} starts", starts[0].len(), starts[1].len());
    // From when both ask, the slower promise is everybody's.
    let all = crate::member::merged(starts.to_vec());
    let last = &all[all.len() - 4..];
    assert!(crate::member::least_gap(last) >= MS * 440, "{:?}", crate::member::least_gap(last));
}

#[test]
fn x8_a_slower_limit_holds_for_everybody_while_somebody_asks_with_it() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let mut slow = given(&server.url(), settings.clone(), rules(&[], every(2000)));
    let mut fast = given(&server.url(), settings.clone(), rules(&[], every(20)));
    let mut free = given(&server.url(), settings, rules(&[], Partial::default()));
    let at = |ms: u64| Instant::from_millis(1_000_000 + ms);
    let ask = |member: &mut Joined<Redis>, ms: u64| {
        let route = member.route(at(ms), &Target::host("example.org"), None).expect("a route");
        let answer = member.claim(at(ms), &Claim::at_once(route.members(), 1, at(ms)));
        answer.map(|_| ()).map_err(|wait| (wait.until.since(at(0)).as_millis(), wait.because))
    };
    let (slower, faster) = (Because::Interval(MS * 2000), Because::Interval(MS * 20));
    assert_eq!(ask(&mut fast, 0), Ok(()));
    assert_eq!(ask(&mut fast, 1), Err((20, faster)), "nobody is slower yet");
    assert_eq!(ask(&mut slow, 10), Err((2000, slower)));
    assert_eq!(ask(&mut fast, 20).map_err(|(_, because)| because), Err(slower), "who waits counts as well");
    // A step after the turn of the other, which came first.
    assert_eq!(ask(&mut slow, 2025), Ok(()));
    assert_eq!(ask(&mut fast, 4025), Ok(()));
    // Six seconds after it last asked, nobody is slower.
    assert_eq!(ask(&mut fast, 4100).map_err(|(_, because)| because), Err(slower));
    assert_eq!(ask(&mut fast, 8030), Ok(()));
    assert_eq!(ask(&mut fast, 8050), Ok(()));
    // One that has no interval at all is held, and its start counts.
    assert_eq!(ask(&mut slow, 12_000), Ok(()));
    assert_eq!(ask(&mut free, 13_000).map_err(|(_, because)| because), Err(slower));
    assert_eq!(ask(&mut free, 14_100), Ok(()));
    assert_eq!(ask(&mut slow, 16_000).map_err(|(until, _)| until), Err(16_100));
}

#[test]
fn t5_a_start_under_another_policy_forgets_nothing() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let with = |policy| Partial { policy: Some(policy), ..Partial::default() };
    let mut refusal = Member::join(&server.url(), &settings, rules(&[], with(Policy::refusal())));
    let mut pressure = Member::join(&server.url(), &settings, rules(&[], with(Policy::pressure())));
    let signal = Signal {
        status: Some(429),
        authoritative: Authoritative { refusal: Some(Refusal { status: 429, wait: None }), quotas: Vec::new() },
        inferred: Inferred::Neutral,
    };
    let route = refusal.route("example.org");
    let grant = refusal.ask("example.org").expect("free");
    refusal.learn(&route, &grant, &signal);
    refusal.release(&route, &grant);
    refusal.settle(MS * 20);
    let wait = refusal.ask("example.org").expect_err("paced");
    assert_eq!(wait.because, Because::Pace(MS * 250));
    // The other starts under its own policy, and learns.
    let theirs = pressure.route("example.org");
    let end = real_now() + MS * 1000;
    let grant = pressure.start(&theirs, end, 1).expect("under a new host's pace");
    pressure.learn(&theirs, &grant, &signal);
    pressure.release(&theirs, &grant);
    pressure.settle(MS * 20);
    let wait = refusal.ask("example.org").expect_err("still paced");
    assert_eq!(wait.because, Because::Pace(MS * 250));
}
