//! What a host's robots.txt asks of our agent (RFC 9309). Bytes in, rules out: nothing here fetches, waits or reads
//! a clock.
//!
//! - [`Answer`] says what the status of a robots.txt answer means: rules to read, no rules, or "not now".
//! - [`Robots`] keeps what concerns our agent and answers `allows`, `crawl_delay` and `request_rate`.
//! - [`lifetime`] says for how long an answer may be kept.
//!
//! Where a file can be read in two ways, RFC 9309 decides; where it is silent, the stricter reading wins. What that
//! comes to is written at [`Robots::parse`].

mod answer;
mod encoding;
mod lines;
mod parse;
mod rules;

#[cfg(test)]
mod oracle;

use std::time::Duration;

pub use answer::{Answer, MAX_REDIRECTS, lifetime};
pub use parse::MAX_BODY;

use encoding::Path;
use rules::Rules;

/// What one robots.txt asks of one agent.
///
/// A file that asks nothing of us takes no memory beyond these eight bytes, since hundreds of thousands of hosts may
/// be remembered at once.
///
/// ```
/// use comity_fetch::robots::Robots;
/// use std::time::Duration;
///
/// let robots = Robots::parse(b"User-agent: *\nCrawl-delay: 2\nDisallow: /search\nAllow: /search/about", "comity");
/// assert!(robots.allows("/search/about"));
/// assert!(!robots.allows("/search?q=tea"));
/// assert_eq!(robots.crawl_delay(), Some(Duration::from_secs(2)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Robots {
    asked: Option<Box<Asked>>,
}

/// What is kept of a file that asks for something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Asked {
    rules: Rules,
    crawl_delay: Option<Duration>,
    request_rate: Option<Duration>,
}

impl Robots {
    /// No rules and no delays: what an absent robots.txt means (RFC 9309 §2.3.1.3).
    #[must_use]
    pub const fn allow_all() -> Self {
        Robots { asked: None }
    }

    /// Reads a robots.txt and keeps what concerns the agent named `product_token`.
    ///
    /// There is no error: a line that cannot be read is passed over, and a file without one readable rule allows all
    /// (RFC 9309 §2.3.1.5). What is read how:
    ///
    /// - **Agents.** The product token is compared without regard to case; of `name/1.0 (words)` only `name` counts, on
    ///   both sides. All groups that name our agent are read as one. Only when none does, those of `*` hold: nothing
    ///   is inherited from `*`.
    /// - **Groups** (RFC 9309 §2.1). User-agent lines with no Allow or Disallow between them open one group. Other lines,
    ///   `Crawl-delay` included, do not part a group. One thing does that the RFC does not know: a delay, a blank line
    ///   and another User-agent, as in files written record by record since 1994. There nothing is in doubt.
    /// - **`Crawl-delay` and `Request-rate`** belong to the agents named right above them. An agent of the same group
    ///   that has none of its own takes the group's largest; of several of its own the largest holds.
    /// - **Lines before the first User-agent** belong to no group. Allow and Disallow there are passed over; a delay
    ///   there holds for every agent that the file gives no other.
    /// - **Paths** that start with neither `/` nor `*` are read as if they started with `/`.
    /// - **Spelling.** A byte order mark, CR, LF or CRLF, comments, and bytes that are not UTF-8 are taken as they
    ///   come; `useragent`, `crawl_delay`, a missing colon and the common misspellings of `Disallow` are understood.
    /// - **Size.** The first [`MAX_BODY`] bytes are read (RFC 9309 §2.5); a line cut off there is passed over, since the
    ///   half of a rule may say its opposite.
    #[must_use]
    pub fn parse(body: &[u8], product_token: &str) -> Self {
        let asked = parse::parse(body, product_token);
        Robots { asked: (asked != Asked::default()).then(|| Box::new(asked)) }
    }

    /// Whether our agent may fetch this path, given as in a request line: path and query.
    ///
    /// The rule with the longest path wins, and Allow wins between equals (RFC 9309 §2.2.2). Percent-encoding is
    /// normalised on both sides, so that `/%7Ea` and `/~a` are one path. `/robots.txt` itself is always allowed.
    ///
    /// The work is bounded: a file so full of wildcards that one path would cost more than some 20 ms is
    /// taken to deny that path.
    #[must_use]
    pub fn allows(&self, path_and_query: &str) -> bool {
        match &self.asked {
            None => true,
            Some(asked) => {
                let path = Path::new(path_and_query);
                path.is_robots_txt() || asked.rules.allow(&path)
            }
        }
    }

