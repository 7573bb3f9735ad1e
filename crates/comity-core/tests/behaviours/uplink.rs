//! A10: an uplink of our own that is saturated, or gone, is not blamed on the hosts.

use core::time::Duration;
use std::collections::BTreeMap;

use comity_core::limits::{Limits, ScopeId};
use comity_core::policy::{AimdSettings, Change, Fact, Learned, Outcome, Policy};
use comity_core::signal::{NoAnswer, Signal};
use comity_core::time::Instant;
use comity_core::uplink::{Exchange, Heard, Uplink};

use crate::world::{Dice, MS, SEC, World, at, free, host, reply_with};

/// Hosts that are asked again and again, as often as their policy lets us, over one way that they share.
struct Run {
    hosts: Vec<Host>,
    /// Each answer takes so long on the way, one after the other.
    each: Box<dyn Fn(Instant) -> Duration>,
    /// What else becomes of a request: how long its host takes, and what comes.
    host: Box<Answering>,
    uplink: Option<Uplink>,
    kin: fn(ScopeId) -> u64,
    dice: Dice,
    /// In flight and the limit, every 100 ms.
    seen: Vec<(Instant, u32, Option<u32>)>,
}

/// How long a host takes, and what comes of it.
type Answering = dyn Fn(Instant, usize, &mut Dice) -> (Duration, Outcome);

struct Host {
    learned: Learned,
    policy: Policy,
    in_flight: u32,
    at_once: u32,
    last: Instant,
    slower: u32,
    answers: u32,
    silences: u32,
}

impl Run {
    /// So many hosts that take 100 ms, with so many requests at once each.
    fn of(hosts: usize, at_once: u32) -> Self {
        let settings = AimdSettings { start: MS * 10, floor: MS * 10, damping: 1, ..AimdSettings::default() };
        let policy = Policy::Aimd(settings);
        let host = || Host {
            learned: policy.fresh(),
            policy: policy.clone(),
            in_flight: 0,
            at_once,
            last: Instant::ZERO,
            slower: 0,
            answers: 0,
            silences: 0,
        };
        Self {
            hosts: (0..hosts).map(|_| host()).collect(),
            each: Box::new(|_| MS / 10),
            host: Box::new(|_, _, dice| (MS * (90 + dice.below(20) as u32), Outcome::Served)),
            uplink: Some(Uplink::default()),
            kin: |scope| u64::from(scope.0),
            dice: Dice::new(7),
            seen: Vec::new(),
        }
    }

    fn over(mut self, each: impl Fn(Instant) -> Duration + 'static) -> Self {
        self.each = Box::new(each);
        self
    }

    fn answering(mut self, host: impl Fn(Instant, usize, &mut Dice) -> (Duration, Outcome) + 'static) -> Self {
        self.host = Box::new(host);
        self
    }

    fn unguarded(mut self) -> Self {
        self.uplink = None;
        self
    }

    fn run(mut self, from: Instant, until: Instant) -> Self {
        // What is under way: to its host and back as far as our own way, and then over that, one after the other.
        let mut far: BTreeMap<(Instant, u64), (usize, Instant, Outcome)> = BTreeMap::new();
        let mut near: BTreeMap<(Instant, u64), (usize, Instant, Outcome)> = BTreeMap::new();
        let (mut now, mut free, mut count, mut look) = (from, from, 0_u64, from);
        let mut turn = 0;
        while now < until {
            let mut next = look;
            for n in 0..self.hosts.len() {
                let n = (n + turn) % self.hosts.len();
                let host = &self.hosts[n];
                let due = if host.last == Instant::ZERO { now } else { host.last.after(host.learned.interval()) };
                if host.in_flight >= host.at_once {
                    continue;
                }
                if let Some(uplink) = self.uplink.as_ref().filter(|uplink| uplink.room(now) == 0) {
                    next = uplink.ends(now).map_or(next, |at| at.min(next));
                    continue;
                }
                if due > now {
                    next = next.min(due);
                    continue;
                }
                let (took, outcome) = (self.host)(now, n, &mut self.dice);
                let host = &mut self.hosts[n];
                (host.last, host.in_flight) = (now, host.in_flight + 1);
                next = next.min(now.after(host.learned.interval()));
                if let Some(uplink) = &mut self.uplink {
                    uplink.started();
                }
                count += 1;
                far.insert((now.after(took), count), (n, now, outcome));
            }
            turn += 1;
            let ends = [&far, &near].into_iter().filter_map(|flights| Some(flights.first_key_value()?.0.0));
            now = ends.fold(next, Instant::min);
            while let Some(entry) = far.first_entry().filter(|entry| entry.key().0 <= now) {
                let (_, count) = *entry.key();
                let flight = entry.remove();
                if flight.2 != Outcome::NoAnswer {
                    free = free.max(now).after((self.each)(now));
                }
                near.insert((if flight.2 == Outcome::NoAnswer { now } else { free }, count), flight);
            }
            while let Some(entry) = near.first_entry().filter(|entry| entry.key().0 <= now) {
                let (n, started, outcome) = entry.remove();
                self.ended(now, n, started, outcome);
            }
            if now >= look {
                let in_flight = self.hosts.iter().map(|host| host.in_flight).sum();
                let limit = self.uplink.as_ref().and_then(|uplink| uplink.yielding(now)).map(|on| on.limit);
                self.seen.push((now, in_flight, limit));
                look = now.after(MS * 100);
            }
        }
        self
    }

