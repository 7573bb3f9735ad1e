//! `comity presets`: the published limits of well-known services.

use anyhow::Result;
use clap::Args;
use comity::presets::{Preset, presets};
use comity::{Limits, Partial};
use serde::Serialize;

use crate::exit::Exit;
use crate::screen::print;
use crate::screen::words::span;

/// List the published limits of well-known services
///
/// With where each was read, when, and how sure we are of it. They hold in `comity fetch` unless --no-presets.
#[derive(Debug, Args)]
pub(crate) struct PresetsCommand {
    /// Only those whose id, service or scope holds this text
    #[arg(value_name = "TEXT")]
    only: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A preset, as it is printed.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) service: String,
    pub(crate) source: String,
    pub(crate) read: String,
    pub(crate) confidence: String,
    pub(crate) note: String,
    /// Limits by scope: name and value.
    pub(crate) limits: Vec<ShownLimits>,
}

/// The limits of one scope.
#[derive(Debug, Serialize)]
pub(crate) struct ShownLimits {
    scope: String,
    limits: Vec<(&'static str, String)>,
}

impl PresetsCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        let shown: Vec<Shown> = presets()?.iter().map(Shown::of).filter(|shown| self.wants(shown)).collect();
        if self.json {
            print(&format!("{}\n", serde_json::to_string_pretty(&shown)?))?;
        } else {
            for preset in &shown {
                print(&preset.text())?;
            }
        }
        Ok(Exit::Done)
    }

    fn wants(&self, shown: &Shown) -> bool {
        let Some(only) = self.only.as_ref().map(|only| only.to_lowercase()) else { return true };
        let scopes = shown.limits.iter().map(|limits| &limits.scope);
        scopes.chain([&shown.id, &shown.service]).any(|text| text.to_lowercase().contains(&only))
    }
}

impl Shown {
    pub(crate) fn of(preset: &Preset) -> Self {
        let age = |scope: &str| {
            let named = preset.min_refetch_age.iter().find(|(pattern, _)| pattern.to_string() == scope);
            named.map(|(_, age)| ("min_refetch_age", span(*age)))
        };
        let limits = preset.limits.iter().map(|(pattern, said)| {
            let scope = pattern.to_string();
            let limits = in_words(said).into_iter().chain(age(&scope)).collect();
            ShownLimits { scope, limits }
        });
        Self {
            id: preset.id.clone(),
            service: preset.service.clone(),
            source: preset.source.clone(),
            read: preset.read.clone(),
            confidence: preset.confidence.clone(),
            note: preset.note.clone(),
            limits: limits.collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}  {}  ({} confidence, read {})\n", self.id, self.service, self.confidence, self.read);
        for ShownLimits { scope, limits } in &self.limits {
            let words: Vec<String> = limits.iter().map(|(what, value)| format!("{what} = {value}")).collect();
            text.push_str(&format!("      {scope}: {}\n", words.join(", ")));
        }
        text.push_str(&format!("      {}\n", self.source));
        text
    }
}

/// What is said, and nothing of what is not.
fn in_words(said: &Partial) -> Vec<(&'static str, String)> {
    let mut words = said.over(&Limits::none()).in_words();
    words.retain(|(what, _)| match *what {
        "policy" => said.policy.is_some(),
        "retry_after_limit" => said.retry_after_limit.is_some(),
        "retries" => said.retries.is_some(),
        _ => true,
    });
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Vec<Shown> {
        presets().unwrap().iter().map(Shown::of).collect()
    }

    #[test]
    fn every_preset_says_at_least_one_limit_for_each_scope() {
        for preset in shown() {
            for limits in &preset.limits {
                assert!(!limits.limits.is_empty(), "{} {}", preset.id, limits.scope);
            }
        }
    }

    #[test]
    fn the_text_names_scope_limits_and_source() {
        let text = shown()[0].text();
        let told =
            ["J01", "nominatim.openstreetmap.org: interval = 1s, in_flight = 1", "https://operations.osm", "high"];
        assert!(told.iter().all(|part| text.contains(part)), "{text}");
    }

    #[test]
    fn a_text_picks_presets_by_id_service_or_scope() {
        let picked = |only: &str| {
            let command = PresetsCommand { only: Some(only.to_owned()), json: false };
            shown().into_iter().filter(|shown| command.wants(shown)).map(|shown| shown.id).collect::<Vec<_>>()
        };
        assert_eq!(picked("NOMINATIM"), ["J01"]);
        assert_eq!(picked("J02"), ["J02"]);
        assert!(picked("nobody publishes this").is_empty());
    }
}
