//! A7–A12 and field cases: the adaptive policy over whole cells, queues and hosts with rules of their own.

use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{self, Claim};
use comity_core::limits::{Because, Cell, Limits, Partial, ScopeId};
use comity_core::policy::{AdaptiveSettings, Learned, Policy, Why};
use comity_core::signal::Signal;
use comity_core::time::Instant;

use crate::world::{MS, Reply, SEC, Start, World, at, free, host, no_answer, refused_for, reply, reply_with, signal};

fn adaptive(settings: AdaptiveSettings) -> Limits {
    Limits { policy: Policy::Adaptive(settings), ..free() }
}

fn usual() -> Limits {
    adaptive(AdaptiveSettings::default())
}

/// A host that gives out one token each so long, so many at most, and refuses without advice.
fn bucket(every: Duration, burst: u32) -> impl FnMut(&Start) -> Reply {
    let mut next = Instant::ZERO;
    move |start| {
        let token = next.max(start.at.before(every * (burst - 1)));
        let admits = token <= start.at;
        next = if admits { token.after(every) } else { token };
        if admits { reply(200, 20) } else { reply(429, 5) }
    }
}

fn gaps(starts: &[Start]) -> Vec<Duration> {
    starts.windows(2).map(|pair| pair[1].at.since(pair[0].at)).collect()
}

fn interval(world: &World<Vec<Cell>>) -> Duration {
    world.cells[0].learned().interval()
}

fn why(world: &World<Vec<Cell>>) -> Why {
    world.cells[0].learned().said(world.now).expect("it has something to say").why
}

#[test]
fn a7_a_retry_after_holds_whatever_was_learned() {
    let mut world = World::of([usual()]).answering(|start| {
        if start.id == 40 && start.attempt == 1 { reply_with(refused_for(429, SEC * 40), 5) } else { reply(200, 20) }
    });
    world.ask_many(&host(0), 80);
    world.run();
    let refused = world.starts.iter().position(|start| start.id == 40).expect("it started");
    let (before, after) = (world.starts[refused].at, world.starts[refused + 1..].iter().map(|start| start.at).min());
    let in_flight = world.starts[refused + 1..].iter().filter(|start| start.at <= before.after(MS * 5)).count();
    assert_eq!(in_flight, 0);
    assert_eq!(after, Some(before.after(MS * 5 + SEC * 40)), "and not longer either: it is the trial");
}

#[test]
fn a7_a_crawl_delay_and_a_persons_interval_hold_above_it() {
    let set = Limits { interval: SEC * 2, ..usual() };
    for (limits, delay, least) in [(set.clone(), 0, 2), (usual(), 5, 5), (set, 5, 5)] {
        let mut world = World::of([limits]).answering(|_| reply(200, 1));
        world.cells[0].set_crawl_delay(SEC * delay);
        world.ask_many(&host(0), 60);
        world.run();
        assert!(gaps(&world.starts).iter().all(|gap| *gap == SEC * least), "{:?}", gaps(&world.starts));
        assert!(interval(&world) <= SEC * least, "what is learned moves beneath the bound");
    }
}

#[test]
fn a7_inferred_signals_slow_down_and_never_lift_an_authoritative_bound() {
    let answers: [fn() -> Signal; 3] = [|| signal(500), no_answer, || signal(200)];
    for answer in answers {
        let limits = Limits { retries: 0, ..usual() };
        let mut world = World::of([limits]).answering(move |start| match start.id {
            1 => reply_with(refused_for(503, SEC * 30), 300),
            _ => reply_with(answer(), 400),
        });
        world.ask_many(&host(0), 5);
        world.run();
        // The second was in flight when the first was refused.
        assert_eq!(world.times(ScopeId(0))[..3], [0, 250, 30_300]);
    }
}

#[test]
fn a8_the_floor_holds_over_the_whole_path() {
    let settings = AdaptiveSettings { start: SEC, floor: MS * 500, ..AdaptiveSettings::default() };
    for outage in [0, 3] {
        let mut count = 0;
        let mut world = World::of([adaptive(settings)]).answering(move |_| {
            count += 1;
            if count % 50 < outage { reply(429, 1) } else { reply(200, 1) }
        });
        world.ask_many(&host(0), 300);
        world.run();
        assert!(gaps(&world.starts).iter().all(|gap| *gap >= MS * 500));
        if outage == 0 {
            assert_eq!(gaps(&world.starts).last(), Some(&(MS * 500)), "and is reached");
        }
    }
}

