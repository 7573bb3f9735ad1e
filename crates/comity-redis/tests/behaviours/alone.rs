//! What a member does while the store, or one record of it, is out of reach, and what is left of it afterwards.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use comity_core::limits::Partial;
use comity_core::limits::all::{Cells, Claim, Origin};
use comity_core::scope::Target;
use comity_core::signal::{Authoritative, Inferred, Quota, Refusal, Signal};
use comity_redis::{Redis, Settings};
use comity_store::{Asked, Claimed, Memory, MemorySettings, Shared, Store};

use crate::member::{Member, real_now};
use crate::server::{Server, pause, rules, settings};

const MS: Duration = Duration::from_millis(1);

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

fn until_found(member: &mut Member) {
    let end = real_now() + MS * 5000;
    while member.redis.standing().lost.is_some() {
        assert!(real_now() < end, "it is not found again");
        member.settle(MS * 10);
    }
}

/// The store answers nobody for so long, and the member has noticed.
fn out_of_reach(server: &Server, member: &mut Member, ms: u32) {
    server.say(&["CLIENT", "PAUSE", &ms.to_string(), "ALL"]);
    let _ = member.ask("noticed.example");
    assert!(member.redis.standing().lost.is_some());
}

#[test]
fn decision_7_a_lost_store_is_not_looked_at_without_a_rest() {
    let _quiet = crate::server::on_time();
    let mut server = Server::start();
    let settings = Settings { lease: MS * 1000, ..settings() };
    let mut member = Member::join(&server.url(), &settings, rules(&[], every(10)));
    let _in_flight = member.ask("example.org").expect("free");
    member.settle(MS * 100);
    server.kill();
    member.settle(MS * 600);
    assert!(member.redis.standing().lost.is_some());
    let (mut looks, end) = (0u32, real_now() + MS * 200);
    while real_now() < end {
        looks += 1;
        let (now, again) = (member.now(), member.news().again);
        let rest = again.map_or(MS * 100, |again| again.since(now));
        if !rest.is_zero() {
            pause(rest);
        }
    }
    assert!(looks < 50, "{looks} looks in 200 ms");
}

#[test]
fn decision_8_a_late_start_made_alone_is_forgotten_when_it_ends() {
    let _quiet = crate::server::on_time();
    let mut server = Server::start();
    let settings = Settings { lease: MS * 1000, ..settings() };
    let mut member = Member::join(&server.url(), &settings, rules(&[], every(10)));
    member.settle(MS * 100);
    server.kill();
    let route = member.route("example.org");
    if let Ok(noticed) = member.ask("example.org") {
        member.release(&route, &noticed);
    }
    member.settle(MS * 200);
    let mut grant = loop {
        match member.ask("example.org") {
            Ok(grant) => break grant,
            Err(_) => pause(MS * 5),
        }
    };
    pause(MS * 5);
    let (now, before) = (member.now(), grant.start);
    let _ = member.redis.begin(&mut member.memory, now, route.members(), &mut grant);
    assert!(grant.start > before, "restamped");
    member.release(&route, &grant);
    server.restart();
    until_found(&mut member);
    // Longer than a quarter of the lease.
    member.settle(MS * 400);
    assert_eq!(member.news().again, None, "nothing is in flight and nothing waits");
}

#[test]
fn decision_7_one_damaged_record_is_one_hosts_trouble() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let mut member = Member::join(&server.url(), &settings, rules(&[], every(10)));
    let key = format!("{}:{{bad.example}}:bad.example", settings.prefix);
    server.say(&["LPUSH", &key, "x"]);
    let mut alone = 0;
    for _ in 0..5 {
        match member.ask("bad.example") {
            Ok(grant) => {
                assert_eq!(grant.from, Origin::Degraded);
                alone += 1;
                let route = member.route("bad.example");
                member.release(&route, &grant);
            }
            Err(wait) => assert!(wait.until.since(member.now()) < MS * 1000, "{wait:?}"),
        }
        assert!(member.start_soon("good.example"), "the store decides for all others");
        member.settle(MS * 50);
    }
    assert!(alone > 0, "that host is asked all the same");
    assert_eq!(member.redis.standing().losses, 0);
    server.say(&["DEL", &key]);
    member.settle(MS * 1100);
    assert!(member.start_soon("bad.example"), "with the store again");
}

#[test]
fn decision_7_an_answer_nobody_can_read_is_one_hosts_trouble() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let mut member = Member::join(&server.url(), &settings, rules(&[("*.bad.example", every(10))], every(10)));
    // Bytes that are no msgpack map, in the record of a group: the host's own is sound.
    server.say(&["SET", &format!("{}:{{bad.example}}:*.bad.example", settings.prefix), "x"]);
    for host in ["a.bad.example", "b.bad.example", "a.bad.example"] {
        let _ = member.ask(host);
        member.settle(MS * 20);
    }
    assert!(member.start_soon("good.example"));
    assert_eq!(member.redis.standing().losses, 0);
}

