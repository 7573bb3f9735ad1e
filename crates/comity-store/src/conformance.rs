//! What every store must do: a suite to run against each.
//!
//! A check gets a function that makes an empty store under the rules it is given, and panics with what went wrong.
//! [`every_check`] runs them all. Time is virtual: a store under test takes the instants it is given.

use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{Begin, Claim, Grant};
use comity_core::limits::{Because, Limits, Partial, Route, Wait};
use comity_core::policy::{AdaptiveSettings, Policy};
use comity_core::scope::{Pattern, Rules, RulesBuilder, Target};
use comity_core::signal::{Authoritative, Inferred, NoAnswer, Refusal, Signal};
use comity_core::time::Instant;

use crate::{OwnLimits, Store};

/// Runs every check of this suite.
pub fn every_check<S: Store>(make: impl Fn(Rules) -> S) {
    a_claim_charges_every_scope(&make);
    a_request_that_does_not_start_costs_nobody_anything(&make);
    a_wait_is_exact_and_says_why(&make);
    a_start_used_late_is_restamped_or_given_up(&make);
    a_timers_lateness_is_not_charged(&make);
    a_report_teaches_and_a_release_does_not(&make);
    a_pause_ends_with_one_trial(&make);
    a_trial_that_is_given_back_is_followed_by_another(&make);
    places_in_flight_are_counted_and_come_back(&make);
    a_cost_takes_so_many_places(&make);
    a_learned_concurrency_holds_whoevers_limits_they_have(&make);
    a_burst_that_is_refused_together_teaches_once(&make);
    a_window_is_never_overfull(&make);
    a_limit_set_has_a_rate_of_its_own_and_shares_what_is_learned(&make);
    a_template_is_per_host_and_a_group_is_shared(&make);
    a_refusal_teaches_the_groups_but_not_all_hosts(&make);
    a_narrowed_scope_is_taught_by_itself(&make);
    a_port_is_a_host_where_a_rule_says_so(&make);
    what_still_matters_is_never_dropped(&make);
}

/// A test for each check of this suite, over the stores that each of these functions makes.
#[macro_export]
macro_rules! conformance_tests {
    (@each $makes:tt $($check:ident)*) => {$(
        #[test]
        fn $check() {
            $crate::conformance_tests!(@run $check $makes);
        }
    )*};
    (@run $check:ident ($($make:path),+)) => {
        $($crate::conformance::$check(&$make);)+
    };
    ($($make:path),+) => {
        $crate::conformance_tests! { @each ($($make),+)
            a_claim_charges_every_scope
            a_request_that_does_not_start_costs_nobody_anything
            a_wait_is_exact_and_says_why
            a_start_used_late_is_restamped_or_given_up
            a_timers_lateness_is_not_charged
            a_report_teaches_and_a_release_does_not
            a_pause_ends_with_one_trial
            a_trial_that_is_given_back_is_followed_by_another
            places_in_flight_are_counted_and_come_back
            a_cost_takes_so_many_places
            a_learned_concurrency_holds_whoevers_limits_they_have
            a_burst_that_is_refused_together_teaches_once
            a_window_is_never_overfull
            a_limit_set_has_a_rate_of_its_own_and_shares_what_is_learned
            a_template_is_per_host_and_a_group_is_shared
            a_refusal_teaches_the_groups_but_not_all_hosts
            a_narrowed_scope_is_taught_by_itself
            a_port_is_a_host_where_a_rule_says_so
            what_still_matters_is_never_dropped
        }
    };
}

/// One claim is atomic over the host, its groups and all hosts together.
pub fn a_claim_charges_every_scope<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("*.example.org", every(300)), ("*", every(100))], every(1000));
    let (one, other, far) = (at.host("a.example.org"), at.host("b.example.org"), at.host("c.example.net"));
    at.starts(0, &one, "the first request of all starts");
    at.waits_until(0, &one, 1000, "the host was charged");
    at.waits_until(0, &other, 300, "its group was charged");
    at.waits_until(0, &far, 100, "all hosts together were charged");
}

/// Decide all, then charge all (behaviour T3).
pub fn a_request_that_does_not_start_costs_nobody_anything<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("*.example.org", places(1)), ("*", every(1))], every(1000));
    let (one, other) = (at.host("a.example.org"), at.host("b.example.org"));
    let held = at.starts(0, &one, "the group has one place");
    let before = at.state(&other);
    for ms in 10..500 {
        at.waits(ms, &other, "the group's place is taken");
    }
    assert_eq!(at.state(&other), before, "a refused claim changed the state of one of its scopes");
    at.store.release(ms(500), one.members(), &held);
    at.starts(500, &other, "it was charged nothing while it waited");
}

