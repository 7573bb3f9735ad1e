//! A concurrency that was learned is one for all members of a store.

use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::all::{Claim, Grant};
use comity_core::limits::{Because, Limits, Partial, Route, Wait};
use comity_core::policy::{AdaptiveSettings, Learned, Policy};
use comity_core::scope::Target;
use comity_core::signal::{Authoritative, Inferred, Refusal, Signal};
use comity_core::time::Instant;
use comity_redis::Redis;
use comity_store::{Joined, Memory, MemorySettings, OwnLimits, Store};

use crate::member::{Member, merged, real_now};
use crate::server::{Server, given, rules, settings};

const MS: Duration = Duration::from_millis(1);

/// The pace is no hindrance.
fn adaptive() -> Partial {
    let settings = AdaptiveSettings { start: MS, floor: MS, ..AdaptiveSettings::default() };
    Partial { policy: Some(Policy::Adaptive(settings)), ..Partial::default() }
}

fn learned_by_nobody() -> u32 {
    adaptive().policy.and_then(|policy| policy.fresh().in_flight()).expect("it learns a concurrency")
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

fn host<S: Store>(store: &mut S, own: Option<&OwnLimits>) -> Route {
    store.route(at(0), &Target::host("example.org"), own).expect("a route")
}

fn claim<S: Store>(store: &mut S, now: &mut Instant, route: &Route) -> Result<Grant, Wait> {
    loop {
        match store.claim(*now, &Claim::at_once(route.members(), 1, *now)) {
            // Another's turn, or the pace.
            Err(wait) if wait.until != Instant::FAR => *now = wait.until,
            answer => return answer,
        }
    }
}

/// Once this is answered, what was told before has been heard.
fn heard(store: &mut Joined<Redis>, now: Instant) {
    let route = store.route(now, &Target::host("elsewhere.example"), None).expect("a route");
    let _ = store.claim(now, &Claim::at_once(route.members(), 1, now));
}

fn refused() -> Signal {
    let refusal = Some(Refusal { status: 429, wait: None });
    Signal {
        status: Some(429),
        authoritative: Authoritative { refusal, quotas: Vec::new() },
        inferred: Inferred::Neutral,
    }
}

fn members(server: &Server, count: usize) -> Vec<Joined<Redis>> {
    let settings = settings();
    (0..count).map(|_| given(&server.url(), settings.clone(), rules(&[], adaptive()))).collect()
}

#[test]
fn x1_a_learned_concurrency_holds_for_all_members_together() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let own = OwnLimits { set: 1, limits: Arc::new(Limits::none()) };
    // The second member's requests are all under limits that a caller brought.
    let brought = |n: usize| (n % 3 == 1).then_some(&own);
    let mut members = members(&server, 3);
    let routes: Vec<Route> = members.iter_mut().enumerate().map(|(n, member)| host(member, brought(n))).collect();
    let mut now = at(0);
    let mut flying: Vec<(usize, Grant)> = Vec::new();
    let most = learned_by_nobody();
    for n in (0..3).cycle() {
        match claim(&mut members[n], &mut now, &routes[n]) {
            Ok(grant) => flying.push((n, grant)),
            Err(wait) => {
                assert_eq!(wait.because, Because::Concurrency(most));
                break;
            }
        }
    }
    assert_eq!(flying.len() as u32, most, "all members together");
    for n in 0..3 {
        claim(&mut members[n], &mut now, &routes[n]).expect_err("every member is told so");
    }
    // Whoever gives a place back, one of the others has it.
    for round in 0..6 {
        let (n, grant) = flying.remove(0);
        members[n].release(now, routes[n].members(), &grant);
        heard(&mut members[n], now);
        let other = (n + 1 + round % 2) % 3;
        let grant = claim(&mut members[other], &mut now, &routes[other]).expect("a place came free");
        flying.push((other, grant));
        claim(&mut members[n], &mut now, &routes[n]).expect_err("one place, and no more");
    }
}

#[test]
fn e11_the_places_of_a_member_that_left_are_free() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let own = OwnLimits { set: 1, limits: Arc::new(Limits::none()) };
    for own in [None, Some(&own)] {
        let mut members = members(&server, 2);
        let mut now = at(0);
        let route = host(&mut members[0], own);
        while claim(&mut members[0], &mut now, &route).is_ok() {}
        let other = host(&mut members[1], None);
        claim(&mut members[1], &mut now, &other).expect_err("all places are taken");
        drop(members.remove(0));
        for _ in 0..learned_by_nobody() {
            claim(&mut members[0], &mut now, &other).expect("its places came back");
        }
    }
}

