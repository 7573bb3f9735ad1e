//! A reading of a store as it is printed: for people, and as JSON.

use anyhow::Result;
use comity_fetch::keep::Timestamp;
use comity_store::Listing;
use serde::Serialize;

use super::pick::{self, Asked, Found, Picked};
use super::seen::{self, Clocks, Member, Seen};
use super::{details, table};
use crate::screen::words::{clean, count, middle};

/// What of a store is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// One host or scope; else all that matters.
    pub(super) asked: Option<Asked>,
    /// Scopes that do not matter now, too, and as many as there are.
    pub(super) all: bool,
}

/// The room there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Columns of the terminal.
    pub(super) columns: usize,
    /// Lines of the terminal; `None` where they may be as many as they are.
    pub(super) rows: Option<usize>,
}

/// A reading, as programs read it: `schema/hosts.schema.json`.
#[derive(Debug, Serialize)]
struct Document {
    place: String,
    at: Timestamp,
    scopes: Vec<Seen>,
    more_scopes: usize,
    members: Vec<Member>,
    more_members: usize,
}

impl View {
    /// The reading in lines.
    pub(super) fn lines(&self, listing: &Listing, clocks: &Clocks, room: Room) -> Vec<String> {
        let wall = clocks.wall().strftime("%Y-%m-%d %H:%M:%S %Z");
        let mut lines = vec![cut(&format!("{} at {wall}", clean(&listing.place)), room.columns)];
        match &self.asked {
            Some(asked) => lines.extend(self.details(asked, listing, clocks, room)),
            None => lines.extend(self.tables(listing, clocks, room)),
        }
        lines.truncate(room.rows.unwrap_or(usize::MAX));
        lines
    }

    fn tables(&self, listing: &Listing, clocks: &Clocks, room: Room) -> Vec<String> {
        let most = self.most();
        // On a terminal the members keep a quarter of it, and the rest is the scopes'.
        let members = listing.members.len().min(room.rows.map_or(most, |rows| (rows / 4).max(1)));
        let members_lines = if members == 0 { 0 } else { members + 2 + usize::from(members < listing.members.len()) };
        let picked = pick::pick(
            listing,
            self.all,
            room.rows.map_or(most, |rows| most.min(rows.saturating_sub(members_lines + TITLES))),
        );
        let seen: Vec<Seen> = picked.scopes.iter().map(|known| Seen::of(known, clocks)).collect();
        let mut lines = Vec::new();
        if !seen.is_empty() {
            lines.extend(table::scopes(&seen, clocks, room.columns));
        }
        lines.push(cut(&self.summary(&picked), room.columns));
        let shown = seen::members(listing, clocks, members);
        if !shown.is_empty() {
            lines.push(String::new());
            lines.extend(table::members(&shown, room.columns));
        }
        if shown.len() < listing.members.len() {
            lines.push(cut(&format!("{} of {} members", shown.len(), listing.members.len()), room.columns));
        }
        lines
    }

    fn details(&self, asked: &Asked, listing: &Listing, clocks: &Clocks, room: Room) -> Vec<String> {
        let found = asked.find(listing);
        let mut lines = Vec::new();
        if !found.itself {
            lines.push(cut(&unknown(asked, listing), room.columns));
        }
        for known in found.scopes.iter().take(self.most()) {
            lines.extend(details::lines(&Seen::of(known, clocks), clocks).iter().map(|line| cut(line, room.columns)));
        }
        lines.extend(more_parts(&found, self.most()));
        lines
    }

    /// How many are shown, and how many are not.
    fn summary(&self, picked: &Picked<'_>) -> String {
        let shown = picked.scopes.len();
        let total = (shown + picked.active + picked.idle) as u64;
        let hint = if self.all { "" } else { " (--all)" };
        match (picked.active, picked.idle) {
            (0, 0) => count(total, "scope"),
            (0, idle) => format!("{shown} of {}; not shown: {idle} idle{hint}", count(total, "scope")),
            (active, 0) => format!("{shown} of {}; not shown: {active} active{hint}", count(total, "scope")),
            (active, idle) => {
                format!("{shown} of {}; not shown: {active} active, {idle} idle{hint}", count(total, "scope"))
            }
        }
    }

