//! Refusals and retries, judged by what arrived.

use std::time::Duration;

use comity::{Partial, Policy, Profile};
use comity_audit::far_end::{FarEnd, Host, Limit, Reply, RetryAfter, World};
use comity_fetch::keep::Outcome;

use crate::world::{Visit, fixed, pages, scripted};

const MS: Duration = Duration::from_millis(1);

fn refusing_once(seconds: &'static str) -> Host {
    scripted(move |_, nth| (nth == 1).then(|| Reply::status(429).header("retry-after", seconds)))
}

#[test]
fn t7_retry_after_silences_that_host_and_no_other() {
    let world = World::new().host("a.example", refusing_once("3")).default_host(Host::new());
    let far_end = FarEnd::start(world).unwrap();
    let urls: Vec<String> = pages("a.example", 4).into_iter().chain(pages("b.example", 20)).collect();
    let visited = Visit::new(Profile::Crawl, urls).limits(fixed(100)).go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 24);
    let a = far_end.times("a.example");
    // nth counts from 0: the second request is refused, the third comes three seconds later.
    assert!(a[2] - a[1] >= 3000 * MS, "{:?}", a[2] - a[1]);
    assert!(a[2] - a[1] < 3300 * MS);
    let b = far_end.times("b.example");
    assert!(b.iter().filter(|at| **at > a[1] && **at < a[2]).count() >= 10, "b goes on while a is silent");
}

#[test]
fn t6_a_refusal_silences_the_group_the_host_is_in() {
    let world = World::new().host("a.example.org", refusing_once("2")).default_host(Host::new());
    let far_end = FarEnd::start(world).unwrap();
    let urls: Vec<String> =
        ["a.example.org", "b.example.org", "c.example.net"].iter().flat_map(|host| pages(host, 20)).collect();
    let mut visit = Visit::new(Profile::Crawl, urls).limits(fixed(100));
    let group = Partial { in_flight: std::num::NonZeroU32::new(8), ..Partial::default() };
    let policy = Partial { policy: Some(Policy::refusal()), ..group };
    visit.builder = visit.builder.rule(comity::config::pattern("*.example.org").unwrap(), policy);
    visit.go(&far_end);
    let refused_at = far_end.times("a.example.org")[1];
    let silent = |host: &str| {
        far_end.times(host).iter().filter(|at| **at > refused_at + 50 * MS && **at < refused_at + 1950 * MS).count()
    };
    assert_eq!(silent("b.example.org"), 0, "the group is silent");
    assert!(silent("c.example.net") >= 10, "another domain is not");
}

#[test]
fn d01_retries_are_spaced_like_everything_else() {
    let host = scripted(|_, nth| (nth % 3 == 1).then(|| Reply::status(429).header("retry-after", "0")));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let visited = Visit::new(Profile::Crawl, pages("a.example", 10)).limits(fixed(60)).go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 10);
    let gaps = comity_audit::arrivals::Gaps::of(&far_end.times("a.example"));
    assert!(gaps.arrivals() >= 14, "{}", gaps.arrivals());
    assert_eq!(gaps.below(visited.least_gap(60)), 0, "{:?}", gaps.least());
}

#[test]
fn d03_an_always_refusing_host_ends_the_run_with_its_refusal() {
    let host = Host::new().respond(|_, _| Some(Reply::status(429)));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let limits = Partial { policy: Some(Policy::Off), ..Partial::default() };
    let visited = Visit::new(Profile::Api, pages("a.example", 5))
        .limits(limits)
        .options(|options| options.retries = Some(0))
        .go(&far_end);
    assert_eq!(visited.count(Outcome::Refused), 5);
    assert_eq!(far_end.arrivals().len(), 5);
    assert!(visited.records.iter().all(|record| record.status == Some(429) && record.attempts == 1));
}

#[test]
fn d04_a_host_that_refuses_for_long_is_given_up() {
    let host = Host::new().respond(|_, _| Some(Reply::status(503)));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let visited = Visit::new(Profile::Api, pages("a.example", 100))
        .options(|options| options.stall_time = Duration::from_secs(2))
        .go(&far_end);
    assert_eq!(visited.records.len(), 100);
    assert!(visited.took < Duration::from_secs(8), "{:?}", visited.took);
    assert!(visited.count(Outcome::NotChecked) > 50);
    assert!(far_end.arrivals().len() < 10, "attempts do not grow with the queue: {}", far_end.arrivals().len());
}

