//! The published limits of well-known services.
//!
//! They are reviewed data: `presets/presets.toml` says where each was read, when, and how sure we are of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::{Partial, Source};
use comity_core::scope::Pattern;
use serde::Deserialize;

use crate::builder::Builder;
use crate::config::{ConfigError, Entry, pattern};

/// A service's published limits.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name for good.
    pub id: String,
    /// Whose policy it is.
    pub service: String,
    /// Where it stands.
    pub source: String,
    /// The day it was read.
    pub read: String,
    /// How sure we are of the figures: high, medium, low, or `observation` where nothing is published.
    pub confidence: String,
    /// What no limit can say.
    pub note: String,
    /// The limits by scope.
    pub limits: Vec<(Pattern, Partial)>,
    /// The least time between two fetches of one URL, by scope.
    pub min_refetch_age: Vec<(Pattern, Duration)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    preset: Vec<Written>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    service: String,
    source: String,
    read: toml::value::Datetime,
    confidence: String,
    #[serde(default)]
    note: String,
    limits: BTreeMap<String, Entry>,
}

/// The presets of this release.
///
/// # Errors
/// Never in a release: the data is read by a test.
pub fn presets() -> Result<Vec<Preset>, ConfigError> {
    let file: File = toml::from_str(include_str!("../presets/presets.toml"))?;
    file.preset.into_iter().map(Written::read).collect()
}

impl Written {
    fn read(self) -> Result<Preset, ConfigError> {
        let mut limits = Vec::new();
        let mut min_refetch_age = Vec::new();
        let words = format!("{} {}, {} confidence, read {}", self.id, self.service, self.confidence, self.read);
        let source = Source::Preset(Arc::from(words));
        for (name, entry) in &self.limits {
            let pattern = pattern(name)
                .map_err(|error| ConfigError::Pattern { pattern: name.clone(), reason: error.to_string() })?;
            let place = format!(" in preset {}", self.id);
            if let Some(age) = entry.refetch_age(&place)? {
                min_refetch_age.push((pattern.clone(), age));
            }
            limits.push((pattern, entry.partial(&place, source.clone())?));
        }
        Ok(Preset {
            id: self.id,
            service: self.service,
            source: self.source,
            read: self.read.to_string(),
            confidence: self.confidence,
            note: self.note,
            limits,
            min_refetch_age,
        })
    }
}

impl Builder {
    /// Has the published limits hold. A person's own limits win where they are stricter, or when they say so.
    ///
    /// # Errors
    /// Never in a release.
    pub fn presets(mut self) -> Result<Self, ConfigError> {
        for preset in presets()? {
            for (pattern, limits) in preset.limits {
                self = self.preset(pattern, limits);
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pacer, Profile};
    use url::Url;

    #[test]
    fn every_preset_is_read_and_has_its_source() {
        let presets = presets().unwrap();
        assert!(presets.len() >= 30);
        for preset in presets {
            assert!(!preset.source.is_empty() && !preset.read.is_empty() && !preset.limits.is_empty(), "{}", preset.id);
            let known = ["high", "medium", "low", "observation"];
            assert!(known.contains(&preset.confidence.as_str()), "{}: {}", preset.id, preset.confidence);
        }
    }

    #[test]
    fn a_persons_own_limit_wins_where_it_is_stricter_or_when_they_say_so() {
        let url = Url::parse("https://nominatim.openstreetmap.org/search").unwrap();
        let interval = |own: &str| {
            let config = crate::config::Config::parse(own).unwrap();
            let pacer = config.apply(Pacer::builder(Profile::Api).presets().unwrap()).local();
            pacer.explain(&url).unwrap().scopes[0].limits.interval
        };
        let table = "[limits.\"nominatim.openstreetmap.org\"]\n";
        assert_eq!(interval(""), Duration::from_secs(1));
        assert_eq!(interval(&format!("{table}interval = 3")), Duration::from_secs(3));
        assert_eq!(interval(&format!("{table}per_second = 10")), Duration::from_secs(1));
        assert_eq!(interval(&format!("{table}per_second = 10\noverride_preset = true")), Duration::from_millis(100));
        assert_eq!(interval("[default]\ninterval = 2"), Duration::from_secs(2));
    }
}