    fn ended(&mut self, now: Instant, n: usize, started: Instant, outcome: Outcome) {
        let took = now.since(started);
        let mut fact = Fact { started, outcome, latency: (outcome != Outcome::NoAnswer).then_some(took) };
        if let Some(uplink) = &mut self.uplink {
            let heard = match outcome {
                Outcome::Served => Heard::Served(took),
                Outcome::NoAnswer => Heard::Nothing,
                _ => Heard::Answered,
            };
            uplink.heard(now, &Exchange { host: ScopeId(n as u32), started, heard }, self.kin);
            if uplink.is_ours(now, started) {
                fact.latency = None;
                if outcome == Outcome::NoAnswer {
                    fact.outcome = Outcome::Neutral;
                }
            }
            uplink.ended();
        }
        let host = &mut self.hosts[n];
        host.in_flight -= 1;
        host.answers += u32::from(outcome == Outcome::Served);
        host.silences += u32::from(outcome == Outcome::NoAnswer);
        if host.learned.taught(now, &fact, &host.policy) == Change::Slower {
            host.slower += 1;
        }
    }

    /// The mean in flight between two instants.
    fn mean(&self, from: Instant, until: Instant) -> f64 {
        let seen = self.seen.iter().filter(|(at, ..)| *at >= from && *at < until);
        let (sum, count) = seen.fold((0, 0), |(sum, count), (_, in_flight, _)| (sum + in_flight, count + 1));
        f64::from(sum) / f64::from(count)
    }

    fn limited(&self, from: Instant, until: Instant) -> usize {
        self.seen.iter().filter(|(at, _, limit)| *at >= from && *at < until && limit.is_some()).count()
    }

    fn blamed(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|n| self.hosts[*n].slower > 0).collect()
    }

    fn answers(&self) -> u32 {
        self.hosts.iter().map(|host| host.answers).sum()
    }
}

/// 2,000 answers a second fit through the way, and from the twentieth second on only 200.
fn narrowed(now: Instant) -> Duration {
    if now < at(20_000) { MS / 2 } else { MS * 5 }
}

#[test]
fn a10_a_saturated_uplink_settles_near_its_knee_and_no_host_is_blamed() {
    let run = Run::of(20, 8).over(narrowed).run(at(1000), at(80_000));
    assert_eq!(run.limited(at(0), at(20_000)), 0, "there was room for all");
    assert_eq!(run.blamed(), [0; 0]);
    // 100 ms away and 200 a second: 20 in flight keep the way busy, and all more than that is a queue.
    let mean = run.mean(at(30_000), at(80_000));
    assert!((20.0..32.0).contains(&mean), "{mean} in flight");
    let answers = run.answers();

    let control = Run::of(20, 8).over(narrowed).unguarded().run(at(1000), at(80_000));
    assert_eq!(control.blamed().len(), 20, "each host is taken for slow");
    assert!(control.mean(at(30_000), at(80_000)) > 100.0, "and five times what fits is in flight all the same");
    assert!(answers * 100 >= control.answers() * 98, "yielding costs nothing: {answers} of {}", control.answers());
}

