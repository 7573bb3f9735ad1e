//! The machine store passes the suite every store must pass, with room for all and with room for few.

use std::cell::RefCell;
use std::sync::Arc;

use comity_core::scope::Rules;
use comity_machine::{Machine, Settings};
use comity_store::{Joined, Memory, MemorySettings, conformance};
use tempfile::TempDir;

thread_local! {
    /// Directories of this thread's stores, which go with it.
    static DIRECTORIES: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// A store of its own for every check.
fn joined(rules: Rules, settings: MemorySettings) -> Joined<Machine> {
    let directory = tempfile::tempdir().expect("a directory");
    let machine = Machine::open(directory.path().join("pace"), Settings::default()).expect("a store");
    DIRECTORIES.with_borrow_mut(|directories| directories.push(directory));
    Joined::new(Memory::new(Arc::new(rules), settings), machine)
}

fn roomy(rules: Rules) -> Joined<Machine> {
    joined(rules, MemorySettings::default())
}

fn crowded(rules: Rules) -> Joined<Machine> {
    joined(rules, MemorySettings { most_scopes: 12, ..MemorySettings::default() })
}

macro_rules! checks {
    ($($check:ident)*) => {$(
        #[test]
        fn $check() {
            conformance::$check(&roomy);
            conformance::$check(&crowded);
        }
    )*};
}

checks! {
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
    a_window_is_never_overfull
    a_limit_set_has_a_rate_of_its_own_and_shares_what_is_learned
    a_template_is_per_host_and_a_group_is_shared
    a_refusal_teaches_the_groups_but_not_all_hosts
    a_narrowed_scope_is_taught_by_itself
    a_port_is_a_host_where_a_rule_says_so
    what_still_matters_is_never_dropped
}

#[test]
fn every_check_at_once() {
    conformance::every_check(roomy);
}
