//! `comity explain`: which limits hold for a URL, and from where. Nothing is sent.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;

use anyhow::Result;
use clap::Args;
use comity::presets::{Preset, presets};
use comity::{AdaptiveSettings, AimdSettings, Pacer, Pattern, Policy, ScopeState, Target};
use comity_core::scope::Site;
use comity_store::{Known, Readable};
use serde::Serialize;
use url::Url;

use super::hosts::seen::{Clocks, Seen};
use super::hosts::{self, details};
use super::presets::Shown;
use crate::exit::{Exit, Usage};
use crate::flags::pace::{Pace, PaceFlags};
use crate::flags::shared::{Place, PlaceFlags, wrong};
use crate::screen::words::{clean, span};
use crate::screen::{print, say};

/// Say which limits hold for a URL, and from where
///
/// The scopes it falls under, their limits and who set them: a flag, the configuration, a preset, the profile. Beside
/// them stands what the shared store knows of each now. Nothing is sent to the host.
#[derive(Debug, Args)]
pub(crate) struct ExplainCommand {
    /// URLs to explain
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pace: PaceFlags,

    #[command(flatten)]
    shared: PlaceFlags,
}

/// What holds for one URL, as it is printed.
#[derive(Debug, Serialize)]
struct Explained {
    url: String,
    profile: &'static str,
    /// Whether the host is this machine and exempt from defaults and presets.
    loopback_exempt: bool,
    /// Whether robots.txt would be asked for first.
    robots: bool,
    /// The scopes, the narrowest first.
    scopes: Vec<Scope>,
    /// Published limits for it, whether or not they bind.
    presets: Vec<Shown>,
    /// Whether published limits hold.
    presets_hold: bool,
    /// The least time between two fetches, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_refetch_age: Option<f64>,
}

/// A scope with its limits.
#[derive(Debug, Serialize)]
struct Scope {
    name: String,
    limits: Vec<Said>,
    /// What the shared store knows of it now.
    known: Option<Seen>,
    /// The limit of that name.
    #[serde(skip)]
    in_flight: Option<u32>,
}

/// A limit, its value and who said it.
#[derive(Debug, Serialize)]
struct Said {
    limit: &'static str,
    value: String,
    source: Option<String>,
}

impl ExplainCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        let pace = self.pace.pace(std::env::var_os("COMITY_CONFIG"))?;
        for warning in &pace.warnings {
            say(&format!("comity: {warning}"));
        }
        let presets = presets()?;
        let pacer = pace.builder.local();
        let place = self.shared.place(std::env::var_os("COMITY_SHARED"), pace.shared.as_deref())?;
        let mut explained =
            self.urls.iter().map(|url| explain(url, &pace, &pacer, &presets)).collect::<Result<Vec<_>>>()?;
        let clocks = match store(&place).and_then(|store| add_known(&mut explained, store)) {
            Ok(clocks) => clocks,
            Err(error) => {
                say(&clean(&format!("comity: {error:#}; what is known of these hosts now is left out")));
                None
            }
        };
        if self.json {
            print(&format!("{}\n", serde_json::to_string_pretty(&explained)?))?;
        } else {
            let texts: Vec<String> = explained.iter().map(|explained| explained.text(clocks.as_ref())).collect();
            print(&texts.join("\n"))?;
        }
        Ok(Exit::Done)
    }
}

fn explain(text: &str, pace: &Pace, pacer: &Pacer, presets: &[Preset]) -> Result<Explained> {
    let wrong = |reason: String| Usage(format!("cannot explain '{text}': {reason}; allowed are http and https URLs"));
    let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("`{}` is not fetched", url.scheme())).into());
    }
    let explanation = pacer.explain(&url).map_err(|error| wrong(error.to_string()))?;
    let target =
        Target { host: url.host_str().unwrap_or_default(), port: url.port(), path: url.path(), identity: None };
    let ages = pace.min_refetch_age.iter().filter(|(pattern, _)| covers(pattern, &target)).map(|(_, age)| *age);
    Ok(Explained {
        url: url.to_string(),
        profile: pace.profile.name(),
        loopback_exempt: target.is_loopback() && !pace.pace_loopback,
        robots: pace.profile.obeys_robots(),
        scopes: explanation.scopes.iter().map(Scope::of).collect(),
        presets: presets
            .iter()
            .filter(|preset| preset.limits.iter().any(|(pattern, _)| covers(pattern, &target)))
            .map(Shown::of)
            .collect(),
        presets_hold: pace.presets,
        min_refetch_age: ages.max().map(|age| age.as_secs_f64()),
    })
}