#[test]
fn a10_a_run_that_saturates_its_uplink_from_the_start_yields_too() {
    let run = Run::of(20, 8).over(|_| MS * 5).run(at(1000), at(80_000));
    assert_eq!(run.blamed(), [0; 0]);
    // What is usual was never seen without a queue, so that less of it is noticed.
    let mean = run.mean(at(20_000), at(80_000));
    assert!((20.0..55.0).contains(&mean), "{mean} in flight");
    assert!(run.answers() >= 15_000, "200 a second, {} in all", run.answers());
}

#[test]
fn a10_the_limit_is_lifted_when_nothing_is_slow_any_more() {
    let widens = |now: Instant| if now < at(40_000) { narrowed(now) } else { MS / 2 };
    let run = Run::of(20, 8).over(widens).run(at(1000), at(80_000));
    assert!(run.limited(at(25_000), at(40_000)) >= 149);
    assert_eq!(run.limited(at(50_000), at(80_000)), 0);
    assert!(run.mean(at(50_000), at(80_000)) > 140.0);
}

#[test]
fn a10_one_bad_host_of_twenty_is_blamed_itself() {
    let slows_down = |now: Instant, n: usize, dice: &mut Dice| {
        let slow = if n == 13 && now > at(20_000) { 20 } else { 1 };
        (MS * (90 + dice.below(20) as u32) * slow, Outcome::Served)
    };
    let run = Run::of(20, 8).answering(slows_down).run(at(1000), at(60_000));
    assert_eq!((run.blamed(), run.limited(at(0), at(60_000))), (vec![13], 0));

    let falls_silent = |now: Instant, n: usize, dice: &mut Dice| {
        let silent = n == 13 && now > at(20_000);
        (MS * (90 + dice.below(20) as u32), if silent { Outcome::NoAnswer } else { Outcome::Served })
    };
    let run = Run::of(20, 8).answering(falls_silent).run(at(1000), at(60_000));
    assert_eq!((run.blamed(), run.limited(at(0), at(60_000))), (vec![13], 0));
}

#[test]
fn a10_many_hosts_of_one_domain_are_one() {
    // Sixteen of twenty stand on one machine, which is overloaded.
    let overloaded = |now: Instant, n: usize, dice: &mut Dice| {
        let slow = if n < 16 && now > at(20_000) { 20 } else { 1 };
        (MS * (90 + dice.below(20) as u32) * slow, Outcome::Served)
    };
    let mut run = Run::of(20, 8).answering(overloaded);
    run.kin = |scope| u64::from(scope.0.max(15));
    let run = run.run(at(1000), at(60_000));
    assert_eq!((run.blamed(), run.limited(at(0), at(60_000))), ((0..16).collect(), 0));
}

#[test]
fn a10_fewer_than_four_hosts_say_nothing_of_the_uplink() {
    let run = Run::of(3, 48).over(narrowed).run(at(1000), at(60_000));
    assert_eq!((run.blamed(), run.limited(at(0), at(60_000))), (vec![0, 1, 2], 0));
}

#[test]
fn a10_hosts_whose_times_are_all_over_the_place_are_no_evidence() {
    // One in twenty takes ten times as long as the middle one, and none has anything to do with another.
    for (hosts, at_once) in [(5, 1), (20, 8), (60, 4)] {
        let run = Run::of(hosts, at_once).answering(scattered).run(at(1000), at(100_000));
        assert_eq!(run.limited(at(0), at(100_000)), 0, "{hosts} hosts");
    }
}

#[test]
fn a10_hosts_whose_times_are_all_over_the_place_yield_together_all_the_same() {
    let run = Run::of(20, 8).over(narrowed).answering(scattered).run(at(1000), at(100_000));
    let (early, late) = (run.mean(at(30_000), at(50_000)), run.mean(at(80_000), at(100_000)));
    assert!((20.0..70.0).contains(&early) && (20.0..70.0).contains(&late), "{early} in flight, then {late}");
    assert!((late - early).abs() < 15.0, "it does not drift: {early} in flight, then {late}");
}

