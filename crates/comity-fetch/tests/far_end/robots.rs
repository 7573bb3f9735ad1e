//! robots.txt, judged by what arrived.

use std::time::Duration;

use comity::Profile;
use comity_audit::arrivals::Gaps;
use comity_audit::far_end::{FarEnd, Host, Reply, World};
use comity_fetch::keep::Outcome;

use crate::world::{Visit, fixed, pages};

fn obeying(urls: Vec<String>) -> Visit {
    Visit::new(Profile::Crawl, urls).limits(fixed(20)).options(|options| options.robots = true)
}

#[test]
fn c16_robots_txt_is_asked_first_and_paced_with_the_rest() {
    let far_end =
        FarEnd::start(World::new().host("a.example", Host::new().robots("User-agent: *\nDisallow: /page/3\n")))
            .unwrap();
    let visited = obeying(pages("a.example", 6)).go(&far_end);
    assert_eq!((visited.count(Outcome::Fetched), visited.count(Outcome::Robots)), (5, 1));
    let arrivals = far_end.arrivals();
    assert_eq!(arrivals[0].path, "/robots.txt");
    assert!(arrivals.iter().all(|arrival| arrival.path != "/page/3"));
    assert_eq!(Gaps::of(&far_end.times("a.example")).below(visited.least_gap(20)), 0);
}

#[test]
fn x7_a_crawl_delay_is_what_the_far_end_receives() {
    let far_end =
        FarEnd::start(World::new().host("a.example", Host::new().robots("User-agent: *\nCrawl-delay: 0.5\n"))).unwrap();
    let visited = obeying(pages("a.example", 5)).go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 5);
    let gaps = Gaps::of(&far_end.times("a.example"));
    assert_eq!(gaps.below(visited.least_gap(500)), 0, "{:?}", gaps.least());
}

#[test]
fn b15_an_unreadable_robots_txt_is_not_now_and_never_allow_all() {
    let host = Host::new().robots_reply(Reply::status(503).body("<html>User-agent: *\nAllow: /</html>"));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let visited = obeying(pages("a.example", 3))
        .options(|options| {
            options.retries = Some(1);
            options.stall_time = Duration::ZERO;
        })
        .go(&far_end);
    assert_eq!(visited.count(Outcome::NotChecked), 3);
    assert!(far_end.arrivals().iter().all(|arrival| arrival.path == "/robots.txt"));
}

#[test]
fn b16_robots_txt_that_says_later_is_asked_again_then() {
    let host = Host::new().respond(|arrival, nth| {
        (arrival.path == "/robots.txt" && nth == 0).then(|| Reply::status(429).header("retry-after", "1"))
    });
    let far_end =
        FarEnd::start(World::new().host("a.example", host.robots("User-agent: *\nDisallow: /page/0\n"))).unwrap();
    let visited = obeying(pages("a.example", 3)).go(&far_end);
    let arrivals = far_end.arrivals();
    let paths: Vec<&str> = arrivals.iter().map(|arrival| arrival.path.as_str()).collect();
    assert_eq!(paths[..2], ["/robots.txt", "/robots.txt"]);
    assert!(arrivals[1].at - arrivals[0].at >= Duration::from_secs(1));
    assert_eq!((visited.count(Outcome::Fetched), visited.count(Outcome::Robots)), (2, 1));
}

#[test]
fn b16_a_missing_robots_txt_allows_all() {
    let far_end = FarEnd::start(World::new().host("a.example", Host::new().robots_reply(Reply::status(404)))).unwrap();
    assert_eq!(obeying(pages("a.example", 3)).go(&far_end).count(Outcome::Fetched), 3);
}

#[test]
fn d13_a_crawl_delay_over_the_limit_skips_the_host_with_that_reason() {
    let far_end =
        FarEnd::start(World::new().host("a.example", Host::new().robots("User-agent: *\nCrawl-delay: 600\n"))).unwrap();
    let visited = obeying(pages("a.example", 3)).go(&far_end);
    assert_eq!(visited.count(Outcome::Skipped), 3);
    assert!(visited.records[0].reason.as_deref().unwrap().contains("600s"));
    assert_eq!(far_end.arrivals().len(), 1);
}