/// Not admitted before the instant it was told, admitted at it.
pub fn a_wait_is_exact_and_says_why<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("*", every(700))], every(250));
    let route = at.host("example.org");
    at.starts(0, &route, "the first request starts");
    let wait = at.waits_until(1, &route, 700, "the later of two waits holds");
    assert_eq!(wait.because, Because::Interval(SPAN * 700), "it says which limit");
    assert_eq!(at.store.inspect(wait.scope).map(|(name, _)| name.to_owned()).as_deref(), Some("*"), "and whose");
    let early = at.claim_nanos(700_000_000 - 1, &route);
    assert!(early.is_err(), "a nanosecond early is too early");
    at.starts(700, &route, "at the instant it was told it starts");
}

/// The fence of a grant (decision 2).
pub fn a_start_used_late_is_restamped_or_given_up<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("*.example.org", every(100))], every(1000));
    let (one, other) = (at.host("a.example.org"), at.host("b.example.org"));
    let mut grant = at.starts(0, &one, "the first request starts");
    assert_eq!(grant.late_by, Some(SPAN * 10), "a start may be late by a tenth of the least spacing");
    assert_eq!(at.store.begin(ms(3), one.members(), &mut grant), Begin::Go, "in time");
    assert_eq!(at.store.begin(ms(50), one.members(), &mut grant), Begin::Restamped, "late, and nobody started since");
    at.waits_until(50, &other, 150, "the group counts from when it really started");
    at.starts(150, &other, "and lets the next start then");
    assert_eq!(at.store.begin(ms(200), one.members(), &mut grant), Begin::TooLate, "late, and another started since");
}

/// A timer that is late moves the start, not those after it.
pub fn a_timers_lateness_is_not_charged<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], every(20));
    let route = at.host("example.org");
    at.starts(0, &route, "the first request starts");
    for n in 1..50 {
        let claim = Claim { members: route.members(), cost: 1, asked: ms(0), due: ms(20 * n) };
        let granted = at.store.claim(ms(20 * n + 2), &claim);
        assert!(granted.is_ok(), "start {n} was due at {} ms: {granted:?}", 20 * n);
    }
}

/// A report teaches the pace; giving a place back teaches nothing.
pub fn a_report_teaches_and_a_release_does_not<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], Partial::default());
    let route = at.host("example.org");
    let grant = at.starts(0, &route, "nothing holds it");
    at.store.release(ms(10), route.members(), &grant);
    let grant = at.starts(10, &route, "a release teaches nothing");
    at.store.report(ms(20), route.members(), &grant, &refused(None), None);
    at.waits_until(20, &route, 260, "a refusal without advice spaces the host by 250 ms from its last start");
    let grant = at.starts(260, &route, "and then it starts");
    let effects = at.store.report(ms(270), route.members(), &grant, &served(), Some(SPAN * 10));
    assert_eq!(effects.sooner & 1, 1, "a tenth off lets those that wait go sooner");
    at.waits_until(270, &route, 260 + 225, "a tenth off");
}

/// Nothing starts during a pause, and after it one request goes first (behaviour T7).
pub fn a_pause_ends_with_one_trial<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], Partial::default());
    let route = at.host("example.org");
    let (refused_one, other) = (at.starts(0, &route, "free"), at.starts(0, &route, "free"));
    at.store.report(ms(100), route.members(), &refused_one, &refused(Some(SPAN * 2000)), None);
    at.store.report(ms(200), route.members(), &other, &served(), Some(SPAN));
    let wait = at.waits_until(300, &route, 2100, "an answer to an older request does not end the pause");
    assert_eq!(wait.because, Because::Pause, "it says why");
    let trial = at.starts(2100, &route, "one tries whether the pause is over");
    let wait = at.waits(2150, &route, "the others wait for its answer");
    assert_eq!((wait.because, wait.until), (Because::AfterPause, Instant::FAR), "only the answer can help");
    let effects = at.store.report(ms(2200), route.members(), &trial, &served(), Some(SPAN));
    assert_eq!(effects.sooner & 1, 1, "the answer wakes them");
    for _ in 0..5 {
        at.starts(2200, &route, "the pause is over for all");
    }
}

