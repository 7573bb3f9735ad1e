//! F and T2: which host a request goes to, and which rules hold for it.

use core::num::NonZeroU32;

use comity_core::limits::{Limits, Partial};
use comity_core::policy::Policy;
use comity_core::scope::{HostKey, Pattern, Rules, Target};

use crate::world::{MS, SEC};

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).expect("a pattern")
}

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

fn places(n: u32) -> Partial {
    Partial { in_flight: NonZeroU32::new(n), ..Partial::default() }
}

fn rules(written: &[(&str, Partial)]) -> Rules {
    let base = Limits { in_flight: NonZeroU32::new(32), policy: Policy::refusal(), ..Limits::none() };
    let mut builder = Rules::builder(base);
    for (text, partial) in written {
        builder.rule(pattern(text), partial.clone());
    }
    builder.build()
}

fn limits(rules: &Rules, target: Target<'_>) -> (u128, Option<u32>) {
    let key = rules.host_key(&target).expect("a host");
    let limits = rules.host(&key, &target, true);
    (limits.interval.as_millis(), limits.in_flight.map(NonZeroU32::get))
}

fn groups(rules: &Rules, host: &str) -> Vec<String> {
    rules.groups(&Target::host(host)).into_iter().map(|(name, _)| name.0.to_string()).collect()
}

fn port(host: &str, port: u16) -> Target<'_> {
    Target { port: Some(port), ..Target::host(host) }
}

#[test]
fn p1_the_key_is_the_host_name_whatever_the_port() {
    let mut builder = Rules::builder(Limits::none());
    let browsing = builder.ports_matter_for_addresses(false).build();
    for (host, key) in [("example.org", "example.org"), ("192.0.2.1", "192.0.2.1"), ("[2001:db8::1]", "[2001:db8::1]")]
    {
        for port in [None, Some(8080), Some(8443)] {
            let target = Target { port, ..Target::host(host) };
            assert_eq!(browsing.host_key(&target).unwrap().as_str(), key);
        }
    }
}

#[test]
fn f01_only_a_normalised_name_is_a_key() {
    assert_eq!(HostKey::new("example.com", None).unwrap().as_str(), "example.com");
    for unnormalised in ["EXAMPLE.com", "Example.CoM"] {
        assert!(HostKey::new(unnormalised, None).is_err(), "never a second key for one host");
    }
}

#[test]
fn f04_a_trailing_dot_is_the_same_host_in_names_and_rules() {
    for written in [["example.com", "*.com"], ["example.com.", "*.com."]] {
        let rules = rules(&[(written[0], every(100)), (written[1], places(2))]);
        for host in ["example.com", "example.com."] {
            assert_eq!(rules.host_key(&Target::host(host)).unwrap().as_str(), "example.com");
            assert_eq!(limits(&rules, Target::host(host)), (100, Some(32)));
            assert_eq!(groups(&rules, host), ["*.com"]);
        }
    }
}

#[test]
fn f05_an_address_is_found_however_its_rule_is_written() {
    let rules = rules(&[("::1", every(100)), ("[2001:db8:0:0::1]:8080", every(200)), ("2001:db8::2", every(300))]);
    assert_eq!(limits(&rules, Target::host("[::1]")).0, 100);
    assert_eq!(limits(&rules, port("[2001:db8::1]", 8080)).0, 200);
    assert_eq!(limits(&rules, port("[2001:db8::1]", 8081)).0, 0);
    assert_eq!(limits(&rules, port("[2001:db8::2]", 99)).0, 300);
    assert!(Pattern::parse("*.192.0.2.1").is_err());
}

#[test]
fn f06_addresses_with_different_ports_are_different_hosts() {
    let rules = rules(&[]);
    let key = |port_number| rules.host_key(&port("192.0.2.1", port_number)).unwrap().to_string();
    assert_eq!((key(2888), key(21200)), ("192.0.2.1:2888".to_owned(), "192.0.2.1:21200".to_owned()));
    assert_eq!(rules.host_key(&Target::host("192.0.2.1")).unwrap().as_str(), "192.0.2.1");
    assert_eq!(rules.host_key(&port("example.org", 2888)).unwrap().as_str(), "example.org");
}

#[test]
fn f07_a_path_or_an_identity_can_be_a_scope_of_its_own() {
    let rules = rules(&[
        ("example.org/flaky", places(1)),
        ("example.org/flaky/deep", places(2)),
        ("example.org#*", places(3)),
        ("example.org#gold", places(4)),
    ]);
    let names = |path, identity| {
        let target = Target { path, identity, ..Target::host("example.org") };
        let key = rules.host_key(&target).expect("a host");
        let found = rules.narrowed(&key, &target);
        found
            .iter()
            .map(|(name, limits)| (name.0.to_string(), limits.in_flight.map_or(0, NonZeroU32::get)))
            .collect::<Vec<_>>()
    };
    let named = |name: &str, places| (name.to_owned(), places);
    assert_eq!(names("/other", None), []);
    assert_eq!(names("/flaky/x", None), [named("example.org/flaky", 1)]);
    assert_eq!(names("/flaky/deep", None), [named("example.org/flaky/deep", 2), named("example.org/flaky", 1)]);
    assert_eq!(names("/", Some("tin")), [named("example.org#tin", 3)]);
    assert_eq!(names("/", Some("gold")), [named("example.org#gold", 4)], "one scope, and its own rule holds");
    for (name, places) in [("example.org/flaky", 1), ("example.org#tin", 3), ("example.org#gold", 4)] {
        let found = rules.narrowed_scope(name).and_then(|limits| limits.in_flight).map(NonZeroU32::get);
        assert_eq!(found, Some(places), "{name}");
    }
    assert_eq!(rules.narrowed_scope("example.org/nothing"), None);
}