#[test]
fn a_redirect_to_another_site_obeys_that_sites_robots_txt() {
    let world = World::new()
        .host(
            "a.example",
            Host::new().redirect("/x", 302, "http://b.example/private").redirect("/y", 302, "http://b.example/open"),
        )
        .host("b.example", Host::new().robots("User-agent: *\nDisallow: /private\n"));
    let far_end = FarEnd::start(world).unwrap();
    let urls = vec!["http://a.example/x".to_owned(), "http://a.example/y".to_owned()];
    let visited = obeying(urls).go(&far_end);
    assert_eq!(visited.record("http://a.example/x").outcome, Outcome::Robots);
    assert_eq!(visited.record("http://a.example/y").outcome, Outcome::Fetched);
    assert!(far_end.arrivals().iter().all(|arrival| arrival.path != "/private"));
}

/// A redirect reaches a site before the list does: its robots.txt is asked once and obeyed by both.
#[test]
fn c16_a_site_that_a_redirect_reached_first_waits_for_its_robots_txt() {
    let moved = |arrival: &comity_audit::far_end::Arrival, _| {
        let to = format!("http://b.example{}", arrival.path);
        (arrival.path != "/robots.txt").then(|| Reply::redirect(302, &to))
    };
    let slow_robots = |arrival: &comity_audit::far_end::Arrival, _| {
        let text = "User-agent: *\nDisallow: /page/1\n";
        (arrival.path == "/robots.txt").then(|| Reply::ok(text).after(Duration::from_millis(300)))
    };
    let world =
        World::new().host("a.example", Host::new().respond(moved)).host("b.example", Host::new().respond(slow_robots));
    let far_end = FarEnd::start(world).unwrap();
    let urls: Vec<String> = pages("a.example", 3).into_iter().chain(pages("b.example", 3)).collect();
    // One transfer at a time: the list reaches b only after a's redirect has.
    let visited = obeying(urls).options(|options| options.parallel = 1).go(&far_end);
    assert_eq!(visited.records.len(), 6);
    let b: Vec<String> = far_end.arrivals().into_iter().filter(|a| a.host == "b.example").map(|a| a.path).collect();
    assert_eq!(b.iter().filter(|path| *path == "/robots.txt").count(), 1, "{b:?}");
    assert!(!b.contains(&"/page/1".to_owned()), "{b:?}");
    assert_eq!(visited.count(Outcome::Robots), 2);
}

#[test]
fn a_coded_robots_txt_is_read_and_an_unknown_coding_is_not_now() {
    use std::io::Write as _;
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coder.write_all(b"User-agent: *\nDisallow: /page/0\n").unwrap();
    let coded = coder.finish().unwrap();
    let world = World::new()
        .host("gzip.example", Host::new().robots_reply(Reply::ok(coded).header("content-encoding", "gzip")))
        .host("odd.example", Host::new().robots_reply(Reply::ok("x").header("content-encoding", "zz")));
    let far_end = FarEnd::start(world).unwrap();
    let urls: Vec<String> = pages("gzip.example", 2).into_iter().chain(pages("odd.example", 1)).collect();
    let visited = obeying(urls).options(|options| options.stall_time = Duration::ZERO).go(&far_end);
    assert_eq!(visited.record("http://gzip.example/page/0").outcome, Outcome::Robots);
    assert_eq!(visited.record("http://gzip.example/page/1").outcome, Outcome::Fetched);
    assert_eq!(visited.record("http://odd.example/page/0").outcome, Outcome::NotChecked);
    assert!(far_end.arrivals().iter().all(|a| a.path == "/robots.txt" || a.path == "/page/1"));
}

/// The pace is the host's, so the longest of what its origins declare holds for all of them (decision 13).
#[test]
fn b05_another_port_of_a_host_does_not_take_its_crawl_delay_back() {
    let host = Host::new().respond(|arrival, _| {
        let other_port = arrival.header("host").is_some_and(|host| host.ends_with(":8080"));
        (arrival.path == "/robots.txt")
            .then(|| if other_port { Reply::status(404) } else { Reply::ok("User-agent: *\nCrawl-delay: 0.3\n") })
    });
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let urls: Vec<String> = (0..4)
        .flat_map(|n| [format!("http://a.example/page/{n}"), format!("http://a.example:8080/page/{n}")])
        .collect();
    let visited = obeying(urls).go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 8);
    let times = far_end.times("a.example");
    let after_both_robots = &times[2..];
    assert_eq!(
        Gaps::of(after_both_robots).below(visited.least_gap(300)),
        0,
        "{:?}",
        Gaps::of(after_both_robots).least()
    );
}