/// A trial that brought no answer of the host proves nothing.
pub fn a_trial_that_is_given_back_is_followed_by_another<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], Partial::default());
    let route = at.host("example.org");
    let grant = at.starts(0, &route, "free");
    at.store.report(ms(0), route.members(), &grant, &refused(Some(SPAN * 1000)), None);
    for n in 0..4 {
        let trial = at.starts(1000 + n, &route, "a trial");
        at.waits(1000 + n, &route, "one at a time");
        let effects = if n % 2 == 0 {
            at.store.release(ms(1000 + n), route.members(), &trial)
        } else {
            at.store.report(ms(1000 + n), route.members(), &trial, &Signal::no_answer(NoAnswer::Reset), None)
        };
        assert_eq!(effects.sooner & 1, 1, "those that wait may try");
    }
}

/// In-flight limits count starts until their places are given back.
pub fn places_in_flight_are_counted_and_come_back<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], places(3));
    let route = at.host("example.org");
    for round in 0..20 {
        let grants: Vec<Grant> = (0..3).map(|_| at.starts(round, &route, "three places")).collect();
        let wait = at.waits(round, &route, "the fourth waits");
        assert_eq!((wait.because, wait.until), (Because::InFlight(3), Instant::FAR), "for a place");
        for grant in &grants {
            let effects = at.store.release(ms(round), route.members(), grant);
            assert_eq!(effects.freed & 1, 1, "the freed place is told");
        }
    }
}

/// A claim has a cost; one that costs more than there is starts alone.
pub fn a_cost_takes_so_many_places<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], places(4));
    let route = at.host("example.org");
    let costing = |cost| Claim::at_once(route.members(), cost, ms(0));
    let three = at.store.claim(ms(0), &costing(3)).unwrap_or_else(|wait| panic!("three of four: {wait:?}"));
    assert!(at.store.claim(ms(0), &costing(2)).is_err(), "five of four");
    let one = at.store.claim(ms(0), &costing(1)).unwrap_or_else(|wait| panic!("four of four: {wait:?}"));
    at.store.release(ms(1), route.members(), &three);
    assert!(at.store.claim(ms(1), &costing(9)).is_err(), "nine do not start beside one");
    at.store.release(ms(1), route.members(), &one);
    let nine = at.store.claim(ms(1), &costing(9)).unwrap_or_else(|wait| panic!("nine start alone: {wait:?}"));
    at.waits(1, &route, "and nothing beside them");
    at.store.release(ms(2), route.members(), &nine);
    at.starts(2, &route, "all places are back");
}

/// What was learned holds for all requests of a host together: its own, and those under limits that a caller brought (T5).
pub fn a_learned_concurrency_holds_whoevers_limits_they_have<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], adaptive());
    let plain = at.host("example.org");
    let guest = at.under("example.org", &OwnLimits { set: 1, limits: Arc::new(Limits::none()) });
    let mut now = ms(0);
    let mut flying: Vec<(Grant, Route)> = Vec::new();
    let wait = loop {
        let route = if flying.len().is_multiple_of(2) { &plain } else { &guest };
        match at.store.claim(now, &Claim::at_once(route.members(), 1, now)) {
            Ok(grant) => flying.push((grant, route.clone())),
            Err(wait) if matches!(wait.because, Because::Pace(_)) => now = wait.until,
            Err(wait) => break wait,
        }
        assert!(flying.len() < 10_000, "nothing holds them");
    };
    let scope = wait.scope;
    let most = at.store.inspect(scope).and_then(|(_, cell)| cell.learned().in_flight());
    assert_eq!(most, u32::try_from(flying.len()).ok(), "so many as was learned: {wait:?}");
    assert_eq!((wait.because, wait.until), (Because::Concurrency(flying.len() as u32), Instant::FAR));
    // Each frees one place for either.
    for (route, other) in [(&plain, &guest), (&guest, &plain)] {
        let Some(ends) = flying.iter().position(|(_, of)| of == route) else { continue };
        let (grant, of) = flying.remove(ends);
        let effects = at.store.release(now, of.members(), &grant);
        let host = of.members().iter().position(|member| member.scope == scope);
        assert!(host.is_some_and(|n| effects.freed >> n & 1 == 1), "the freed place is told");
        now = now.after(SPAN * 10);
        let again = at.store.claim(now, &Claim::at_once(other.members(), 1, now));
        flying.push((again.unwrap_or_else(|wait| panic!("a place is free: {wait:?}")), other.clone()));
        now = now.after(SPAN * 10);
        let full = at.store.claim(now, &Claim::at_once(route.members(), 1, now));
        assert!(full.is_err_and(|wait| wait.because.is_for_a_place()), "and no more than one");
    }
}