    /// The least time the host asks for between two requests, if it does (`Crawl-delay`).
    #[must_use]
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.asked.as_ref()?.crawl_delay
    }

    /// The spacing that the host's `Request-rate` comes to, if it has one: `30/1m` is 2 s.
    #[must_use]
    pub fn request_rate(&self) -> Option<Duration> {
        self.asked.as_ref()?.request_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn b02_fractions_of_a_second_are_read() {
        for (value, expected) in [("0.5", 0.5), ("1.5", 1.5), (".5", 0.5), ("10.0", 10.0)] {
            let body = format!("User-agent: *\nCrawl-delay: {value}\n");
            assert_eq!(Robots::parse(body.as_bytes(), "bot").crawl_delay(), seconds(expected), "{value}");
        }
    }

    #[test]
    fn b05_the_value_is_never_rounded_down() {
        let robots = Robots::parse(b"User-agent: *\nCrawl-delay: 120.4\n", "bot");
        assert_eq!(robots.crawl_delay(), Some(Duration::from_secs(121)));
    }

    #[test]
    fn b05_of_several_delays_the_larger_holds() {
        let robots = Robots::parse(b"User-agent: *\nCrawl-delay: 120.4\nCrawl-delay: 60\n", "bot");
        assert_eq!(robots.crawl_delay(), Some(Duration::from_secs(121)));
    }

    #[test]
    fn b08_an_empty_file_asks_for_nothing() {
        let robots = Robots::parse(b"", "bot");
        assert_eq!(robots.crawl_delay(), None);
        assert_eq!(robots.request_rate(), None);
        assert!(robots.allows("/anything"));
        assert_eq!(robots, Robots::allow_all());
    }

    #[test]
    fn b09_a_delay_for_another_agent_is_not_ours() {
        let body = b"User-agent: figtree\nCrawl-delay: 3\nRequest-rate: 9/30";
        let other = Robots::parse(body, "otherbot");
        assert_eq!((other.crawl_delay(), other.request_rate()), (None, None));
        let figtree = Robots::parse(body, "FigTree");
        assert_eq!(figtree.crawl_delay(), seconds(3.0));
        assert_eq!(figtree.request_rate(), Some(Duration::from_millis(3_334)));
    }

    #[test]
    fn b10_the_delay_beside_our_own_name_is_ours() {
        let parted_by_rules =
            "User-agent: *\nCrawl-delay: 10\nDisallow: /cgi\n\nUser-agent: usasearch\nCrawl-delay: 2\n";
        let without_rules = "User-agent: *\nCrawl-delay: 10\n\nUser-agent: USASearch\nCrawl-delay: 2\n";
        for body in [parted_by_rules, without_rules] {
            assert_eq!(Robots::parse(body.as_bytes(), "usasearch").crawl_delay(), seconds(2.0));
            assert_eq!(Robots::parse(body.as_bytes(), "UsaSearch/1.0").crawl_delay(), seconds(2.0));
            assert_eq!(Robots::parse(body.as_bytes(), "other").crawl_delay(), seconds(10.0));
        }
    }

    #[test]
    fn b11_a_delay_does_not_part_a_group() {
        let body = b"User-agent: A\nCrawl-delay: 5\nUser-agent: B\nDisallow: /";
        let (a, b, c) = (Robots::parse(body, "a"), Robots::parse(body, "b"), Robots::parse(body, "c"));
        assert!(!a.allows("/page") && !b.allows("/page"), "the Disallow is lost for nobody");
        assert_eq!(a.crawl_delay(), seconds(5.0));
        assert_eq!(b.crawl_delay(), seconds(5.0), "in doubt the stricter reading");
        assert_eq!(c, Robots::allow_all());
    }

    #[test]
    fn b12_nothing_is_inherited_from_the_star_group() {
        let body = b"User-agent: mybot\nCrawl-delay: 1\n\nUser-agent: *\nCrawl-delay: 30\nDisallow: /public";
        let ours = Robots::parse(body, "mybot");
        assert_eq!(ours.crawl_delay(), seconds(1.0));
        assert!(ours.allows("/public"));
        let others = Robots::parse(body, "other");
        assert_eq!(others.crawl_delay(), seconds(30.0));
        assert!(!others.allows("/public"));
    }

    #[test]
    fn b12_a_named_group_without_a_delay_takes_none_from_the_star_group() {
        let robots =
            Robots::parse(b"User-agent: *\nCrawl-delay: 30\nDisallow: /\nUser-agent: mybot\nDisallow: /x", "mybot");
        assert_eq!(robots.crawl_delay(), None);
        assert!(robots.allows("/y") && !robots.allows("/x"));
    }

    #[test]
    fn b14_request_rate_becomes_a_spacing() {
        for (value, expected) in [("1/10", 10.0), ("1/10m", 600.0), ("30/1m 0900-1700", 2.0), ("10", 10.0)] {
            let body = format!("User-agent: *\nRequest-rate: {value}\n");
            assert_eq!(Robots::parse(body.as_bytes(), "bot").request_rate(), seconds(expected), "{value}");
        }
    }

    #[test]
    fn b18_lines_before_the_first_agent_deny_nothing() {
        let robots = Robots::parse(b"Crawl-delay: 10\nDisallow: /x\nUser-agent: *\nAllow: /", "bot");
        assert!(robots.allows("/") && robots.allows("/x"));
        assert_eq!(robots.crawl_delay(), seconds(10.0), "a delay above all groups is meant for everybody");
    }

    #[test]
    fn b18_a_delay_above_all_groups_yields_to_one_of_our_own() {
        let robots = Robots::parse(b"Crawl-delay: 10\nUser-agent: bot\nCrawl-delay: 2", "bot");
        assert_eq!(robots.crawl_delay(), seconds(2.0));
        assert_eq!(Robots::parse(b"Crawl-delay: 10", "bot").crawl_delay(), seconds(10.0));
    }

    #[test]
    fn the_robots_txt_itself_is_always_allowed() {
        let robots = Robots::parse(b"User-agent: *\nDisallow: /", "bot");
        assert!(robots.allows("/robots.txt"));
        assert!(!robots.allows("/") && !robots.allows("/robots.txt.bak"));
    }

    #[test]
    fn a_file_that_asks_nothing_of_us_takes_no_memory() {
        assert_eq!(size_of::<Robots>(), size_of::<usize>());
        for body in ["User-agent: *\nDisallow:\n", "User-agent: *\nAllow: /\n", "<html><p>Not found: /</p></html>"] {
            assert_eq!(Robots::parse(body.as_bytes(), "bot").asked, None, "{body}");
        }
    }
}
