//! From lines to what is asked of one agent: which lines belong together, and which of them are ours.

use super::Asked;
use super::lines::{Line, lines};
use super::rules::Draft;
use std::time::Duration;

/// How much of a body is read, in bytes: 500 KiB, the least that RFC 9309 §2.5 lets a crawler stop at.
pub const MAX_BODY: usize = 500 * 1024;

/// What the body asks of the agent.
pub(super) fn parse(body: &[u8], product_token: &str) -> Asked {
    let mut reader = Reader { token: token_of(product_token.as_bytes()), ..Reader::default() };
    for line in lines(whole_lines(body)) {
        reader.read(line);
    }
    reader.finish()
}

/// Goes through the lines once and keeps two accounts: for groups that name our agent, and for those of `*`.
#[derive(Default)]
struct Reader<'t> {
    token: &'t [u8],
    named: Account,
    anyone: Account,
    /// Delays above the first User-agent.
    ungrouped: Delays,
    group: Option<Group>,
}

/// What the groups of one kind ask.
#[derive(Default)]
struct Account {
    is_asked: bool,
    rules: Draft,
    delays: Delays,
}

/// The group that is being read.
#[derive(Default)]
struct Group {
    named: Member,
    anyone: Member,
    /// The largest delays of the whole group.
    delays: Delays,
    has_rules: bool,
    /// The lines since the last User-agent have a delay among them, so the next User-agent starts a new run.
    run_has_delay: bool,
    /// A blank line came after a delay: the record is complete.
    is_complete: bool,
}

/// One kind of agent within a group. A run is the User-agent lines right above a delay.
#[derive(Default)]
struct Member {
    in_group: bool,
    in_run: bool,
    own: Delays,
}

#[derive(Default, Clone, Copy)]
struct Delays {
    crawl_delay: Option<Duration>,
    request_rate: Option<Duration>,
}

impl Reader<'_> {
    fn read(&mut self, line: Line<'_>) {
        match line {
            Line::UserAgent(agent) => self.user_agent(agent),
            Line::Allow(path) => self.rule(true, path),
            Line::Disallow(path) => self.rule(false, path),
            Line::CrawlDelay(value) => {
                self.delays(Delays { crawl_delay: text(value).and_then(comity::crawl_delay), ..Delays::default() });
            }
            Line::RequestRate(value) => {
                self.delays(Delays { request_rate: text(value).and_then(comity::request_rate), ..Delays::default() });
            }
            Line::Blank => {
                if let Some(group) = &mut self.group {
                    group.is_complete |= group.run_has_delay;
                }
            }
            Line::Other => {}
        }
    }

    fn user_agent(&mut self, agent: &[u8]) {
        if self.group.as_ref().is_some_and(|group| group.has_rules || group.is_complete) {
            self.close_group();
        }
        let group = self.group.get_or_insert_default();
        let members = [
            (&mut group.named, !self.token.is_empty() && token_of(agent).eq_ignore_ascii_case(self.token)),
            (&mut group.anyone, agent.split(u8::is_ascii_whitespace).next() == Some(b"*")),
        ];
        for (member, is_meant) in members {
            member.in_group |= is_meant;
            member.in_run = is_meant || (member.in_run && !group.run_has_delay);
        }
        group.run_has_delay = false;
    }

    fn rule(&mut self, allow: bool, path: &[u8]) {
        let Some(group) = &mut self.group else {
            return;
        };
        group.has_rules = true;
        for (member, account) in [(&group.named, &mut self.named), (&group.anyone, &mut self.anyone)] {
            if member.in_group {
                account.rules.add(allow, path);
            }
        }
    }

    fn delays(&mut self, delays: Delays) {
        let Some(group) = &mut self.group else {
            self.ungrouped = self.ungrouped.larger(delays);
            return;
        };
        group.run_has_delay = true;
        group.delays = group.delays.larger(delays);
        for member in [&mut group.named, &mut group.anyone] {
            if member.in_run {
                member.own = member.own.larger(delays);
            }
        }
    }

    fn close_group(&mut self) {
        let Some(group) = self.group.take() else {
            return;
        };
        for (member, account) in [(group.named, &mut self.named), (group.anyone, &mut self.anyone)] {
            if member.in_group {
                account.is_asked = true;
                account.delays = account.delays.larger(member.own.or(group.delays));
            }
        }
    }

    fn finish(mut self) -> Asked {
        self.close_group();
        let account = if self.named.is_asked { self.named } else { self.anyone };
        let Delays { crawl_delay, request_rate } = account.delays.or(self.ungrouped);
        Asked { rules: account.rules.pack(), crawl_delay, request_rate }
    }
}