/// Only requests started since the last change teach another: a burst refused together is one objection.
pub fn a_burst_that_is_refused_together_teaches_once<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[], adaptive());
    let route = at.host("example.org");
    let interval =
        |at: &Bench<S>| at.store.inspect(route.members()[0].scope).map(|(_, cell)| cell.learned().interval());
    let mut last = interval(&at);
    let mut now = ms(1000);
    let mut burst = Vec::new();
    loop {
        match at.store.claim(now, &Claim::at_once(route.members(), 1, now)) {
            Ok(grant) => burst.push(grant),
            Err(wait) if matches!(wait.because, Because::Pace(_)) => now = wait.until,
            Err(_) => break,
        }
    }
    assert!(burst.len() > 1, "several at once");
    now = now.after(SPAN * 100);
    let (first, others) = burst.split_at(1);
    at.store.report(now, route.members(), &first[0], &refused(None), None);
    let slower = interval(&at);
    assert!(slower > last, "the first refusal teaches: {slower:?}, was {last:?}");
    for grant in others {
        now = now.after(SPAN);
        at.store.report(now, route.members(), grant, &refused(None), None);
        assert_eq!(interval(&at), slower, "the others say nothing new");
    }
    // From now on one tries, and each refusal is news.
    for trial in 0..3 {
        last = interval(&at);
        let grant = loop {
            match at.store.claim(now, &Claim::at_once(route.members(), 1, now)) {
                Ok(grant) => break grant,
                Err(wait) => now = wait.until,
            }
        };
        let wait = at.store.claim(now.after(SPAN * 600_000), &Claim::at_once(route.members(), 1, now));
        assert!(matches!(wait, Err(Wait { because: Because::Concurrency(1), .. })), "one trial at a time: {wait:?}");
        now = now.after(SPAN);
        at.store.report(now, route.members(), &grant, &refused(None), None);
        assert!(interval(&at) > last, "trial {trial} teaches");
    }
}

/// True sliding windows (field case C05).
pub fn a_window_is_never_overfull<S: Store>(make: &impl Fn(Rules) -> S) {
    let windows = ["10/1010ms", "15/5s"].map(|text| text.parse().unwrap_or_else(|error| panic!("{error}")));
    let mut at = Bench::new(make, &[], Partial { windows: Some(windows.to_vec()), ..Partial::default() });
    let route = at.host("example.org");
    let mut now = ms(7);
    let mut starts = Vec::new();
    for n in 0..40 {
        loop {
            match at.store.claim(now, &Claim::at_once(route.members(), 1, now)) {
                Ok(_) => break,
                Err(wait) => now = wait.until,
            }
        }
        starts.push(now);
        if n % 11 == 10 {
            now = now.after(SPAN * 50);
        }
    }
    for (count, per) in [(10, 1010), (15, 5000)] {
        for span in starts.windows(count + 1) {
            assert!(span[count].since(span[0]) >= SPAN * per, "more than {count} within {per} ms: {span:?}");
        }
    }
}

/// Limits that callers bring (behaviour T5).
pub fn a_limit_set_has_a_rate_of_its_own_and_shares_what_is_learned<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("*", every(1))], Partial { in_flight: NonZeroU32::new(2), ..every(10_000) });
    let set = |set, interval: u32| OwnLimits {
        set,
        limits: Arc::new(Limits { interval: SPAN * interval, policy: Policy::pressure(), ..Limits::none() }),
    };
    let plain = at.host("example.org");
    let fast = at.under("example.org", &set(1, 100));
    let slow = at.under("example.org", &set(2, 1000));
    assert_eq!(at.under("example.org", &set(1, 100)), fast, "equal limits share a queue");
    assert!(fast != slow && fast != plain, "different limits do not");
    at.starts(0, &slow, "the first under its set");
    at.starts(1, &plain, "the host's own limits count its own starts");
    let mut grants: Vec<Grant> =
        (0..5).map(|n| at.starts(2 + 100 * n, &fast, "the fast set keeps its own rate")).collect();
    at.waits_until(900, &slow, 1000, "which does not hold the slow set back");
    at.starts(1000, &slow, "and the slow set does not hold itself up longer");
    at.waits_until(1001, &plain, 10_001, "the host's own limits hold where none were brought");
    // What is learned is shared by all.
    let grant = grants.remove(0);
    at.store.report(ms(1100), fast.members(), &grant, &refused(Some(SPAN * 3000)), None);
    at.waits_until(1200, &fast, 4100, "its own set");
    at.waits_until(1200, &slow, 4100, "another set");
}

