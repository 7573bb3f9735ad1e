//! The suite every store passes, at times that are given.

use core::time::Duration;

use comity_core::limits::Partial;
use comity_core::limits::all::{Begin, Claim};
use comity_core::scope::{Rules, Target};
use comity_core::time::Instant;
use comity_redis::Redis;
use comity_store::{Joined, Store, conformance as suite};

use crate::server::{Server, given, rules, settings};

#[test]
fn x3_the_store_passes_the_suite_of_every_store() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let make = |rules: Rules| given(&server.url(), settings(), rules);
    let make: &dyn Fn(Rules) -> Joined<Redis> = &make;
    suite::a_claim_charges_every_scope(&make);
    suite::a_request_that_does_not_start_costs_nobody_anything(&make);
    suite::a_wait_is_exact_and_says_why(&make);
    suite::a_timers_lateness_is_not_charged(&make);
    suite::a_report_teaches_and_a_release_does_not(&make);
    suite::a_pause_ends_with_one_trial(&make);
    suite::a_trial_that_is_given_back_is_followed_by_another(&make);
    suite::places_in_flight_are_counted_and_come_back(&make);
    suite::a_cost_takes_so_many_places(&make);
    suite::a_learned_concurrency_holds_whoevers_limits_they_have(&make);
    suite::a_burst_that_is_refused_together_teaches_once(&make);
    suite::a_window_is_never_overfull(&make);
    suite::a_limit_set_has_a_rate_of_its_own_and_shares_what_is_learned(&make);
    suite::a_template_is_per_host_and_a_group_is_shared(&make);
    suite::a_refusal_teaches_the_groups_but_not_all_hosts(&make);
    suite::a_narrowed_scope_is_taught_by_itself(&make);
    suite::a_port_is_a_host_where_a_rule_says_so(&make);
    suite::what_still_matters_is_never_dropped(&make);
}

/// In place of the suite's check of late starts: nobody is asked over the network whether others started since, so what is
/// late is given up.
#[test]
fn decision_2_a_start_that_would_be_used_late_is_given_up() {
    let _alone = crate::server::busy();
    let server = Server::start();
    let every = |ms| Partial { interval: Some(Duration::from_millis(ms)), ..Partial::default() };
    let at = Instant::from_millis;
    let mut store = given(&server.url(), settings(), rules(&[("*.example.org", every(100))], every(1000)));
    let route = store.route(at(0), &Target::host("a.example.org"), None).expect("a route");
    let mut grant = store.claim(at(0), &Claim::at_once(route.members(), 1, at(0))).expect("the first starts");
    assert_eq!(grant.late_by, Some(Duration::from_millis(10)), "a tenth of the least spacing");
    assert_eq!(store.begin(at(11), route.members(), &mut grant), Begin::TooLate, "late");
    let wait = store.claim(at(11), &Claim::at_once(route.members(), 1, at(11))).expect_err("its slot is lost");
    assert_eq!(wait.until, at(1000));
    assert_eq!(store.begin(at(2), route.members(), &mut grant), Begin::Go, "in time");
    let wait = store.claim(at(11), &Claim::at_once(route.members(), 1, at(11))).expect_err("it was used");
    assert_eq!(wait.until, at(1000), "what nobody notices moves nothing");
    assert_eq!(store.begin(at(10), route.members(), &mut grant), Begin::Go, "in time, but noticeably late");
    let wait = store.claim(at(11), &Claim::at_once(route.members(), 1, at(11))).expect_err("it was used");
    assert_eq!(wait.until, at(1010), "a whole second after it left");
}