#[test]
fn d19_asked_to_wait_past_the_limit_gives_up_at_once() {
    let host = scripted(|_, nth| (nth == 0).then(|| Reply::status(429).header("retry-after", "300")));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let limits = Partial { retry_after_limit: Some(Duration::from_secs(1)), ..fixed(10) };
    let visited = Visit::new(Profile::Crawl, pages("a.example", 3)).limits(limits).go(&far_end);
    let first = visited.record("http://a.example/page/0");
    assert_eq!((first.outcome, first.status, first.attempts), (Outcome::Refused, Some(429), 1));
    assert!(first.reason.as_deref().unwrap().contains("300s"), "{:?}", first.reason);
    assert_eq!(visited.count(Outcome::Fetched), 2);
    let times = far_end.times("a.example");
    assert!(times[1] - times[0] >= Duration::from_secs(1) && times[1] - times[0] < Duration::from_millis(1500));
}

#[test]
fn d34_a_mirror_with_four_places_serves_all() {
    let host = Host::new().limit(Limit::Concurrency(4)).service(50 * MS);
    let far_end = FarEnd::start(World::new().host("mirror.example", host)).unwrap();
    let refusals = |limits: Partial| {
        far_end.clear();
        let visited = Visit::new(Profile::Api, pages("mirror.example", 50)).limits(limits).go(&far_end);
        assert_eq!(visited.count(Outcome::Fetched), 50, "{:?}", visited.end.report.totals);
        refused(&far_end)
    };
    let learned = refusals(Partial::default());
    assert!(learned <= 5, "{learned} refusals");
    // Where all fifty start at once, and only refusals tell how many are too many.
    let told = refusals(by_refusals());
    assert!((10..=60).contains(&told), "{told} refusals");
}

#[test]
fn h01_a_link_checker_gets_every_live_link() {
    let (few, many) = (links(10, 30, Partial::default()), links(30, 130, by_refusals()));
    assert!((1..=8).contains(&few), "the pace that was learned is refused now and then: {few}");
    assert!((10..=130).contains(&many), "what only refusals slow is refused in every window: {many}");
}

/// Checks so many live links and twenty dead ones of a host that serves `count` a second; how often it refused.
fn links(count: u32, live: usize, limits: Partial) -> usize {
    let host = Host::new()
        .limit(Limit::FixedWindow { count, per: Duration::from_secs(1) })
        .retry_after(RetryAfter::WholeSeconds)
        .respond(|arrival, _| arrival.path.starts_with("/dead/").then(|| Reply::status(404)));
    let far_end = FarEnd::start(World::new().host("links.example", host)).unwrap();
    let dead = (0..20).map(|n| format!("http://links.example/dead/{n}"));
    let urls: Vec<String> = pages("links.example", live).into_iter().chain(dead).collect();
    let visited = Visit::new(Profile::Api, urls).limits(limits).go(&far_end);
    let with = |status: u16| visited.records.iter().filter(|record| record.status == Some(status)).count();
    assert_eq!((with(200), with(404)), (live, 20), "{:?}", visited.end.report.totals);
    refused(&far_end)
}

/// As many at once as the policy `refusal` lets start before it is refused.
fn by_refusals() -> Partial {
    Partial { policy: Some(Policy::refusal()), in_flight: std::num::NonZeroU32::new(32), ..Partial::default() }
}

fn refused(far_end: &FarEnd) -> usize {
    far_end.arrivals().iter().filter(|arrival| arrival.status == Some(429)).count()
}

#[test]
fn h04_without_retries_the_refused_one_ends_and_the_host_still_pauses() {
    let far_end = FarEnd::start(World::new().host("a.example", refusing_once("1"))).unwrap();
    let visited = Visit::new(Profile::Crawl, pages("a.example", 4))
        .limits(fixed(10))
        .options(|options| options.retries = Some(0))
        .go(&far_end);
    assert_eq!((visited.count(Outcome::Refused), visited.count(Outcome::Fetched)), (1, 3));
    let times = far_end.times("a.example");
    assert!(times[2] - times[1] >= Duration::from_secs(1));
}

#[test]
fn h10_the_run_stops_after_too_many_refusals() {
    let host = Host::new().respond(|_, _| Some(Reply::status(429)));
    let far_end = FarEnd::start(World::new().default_host(host)).unwrap();
    let urls: Vec<String> = (0..50).map(|n| format!("http://h{n}.example/")).collect();
    let visited = Visit::new(Profile::Api, urls)
        .options(|options| options.stop_when_limited = Some((20, Duration::from_secs(300))))
        .go(&far_end);
    assert_eq!(visited.end.stopped, Some(comity_fetch::Stop::Limited));
    assert_eq!(visited.end.report.totals.all(), 50);
}