#[test]
fn decision_7_a_quota_used_while_alone_stays_used() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let mut member = Member::join(&server.url(), &settings(), rules(&[], Partial::default()));
    let route = member.route("example.org");
    let grant = member.ask("example.org").expect("free");
    let quota = Quota {
        limit: Some(100),
        window: Some(Duration::from_secs(60)),
        remaining: Some(60),
        resets_in: Some(Duration::from_secs(60)),
    };
    let signal = Signal {
        status: Some(200),
        authoritative: Authoritative { refusal: None, quotas: vec![quota] },
        inferred: Inferred::Healthy,
    };
    member.learn(&route, &grant, &signal);
    member.release(&route, &grant);
    member.settle(MS * 50);
    server.say(&["CLIENT", "PAUSE", "800", "ALL"]);
    let (mut alone, end) = (0, real_now() + MS * 600);
    while real_now() < end {
        if let Ok(grant) = member.ask("example.org") {
            alone += u64::from(grant.from == Origin::Degraded);
            member.release(&route, &grant);
        }
        pause(MS * 5);
    }
    until_found(&mut member);
    member.settle(MS * 300);
    let left = member.memory.cell(route.members()[0].scope).quota().expect("it holds").remaining();
    assert!(alone > 0 && alone + left <= 60, "of 60: {alone} used alone, {left} left after it");
}

#[test]
fn decision_7_who_finds_the_store_first_keeps_to_its_turns_until_the_others_have() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], every(300)));
    let (other, mut first) = (join(), join());
    assert_eq!(first.redis.standing().members, 2);
    out_of_reach(&server, &mut first, 200);
    until_found(&mut first);
    let starts = first.run("example.org", real_now() + MS * 1500, Duration::ZERO, 100).join().expect("it ends");
    assert!((2..=3).contains(&starts.len()), "half of the rate: {}", starts.len());
    assert!(starts.iter().all(|start| start.from == Origin::Shared));
    drop(other);
}

#[test]
fn x9_what_a_person_forgets_while_the_store_is_lost_is_forgotten_there_too() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], Partial::default()));
    let (mut one, mut other) = (join(), join());
    let route = one.route("example.org");
    let grant = one.ask("example.org").expect("free");
    let refusal = Some(Refusal { status: 429, wait: Some(MS * 60_000) });
    let signal = Signal {
        status: Some(429),
        authoritative: Authoritative { refusal, quotas: Vec::new() },
        inferred: Inferred::Neutral,
    };
    one.learn(&route, &grant, &signal);
    one.release(&route, &grant);
    one.settle(MS * 20);
    other.ask("example.org").expect_err("a pause");
    let scope = route.members()[0].scope;
    out_of_reach(&server, &mut one, 300);
    let now = one.now();
    one.redis.forget(&mut one.memory, now, &[scope]);
    until_found(&mut one);
    one.settle(MS * 30);
    until_found(&mut other);
    assert!(other.start_soon("example.org"), "the pause is forgotten");
}

#[test]
fn decision_13_a_crawl_delay_that_is_lowered_while_the_store_is_lost_is_lower_there_too() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = settings();
    let join = || Member::join(&server.url(), &settings, rules(&[], Partial::default()));
    let mut one = join();
    let scope = one.route("example.org").members()[0].scope;
    let now = one.now();
    one.redis.declare(&mut one.memory, now, scope, MS * 30_000);
    one.ask("example.org").expect("the first");
    one.settle(MS * 20);
    out_of_reach(&server, &mut one, 300);
    let now = one.now();
    one.redis.declare(&mut one.memory, now, scope, Duration::ZERO);
    until_found(&mut one);
    one.settle(MS * 30);
    assert!(join().start_soon("example.org"), "nothing holds it");
}

#[test]
fn decision_7_a_claim_is_answered_though_the_connections_thread_has_ended() {
    let _quiet = crate::server::on_time();
    let mut server = Server::start();
    let mut redis = Redis::open(&server.url(), settings()).expect("the server answers");
    redis.on_news(Arc::new(|| panic!("whoever is told of news fails")));
    let mut memory = Memory::new(Arc::new(rules(&[], every(10))), MemorySettings::default());
    let clock = redis.clock();
    server.kill();
    let route = memory.route(clock(), &Target::host("example.org"), None).expect("a route");
    let claim = Claim::at_once(route.members(), 1, clock());
    let under_way = redis.claim(&mut memory, clock(), &claim, Asked { id: 6, waiting: 1 });
    assert_eq!(under_way, Claimed::Later, "it is not known yet");
    pause(MS * 300);
    let answer = redis.claim(&mut memory, clock(), &claim, Asked { id: 7, waiting: 1 });
    assert!(matches!(answer, Claimed::Now(_)), "no answer would ever come");
    let answers = redis.news(&mut memory, clock()).answers;
    assert!(matches!(answers[..], [(6, _)]), "nor to the one before: {answers:?}");
    assert!(redis.standing().lost.is_some());
}

#[test]
fn a_store_that_is_dropped_on_its_own_thread_does_not_wait_for_itself() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let settings = Settings { deadline: MS * 1500, ..settings() };
    let redis = Redis::open(&server.url(), settings).expect("the server answers");
    let held = Arc::new(Mutex::new(None));
    let (ends, ended) = mpsc::channel();
    let last = Arc::clone(&held);
    let mut redis = redis;
    redis.on_news(Arc::new(move || {
        let Some(redis) = last.lock().expect("no thread panicked").take() else { return };
        let began = real_now();
        drop::<Redis>(redis);
        let _ = ends.send(began.elapsed());
    }));
    *held.lock().expect("no thread panicked") = Some(redis);
    let took = ended.recv_timeout(MS * 5000).expect("news come, and it ends");
    assert!(took < MS * 500, "{took:?}");
}
