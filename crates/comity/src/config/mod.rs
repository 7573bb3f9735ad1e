//! Limits from TOML: `comity.toml`.
//!
//! ```
//! let config = comity::config::Config::parse(
//!     r#"
//!     [default]                          # every host by itself
//!     in_flight = 2
//!     [limits."*.example.org"]           # the domain's hosts together, apex included
//!     per_second = 5
//!     [limits."api.example.org/v1"]      # a part of a host
//!     rate = "15/min"
//!     "#,
//! )?;
//! assert_eq!(config.rules.len(), 2);
//! # Ok::<(), comity::config::ConfigError>(())
//! ```

mod entry;
mod keys;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::{Partial, Source};
use comity_core::policy::{AdaptiveSettings, Policy};
use comity_core::scope::{Narrowing, Pattern, PatternError, Site};
use serde::Deserialize;

use crate::builder::Builder;
use crate::profile::Profile;

pub(crate) use entry::Entry;
pub use entry::{POLICIES, policy_named};
pub use keys::KEYS;

/// What a configuration file says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The profile it names.
    pub profile: Option<Profile>,
    /// Whether loopback hosts are paced (P3).
    pub pace_loopback: Option<bool>,
    /// Whether published limits hold.
    pub presets: Option<bool>,
    /// With whom the pace is shared, as `comity fetch --shared` takes it. A library's pacer is told by its constructor.
    pub shared: Option<String>,
    /// Every host by itself.
    pub template: Partial,
    /// Hosts, groups and parts of them.
    pub rules: Vec<(Pattern, Partial)>,
    /// The least time between two fetches of one URL, by pattern (H12).
    pub min_refetch_age: Vec<(Pattern, Duration)>,
    /// What is probably not meant.
    pub warnings: Vec<String>,
}

/// What is wrong with a configuration: the key, its value, and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is no TOML, or has keys or types that are not known. The message has the line.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A value that means nothing.
    #[error("`{key} = {value}`{place}: {allowed}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// In which table.
        place: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A table's name is no pattern.
    #[error("[limits.\"{pattern}\"]: {reason}")]
    Pattern {
        /// The name.
        pattern: String,
        /// Why.
        reason: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    profile: Option<String>,
    pace_loopback: Option<bool>,
    presets: Option<bool>,
    shared: Option<String>,
    #[serde(default)]
    default: Entry,
    #[serde(default)]
    limits: BTreeMap<String, Entry>,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Names the key, its value and what is allowed.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text)?;
        let profile = match &file.profile {
            None => None,
            Some(name) => Some(name.parse().map_err(|_| ConfigError::Value {
                key: "profile",
                value: name.clone(),
                place: String::new(),
                allowed: "allowed are crawl, api and browse",
            })?),
        };
        let mut config = Self {
            profile,
            pace_loopback: file.pace_loopback,
            presets: file.presets,
            shared: file.shared,
            template: file.default.partial(" in [default]", Source::Person("[default]".into()))?,
            ..Self::default()
        };
        if let Some(age) = file.default.refetch_age(" in [default]")? {
            config.min_refetch_age.push((Pattern { site: Site::All, narrowing: Narrowing::default() }, age));
        }
        for (name, entry) in &file.limits {
            let pattern = pattern(name)
                .map_err(|error| ConfigError::Pattern { pattern: name.clone(), reason: error.to_string() })?;
            config.warnings.extend(warning(&pattern));
            let place = format!(" in [limits.\"{name}\"]");
            if let Some(age) = entry.refetch_age(&place)? {
                config.min_refetch_age.push((pattern.clone(), age));
            }
            let source = Source::Person(Arc::from(format!("[limits.\"{pattern}\"]")));
            config.rules.push((pattern, entry.partial(&place, source)?));
        }
        Ok(config)
    }

    /// Adds what it says to a builder.
    #[must_use]
    pub fn apply(&self, mut builder: Builder) -> Builder {
        let profile = builder.profile;
        builder = builder.template(under(&self.template, profile));
        if let Some(yes) = self.pace_loopback {
            builder = builder.pace_loopback(yes);
        }
        for (pattern, limits) in &self.rules {
            builder = builder.rule(pattern.clone(), under(limits, profile));
        }
        builder
    }
}

/// Naming a policy that the profile has anyhow changes nothing: an adaptive one keeps the profile's settings but for those
/// that were said. A floor of 0 says nothing; an interval of 0 does.
fn under(said: &Partial, profile: Profile) -> Partial {
    let mut said = said.clone();
    if let (Some(Policy::Adaptive(settings)), Policy::Adaptive(own)) = (&mut said.policy, profile.limits().policy) {
        let usual = AdaptiveSettings::default();
        if settings.floor == usual.floor && said.interval.is_none() {
            settings.floor = own.floor;
        }
        if settings.ceiling == usual.ceiling {
            settings.ceiling = own.ceiling.max(settings.floor);
        }
        if settings.start == usual.start {
            settings.start = own.start.clamp(settings.floor, settings.ceiling);
        }
    }
    said
}

/// Reads a pattern and normalises its host by the WHATWG URL rules: `EXAMPLE.org.`, `*.Bücher.example`, `::1`.
///
/// # Errors
/// Names the part that is wrong.
pub fn pattern(text: &str) -> Result<Pattern, PatternError> {
    let text = text.trim();
    let end = text.find(['/', '#']).unwrap_or(text.len());
    let (authority, rest) = text.split_at(end);
    let (star, authority) = match authority.strip_prefix("*.") {
        Some(domain) => ("*.", domain),
        None => ("", authority),
    };
    let colons = authority.matches(':').count();
    let (host, port) = match authority.rfind(']') {
        Some(at) => authority.split_at(at + 1),
        None if colons == 1 => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        None => (authority, ""),
    };
    if host == "*" {
        return Pattern::parse(text);
    }
    let bracketed = if colons > 1 && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    let name = match url::Host::parse(&bracketed) {
        Ok(host) => host.to_string(),
        Err(_) => host.to_owned(),
    };
    Pattern::parse(&format!("{star}{}{port}{rest}", name.trim_end_matches('.')))
}