    /// The reading as JSON, on one line or several.
    pub(super) fn json(&self, listing: &Listing, clocks: &Clocks, one_line: bool) -> Result<String> {
        let most = self.most();
        let (scopes, more_scopes) = match &self.asked {
            Some(asked) => {
                let found = asked.find(listing).scopes;
                let more = found.len().saturating_sub(most);
                (found.into_iter().take(most).collect(), more)
            }
            None => {
                let picked = pick::pick(listing, self.all, most);
                (picked.scopes, picked.active + picked.idle)
            }
        };
        let members = seen::members(listing, clocks, most);
        let document = Document {
            place: listing.place.clone(),
            at: clocks.timestamp(),
            scopes: scopes.into_iter().map(|known| Seen::of(known, clocks)).collect(),
            more_scopes,
            more_members: listing.members.len() - members.len(),
            members,
        };
        Ok(if one_line { serde_json::to_string(&document)? } else { serde_json::to_string_pretty(&document)? })
    }

    fn most(&self) -> usize {
        if self.all { usize::MAX } else { MOST_ROWS }
    }
}

/// What is said of a host of which nothing is known.
pub(super) fn unknown(asked: &Asked, listing: &Listing) -> String {
    format!("nothing is known of {} in {}", clean(&asked.to_string()), clean(&listing.place))
}

fn more_parts(found: &Found<'_>, most: usize) -> Option<String> {
    let more = found.scopes.len().checked_sub(most).filter(|more| *more > 0)?;
    Some(format!("{more} more parts of it are not shown"))
}

/// A line that fits; its colours, if any, are around it as a whole.
fn cut(line: &str, width: usize) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    if plain.chars().count() <= width { line.to_owned() } else { middle(&plain, width) }
}