/// `[default]` is per host, a group and `*` are shared (field case C11).
pub fn a_template_is_per_host_and_a_group_is_shared<S: Store>(make: &impl Fn(Rules) -> S) {
    let hosts = ["a.example.org", "b.example.org", "example.org"];
    for (rules, template, expected) in
        [(None, places(2), 6), (Some("*"), Partial::default(), 2), (Some("*.example.org"), Partial::default(), 2)]
    {
        let written: Vec<(&str, Partial)> = rules.map(|pattern| (pattern, places(2))).into_iter().collect();
        let mut at = Bench::new(make, &written, template);
        let mut started = 0;
        for host in hosts {
            let route = at.host(host);
            while started < 100 && at.claim_nanos(0, &route).is_ok() {
                started += 1;
            }
        }
        assert_eq!(started, expected, "in flight over three hosts under {rules:?}");
    }
}

/// A refusal teaches the host and the groups it is in, never `*` (behaviour T6).
pub fn a_refusal_teaches_the_groups_but_not_all_hosts<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("*.example.org", places(50)), ("*", places(50))], Partial::default());
    let (one, other, far) = (at.host("a.example.org"), at.host("b.example.org"), at.host("example.net"));
    let grant = at.starts(0, &one, "free");
    at.store.report(ms(0), one.members(), &grant, &refused(Some(SPAN * 500)), None);
    at.waits_until(1, &one, 500, "the host");
    at.waits_until(1, &other, 500, "its group");
    at.starts(1, &far, "all other hosts go on");
}

/// A path with a rule of its own is refused by itself (field case F07).
pub fn a_narrowed_scope_is_taught_by_itself<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at =
        Bench::new(make, &[("example.org/flaky", places(5)), ("*.example.org", places(9))], Partial::default());
    let path = |path| Target { path, ..Target::host("example.org") };
    let flaky = at.route(&path("/flaky/x"), None);
    let rest = at.route(&path("/other"), None);
    let grant = at.starts(0, &flaky, "free");
    at.store.report(ms(0), flaky.members(), &grant, &refused(Some(SPAN * 500)), None);
    at.waits_until(1, &flaky, 500, "the path waits");
    at.starts(1, &rest, "the rest of the host goes on");
}

/// A rule for `host:port` makes that port a host of its own, and addresses keep their ports (decision 11).
pub fn a_port_is_a_host_where_a_rule_says_so<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("example.org:8080", Partial::default())], every(1000));
    let port = |host, port| Target { port: Some(port), ..Target::host(host) };
    let [plain, same, own] = [None, Some(9090), Some(8080)].map(|port| Target { port, ..Target::host("example.org") });
    let routes = [plain, same, own].map(|target| at.route(&target, None));
    assert_eq!(routes[0], routes[1], "the host is found without its port");
    assert!(routes[2] != routes[0], "a port with a rule is a host of its own");
    let addresses = [2888, 21_200].map(|number| at.route(&port("192.0.2.1", number), None));
    assert!(addresses[0] != addresses[1], "an address keeps its port");
    let dotted = at.host("example.org.");
    assert_eq!(dotted, routes[0], "a trailing dot is the same host");
}