/// A group over a whole public suffix holds strangers together (F13).
fn warning(pattern: &Pattern) -> Option<String> {
    let Site::Group(domain) = &pattern.site else { return None };
    let suffix = psl::suffix_str(domain.as_str())?;
    (suffix == domain.as_str())
        .then(|| format!("`*.{domain}` holds all sites under a public suffix together, which is rarely meant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn c14_rates_in_every_spelling() {
        for (text, secs) in [
            ("per_second = 0.2", 5),
            ("rate = \"1/5s\"", 5),
            ("rate = \"12/min\"", 5),
            ("rate = \"1/day\"", 86_400),
            ("interval = 5", 5),
        ] {
            let config = parse(&format!("[default]\n{text}")).unwrap();
            assert_eq!(config.template.interval, Some(Duration::from_secs(secs)), "{text}");
        }
    }

    #[test]
    fn c15_zero_means_no_spacing_only_for_an_interval() {
        assert_eq!(parse("[default]\ninterval = 0").unwrap().template.interval, Some(Duration::ZERO));
        for bad in [
            "burst = 0",
            "per_second = 0",
            "in_flight = 0",
            "in_flight = -1",
            "burst = -3",
            "per_second = -2",
            "interval = \"-1s\"",
        ] {
            let error = parse(&format!("[default]\n{bad}")).unwrap_err();
            let (key, value) = bad.split_once(" = ").unwrap();
            assert!(
                error.contains(key) && error.contains(value.trim_matches('"')) && error.contains("allowed"),
                "{error}"
            );
        }
    }

    #[test]
    fn a30_windows_are_a_text_or_a_list() {
        for text in ["\"20:1,100:120\"", "[\"20:1\", \"100:120\"]", "\"20/1s; 100/2m\""] {
            let config = parse(&format!("[default]\nwindows = {text}")).unwrap();
            let windows: Vec<String> = config.template.windows.unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(windows, ["20 in 1s", "100 in 120s"], "{text}");
        }
    }

    #[test]
    fn every_key_is_documented_and_no_other() {
        let error = parse("[default]\nnonsense = 1").unwrap_err();
        let known = error.split("expected one of").nth(1).unwrap();
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        assert_eq!(known, KEYS.iter().map(|(key, _)| *key).collect::<Vec<_>>());
    }

    #[test]
    fn a_policys_bounds_stand_beside_it() {
        let policy = |text: &str| parse(&format!("[default]\n{text}")).map(|config| config.template.policy);
        let (half, ten) = (Duration::from_millis(500), Duration::from_secs(10));
        for name in ["adaptive", "aimd"] {
            let said = policy(&format!("policy = \"{name}\"\nfloor = 0.5\nceiling = 10")).unwrap();
            let bounds = match said {
                Some(Policy::Adaptive(settings)) => (settings.floor, settings.start >= half, settings.ceiling),
                Some(Policy::Aimd(settings)) => (settings.floor, settings.start >= half, settings.ceiling),
                other => panic!("{other:?}"),
            };
            assert_eq!(bounds, (half, true, ten), "{name}");
        }
        let said = policy("policy = \"adaptive\"\ninterval = 3").unwrap();
        let Some(Policy::Adaptive(settings)) = said else { panic!("{said:?}") };
        assert_eq!((settings.start, settings.floor), (Duration::from_secs(3), Duration::from_secs(3)), "a promise");
        for (text, told) in [
            ("floor = 1", "adaptive, aimd or refusal"),
            ("ceiling = 1", "adaptive or aimd"),
            ("policy = \"fixed\"\nfloor = 1", "belong to adaptive and aimd"),
            ("policy = \"quick\"", "aimd, adaptive and refusal"),
        ] {
            assert!(policy(text).is_err_and(|error| error.contains(told)), "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = parse("[limits.\"example.org\"]\nper_secnd = 2").unwrap_err();
        assert!(error.contains("per_secnd") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn f01_f04_f05_rule_names_are_normalised_like_hosts() {
        let config = parse("[limits.\"EXAMPLE.com.\"]\ninterval=1\n[limits.\"[2001:DB8:0:0::1]:8080\"]\ninterval=1\n[limits.\"::1\"]\ninterval=1\n[limits.\"*.Bücher.example\"]\ninterval=1").unwrap();
        let names: Vec<String> = config.rules.iter().map(|(pattern, _)| pattern.to_string()).collect();
        for name in ["example.com", "[2001:db8::1]:8080", "[::1]", "*.xn--bcher-kva.example"] {
            assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
        }
    }

    #[test]
    fn f13_a_group_over_a_public_suffix_is_warned_of() {
        let config = parse("[limits.\"*.co.uk\"]\ninterval=1\n[limits.\"*.com\"]\ninterval=1\n[limits.\"*.example.co.uk\"]\ninterval=1").unwrap();
        assert_eq!(config.warnings.len(), 2, "{:?}", config.warnings);
        assert!(parse("[limits.\"*.192.0.2.1\"]\ninterval=1").unwrap_err().contains("192.0.2.1"));
    }
}
