//! What the guard says of itself: words on standard error, and on request JSON lines on standard output.

use anyhow::Result;
use comity_guard::key::{KeyBy, Trust};
use comity_guard::proxy::Upstream;
use comity_guard::{Guard, Settings};
use serde::Serialize;

use crate::flags::guard::ToldFlags;
use crate::screen::{print, say};

/// Says it.
#[derive(Debug)]
pub(super) struct Teller {
    quiet: bool,
    json: bool,
    upstream: String,
    /// With whom the limits are shared, in words.
    shared: Option<String>,
}

/// A JSON line: `schema/guard.schema.json`.
#[derive(Debug, Serialize)]
struct Event<'a> {
    event: &'static str,
    listening: &'a [String],
    admin: Option<&'a str>,
    upstream: &'a str,
    /// What holds, in words.
    holds: Vec<String>,
    counted: Option<Numbers>,
}

/// What was done until the end.
#[derive(Debug, Serialize)]
struct Numbers {
    admitted: u64,
    exempt: u64,
    refused: u64,
    shed: u64,
    delayed: u64,
    abandoned: u64,
    would_refuse: u64,
    would_shed: u64,
}

/// Where the guard is found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) listening: Vec<String>,
    pub(super) admin: Option<String>,
}

impl Teller {
    pub(super) fn new(flags: &ToldFlags, upstream: &Upstream, shared: Option<String>) -> Self {
        Self { quiet: flags.quiet, json: flags.json, upstream: upstream.to_string(), shared }
    }

    /// All is well, and this would hold.
    pub(super) fn checked(&self, settings: &Settings, key: Option<String>) -> Result<()> {
        let holds = self.holds(settings.describe(), key);
        self.words(&format!("comity: all is well; this would hold in front of {}", self.upstream), &holds);
        self.event("checked", &Found::default(), holds, None)
    }

    /// It has begun.
    pub(super) fn listening(&self, found: &Found, guard: &Guard, key: Option<String>) -> Result<()> {
        let holds = self.holds(guard.describe(), key);
        let admin = found.admin.as_ref().map(|admin| format!("; {admin}/metrics")).unwrap_or_default();
        self.words(&format!("comity: {} guards {}{admin}", found.listening.join(" "), self.upstream), &holds);
        self.event("listening", found, holds, None)
    }

    /// Other settings hold.
    pub(super) fn reloaded(&self, found: &Found, guard: &Guard, key: Option<String>) -> Result<()> {
        let holds = self.holds(guard.describe(), key);
        self.words("comity: read again; from now on", &holds);
        self.event("reloaded", found, holds, None)
    }

    /// It lets its last requests end.
    pub(super) fn ending(&self) {
        self.words("comity: ending; what is in flight is served, a second signal ends at once", &[]);
    }

    /// It has ended.
    pub(super) fn ended(&self, found: &Found, guard: &Guard) -> Result<()> {
        let counted = guard.counted();
        self.words(&format!("comity: ended: {counted}"), &[]);
        let numbers = Numbers {
            admitted: counted.admitted,
            exempt: counted.exempt,
            refused: counted.refused,
            shed: counted.shed,
            delayed: counted.delayed,
            abandoned: counted.abandoned,
            would_refuse: counted.would_refuse,
            would_shed: counted.would_shed,
        };
        self.event("ended", found, self.holds(guard.describe(), None), Some(numbers))
    }

    fn holds(&self, described: Vec<String>, key: Option<String>) -> Vec<String> {
        described.into_iter().chain(key).chain(self.shared.clone()).collect()
    }

    fn words(&self, first: &str, more: &[String]) {
        if !self.quiet {
            let more: String = more.iter().map(|line| format!("\n  {line}")).collect();
            say(&format!("{first}{more}"));
        }
    }

    fn event(&self, event: &'static str, found: &Found, holds: Vec<String>, counted: Option<Numbers>) -> Result<()> {
        if self.json {
            let Found { listening, admin } = found;
            let (admin, upstream) = (admin.as_deref(), self.upstream.as_str());
            let event = Event { event, listening, admin, upstream, holds, counted };
            print(&format!("{}\n", serde_json::to_string(&event)?))?;
        }
        Ok(())
    }
}

/// How clients are told apart, where that is not by their address alone.
pub(super) fn key_in_words(key: &KeyBy) -> Option<String> {
    let field = key.forwarded.name();
    match &key.trust {
        Trust::Nobody => None,
        Trust::Networks(networks) => {
            let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
            Some(format!("believed, in {field}: {}", networks.join(", ")))
        }
        Trust::Hops(hops) => Some(format!("believed, in {field}: the last {hops} before this guard, whoever they are")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::schema;

    #[test]
    fn events_are_what_the_schema_says() {
        let schema = serde_json::from_str(include_str!("../../../../../schema/guard.schema.json")).unwrap();
        let listening = ["http://127.0.0.1:1".to_owned()];
        let numbers = Numbers {
            admitted: 1,
            exempt: 0,
            refused: 0,
            shed: 0,
            delayed: 0,
            abandoned: 0,
            would_refuse: 0,
            would_shed: 0,
        };
        for (event, admin, counted) in [("listening", Some("http://127.0.0.1:2"), None), ("ended", None, Some(numbers))]
        {
            let holds = vec!["each".to_owned()];
            let event = Event { event, listening: &listening, admin, upstream: "http://a", holds, counted };
            schema::check(&schema, &schema, &serde_json::to_value(event).unwrap(), "event");
        }
    }
}
