//! Which scopes are shown.

use std::time::Duration;

use anyhow::Result;
use comity::config::pattern;
use comity::{Pattern, Target};
use comity_core::scope::{HostKey, Narrowing, Site};
use comity_core::time::Instant;
use comity_store::{Known, Listing};
use url::Url;

use crate::exit::Usage;
use crate::screen::words::clean;

/// Scopes of a listing, the most recently active first.
#[derive(Debug)]
pub(super) struct Picked<'a> {
    /// Those that are shown.
    pub(super) scopes: Vec<&'a Known>,
    /// How many more matter now.
    pub(super) active: usize,
    /// How many more do not.
    pub(super) idle: usize,
}

/// The scopes that matter now, or all of them; `most` at most.
pub(super) fn pick(listing: &Listing, all: bool, most: usize) -> Picked<'_> {
    let total = listing.scopes.len();
    let mut scopes: Vec<&Known> = listing.scopes.iter().filter(|known| all || matters(known, listing.now)).collect();
    let active = scopes.len();
    let latest_first = |a: &&Known, b: &&Known| {
        let active = |known: &Known| last_active(known, listing.now);
        active(b).cmp(&active(a)).then_with(|| a.name.cmp(&b.name))
    };
    if active > most {
        // Of a million scopes only those that are shown are put in order.
        scopes.select_nth_unstable_by(most, latest_first);
        scopes.truncate(most);
    }
    scopes.sort_unstable_by(latest_first);
    Picked { active: active - scopes.len(), idle: total - active, scopes }
}

/// Whether a scope is busy, held back or talked of.
fn matters(known: &Known, now: Instant) -> bool {
    let state = &known.state;
    state.in_flight > 0
        || !known.waiting.is_empty()
        || state.pause.until() > now
        || (state.last_start != Instant::ZERO && now.since(state.last_start) <= RECENT)
        || state.tally.refusals_with_advice > 0
        || state.tally.refusals_without_advice > 0
}

fn last_active(known: &Known, now: Instant) -> Instant {
    let state = &known.state;
    if state.in_flight > 0 || !known.waiting.is_empty() {
        return now;
    }
    let lowered = known.lowered.as_ref().map_or(Instant::ZERO, |lowered| lowered.at);
    state.last_start.max(state.tally.last_refused).max(lowered)
}

/// What a person asked about: a host, a scope, or a URL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pattern: Pattern,
    /// A URL is asked about with its path; a host with all its parts.
    url: bool,
}

/// The scopes a person asked about.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// The one asked about and its parts, then the groups it is in, the narrowest first.
    pub(super) scopes: Vec<&'a Known>,
    /// Whether anything is known of itself.
    pub(super) itself: bool,
}

impl Asked {
    /// Reads it, normalised as a URL's host is: `EXAMPLE.org.` is `example.org`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = |reason: String| {
            Usage(format!(
                "cannot look for '{}': {reason}; allowed are a host (example.org), a URL and a scope (*.example.org)",
                clean(text)
            ))
        };
        if !text.contains("://") {
            let pattern = pattern(text).map_err(|error| wrong(clean(&error.to_string())))?;
            return Ok(Self { pattern, url: false });
        }
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        let host = url.host_str().ok_or_else(|| wrong("it has no host".to_owned()))?;
        let site = Site::Host(HostKey::new(host, url.port()).map_err(|error| wrong(clean(&error.to_string())))?);
        let narrowing = Narrowing { path: Some(url.path().into()), identity: None };
        Ok(Self { pattern: Pattern { site, narrowing }, url: true })
    }

    /// The names under which a store may know it, the likeliest first: a port is a host of its own only where somebody
    /// says so, or at an address.
    pub(crate) fn names(&self) -> Vec<String> {
        let whole = self.url || self.pattern.narrowing.is_whole();
        match &self.pattern.site {
            Site::Host(key) if whole => {
                let target = Target::of_key(key.as_str());
                let mut names = vec![key.to_string()];
                if target.port.is_some() && !target.is_ip_literal() {
                    names.push(target.name().to_owned());
                }
                names
            }
            _ => vec![self.pattern.to_string()],
        }
    }

    /// What a listing knows of it.
    pub(super) fn find<'a>(&self, listing: &'a Listing) -> Found<'a> {
        let names = self.names();
        let mut itself = false;
        let mut found: Vec<(u8, &Known)> = Vec::new();
        for known in &listing.scopes {
            let Ok(scope) = Pattern::parse(&known.name) else { continue };
            if !self.falls_under(&scope) {
                continue;
            }
            let rank = match (&scope.site, &self.pattern.site) {
                _ if names.contains(&known.name) => 0,
                (Site::Host(_), _) => 1,
                (Site::Group(one), Site::Group(other)) if one == other => 1,
                (Site::Group(_), _) => 2,
                (Site::All, _) => 3,
            };
            itself |= rank < 2;
            found.push((rank, known));
        }
        found.sort_unstable_by(|(rank, a), (other, b)| {
            rank.cmp(other).then_with(|| b.name.len().cmp(&a.name.len())).then_with(|| a.name.cmp(&b.name))
        });
        Found { scopes: found.into_iter().map(|(_, known)| known).collect(), itself }
    }

    /// Whether a scope holds over it, or is a part of it.
    fn falls_under(&self, scope: &Pattern) -> bool {
        let site = match (&self.pattern.site, &scope.site) {
            (_, Site::All) => true,
            (Site::All, _) | (Site::Group(_), Site::Host(_)) => false,
            (Site::Group(domain), Site::Group(_)) => scope.covers_host(domain.as_str(), None),
            (Site::Host(key), _) => {
                let target = Target::of_key(key.as_str());
                scope.covers_host(target.name(), target.port)
            }
        };
        let Narrowing { path, identity } = &self.pattern.narrowing;
        site && (!self.url && self.pattern.narrowing.is_whole()
            || scope.narrowing.covers(path.as_deref().unwrap_or("/"), identity.as_deref()))
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.pattern.site {
            Site::Host(key) if self.url => write!(f, "{key}"),
            _ => write!(f, "{}", self.pattern),
        }
    }
}

