//! Hosts that do not answer, runs that are stopped.

use std::time::Duration;

use comity::Profile;
use comity_audit::far_end::{FarEnd, Host, Outage, Reply, World};
use comity_fetch::Stop;
use comity_fetch::keep::{Lines, Outcome};

use crate::world::{Visit, fixed, pages, scripted};

#[test]
fn a_host_that_never_answers_ends_with_its_urls_reported() {
    let world = World::new().host("silent.example", Host::silent()).default_host(Host::new());
    let far_end = FarEnd::start(world).unwrap();
    let urls: Vec<String> = pages("silent.example", 50).into_iter().chain(pages("b.example", 5)).collect();
    let visited = Visit::new(Profile::Crawl, urls)
        .limits(fixed(10))
        .options(|options| {
            options.max_time = Some(Duration::from_millis(200));
            options.dead_time = Duration::from_millis(500);
        })
        .go(&far_end);
    assert_eq!((visited.count(Outcome::Failed), visited.count(Outcome::Fetched)), (50, 5));
    assert!(visited.took < Duration::from_secs(5), "{:?}", visited.took);
    assert!(far_end.times("silent.example").len() < 8);
}

#[test]
fn h08_a_stopped_run_ends_within_a_second_and_sends_nothing_more() {
    let host = scripted(|_, nth| (nth >= 2).then(|| Reply::status(429).header("retry-after", "900")));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let visited = Visit::new(Profile::Crawl, pages("a.example", 100))
        .limits(fixed(10))
        .go_until(&far_end, async { tokio::time::sleep(Duration::from_millis(700)).await });
    assert_eq!(visited.end.stopped, Some(Stop::Interrupted));
    assert!(visited.took < Duration::from_millis(1700), "{:?}", visited.took);
    assert_eq!(visited.end.report.totals.fetched, 2);
    assert_eq!(visited.end.report.totals.not_checked, 98);
    assert_eq!(far_end.arrivals().len(), 3);
}

#[test]
fn h19_a_host_with_too_many_errors_is_left() {
    let far_end = FarEnd::start(World::new().host("a.example", Host::new().only_listed())).unwrap();
    let visited = Visit::new(Profile::Crawl, pages("a.example", 30))
        .limits(fixed(5))
        .options(|options| options.stop_after_errors = Some(10))
        .go(&far_end);
    assert_eq!(far_end.arrivals().len(), 10);
    assert_eq!(visited.count(Outcome::Skipped), 20);
}

#[test]
fn d23_a_queue_time_out_is_told_and_nothing_is_sent() {
    let host = scripted(|_, nth| (nth == 0).then(|| Reply::status(429).header("retry-after", "3")));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let visited = Visit::new(Profile::Crawl, pages("a.example", 3))
        .limits(fixed(10))
        .options(|options| options.queue_timeout = Some(Duration::from_secs(1)))
        .go(&far_end);
    assert_eq!(visited.count(Outcome::NotChecked), 3);
    assert!(visited.records.iter().all(|r| r.reason.as_deref().unwrap().contains("queue-timeout")));
    assert_eq!(far_end.arrivals().len(), 1);
}