#[test]
fn a8_the_floor_holds_over_what_others_learned_without_one() {
    let mut quick = World::of([usual()]).answering(|_| reply(200, 1));
    quick.ask_many(&host(0), 200);
    quick.run();
    let crawl = AdaptiveSettings { start: SEC, floor: MS * 500, ..AdaptiveSettings::default() };
    let mut slow = Cell::new(adaptive(crawl).into());
    slow.restore(&quick.cells[0].snapshot());
    assert!(slow.interval() >= MS * 500, "{:?}", slow.interval());
    assert!(slow.ready(quick.now) >= slow.last_start().after(MS * 500));
}

#[test]
fn a9_a_burst_that_is_refused_together_teaches_once() {
    for status in [429, 500] {
        let settings = AdaptiveSettings { start: MS, ..AdaptiveSettings::default() };
        let once = taught_together(1, status, settings);
        assert_ne!(once, MS, "one teaches");
        for together in 2..5 {
            assert_eq!(taught_together(together, status, settings), once, "{together} times {status}");
        }
    }
}

/// The pace after so many were in flight together and all had this answer.
fn taught_together(together: usize, status: u16, settings: AdaptiveSettings) -> Duration {
    let limits = Limits { retries: 0, ..adaptive(settings) };
    let mut cells = vec![Cell::new(limits.into())];
    let route = host(0);
    // Two are in flight at most; more under limits of their callers, or of other processes, are all the same to it.
    let mut grants = Vec::new();
    for n in 0..together as u64 {
        cells[0].set_in_flight(0);
        let now = at(1000 + n);
        grants.push(all::claim(&mut cells, now, &Claim::at_once(route.members(), 1, now)).expect("it may start"));
    }
    for (n, grant) in grants.iter().enumerate() {
        all::settle(&mut cells, at(1500 + n as u64), route.members(), grant, &signal(status), None);
    }
    cells[0].learned().interval()
}

#[test]
fn a11_client_errors_are_neutral_however_fast() {
    for status in [400, 401, 403, 404, 410, 451] {
        let mut world = World::of([usual()]).answering(move |_| reply(status, 1));
        world.ask_many(&host(0), 100);
        world.run();
        assert_eq!(gaps(&world.starts), vec![MS * 250; 99], "{status}");
        let learned = world.cells[0].learned();
        assert_eq!((learned.in_flight(), learned.latency_floor()), (Some(2), None), "{status}");
    }
}

#[test]
fn a12_its_output_is_the_advance_of_the_next_start() {
    let mut host_says = bucket(MS * 300, 3);
    let mut cells = vec![Cell::new(usual().into())];
    let (route, mut now, mut refused) = (host(0), at(1000), 0);
    for id in 0..300 {
        let claim = Claim::at_once(route.members(), 1, now);
        let grant = all::claim(&mut cells, now, &claim).expect("it was told when");
        let start = Start { at: now, id, attempt: 1, cost: 1, route: route.clone() };
        let Reply { after, signal } = host_says(&start);
        refused += u32::from(signal.status == Some(429));
        let came = now.after(after);
        all::settle(&mut cells, came, route.members(), &grant, &signal, Some(after));
        // What a scheduler is told is what holds, and nothing else does.
        let pace = cells[0].learned().interval();
        let next = cells[0].last_start().after(pace).max(came);
        assert_eq!((cells[0].interval(), cells[0].ready(came).max(came)), (pace, next));
        let claim = Claim::at_once(route.members(), 1, came);
        match all::decide(&cells, came, &claim) {
            Ok(()) => assert_eq!(next, came),
            Err(wait) => assert_eq!((wait.until, wait.because), (next, Because::Pace(pace))),
        }
        now = next;
    }
    assert!(refused > 1, "it was slower and faster in that time");
}

#[test]
fn a12_the_order_of_those_that_wait_is_untouched() {
    let mut world = World::of([Limits { retries: 0, ..usual() }]).answering(bucket(MS * 300, 3));
    let ids = world.ask_many(&host(0), 200);
    world.run();
    assert_eq!(world.order(), ids);
}

#[test]
fn c01_refusals_space_the_trials_and_their_latency_never_shortens_them() {
    let settings = AdaptiveSettings { start: MS * 2760, ..AdaptiveSettings::default() };
    let limits = Limits { retries: 0, ..adaptive(settings) };
    for quick in [1, 80] {
        let mut world = World::of([limits.clone()]).answering(move |_| reply(503, quick));
        world.ask_many(&host(0), 8);
        world.run();
        let gaps = gaps(&world.starts);
        // A trial that may end a window of a minute can follow another soon; none is faster than the pace.
        assert!(gaps.iter().all(|gap| *gap >= MS * 2760), "{gaps:?}");
        assert!(gaps.iter().sum::<Duration>() >= SEC * 60, "eight in more than a minute: {gaps:?}");
        assert!(gaps.iter().all(|gap| *gap <= SEC * 900), "{gaps:?}");
        let Learned::Adaptive(adaptive) = world.cells[0].learned() else { panic!("another policy") };
        assert_eq!((adaptive.latency_floor(), adaptive.in_flight()), (None, 1));
        assert_eq!((why(&world), adaptive.said(world.now).refusals), (Why::BackingOff, 1), "all one episode");
    }
}