#[test]
fn f13_registrable_domains_are_groups_of_their_own() {
    let rules = rules(&[
        ("*.a.co.uk", every(1)),
        ("*.b.co.uk", every(2)),
        ("*.x.github.io", every(3)),
        ("*.y.github.io", every(4)),
    ]);
    for (host, group) in [
        ("a.co.uk", "*.a.co.uk"),
        ("www.a.co.uk", "*.a.co.uk"),
        ("b.co.uk", "*.b.co.uk"),
        ("x.github.io", "*.x.github.io"),
        ("y.github.io", "*.y.github.io"),
    ] {
        assert_eq!(groups(&rules, host), [group]);
    }
    assert_eq!(groups(&rules, "co.uk"), <[&str; 0]>::default());
}

/// A scan of the rules would take a hundred thousand times twenty thousand comparisons; this takes three look-ups a host.
#[test]
fn f14_each_of_many_hosts_finds_its_own_rules() {
    let names: Vec<(String, String)> =
        (0..20_000).map(|n| (format!("h{n}.d{n}.example"), format!("*.d{n}.example"))).collect();
    let mut written: Vec<(&str, Partial)> = Vec::new();
    for (n, (host, group)) in names.iter().enumerate() {
        written.push((host, every(n as u32)));
        written.push((group, places(n as u32 + 1)));
    }
    let rules = rules(&written);
    for n in 0..100_000 {
        let host = format!("h{n}.d{}.example", n % 20_000);
        let target = Target::host(&host);
        let expected = if n < 20_000 { n as u128 } else { 0 };
        assert_eq!(limits(&rules, target).0, expected);
        let groups = rules.groups(&target);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].1.in_flight.map(NonZeroU32::get), Some(n % 20_000 + 1));
    }
}

#[test]
fn t2_fields_fall_back_one_by_one() {
    let base = Limits { in_flight: NonZeroU32::new(32), policy: Policy::refusal(), ..Limits::none() };
    let mut builder = Rules::builder(base);
    builder.template(Partial { retries: Some(9), ..every(50) });
    builder.rule(pattern("example.org"), Partial { retry_unsafe_503: Some(true), ..every(100) });
    builder.rule(pattern("example.org:8080"), places(3));
    builder.rule(pattern("other.org"), places(7));
    builder.rule(pattern("other.org"), every(700));
    let rules = builder.build();
    let limits = |target: Target<'_>| rules.host(&rules.host_key(&target).expect("a host"), &target, true);

    let nobody = limits(Target::host("nobody.org"));
    assert_eq!((nobody.interval, nobody.in_flight, nobody.retries), (MS * 50, NonZeroU32::new(32), 9));
    let by_name = limits(Target::host("example.org"));
    assert_eq!((by_name.interval, by_name.in_flight, by_name.retries), (MS * 100, NonZeroU32::new(32), 9));
    let by_port = limits(port("example.org", 8080));
    assert_eq!((by_port.interval, by_port.in_flight, by_port.retries), (MS * 100, NonZeroU32::new(3), 9));
    assert!(by_port.retry_unsafe_503);
    assert_eq!(limits(port("example.org", 9090)).in_flight, NonZeroU32::new(32));
    let twice = limits(Target::host("other.org"));
    assert_eq!(
        (twice.interval, twice.in_flight),
        (MS * 700, NonZeroU32::new(7)),
        "a later rule replaces what it names"
    );
}

#[test]
fn t2_two_rules_for_all_hosts_hold_together_too() {
    let rules = rules(&[("*", places(2)), ("*", every(100))]);
    let all = rules.group("*").unwrap();
    assert_eq!((all.interval, all.in_flight), (MS * 100, NonZeroU32::new(2)));
    assert_eq!(all.policy, Policy::Off, "nothing teaches it");
}

#[test]
fn t3_a_group_includes_its_apex_and_nested_groups_hold_together() {
    let rules = rules(&[("*.example.org", every(1)), ("*.a.example.org", every(2)), ("*", every(3))]);
    assert_eq!(groups(&rules, "example.org"), ["*.example.org", "*"]);
    assert_eq!(groups(&rules, "x.a.example.org"), ["*.a.example.org", "*.example.org", "*"]);
    assert_eq!(groups(&rules, "notexample.org"), ["*"]);
    assert_eq!(groups(&rules, "192.0.2.1"), ["*"]);
}

#[test]
fn p3_loopback_has_only_what_a_person_wrote() {
    let mut builder = Rules::builder(Limits { interval: SEC, policy: Policy::pressure(), ..Limits::none() });
    builder.rule(pattern("localhost:8080"), every(20));
    builder.preset(pattern("127.0.0.1"), every(5000));
    let rules = builder.build();
    for (target, exempt, interval, policy) in [
        (Target::host("localhost"), true, 0, Policy::Off),
        (port("localhost", 8080), true, 20, Policy::Off),
        (Target::host("127.0.0.1"), true, 0, Policy::Off),
        (Target::host("localhost"), false, 1000, Policy::pressure()),
    ] {
        let limits = rules.host(&rules.host_key(&target).unwrap(), &target, exempt);
        assert_eq!((limits.interval, &limits.policy), (MS * interval, &policy), "{target:?}");
    }
}