/// The store that is shared, if one is.
fn store(place: &Place) -> Result<Option<Box<dyn Readable>>> {
    if *place == Place::None { Ok(None) } else { PlaceFlags::look(place).map(Some) }
}

/// Adds what a store knows of the scopes now; the clocks of that reading.
fn add_known(explained: &mut [Explained], store: Option<Box<dyn Readable>>) -> Result<Option<Clocks>> {
    let Some(mut store) = store else { return Ok(None) };
    let (listing, clocks) = hosts::read(store.as_mut()).map_err(wrong)?;
    let by_name: HashMap<&str, &Known> = listing.scopes.iter().map(|known| (&*known.name, known)).collect();
    for scope in explained.iter_mut().flat_map(|explained| &mut explained.scopes) {
        scope.known = by_name.get(&*scope.name).map(|known| Seen::of(known, &clocks));
    }
    Ok(Some(clocks))
}

/// Whether a pattern speaks of a target.
fn covers(pattern: &Pattern, target: &Target<'_>) -> bool {
    let name = target.name();
    let site = match &pattern.site {
        Site::All => true,
        Site::Group(domain) => {
            let domain = domain.as_str();
            name == domain || name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        }
        Site::Host(key) => {
            let key = Target::of_key(key.as_str());
            key.name() == name && (key.port.is_none() || key.port == target.port)
        }
    };
    site && pattern.narrowing.covers(target.path, target.identity)
}

impl Scope {
    fn of(scope: &ScopeState) -> Self {
        let limits = scope.limits.in_words().into_iter().map(|(limit, value)| Said {
            limit,
            value: if limit == "policy" { policy(&scope.limits.policy) } else { value },
            source: scope.limits.source(limit).map(ToString::to_string),
        });
        let in_flight = scope.limits.in_flight.map(NonZeroU32::get);
        Self { name: scope.name.clone(), limits: limits.collect(), known: None, in_flight }
    }

    /// That the last run kept other limits than these, where it did: another profile, other flags. A store keeps of a
    /// run's limits what it had in flight at most.
    fn kept_otherwise(&self, profile: &str) -> Option<String> {
        let words = |most: Option<u32>| most.map_or_else(|| "no bound".to_owned(), |most| most.to_string());
        let last = self.known.as_ref().filter(|known| known.last_start.is_some())?.most_in_flight;
        (last != self.in_flight).then(|| {
            let (last, these) = (words(last), words(self.in_flight));
            format!(
                "The last run here kept other limits than these of profile {profile}: in_flight = {last}, not {these}."
            )
        })
    }
}

/// A policy with its bounds.
fn policy(policy: &Policy) -> String {
    match policy {
        Policy::Aimd(AimdSettings { start, floor, ceiling, .. }) => {
            format!("aimd, begins at {start:?}, at least {floor:?}, at most {ceiling:?}")
        }
        Policy::Adaptive(AdaptiveSettings { start, floor, ceiling }) => {
            format!("adaptive, begins at {start:?}, at least {floor:?}, at most {ceiling:?}")
        }
        Policy::Refusal { floor } if !floor.is_zero() => format!("refusal, at least {floor:?}"),
        other => other.name().to_owned(),
    }
}