impl Delays {
    /// The larger of each; one that is not there is the smallest.
    fn larger(self, other: Delays) -> Delays {
        Delays {
            crawl_delay: self.crawl_delay.max(other.crawl_delay),
            request_rate: self.request_rate.max(other.request_rate),
        }
    }

    fn or(self, other: Delays) -> Delays {
        Delays {
            crawl_delay: self.crawl_delay.or(other.crawl_delay),
            request_rate: self.request_rate.or(other.request_rate),
        }
    }
}

/// The part of the body that is read: at most [`MAX_BODY`] bytes, and no line that was cut there.
fn whole_lines(body: &[u8]) -> &[u8] {
    match body.split_at_checked(MAX_BODY) {
        None | Some((_, [])) => body,
        Some((read, [b'\r' | b'\n', ..])) => read,
        Some((read, _)) => {
            let end = read.iter().rposition(|byte| matches!(byte, b'\r' | b'\n'));
            &read[..end.unwrap_or(0)]
        }
    }
}

/// The product token at the front of an agent's name. RFC 9309 §2.2.1 knows letters, `_` and `-`; names with digits and
/// dots are common and are taken whole.
fn token_of(agent: &[u8]) -> &[u8] {
    let agent = agent.trim_ascii_start();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let end = agent.iter().position(|byte| !is_part(byte)).unwrap_or(agent.len());
    &agent[..end]
}

fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robots::Robots;
    use proptest::prelude::*;

    fn denied(body: &str, agent: &str, path: &str) -> bool {
        !Robots::parse(body.as_bytes(), agent).allows(path)
    }

    #[test]
    fn the_product_token_is_compared_without_regard_to_case_or_version() {
        for agent in ["mybot", "MyBot/2.0", "MYBOT (words)", " mybot\t"] {
            let body = format!("User-agent: {agent}\nDisallow: /x");
            assert!(denied(&body, "MyBot", "/x"), "{agent}");
            assert!(denied(&body, "mybot/1.0 (+https://example.org)", "/x"), "{agent}");
        }
        for agent in ["my", "mybot-images", "notmybot", "", "/", "mybot2"] {
            let body = format!("User-agent: {agent}\nDisallow: /x");
            assert!(!denied(&body, "mybot", "/x"), "{agent}");
        }
    }

    #[test]
    fn groups_that_name_us_are_one_group() {
        let body =
            "User-agent: a\nDisallow: /1\nUser-agent: b\nDisallow: /2\nUser-agent: c\nUser-agent: A\nDisallow: /3";
        let denies = |path| denied(body, "a", path);
        assert_eq!(["/1", "/2", "/3"].map(denies), [true, false, true]);
    }

    #[test]
    fn the_star_group_holds_only_for_agents_that_are_not_named() {
        for star in ["*", "* words", "*  # all"] {
            let body = format!("User-agent: {star}\nDisallow: /star\nUser-agent: a\nDisallow: /a");
            assert!(denied(&body, "b", "/star") && !denied(&body, "b", "/a"), "{star}");
            assert!(denied(&body, "a", "/a") && !denied(&body, "a", "/star"), "{star}");
            assert!(denied(&body, "", "/star"), "an agent without a name is anyone");
        }
        assert!(!denied("User-agent: *bot\nDisallow: /", "b", "/"));
    }

    #[test]
    fn blank_lines_comments_and_other_keys_do_not_part_a_group() {
        let body = "User-agent: a\n\n# both\nSitemap: /map\nUser-agent: b\n\nDisallow: /x\n\nDisallow: /y";
        for agent in ["a", "b"] {
            assert!(denied(body, agent, "/x") && denied(body, agent, "/y"), "{agent}");
        }
    }

    #[test]
    fn a_delay_and_a_blank_line_end_a_record() {
        let body = "User-agent: a\nCrawl-delay: 5\n# a comment is no blank line\nUser-agent: b\nDisallow: /";
        assert!(denied(body, "a", "/"));
        let body = "User-agent: a\nCrawl-delay: 5\n\nUser-agent: b\nDisallow: /";
        assert!(!denied(body, "a", "/") && denied(body, "b", "/"));
        let body = "User-agent: a\r\nCrawl-delay: 5\r\nUser-agent: b\r\nDisallow: /";
        assert!(denied(body, "a", "/"), "CRLF is one line end");
        let body = "User-agent: a\nCrawl-delay: 5\n\nDisallow: /";
        assert!(denied(body, "a", "/"), "rules after it still have an agent");
    }

    #[test]
    fn each_agent_of_a_group_has_the_delay_right_below_it() {
        let delay = |body: &str, agent: &str| Robots::parse(body.as_bytes(), agent).crawl_delay().map(|d| d.as_secs());
        let body =
            "User-agent: a\nUser-agent: b\nCrawl-delay: 5\nUser-agent: c\nCrawl-delay: 2\nUser-agent: d\nDisallow: /";
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|agent| delay(body, agent)),
            [Some(5), Some(5), Some(2), Some(5), None]
        );
        let body = "User-agent: a\nDisallow: /x\nCrawl-delay: 5\nUser-agent: a\nCrawl-delay: 2";
        assert_eq!(delay(body, "a"), Some(5), "the larger of two");
        let body = "User-agent: a\nCrawl-delay: soon\nCrawl-delay: 4\nCrawl-delay:\n";
        assert_eq!(delay(body, "a"), Some(4), "what is no number is passed over");
    }

    #[test]
    fn only_the_first_500_kib_are_read_and_no_half_line() {
        let head = "User-agent: *\nDisallow: /early\n#";
        let filled = |at: usize| format!("{head}{}\n", "x".repeat(at - head.len() - 1));
        let late = format!("{}Disallow: /late\n", filled(MAX_BODY));
        assert!(denied(&late, "a", "/early") && !denied(&late, "a", "/late"));
        let cut = format!("{}Disallow: /private\n", filled(MAX_BODY - "Disallow: /".len()));
        assert!(!denied(&cut, "a", "/public"), "the half of a rule is not a rule");
        let whole = format!("{}Disallow: /x\nDisallow: /y", filled(MAX_BODY - "Disallow: /x".len()));
        assert!(denied(&whole, "a", "/x") && !denied(&whole, "a", "/y"));
        assert!(!denied(&"x".repeat(MAX_BODY + 1), "a", "/"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(body in proptest::collection::vec(any::<u8>(), 0..400), path in "\\PC{0,40}") {
            let _ = Robots::parse(&body, "bot").allows(&path);
        }

        #[test]
        fn line_ends_make_no_difference(lines in proptest::collection::vec(
            "(User-agent: (a|b|\\*)|(Dis)?[aA]llow: /[ab]?|Crawl-delay: [1-9]|#.{0,9}|)", 0..12,
        )) {
            let read = |end: &str| Robots::parse(lines.join(end).as_bytes(), "a");
            prop_assert_eq!(read("\n"), read("\r\n"));
            prop_assert_eq!(read("\n"), read("\r"));
        }
    }
}