#[test]
fn a10_an_uplink_that_is_gone_is_not_blamed_on_the_hosts() {
    let outage = |now: Instant, _: usize, dice: &mut Dice| {
        let gone = now > at(20_000) && now < at(50_000);
        (MS * (90 + dice.below(20) as u32), if gone { Outcome::NoAnswer } else { Outcome::Served })
    };
    let run = Run::of(20, 1).answering(outage).run(at(1000), at(70_000));
    // Before most have fallen silent nothing tells the first ones from hosts that failed.
    let times = run.hosts.iter().map(|host| host.slower).max();
    assert!(run.blamed().len() <= 12 && times == Some(1), "{:?}", run.blamed());
    let tries: u32 = run.hosts.iter().map(|host| host.silences).sum();
    assert!((12..70).contains(&tries), "in thirty seconds few try: {tries}");
    assert!(run.mean(at(60_000), at(70_000)) > 10.0, "and all go on when it is back");
    assert_eq!(run.limited(at(65_000), at(70_000)), 0);

    let control = Run::of(20, 1).answering(outage).unguarded().run(at(1000), at(70_000));
    let slowest = control.hosts.iter().map(|host| host.learned.interval()).max();
    let tries: u32 = control.hosts.iter().map(|host| host.silences).sum();
    assert!(tries > 200, "{tries}");
    assert!(control.blamed().len() == 20 && slowest > Some(SEC * 5), "each host is as good as given up: {slowest:?}");
}

#[test]
fn a10_dead_hosts_were_never_heard_and_are_no_outage() {
    let dead = |_: Instant, n: usize, dice: &mut Dice| {
        (MS * (90 + dice.below(20) as u32), if n.is_multiple_of(10) { Outcome::Served } else { Outcome::NoAnswer })
    };
    let run = Run::of(50, 1).answering(dead).run(at(1000), at(30_000));
    assert_eq!((run.blamed().len(), run.limited(at(0), at(30_000))), (45, 0));
}

#[test]
fn a10_a_longer_way_is_learned_and_does_not_hold_us_down_for_ever() {
    // All hosts are four times as far from one moment on: a detour, which no yielding makes shorter.
    let detour = |now: Instant, _: usize, dice: &mut Dice| {
        let far = if now < at(20_000) { 100 } else { 400 };
        (MS * (far + dice.below(20) as u32), Outcome::Served)
    };
    let run = Run::of(20, 8).answering(detour).run(at(1000), at(120_000));
    assert!(run.limited(at(20_000), at(30_000)) > 90, "at first it looks like a queue");
    assert_eq!(run.limited(at(80_000), at(120_000)), 0);
}

#[test]
fn a10_nobody_waits_for_ever_for_a_limit_that_nothing_confirms() {
    let mut uplink = Uplink::default();
    let mut tell = |now: u64, host: u32, heard: Heard| {
        uplink.started();
        let exchange = Exchange { host: ScopeId(host), started: at(now - 1), heard };
        let change = uplink.heard(at(now), &exchange, |scope| u64::from(scope.0));
        uplink.ended();
        change
    };
    for n in 0..40 {
        assert_eq!(tell(1000 + n, n as u32 % 4, Heard::Served(MS * 50)), None);
    }
    for host in 0..3 {
        assert_eq!(tell(3000 + u64::from(host), host, Heard::Nothing), None, "three say nothing");
    }
    assert!(tell(3003, 3, Heard::Nothing).is_some());
    assert_eq!(uplink.ends(at(3004)), Some(at(3253)), "first a quarter of a second");
    assert_eq!((uplink.room(at(3004)), uplink.room(at(3253))), (0, 2));
    for _ in 0..2 {
        uplink.started();
    }
    assert_eq!((uplink.room(at(3300)), uplink.ends(at(3300))), (0, Some(at(33_003))));
    assert_eq!((uplink.room(at(33_003)), uplink.ends(at(33_003))), (u32::MAX, None));
}

#[test]
fn a10_silence_that_is_ours_is_counted_and_teaches_nothing() {
    let settings = AimdSettings { start: MS * 10, floor: MS * 10, ..AimdSettings::default() };
    let limits = Limits { policy: Policy::Aimd(settings), retries: 0, ..free() };
    let mut world = World::of([limits]).answering(|_| reply_with(Signal::no_answer(NoAnswer::Uplink), 10));
    for _ in 0..5 {
        world.ask(&host(0));
        world.run();
    }
    assert_eq!((world.cells[0].tally().no_answers, world.cells[0].learned().interval()), (5, MS * 10));
}

/// Roughly log-normal times, with a standard deviation of a factor of 2.7.
fn scattered(_: Instant, _: usize, dice: &mut Dice) -> (Duration, Outcome) {
    let sum: u64 = (0..12).map(|_| dice.below(1000)).sum();
    (Duration::from_secs_f64(0.1 * ((sum as f64 - 6000.0) / 1000.0).exp()), Outcome::Served)
}