impl Explained {
    /// For people; `clocks` are those of the store's reading.
    fn text(&self, clocks: Option<&Clocks>) -> String {
        let mut text = format!("{}  (limits of profile {}; --profile explains another)\n", self.url, self.profile);
        for scope in &self.scopes {
            let _ = writeln!(text, "  {}", scope.name);
            for Said { limit, value, source } in &scope.limits {
                let _ = match source {
                    Some(source) => writeln!(text, "    {limit:17} = {value:10}  from {source}"),
                    None => writeln!(text, "    {limit:17} = {value}"),
                };
            }
            let facts = scope.known.as_ref().zip(clocks).map(|(known, clocks)| details::facts(known, clocks));
            for (what, value) in facts.into_iter().flatten() {
                let _ = writeln!(text, "    now: {what:12}   {value}");
            }
            if let Some(other) = scope.kept_otherwise(self.profile) {
                let _ = writeln!(text, "    {other}");
            }
        }
        if clocks.is_some() && self.scopes.iter().all(|scope| scope.known.is_none()) {
            text.push_str("  Nothing is known of it yet: no run that shared its pace has asked it.\n");
        }
        if self.loopback_exempt {
            text.push_str(
                "  This is a loopback host: defaults, presets and learning do not hold there without --pace-loopback.\n",
            );
        }
        for preset in &self.presets {
            let holds = match (self.presets_hold, self.loopback_exempt) {
                (false, _) => ", switched off",
                (true, true) => ", not for loopback hosts",
                (true, false) => "",
            };
            let _ = writeln!(
                text,
                "  preset {}: {} ({} confidence, read {}{holds})\n    {}",
                preset.id, preset.service, preset.confidence, preset.read, preset.source
            );
            if !preset.note.is_empty() {
                let _ = writeln!(text, "    {}", preset.note);
            }
        }
        if let Some(age) = self.min_refetch_age {
            let age = span(std::time::Duration::try_from_secs_f64(age).unwrap_or_default());
            let _ = writeln!(text, "  What is kept and younger than {age} is not asked for again.");
        }
        text.push_str(if self.robots {
            "  robots.txt is not read here: `comity fetch` reads it first, and its Crawl-delay adds to these.\n"
        } else {
            "  robots.txt is not asked for in this profile.\n"
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{Fake, adaptive, known, listing, refused};
    use comity::config::pattern;

    #[test]
    fn a_pattern_speaks_of_its_hosts_and_their_part() {
        let target = |path| Target { host: "www.example.org", port: Some(8080), path, identity: None };
        for (text, yes) in [
            ("*", true),
            ("*.example.org", true),
            ("www.example.org", true),
            ("www.example.org:8080", true),
            ("www.example.org:81", false),
            ("www.example.org/api", true),
            ("www.example.org/other", false),
            ("*.le.org", false),
            ("example.org", false),
        ] {
            assert_eq!(covers(&pattern(text).unwrap(), &target("/api/x")), yes, "{text}");
        }
        assert!(covers(&pattern("*.example.org").unwrap(), &Target::host("example.org")), "apex included");
    }

    fn explained(url: &str) -> Vec<Explained> {
        let pace = crate::flags::testing::parse::<PaceFlags>(&["--no-presets"]).unwrap().pace(None).unwrap();
        vec![explain(url, &pace, &pace.builder.local(), &[]).unwrap()]
    }

    #[test]
    fn what_the_store_knows_stands_beside_the_limits() {
        let mut explained = explained("https://a.example/x");
        let store = Fake { listing: listing(vec![refused("a.example"), known("b.example")]), gone: false };
        let clocks = add_known(&mut explained, Some(Box::new(store))).unwrap().unwrap();
        let text = explained[0].text(Some(&clocks));
        for told in [
            "    in_flight         = 1",
            "    now: pause          until ",
            " (12 s): 429, Retry-After 30 s",
            "    now: made slower    0.5 s → 1 s",
            "status 429, asked by two:22",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
        assert!(!text.contains("kept other limits"), "{text}");
        let written = serde_json::to_value(&explained).unwrap();
        assert_eq!(written[0]["scopes"][0]["known"]["refusals"]["count"], 3);
    }

    #[test]
    fn limits_that_the_last_run_did_not_keep_are_told_as_such() {
        let mut explained = explained("https://a.example/x");
        let store = Fake { listing: listing(vec![adaptive("a.example")]), gone: false };
        let clocks = add_known(&mut explained, Some(Box::new(store))).unwrap().unwrap();
        let text = explained[0].text(Some(&clocks));
        assert!(
            text.starts_with("https://a.example/x  (limits of profile crawl; --profile explains another)\n"),
            "{text}"
        );
        assert!(
            text.contains("The last run here kept other limits than these of profile crawl: in_flight = 64, not 1."),
            "{text}"
        );
    }

    #[test]
    fn before_the_first_run_nothing_is_known_and_the_limits_stand() {
        let mut explained = explained("https://a.example/x");
        let dir = tempfile::tempdir().unwrap();
        let place = Place::File(dir.path().join("deeper").join("pace"));
        let clocks = add_known(&mut explained, store(&place).unwrap()).unwrap().unwrap();
        let text = explained[0].text(Some(&clocks));
        assert!(text.contains("in_flight         = 1") && text.contains("Nothing is known of it yet"), "{text}");
    }

    #[test]
    fn without_a_store_the_limits_stand_alone() {
        let mut explained = explained("https://a.example/x");
        assert!(add_known(&mut explained, None).unwrap().is_none());
        assert!(store(&Place::None).unwrap().is_none());
        let gone = Fake { listing: listing(Vec::new()), gone: true };
        assert!(add_known(&mut explained, Some(Box::new(gone))).is_err());
        assert!(explained[0].text(None).contains("in_flight") && !explained[0].text(None).contains("now:"));
        let written = serde_json::to_value(&explained).unwrap();
        assert!(written[0]["scopes"][0].as_object().unwrap()["known"].is_null());
    }
}
