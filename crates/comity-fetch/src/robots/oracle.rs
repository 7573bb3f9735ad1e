//! Our reading beside that of two other parsers, on generated files. Where they differ from us on purpose, the
//! generator leaves that out, or the tests at the end show the difference:
//!
//! - `robotstxt` lets `Allow: /a/index.html` allow `/a/` as well, an extension of one crawler; RFC 9309 has no such rule.
//! - `robotstxt` lets any unknown line part a group, `texting_robots` a `Crawl-delay`; RFC 9309 §2.2.4 lets neither.
//! - `texting_robots` compares the agent with the whole line, a version included, and reads rules without any agent.
//! - `texting_robots` reads an empty `Disallow` as `Allow: /`, which then beats `Disallow: /`; to us it is no rule.
//! - `texting_robots` reads `Crawl-delay: inf`.
//! - Neither decodes `%7E` to `~`, and neither reads `Disallow: private` as `/private`.
//! - `robotstxt` loses its place after a wildcard (`*/$` does not match `//`), so it is asked about none.

use super::Robots;
use proptest::prelude::*;
use robotstxt::DefaultMatcher;
use texting_robots::Robot;

fn texting(body: &str, agent: &str, path: &str) -> bool {
    Robot::new(agent, body.as_bytes()).expect("the generated files are plain").allowed(path)
}

fn google(body: &str, agent: &str, path: &str) -> bool {
    let url = format!("https://example.org{path}");
    DefaultMatcher::default().one_agent_allowed_by_robots(body, agent, &url)
}

/// Groups of agents, rules with paths like `path`, and now and then other lines below the rules.
fn files(path: &'static str) -> impl Strategy<Value = String> {
    let agents = proptest::collection::vec(prop_oneof!["User-[aA]gent: ?(alpha|BETA|gamma)", "User-agent: \\*"], 1..3);
    let rule = ("Allow|Disallow|disallow", ": ?", path, "( #[a-z]{0,5})?");
    let rule = rule.prop_map(|(key, colon, path, comment)| [key, colon, path, comment].concat());
    let rules = proptest::collection::vec(rule, 1..6);
    let others = prop_oneof![Just(""), Just("Crawl-delay: 2"), Just("Sitemap: /map"), Just("")];
    let group = (agents, rules, others)
        .prop_map(|(agents, rules, other)| format!("{}\n{}\n{other}\n", agents.join("\n"), rules.join("\n")));
    proptest::collection::vec(group, 1..5).prop_map(|groups| groups.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn texting_robots_agrees(
        body in files("[/*][ab/*]{0,5}[$]?"), agent in "alpha|beta|delta", path in "/[ab/]{0,8}(\\?[ab]{1,2})?",
    ) {
        let ours = Robots::parse(body.as_bytes(), &agent).allows(&path);
        prop_assert_eq!(ours, texting(&body, &agent, &path));
    }

    #[test]
    fn robotstxt_agrees(
        body in files("/[ab/]{0,5}[$]?"), agent in "alpha|beta|delta", path in "/[ab/]{0,8}(\\?[ab]{1,2})?",
    ) {
        let ours = Robots::parse(body.as_bytes(), &agent).allows(&path);
        prop_assert_eq!(ours, google(&body, &agent, &path));
    }

    #[test]
    fn delays_agree_with_texting_robots(body in files("/[ab]"), agent in "alpha|beta|delta") {
        let ours = Robots::parse(body.as_bytes(), &agent).crawl_delay().map(|delay| delay.as_secs_f32());
        prop_assert_eq!(ours, Robot::new(&agent, body.as_bytes()).expect("plain").delay);
    }
}

/// Ours, `texting_robots` and `robotstxt`.
fn three(body: &str, agent: &str, path: &str) -> [bool; 3] {
    let ours = Robots::parse(body.as_bytes(), agent).allows(path);
    [ours, texting(body, agent, path), google(body, agent, path)]
}

#[test]
fn b11_the_others_lose_a_disallow_after_a_delay() {
    let body = "User-agent: A\nCrawl-delay: 5\nUser-agent: B\nDisallow: /";
    assert_eq!(three(body, "A", "/page"), [false, true, true]);
    assert_eq!(three(body, "B", "/page"), [false, false, false]);
}

#[test]
fn what_differs_on_purpose() {
    let all = "User-agent: *\n";
    let differing = [
        (format!("{all}Disallow: /a\nAllow: /a/index.html"), "/a/", [false, false, true]),
        (format!("{all}Disallow: /\nDisallow:"), "/a", [false, true, false]),
        (format!("{all}Disallow: /%7Ea"), "/~a", [false, true, true]),
        (format!("{all}Disallow: */$"), "//", [false, false, true]),
        (format!("{all}Disallow: private"), "/private", [false, true, true]),
        ("User-agent: a/1.0\nDisallow: /".to_owned(), "/x", [false, true, false]),
        ("Disallow: /".to_owned(), "/x", [true, false, true]),
    ];
    for (body, path, verdicts) in differing {
        assert_eq!(three(&body, "a", path), verdicts, "{body}");
    }
    let endless = b"User-agent: *\nCrawl-delay: inf";
    assert_eq!(Robot::new("a", endless).expect("plain").delay, Some(f32::INFINITY));
    assert_eq!(Robots::parse(endless, "a").crawl_delay(), None);
}

#[test]
fn ten_thousand_wildcard_rules_are_read_and_matched() {
    let rules: String = (0..10_000).map(|number| format!("Disallow: /*/{number}/*x$\n")).collect();
    let body = format!("User-agent: *\n{rules}");
    let robots = Robots::parse(body.as_bytes(), "a");
    assert!(!robots.allows("/section/9999/page-x") && robots.allows("/section/10000/page-x"));
}