/// However many other hosts come, a host that was paused, spaced or is in flight is remembered.
pub fn what_still_matters_is_never_dropped<S: Store>(make: &impl Fn(Rules) -> S) {
    let mut at = Bench::new(make, &[("spaced.org", every(60_000)), ("flying.org", places(1))], Partial::default());
    let [paused, spaced, flying] = ["paused.org", "spaced.org", "flying.org"].map(|host| at.host(host));
    let guest = OwnLimits { set: 0, limits: Arc::new(Limits::none()) };
    let visited = at.under("visited.org", &guest);
    let grant = at.starts(0, &paused, "free");
    at.store.report(ms(0), paused.members(), &grant, &refused(Some(SPAN * 60_000)), None);
    at.starts(0, &spaced, "free");
    at.starts(0, &flying, "free");
    let guests_grant = at.starts(0, &visited, "free");
    for n in 0..2000 {
        let route = at.host(&format!("h{n}.example"));
        let grant = at.starts(10, &route, "free");
        at.store.release(ms(10), route.members(), &grant);
    }
    for (name, earlier) in [("paused.org", &paused), ("spaced.org", &spaced), ("flying.org", &flying)] {
        let route = at.host(name);
        assert_eq!(route, *earlier, "{name} was dropped");
        at.waits(20, &route, "what held it still holds it");
    }
    at.store.report(ms(30), visited.members(), &guests_grant, &refused(Some(SPAN * 60_000)), None);
    let again = at.host("visited.org");
    at.waits_until(40, &again, 60_030, "the answer teaches the host it was for");
}

/// A store under test, and words for what is expected of it.
struct Bench<S> {
    store: S,
    now: Instant,
}

impl<S: Store> Bench<S> {
    fn new(make: &impl Fn(Rules) -> S, written: &[(&str, Partial)], template: Partial) -> Self {
        let base = Limits { policy: Policy::refusal(), ..Limits::none() };
        let mut builder: RulesBuilder = Rules::builder(base);
        builder.template(template);
        for (pattern, partial) in written {
            builder.rule(Pattern::parse(pattern).unwrap_or_else(|error| panic!("{error}")), partial.clone());
        }
        Self { store: make(builder.build()), now: ms(0) }
    }

    fn host(&mut self, host: &str) -> Route {
        self.route(&Target::host(host), None)
    }

    fn under(&mut self, host: &str, own: &OwnLimits) -> Route {
        self.route(&Target::host(host), Some(own))
    }

    fn route(&mut self, target: &Target<'_>, own: Option<&OwnLimits>) -> Route {
        self.store.route(self.now, target, own).unwrap_or_else(|error| panic!("{}: {error}", target.host))
    }

    fn claim_nanos(&mut self, nanos: u64, route: &Route) -> Result<Grant, Wait> {
        let now = Instant::from_nanos(nanos);
        self.now = self.now.max(now);
        self.store.claim(now, &Claim::at_once(route.members(), 1, now))
    }

    fn starts(&mut self, at: u64, route: &Route, why: &str) -> Grant {
        self.claim_nanos(at * 1_000_000, route)
            .unwrap_or_else(|wait| panic!("at {at} ms a request should start ({why}), but waits: {wait:?}"))
    }

    fn waits(&mut self, at: u64, route: &Route, why: &str) -> Wait {
        match self.claim_nanos(at * 1_000_000, route) {
            Err(wait) => wait,
            Ok(grant) => panic!("at {at} ms a request should wait ({why}), but starts: {grant:?}"),
        }
    }

    fn waits_until(&mut self, at: u64, route: &Route, until: u64, why: &str) -> Wait {
        let wait = self.waits(at, route, why);
        assert_eq!(wait.until, ms(until), "at {at} ms a request should wait until {until} ms ({why}): {wait:?}");
        wait
    }

    fn state(&self, route: &Route) -> Vec<String> {
        route.members().iter().map(|member| format!("{:?}", self.store.inspect(member.scope))).collect()
    }
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn every(ms: u32) -> Partial {
    Partial { interval: Some(SPAN * ms), ..Partial::default() }
}

fn places(n: u32) -> Partial {
    Partial { in_flight: NonZeroU32::new(n), ..Partial::default() }
}

/// The pace is no hindrance: what is learned is the concurrency.
fn adaptive() -> Partial {
    let settings = AdaptiveSettings { start: SPAN, floor: SPAN, ..AdaptiveSettings::default() };
    Partial { policy: Some(Policy::Adaptive(settings)), ..Partial::default() }
}

fn served() -> Signal {
    Signal { status: Some(200), authoritative: Authoritative::default(), inferred: Inferred::Healthy }
}

fn refused(wait: Option<Duration>) -> Signal {
    let refusal = Some(Refusal { status: 429, wait });
    Signal {
        status: Some(429),
        authoritative: Authoritative { refusal, quotas: Vec::new() },
        inferred: Inferred::Neutral,
    }
}

const SPAN: Duration = Duration::from_millis(1);
