//! Decision 8: the table is bounded, and what could still matter is never evicted.

use std::sync::Arc;

use comity_core::limits::all::{self, Claim};
use comity_core::limits::{Because, Limits, Partial};
use comity_core::policy::Policy;
use comity_core::scope::{Pattern, Rules, Target};
use comity_core::time::Instant;
use comity_store::{Memory, MemorySettings, OwnLimits, RouteError, Store};

use crate::world::{MS, SEC, at};

fn table(most_scopes: usize, written: &[(&str, Partial)]) -> Memory {
    let base = Limits { interval: MS * 100, policy: Policy::refusal(), ..Limits::none() };
    let mut builder = Rules::builder(base);
    for (pattern, partial) in written {
        builder.rule(Pattern::parse(pattern).expect("a pattern"), partial.clone());
    }
    Memory::new(Arc::new(builder.build()), MemorySettings { most_scopes, ..MemorySettings::default() })
}

/// Starts one request and gives its place back.
fn visit(memory: &mut Memory, now: Instant, host: &str) -> bool {
    let Ok(route) = memory.route(now, &Target::host(host), None) else { return false };
    if let Ok(grant) = memory.claim(now, &Claim::at_once(route.members(), 1, now)) {
        memory.release(now, route.members(), &grant);
    }
    true
}

#[test]
fn decision_8_the_table_stays_bounded() {
    let mut memory = table(50, &[]);
    let mut now = at(0);
    for n in 0..5000 {
        now = now.after(MS * 100);
        assert!(visit(&mut memory, now, &format!("h{n}.org")));
        assert!(memory.len() <= 50);
    }
    assert_eq!(memory.turned_away(), 0);
}

#[test]
fn decision_8_a_full_table_tells_a_new_host_to_wait_and_counts_it() {
    let mut memory = table(10, &[]);
    for n in 0..10 {
        assert!(visit(&mut memory, at(0), &format!("h{n}.org")));
    }
    match memory.route(at(50), &Target::host("new.org"), None) {
        Err(RouteError::Full(wait)) => {
            assert_eq!(wait.because, Because::TableFull);
            assert!(wait.until > at(50) && wait.until < at(1050));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((memory.turned_away(), memory.len()), (1, 10));
    assert!(visit(&mut memory, at(50), "h3.org"), "those it knows go on");
    assert!(visit(&mut memory, at(200), "new.org"), "and there is room when one no longer matters");
    assert_eq!(memory.len(), 10);
}

#[test]
fn decision_8_a_host_dropped_behaves_as_one_never_seen() {
    let visits = |most| {
        let mut memory = table(most, &[]);
        let mut seen = Vec::new();
        for n in 0..4000u64 {
            let now = at(n * 37);
            let host = format!("h{}.org", n * n % 17);
            let route = memory.route(now, &Target::host(&host), None).expect("there is room");
            let claim = Claim::at_once(route.members(), 1, now);
            seen.push(match memory.claim(now, &claim) {
                Ok(grant) => {
                    memory.release(now, route.members(), &grant);
                    None
                }
                Err(wait) => Some(wait.until),
            });
        }
        seen
    };
    assert_eq!(visits(5), visits(1000));
}

#[test]
fn decision_8_those_that_wait_pin_their_scopes() {
    let mut memory = table(3, &[]);
    let waiting = memory.route(at(0), &Target::host("waiting.org"), None).expect("room");
    memory.pin(&waiting);
    for n in 0..50 {
        visit(&mut memory, at(1000 * n), &format!("h{n}.org"));
    }
    assert_eq!(memory.inspect(waiting.members()[0].scope).map(|(name, _)| name), Some("waiting.org"));
    memory.unpin(&waiting);
    for n in 50..100 {
        visit(&mut memory, at(1000 * n), &format!("h{n}.org"));
    }
    assert_eq!(memory.find_host(&Target::host("waiting.org")), None, "and no longer");
}

#[test]
fn decision_8_a_route_never_makes_room_for_itself_out_of_itself() {
    let own = OwnLimits { set: 1, limits: Arc::new(Limits::none()) };
    let mut memory = table(1, &[("*.example.org", Partial::default()), ("a.example.org/path", Partial::default())]);
    let target = Target { path: "/path", ..Target::host("a.example.org") };
    for own in [None, Some(&own)] {
        // There is no room for host and path at once: it waits, and no scope of its route is another's.
        match memory.route(at(0), &target, own) {
            Err(RouteError::Full(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    let route = memory.route(at(0), &Target::host("a.example.org"), None).expect("room for a host");
    let names: Vec<&str> =
        route.members().iter().filter_map(|member| memory.inspect(member.scope)).map(|(name, _)| name).collect();
    assert_eq!(names, ["a.example.org", "*.example.org"], "no request goes without its groups");
}

#[test]
fn decision_8_a_host_whose_guest_is_in_flight_stays() {
    let own = OwnLimits { set: 1, limits: Arc::new(Limits::none()) };
    let mut memory = table(3, &[]);
    let route = memory.route(at(0), &Target::host("guest.org"), Some(&own)).expect("room");
    let grant = memory.claim(at(0), &Claim::at_once(route.members(), 1, at(0))).expect("free");
    for n in 1..50 {
        visit(&mut memory, at(1000 * n), &format!("h{n}.org"));
    }
    let effects = memory.report(at(60_000), route.members(), &grant, &crate::world::refused_for(429, SEC), None);
    assert_eq!(effects.freed & 1, 1);
    let again = memory.route(at(60_000), &Target::host("guest.org"), None).expect("it is there");
    assert_eq!(
        all::decide(&memory, at(60_001), &Claim::at_once(again.members(), 1, at(60_001))).map_err(|wait| wait.until),
        Err(at(61_000))
    );
}

#[test]
fn p12_one_notice_a_host() {
    let mut memory = table(10, &[]);
    let route = memory.route(at(0), &Target::host("example.org"), None).expect("room");
    let scope = route.members()[0].scope;
    assert!(memory.notice(scope));
    assert!(!memory.notice(scope));
}