/// A scope that started something since matters still.
const RECENT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{ago, busy, idle, known, listing, refused};

    fn names(scopes: &[&Known]) -> Vec<String> {
        scopes.iter().map(|known| known.name.clone()).collect()
    }

    #[test]
    fn what_matters_now_is_shown_the_most_recently_active_first() {
        let mut older = known("older.example");
        older.state.last_start = ago(9 * 60);
        let mut long_refused = refused("refused.example");
        long_refused.waiting.clear();
        let listing = listing(vec![
            idle("idle.example"),
            older,
            long_refused,
            known("recent.example"),
            busy("busy.example"),
            refused("waited-for.example"),
        ]);
        let picked = pick(&listing, false, 9);
        let told = ["busy.example", "waited-for.example", "recent.example", "refused.example", "older.example"];
        assert_eq!(names(&picked.scopes), told);
        assert_eq!((picked.active, picked.idle), (0, 1));
        let picked = pick(&listing, false, 2);
        assert_eq!(
            (names(&picked.scopes), picked.active, picked.idle),
            (told[..2].iter().map(|n| (*n).to_owned()).collect(), 3, 1)
        );
        assert_eq!(pick(&listing, true, 9).scopes.len(), 6);
    }

    #[test]
    fn a_scope_never_started_is_idle() {
        let mut new = known("new.example");
        new.state.last_start = Instant::ZERO;
        assert_eq!(pick(&listing(vec![new]), false, 9).idle, 1);
    }

    #[test]
    fn a_host_is_found_with_its_parts_and_groups() {
        let all = [
            "*",
            "*.example.org",
            "*.org",
            "a.example.org",
            "a.example.org/api",
            "a.example.org#gold",
            "b.example.org",
        ];
        let listing = listing(all.iter().map(|name| known(name)).collect());
        let find = |text: &str| {
            let found = Asked::parse(text).unwrap().find(&listing);
            (names(&found.scopes).join(" "), found.itself)
        };
        let groups = "*.example.org *.org *";
        let whole = format!("a.example.org a.example.org#gold a.example.org/api {groups}");
        assert_eq!(find("A.EXAMPLE.org."), (whole, true));
        assert_eq!(find("https://a.example.org/api/x"), (format!("a.example.org a.example.org/api {groups}"), true));
        assert_eq!(find("https://a.example.org:8080/"), (format!("a.example.org {groups}"), true));
        assert_eq!(find("a.example.org/api"), (format!("a.example.org/api a.example.org {groups}"), true));
        assert_eq!(find("*.example.org"), (groups.to_owned(), true));
        assert_eq!(find("*"), ("*".to_owned(), true));
        assert_eq!(find("c.example.org"), (groups.to_owned(), false));
    }

    #[test]
    fn f04_a_name_is_found_however_it_is_written() {
        let names = |text: &str| Asked::parse(text).unwrap().names();
        for text in ["EXAMPLE.org.", "example.org", "http://example.org./a?b", " Example.ORG "] {
            assert_eq!(names(text), ["example.org"], "{text}");
        }
        assert_eq!(names("Bücher.example"), ["xn--bcher-kva.example"]);
        assert_eq!(names("https://example.org:8443/"), ["example.org:8443", "example.org"]);
        assert_eq!(names("*.Example.org"), ["*.example.org"]);
        assert_eq!(names("Example.org/api"), ["example.org/api"]);
    }

    #[test]
    fn f06_an_address_with_a_port_is_a_host_of_its_own() {
        let names = |text: &str| Asked::parse(text).unwrap().names();
        assert_eq!(names("http://192.0.2.1:2888/a"), ["192.0.2.1:2888"]);
        assert_eq!(names("http://[2001:db8::1]:81/"), ["[2001:db8::1]:81"]);
    }

    #[test]
    fn what_is_no_host_is_told_so() {
        for bad in ["exa mple", "a.*.org", "", "http://", "mailto://", "\x1b[2J"] {
            let error = Asked::parse(bad).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains("allowed are a host"), "{error}");
            assert!(!error.to_string().contains('\x1b'), "{error}");
        }
    }
}