/// A store may know a million scopes; nobody reads more of them than this.
const MOST_ROWS: usize = 1000;
/// Lines above and below the rows of scopes: the place, the titles, the summary.
const TITLES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{NOW, adaptive, busy, clocks, idle, known, listing, refused};
    use comity_store::Known;
    use serde_json::Value;

    const WIDE: Room = Room { columns: usize::MAX, rows: None };

    fn text(view: &View, scopes: Vec<Known>) -> String {
        anstream::adapter::strip_str(&view.lines(&listing(scopes), &clocks(), WIDE).join("\n")).to_string()
    }

    fn asked(host: &str) -> View {
        View { asked: Some(Asked::parse(host).unwrap()), all: false }
    }

    #[test]
    fn a_reading_is_two_tables_and_says_what_it_leaves_out() {
        let told = text(&View::default(), vec![busy("a.example"), idle("b.example"), idle("c.example")]);
        let wanted = "\
a store at 2026-11-30 13:48:00 UTC
scope      interval     next start    in flight
a.example  1 s learned  on an answer     1 of 1
1 of 3 scopes; not shown: 2 idle (--all)

member  joined          last seen  in flight
one:1   3 min 20 s ago  1 s ago            1
two:22  3 min 20 s ago  2 s ago            0";
        assert_eq!(told, wanted, "\n{told}");
    }

    #[test]
    fn an_idle_store_says_so() {
        let told = text(&View::default(), vec![idle("b.example")]);
        assert!(told.contains("\n0 of 1 scope; not shown: 1 idle (--all)\n"), "{told}");
        let told = text(&View { all: true, ..View::default() }, vec![idle("b.example")]);
        assert!(told.contains("b.example") && told.contains("\n1 scope\n"), "{told}");
    }

    #[test]
    fn a_host_is_told_with_its_groups() {
        let told =
            text(&asked("a.example.org"), vec![known("*.example.org"), refused("a.example.org"), known("x.test")]);
        let names: Vec<&str> = told.lines().skip(1).filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(names, ["a.example.org", "*.example.org"]);
    }

    #[test]
    fn an_unknown_host_is_named_and_its_groups_are_shown() {
        let told = text(&asked("b.example.org"), vec![known("*.example.org")]);
        assert!(told.contains("nothing is known of b.example.org in a store\n*.example.org\n"), "{told}");
    }

    #[test]
    fn a_terminal_is_never_overfull() {
        let scopes: Vec<Known> = (0..50).map(|n| refused(&format!("{n}.example"))).collect();
        let mut listing = listing(scopes);
        listing.members =
            (0..50).map(|n| comity_store::MemberInfo { id: format!("m:{n}"), joined: NOW, seen: NOW }).collect();
        for rows in [1, 2, 5, 10, 24, 60] {
            for columns in [1, 20, 79] {
                for view in [View::default(), asked("7.example")] {
                    let lines = view.lines(&listing, &clocks(), Room { columns, rows: Some(rows) });
                    assert!(lines.len() <= rows, "{rows}: {lines:?}");
                    let width = |line: &String| anstream::adapter::strip_str(line).to_string().chars().count();
                    assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:?}");
                }
            }
        }
        let lines = View::default().lines(&listing, &clocks(), Room { columns: 79, rows: Some(24) }).join("\n");
        assert!(lines.contains("active") && lines.contains("6 of 50 members"), "{lines}");
    }

    #[test]
    fn many_scopes_take_neither_time_nor_room() {
        let mut scopes: Vec<Known> = (0..10_000).map(|n| refused(&format!("{n}.example"))).collect();
        scopes.extend((0..10_000).map(|n| idle(&format!("idle-{n}.example"))));
        let listing = listing(scopes);
        let lines = View::default().lines(&listing, &clocks(), WIDE);
        assert!(lines.len() < 1100, "{}", lines.len());
        assert!(lines.iter().any(|line| line.contains("not shown: 9000 active, 10000 idle (--all)")));
        let written: Value = serde_json::from_str(&View::default().json(&listing, &clocks(), true).unwrap()).unwrap();
        assert_eq!(
            (written["scopes"].as_array().unwrap().len(), written["more_scopes"].as_u64()),
            (1000, Some(19_000))
        );
        assert_eq!(View { all: true, ..View::default() }.lines(&listing, &clocks(), WIDE).len(), 20_007);
        assert!(asked("77.example").lines(&listing, &clocks(), WIDE)[1].contains("77.example"));
    }

    /// `cargo test --release -p comity-cli -- --ignored --nocapture a_million` tells what a million scopes cost.
    #[test]
    #[ignore = "a measurement"]
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    fn a_million_scopes() {
        let scopes: Vec<Known> = (0..1_000_000).map(|n| refused(&format!("{n}.example"))).collect();
        let listing = listing(scopes);
        for (what, view) in [("table", View::default()), ("host", asked("77.example"))] {
            let begin = std::time::Instant::now();
            let lines = view.lines(&listing, &clocks(), WIDE).len();
            println!("{what}: {lines} lines in {:?}", begin.elapsed());
        }
    }

    #[test]
    fn json_is_what_its_schema_says() {
        let schema: Value = serde_json::from_str(include_str!("../../../../../schema/hosts.schema.json")).unwrap();
        let mut full = refused("a.example.org");
        full.places = vec![("one:1".to_owned(), 1)];
        full.state.in_flight = 1;
        full.state.crawl_delay = std::time::Duration::from_secs(2);
        full.state.quota = Some(comity_core::limits::AdvertisedQuota {
            limit: None,
            window: None,
            remaining: 1,
            heard: NOW,
            resets: NOW.after(std::time::Duration::from_secs(1)),
        });
        let mut bare = known("evil\u{1b}[2J.example");
        bare.next_start = comity_core::time::Instant::FAR;
        bare.state.last_start = comity_core::time::Instant::ZERO;
        bare.most_in_flight = None;
        let mut taught = adaptive("c.example.org");
        let policy = comity_core::policy::Policy::Adaptive(Default::default());
        let refused = comity_core::policy::Fact {
            started: NOW.before(std::time::Duration::from_secs(9)),
            outcome: comity_core::policy::Outcome::Refused { advice: None },
            latency: None,
        };
        let at = NOW.before(std::time::Duration::from_secs(8));
        taught.state.learned.taught(at, &refused, &policy);
        let listing = listing(vec![full, bare, idle("b.example.org"), taught]);
        for view in [View::default(), View { all: true, ..View::default() }, asked("a.example.org")] {
            let text = view.json(&listing, &clocks(), true).unwrap();
            assert!(!text.contains(['\n', '\u{1b}']), "{text}");
            let written: Value = serde_json::from_str(&text).unwrap();
            super::super::schema::check(&schema, &schema, &written, "$");
        }
        let written: Value = serde_json::from_str(&View::default().json(&listing, &clocks(), false).unwrap()).unwrap();
        let scope = &written["scopes"][0];
        assert_eq!(
            (written["at"].as_str(), written["more_scopes"].as_u64()),
            (Some("2026-11-30T13:48:00.000Z"), Some(2))
        );
        assert_eq!(scope["pause"]["until"]["at"], "2026-11-30T13:48:12.000Z");
        assert_eq!(
            (scope["pause"]["until"]["in_secs"].as_f64(), scope["pause"]["retry_after_secs"].as_f64()),
            (Some(12.0), Some(30.0))
        );
        assert_eq!(scope["last_start"]["in_secs"].as_f64(), Some(-5.0));
    }
}