#[test]
fn c02_a_host_that_accepts_one_a_second_is_asked_about_that() {
    let mut admit = bucket(SEC, 1);
    let answers = std::rc::Rc::new(core::cell::RefCell::new(Vec::new()));
    let log = std::rc::Rc::clone(&answers);
    let mut world = World::of([usual()]).answering(move |start| {
        let reply = admit(start);
        log.borrow_mut().push((start.at, reply.signal.status == Some(200)));
        reply
    });
    world.ask_many(&host(0), 300);
    world.run();
    assert!(world.ends.iter().all(|end| end.status == Some(200)), "every one of them was served in the end");
    let answers = answers.borrow();
    let later: Vec<_> = answers.iter().filter(|(at, _)| at.since(Instant::ZERO) > SEC * 30).collect();
    let served = later.iter().filter(|(_, served)| *served).count();
    assert!((later.len() - served) * 10 < later.len(), "{} of {} refused", later.len() - served, later.len());
    let span = later.last().expect("some").0.since(later[0].0);
    assert!(served as u64 * 100 >= span.as_secs() * 70, "{served} served in {span:?}");
}

#[test]
fn c21_fewer_places_and_a_slower_pace_hold_at_once_and_so_do_more() {
    let quick = Partial { interval: Some(MS * 100), in_flight: NonZeroU32::new(5), ..Partial::default() };
    let slow = Partial { interval: Some(SEC), in_flight: NonZeroU32::new(2), ..Partial::default() };
    let [quick, slow] = [quick, slow].map(|partial| Arc::new(partial.over(&usual())));
    let mut world = World::of([(*quick).clone()]).answering(|_| reply(200, 700));
    // It learns that as many may be in flight.
    world.ask_many(&host(0), 400);
    while world.flying().len() < 5 {
        assert!(world.step(at(1_000_000)), "it comes to five in flight");
    }
    let (changed, started) = (world.now, world.starts.len());
    world.cells[0].set_limits(Arc::clone(&slow));
    world.schedule.wake_all();
    while world.starts.len() == started {
        assert!(world.step(at(1_000_000)));
    }
    assert!(world.flying().len() <= 2, "it drained before another started");
    world.run_for(SEC * 20);
    assert!(gaps(&world.starts[started..]).iter().all(|gap| *gap >= SEC), "{:?}", gaps(&world.starts[started..]));
    assert!(
        world.starts.len() >= started + 18,
        "and nobody is stuck: {} since {changed:?}",
        world.starts.len() - started
    );
    let started = world.starts.len();
    world.cells[0].set_limits(quick);
    world.schedule.wake_all();
    world.run();
    assert_eq!((world.ends.len(), world.cells[0].in_flight()), (400, 0));
    let gaps = gaps(&world.starts[started..]);
    assert!(gaps.iter().all(|gap| *gap >= MS * 100), "{gaps:?}");
    // What was learned was moved to the slower bound, and finds its way from there to five in 700 ms.
    assert!(gaps.iter().rev().take(10).sum::<Duration>() <= MS * 1420, "as quick as before: {gaps:?}");
}

#[test]
fn c24_the_configured_rate_is_a_bound_that_learning_comes_back_to() {
    let preset = Partial { interval: Some(SEC), ..Partial::default() };
    let limits = preset.over(&usual());
    let mut refuses = bucket(MS * 1500, 1);
    let until = at(600_000);
    let mut world =
        World::of([limits]).answering(move |start| if start.at < until { refuses(start) } else { reply(200, 20) });
    world.checked = false;
    world.ask_many(&host(0), 2400);
    world.run_until(until);
    assert!(
        interval(&world) > MS * 1400 && interval(&world) < MS * 2000,
        "it learned that 60 a minute are too many: {:?}",
        interval(&world)
    );
    world.run();
    let gaps = gaps(&world.starts);
    assert!(gaps.iter().all(|gap| *gap >= SEC), "never above what was configured");
    assert_eq!(gaps.last(), Some(&SEC), "and back at it");
    let back = world.starts.windows(2).find(|pair| pair[0].at > until && pair[1].at.since(pair[0].at) == SEC);
    assert!(back.expect("it is")[0].at.since(until) < SEC * 900, "within a quarter of an hour");
}