#[test]
fn decision_4_members_that_are_refused_together_teach_what_one_would_have_learned() {
    let _alone = crate::server::busy();
    let server = Server::start();
    // What one process learns of it: starts, then refusals of all of them, then one more.
    fn teach(stores: &mut [&mut dyn Teach]) -> Vec<Learned> {
        let mut learned = Vec::new();
        let mut now = at(0);
        for round in 0..3 {
            let count = stores.len();
            let mut grants: Vec<(usize, Grant)> = Vec::new();
            for n in 0..2 {
                if let Ok(grant) = stores[n % count].start(&mut now) {
                    grants.push((n % count, grant));
                }
            }
            assert!(!grants.is_empty(), "round {round}");
            now = Instant::from_nanos(now.as_nanos() / 1_000_000 * 1_000_000).after(MS * 200);
            for (n, grant) in &grants {
                now = now.after(MS);
                stores[*n].refuse(now, grant);
            }
            now = now.after(MS * 100);
            learned.push(stores[0].learned(now));
        }
        learned
    }
    let memory = Memory::new(Arc::new(rules(&[], adaptive())), MemorySettings::default());
    let mut alone = memory;
    let expected = teach(&mut [&mut alone]);
    let mut members = members(&server, 2);
    let (one, other) = members.split_at_mut(1);
    let together = teach(&mut [&mut one[0], &mut other[0]]);
    let paces =
        |all: &[Learned]| all.iter().map(|learned| (learned.interval(), learned.in_flight())).collect::<Vec<_>>();
    // A trial's distance grows with the time since the refusal, and two processes start theirs a little apart.
    for ((pace, flying), (as_one, as_one_flying)) in paces(&together).into_iter().zip(paces(&expected)) {
        assert_eq!(flying, as_one_flying);
        assert!(pace * 5 >= as_one * 4 && pace * 4 <= as_one * 5, "{together:?} {expected:?}");
    }
    assert!(expected.windows(2).all(|pair| pair[1].interval() > pair[0].interval()), "each burst taught: {expected:?}");
}

/// A store with one host.
trait Teach {
    fn start(&mut self, now: &mut Instant) -> Result<Grant, Wait>;
    fn refuse(&mut self, now: Instant, grant: &Grant);
    /// What it knows once all that was told has been heard.
    fn learned(&mut self, now: Instant) -> Learned;
}

impl<S: Store> Teach for S {
    fn start(&mut self, now: &mut Instant) -> Result<Grant, Wait> {
        let route = host(self, None);
        claim(self, now, &route)
    }

    fn refuse(&mut self, now: Instant, grant: &Grant) {
        let route = host(self, None);
        self.report(now, route.members(), grant, &refused(), None);
    }

    fn learned(&mut self, now: Instant) -> Learned {
        let route = host(self, None);
        if let Ok(grant) = self.claim(now, &Claim::at_once(route.members(), 0, now)) {
            self.release(now, route.members(), &grant);
        }
        *self.inspect(route.members()[0].scope).expect("it is known").1.learned()
    }
}

#[test]
fn x8_a_place_that_comes_free_is_soon_anothers() {
    let _quiet = crate::server::on_time();
    let server = Server::start();
    let most = learned_by_nobody() as usize;
    let (hold, span) = (MS * 40, MS * 1200);
    let settings = settings();
    let members: Vec<Member> =
        (0..most * 2).map(|_| Member::join(&server.url(), &settings, rules(&[], adaptive()))).collect();
    let end = real_now() + span;
    let running: Vec<_> = members.into_iter().map(|member| member.run("example.org", end, hold, usize::MAX)).collect();
    let starts = merged(running.into_iter().map(|thread| thread.join().expect("it ends")).collect());
    // A place is held a little less than so long here, for its start is noted when its thread comes to it.
    for flight in starts.windows(most + 1) {
        assert!(
            flight[most] - flight[0] >= hold - MS * 15,
            "more than {most} in flight: {:?}",
            flight[most] - flight[0]
        );
    }
    let full = most * (span.as_millis() / hold.as_millis()) as usize;
    assert!(starts.len() >= full / 2, "{} starts, of {full} where no place were ever free", starts.len());
}
