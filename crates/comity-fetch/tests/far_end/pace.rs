//! The pace, judged by what arrived. Every claim has a control that must fail.

use std::time::Duration;

use comity::{Partial, Policy, Profile};
use comity_audit::arrivals::{Gaps, most_in_window};
use comity_audit::far_end::{FarEnd, Host, World};
use comity_fetch::keep::Outcome;

use crate::world::{Visit, fixed, pages};

const MS: Duration = Duration::from_millis(1);

fn plain() -> FarEnd {
    FarEnd::start(World::new().default_host(Host::new().size(200))).unwrap()
}

/// 500 ms, 50 ms and 20 ms held: the median within 1 %, no gap under spacing − late_by − the jitter of a control run.
#[test]
fn t1_spacing_is_held_at_the_far_end() {
    for (ms, many) in [(500u64, 12usize), (50, 80), (20, 200)] {
        let far_end = plain();
        let visited = Visit::new(Profile::Crawl, pages("a.example", many)).limits(fixed(ms)).go(&far_end);
        assert_eq!(visited.count(Outcome::Fetched), many);
        let gaps = Gaps::of(&far_end.times("a.example"));
        let (least, median, jitter) = (gaps.least().unwrap(), gaps.median().unwrap(), visited.jitter);
        let floor = visited.least_gap(ms);
        println!("spacing {ms} ms: least gap {least:?}, median {median:?}, a perfect client's jitter {jitter:?}");
        assert_eq!(gaps.below(floor), 0, "least {least:?} of spacing {ms} ms, jitter {jitter:?}");
        let off = median.abs_diff(ms as u32 * MS);
        assert!(off <= ms as u32 * MS / 100, "median {median:?} of spacing {ms} ms");

        // The control: the same run without a pace is seen to break the promise.
        far_end.clear();
        let off = Partial { policy: Some(Policy::Off), ..Partial::default() };
        Visit::new(Profile::Api, pages("a.example", many)).limits(off).go(&far_end);
        assert!(Gaps::of(&far_end.times("a.example")).least().unwrap() < ms as u32 * MS / 2);
    }
}

/// 306 hosts of sizes up to 171 at one start an interval end within 10 % of the longest host's time, with 8 and with 64
/// transfers at once; here at 50 ms, that the tests end in time.
#[test]
fn c19_a_waiting_request_holds_no_worker() {
    visit_306_hosts(50, &[8, 64]);
}

/// The same at its full size.
#[test]
#[ignore = "takes six minutes"]
fn c19_at_one_start_a_second() {
    visit_306_hosts(1000, &[8, 64]);
}

fn visit_306_hosts(ms: u64, at_once: &[usize]) {
    for parallel in at_once.iter().copied() {
        let far_end = plain();
        let mut urls = Vec::new();
        for host in 0..306usize {
            let size = if host == 200 { 171 } else { 1 + host * 7 % 20 };
            urls.extend(pages(&format!("h{host}.example"), size));
        }
        let visited = Visit::new(Profile::Crawl, urls.clone())
            .limits(fixed(ms))
            .options(|options| options.parallel = parallel)
            .go(&far_end);
        assert_eq!(visited.count(Outcome::Fetched), urls.len());
        let longest = Duration::from_millis(170 * ms);
        println!("306 hosts, {parallel} at once: {:?}, the longest host alone {longest:?}", visited.took);
        assert!(visited.took < longest + longest / 10, "{:?} with {parallel} at once", visited.took);
    }
}

#[test]
fn t3_t4_a_group_sends_its_rate_in_all_first_come_first_served() {
    let far_end = plain();
    let hosts: Vec<String> = (0..20).map(|n| format!("h{n}.example.org")).collect();
    // One page of each host after the other: the order of the list is the order of arrival.
    let urls: Vec<String> =
        (0..2).flat_map(|page| hosts.iter().map(move |h| format!("http://{h}/page/{page}"))).collect();
    let mut visit = Visit::new(Profile::Crawl, urls.clone());
    let off = Partial { policy: Some(Policy::Off), ..Partial::default() };
    let group = Partial { interval: Some(200 * MS), ..Partial::default() };
    visit.builder = visit.builder.template(off.clone()).rule("*.example.org".parse_pattern(), group);
    let visited = visit.go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 40);
    let arrivals = far_end.arrivals();
    let times: Vec<Duration> = arrivals.iter().map(|arrival| arrival.at).collect();
    assert!(most_in_window(&times, 1000 * MS) <= 6, "{}", most_in_window(&times, 1000 * MS));
    assert_eq!(Gaps::of(&times).below(visited.least_gap(200)), 0);
    let order: Vec<String> = arrivals.iter().map(|a| format!("http://{}{}", a.host, a.path)).collect();
    assert_eq!(order, urls, "first come, first served");

    // The control: without the group the same hosts send far more in a second.
    far_end.clear();
    Visit::new(Profile::Crawl, urls).limits(off).go(&far_end);
    assert!(most_in_window(&far_end.arrivals().iter().map(|a| a.at).collect::<Vec<_>>(), 1000 * MS) > 30);
}