#[test]
fn a_stopped_run_is_resumed_without_refetching() {
    let far_end = FarEnd::start(World::new().host("a.example", Host::new().size(100))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines.jsonl");
    let visit = |resume: bool| {
        let mut visit = Visit::new(Profile::Crawl, pages("a.example", 40)).limits(fixed(20));
        visit.keep.directory = Some(folder.path().join("pages"));
        visit.keep.jsonl = Some(Lines::File(lines.clone()));
        visit.keep.resume = resume;
        visit
    };
    let first = visit(false).go_until(&far_end, async { tokio::time::sleep(Duration::from_millis(400)).await });
    let done = first.end.report.totals.fetched;
    assert!(done > 5 && done < 40, "{done}");
    let second = visit(true).go(&far_end);
    assert_eq!(second.end.report.totals.fetched, 40 - done);
    let mut paths: Vec<String> = far_end.arrivals().into_iter().map(|arrival| arrival.path).collect();
    let asked = paths.len();
    paths.sort();
    paths.dedup();
    // At most the one that was in flight when the run was stopped is asked twice.
    assert!(asked - paths.len() <= 1, "{asked} requests for {} pages", paths.len());
    assert_eq!(paths.len(), 40);
}

#[test]
fn a10_hosts_that_go_silent_together_are_not_blamed() {
    let urls = |hosts: usize| (0..hosts).flat_map(|n| pages(&format!("h{n}.example"), 12)).collect::<Vec<_>>();
    let visit = |hosts: usize| {
        // Every host goes silent after its second answer, for so long.
        let outage = Host::new().outage(Duration::from_millis(60), Duration::from_millis(1500), Outage::Reset);
        let names: Vec<String> = (0..hosts).map(|n| format!("h{n}.example")).collect();
        let world = names.iter().fold(World::new(), |world, name| world.host(name, outage.clone()));
        let far_end = FarEnd::start(world).unwrap();
        Visit::new(Profile::Crawl, urls(hosts))
            .limits(fixed(150))
            .options(|options| {
                options.dead_time = Duration::from_millis(600);
                options.stall_time = Duration::from_secs(60);
            })
            .go(&far_end)
    };
    let given_up = |visited: &crate::world::Visited| {
        visited
            .records
            .iter()
            .filter(|r| r.reason.as_deref().is_some_and(|why| why.contains("has not answered")))
            .count()
    };
    assert_eq!(given_up(&visit(6)), 0, "six hosts at once: our network");
    // The control: one host alone is given up.
    assert!(given_up(&visit(1)) > 0);
}

#[test]
fn h19_a_missing_robots_txt_is_no_error_of_the_host() {
    let far_end = FarEnd::start(World::new().host("a.example", Host::new().robots_reply(Reply::status(404)))).unwrap();
    let visited = Visit::new(Profile::Crawl, pages("a.example", 3))
        .limits(fixed(5))
        .options(|options| {
            options.robots = true;
            options.stop_after_errors = Some(1);
        })
        .go(&far_end);
    assert_eq!(visited.count(Outcome::Fetched), 3);
}

#[test]
fn a_host_that_cannot_be_paced_has_its_urls_reported_and_no_other() {
    let far_end = FarEnd::start(World::new().default_host(Host::new())).unwrap();
    let label = "x".repeat(70);
    let urls = vec![format!("http://{label}.test/1"), format!("http://{label}.test/2"), "http://ok.test/1".to_owned()];
    for robots in [false, true] {
        let visited =
            Visit::new(Profile::Crawl, urls.clone()).limits(fixed(5)).options(|o| o.robots = robots).go(&far_end);
        let mut told: Vec<&str> = visited.records.iter().map(|record| record.url.as_str()).collect();
        told.sort_unstable();
        let mut asked: Vec<&str> = urls.iter().map(String::as_str).collect();
        asked.sort_unstable();
        assert_eq!(told, asked);
        assert_eq!((visited.count(Outcome::Fetched), visited.count(Outcome::Skipped)), (1, 2));
    }
}

#[test]
fn an_answer_that_never_comes_does_not_hold_the_run() {
    let world = World::new().host("silent.example", Host::silent()).default_host(Host::new());
    let far_end = FarEnd::start(world).unwrap();
    let urls: Vec<String> = pages("silent.example", 3).into_iter().chain(pages("b.example", 2)).collect();
    let visited = Visit::new(Profile::Crawl, urls)
        .limits(fixed(5))
        .options(|options| {
            options.idle_time = Duration::from_millis(200);
            options.dead_time = Duration::from_millis(100);
        })
        .go(&far_end);
    assert_eq!((visited.count(Outcome::Failed), visited.count(Outcome::Fetched)), (3, 2));
    assert!(visited.took < Duration::from_secs(4), "{:?}", visited.took);
    assert!(visited.records.iter().any(|r| r.error.as_deref().is_some_and(|e| e.contains("--idle-time"))));
}

#[test]
fn a_crawler_reads_one_body_of_a_host_at_a_time() {
    let body = || Reply::ok(vec![b'x'; 2000]).body_after(Duration::from_millis(150));
    let far_end = FarEnd::start(World::new().host("a.example", Host::new().respond(move |_, _| Some(body())))).unwrap();
    let gaps = |profile: Profile| {
        far_end.clear();
        let visited = Visit::new(profile, pages("a.example", 4)).limits(fixed(10)).go(&far_end);
        assert_eq!(visited.count(Outcome::Fetched), 4);
        comity_audit::arrivals::Gaps::of(&far_end.times("a.example")).least().unwrap()
    };
    assert!(gaps(Profile::Crawl) >= Duration::from_millis(145));
    // The control: an API client has its place back at the headers (T1).
    assert!(gaps(Profile::Api) < Duration::from_millis(100));
}

#[test]
fn a_redirect_from_another_host_to_this_machine_is_not_followed() {
    let far_end = FarEnd::start(World::new().default_host(Host::new())).unwrap();
    let home = format!("http://127.0.0.1:{}/secret", far_end.addr().port());
    let host = Host::new().respond(move |arrival, _| (arrival.path == "/in").then(|| Reply::redirect(302, &home)));
    let world = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let visited = Visit::new(Profile::Crawl, ["http://a.example/in".to_owned()]).limits(fixed(5)).go(&world);
    assert_eq!(visited.count(Outcome::Failed), 1);
    assert!(visited.records[0].error.as_deref().unwrap().contains("this machine"));
    assert!(far_end.arrivals().is_empty());
}

#[test]
fn a_link_whose_host_knows_no_head_is_asked_with_get() {
    let host = Host::new().respond(|arrival, _| (arrival.method == "HEAD").then(|| Reply::status(405)));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let mut visit = Visit::new(Profile::Crawl, pages("a.example", 2)).limits(fixed(5));
    visit.head = true;
    visit.keep.head = true;
    let visited = visit.go(&far_end);
    assert!(visited.records.iter().all(|record| record.status == Some(200)), "{:?}", visited.records);
    assert_eq!(far_end.arrivals().len(), 4);
}