#[test]
fn c17_one_slow_host_does_not_slow_the_others() {
    let far_end = plain();
    let mut urls = pages("slow.example", 30);
    for n in 0..50 {
        urls.extend(pages(&format!("h{n}.example"), 5));
    }
    let unspaced = Partial { policy: Some(Policy::refusal()), ..Partial::default() };
    let mut visit = Visit::new(Profile::Api, urls.clone()).limits(unspaced);
    visit.builder = visit.builder.rule("slow.example".parse_pattern(), fixed(100));
    let visited = visit.go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), urls.len());
    assert_eq!(Gaps::of(&far_end.times("slow.example")).below(visited.least_gap(100)), 0);
    let others = far_end.arrivals().iter().filter(|a| a.host != "slow.example").map(|a| a.at).max().unwrap();
    let first = far_end.arrivals().iter().map(|a| a.at).min().unwrap();
    assert!(others - first < 1500 * MS, "{:?}", others - first);
}

#[test]
fn d07_every_redirect_hop_is_a_start_on_the_host_it_leads_to() {
    let world = World::new()
        .host(
            "from.example",
            Host::new().respond(|arrival, _| {
                if arrival.path.starts_with("/page/") {
                    Some(comity_audit::far_end::Reply::redirect(302, &format!("http://to.example{}", arrival.path)))
                } else {
                    None
                }
            }),
        )
        .host(
            "same.example",
            Host::new().respond(|arrival, _| {
                arrival
                    .path
                    .strip_prefix("/page/")
                    .map(|n| comity_audit::far_end::Reply::redirect(302, &format!("/final/{n}")))
            }),
        )
        .default_host(Host::new());
    let far_end = FarEnd::start(world).unwrap();
    let urls: Vec<String> = pages("from.example", 10).into_iter().chain(pages("same.example", 10)).collect();
    let visited = Visit::new(Profile::Crawl, urls).limits(fixed(50)).go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 20);
    for (host, starts) in [("from.example", 10), ("to.example", 10), ("same.example", 20)] {
        let gaps = Gaps::of(&far_end.times(host));
        assert_eq!(gaps.arrivals(), starts, "{host}");
        assert_eq!(gaps.below(visited.least_gap(50)), 0, "{host}: {:?}", gaps.least());
    }
}

#[test]
fn d06_a_chain_on_one_host_with_one_in_flight_completes() {
    let world = World::new()
        .host("a.example", Host::new().redirect("/a", 302, "/b").redirect("/b", 302, "/c").redirect("/c", 302, "/d"));
    let far_end = FarEnd::start(world).unwrap();
    let visited = Visit::new(Profile::Crawl, ["http://a.example/a".to_owned()]).limits(fixed(10)).go(&far_end);
    assert_eq!(visited.records[0].final_url.as_deref(), Some("http://a.example/d"));
    assert_eq!(visited.records[0].redirects.len(), 3);
    assert_eq!(far_end.arrivals().len(), 4);
}

/// A slow connection must not close the gap to the next start (decision 2): what counts is when the request is written.
#[test]
fn t1_one_in_flight_is_held_until_headers_arrive() {
    let far_end = FarEnd::start(World::new().host("a.example", Host::new().service(120 * MS))).unwrap();
    let visited = Visit::new(Profile::Crawl, pages("a.example", 6)).limits(fixed(20)).go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 6);
    assert_eq!(comity_audit::arrivals::most_in_flight(&far_end.arrivals()), 1);
    assert_eq!(Gaps::of(&far_end.times("a.example")).below((120 * MS).saturating_sub(visited.jitter)), 0);
}

trait ParsePattern {
    fn parse_pattern(&self) -> comity::Pattern;
}

impl ParsePattern for str {
    fn parse_pattern(&self) -> comity::Pattern {
        comity::config::pattern(self).unwrap()
    }
}
