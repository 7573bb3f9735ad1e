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

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::{Partial, Source, Window, read_rate, read_span};
use comity_core::policy::{AimdSettings, Policy};
use comity_core::scope::{Narrowing, Pattern, PatternError, Site};
use comity_core::signal::{HeaderMatch, Reading};
use serde::Deserialize;

use crate::builder::Builder;
use crate::profile::Profile;

/// What a configuration file says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The profile it names.
    pub profile: Option<Profile>,
    /// Whether loopback hosts are paced (P3).
    pub pace_loopback: Option<bool>,
    /// Whether published limits hold.
    pub presets: Option<bool>,
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
    #[serde(default)]
    default: Entry,
    #[serde(default)]
    limits: BTreeMap<String, Entry>,
}

/// One table of limits, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    interval: Option<Text>,
    per_second: Option<Text>,
    rate: Option<Text>,
    burst: Option<i64>,
    in_flight: Option<i64>,
    windows: Option<Texts>,
    policy: Option<String>,
    floor: Option<Text>,
    ceiling: Option<Text>,
    refuse_also: Option<Vec<u16>>,
    never_refuse: Option<Vec<u16>>,
    refuse_when: Option<Vec<Match>>,
    min_refusal_wait: Option<Text>,
    reset_headers: Option<Vec<String>>,
    riot: Option<bool>,
    retry_after_limit: Option<Text>,
    quota_hold_limit: Option<Text>,
    crawl_delay_limit: Option<Text>,
    retries: Option<u32>,
    retry_unsafe_503: Option<bool>,
    retry_statuses: Option<Vec<u16>>,
    min_refetch_age: Option<Text>,
    override_preset: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Match {
    status: Option<u16>,
    header: String,
    contains: Option<String>,
}

/// A number or a text: `2`, `0.5`, `"500ms"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(i64),
    Real(f64),
    Words(String),
}

/// One text or several: `"20:1"`, `["20:1", "100:120"]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Texts {
    fn all(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        }
    }
}

impl Text {
    fn written(&self) -> String {
        match self {
            Self::Whole(n) => n.to_string(),
            Self::Real(n) => n.to_string(),
            Self::Words(text) => text.clone(),
        }
    }
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
        builder = builder.template(self.template.clone());
        if let Some(yes) = self.pace_loopback {
            builder = builder.pace_loopback(yes);
        }
        for (pattern, limits) in &self.rules {
            builder = builder.rule(pattern.clone(), limits.clone());
        }
        builder
    }
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

impl Entry {
    pub(crate) fn partial(&self, place: &str, source: Source) -> Result<Partial, ConfigError> {
        let wrong = |key: &'static str, value: &str, allowed: &'static str| ConfigError::Value {
            key,
            value: value.to_owned(),
            place: place.to_owned(),
            allowed,
        };
        let count = |key: &'static str, value: Option<i64>| match value {
            None => Ok(None),
            Some(value) => u32::try_from(value)
                .ok()
                .and_then(NonZeroU32::new)
                .map(Some)
                .ok_or_else(|| wrong(key, &value.to_string(), "allowed are whole numbers from 1")),
        };
        let span = |key: &'static str, value: &Option<Text>| match value {
            None => Ok(None),
            Some(value) => read_span(&value.written()).map(Some).ok_or_else(|| {
                wrong(
                    key,
                    &value.written(),
                    "allowed are times such as \"500ms\", \"1.5s\", \"2m\" or a number of seconds, not negative",
                )
            }),
        };
        let mut interval = span("interval", &self.interval)?;
        for (key, rate) in [("per_second", &self.per_second), ("rate", &self.rate)] {
            let Some(rate) = rate else { continue };
            let spacing = read_rate(&rate.written()).ok_or_else(|| {
                wrong(key, &rate.written(), "allowed are rates above 0 such as 2, 0.2, \"15/min\" or \"1/5s\"")
            })?;
            if interval.replace(spacing).is_some() {
                return Err(wrong(key, &rate.written(), "only one of interval, per_second and rate may be given"));
            }
        }
        let windows = match &self.windows {
            None => None,
            Some(windows) => Some(
                windows
                    .all()
                    .iter()
                    .flat_map(|text| text.split([',', ';']))
                    .map(|text| {
                        text.parse::<Window>().map_err(|_| {
                            wrong("windows", text, "allowed are COUNT:SECONDS (\"100:120\") and COUNT/TIME (\"60/1h\"), COUNT from 1 to 100000, TIME above 0")
                        })
                    })
                    .collect::<Result<_, _>>()?,
            ),
        };
        let policy = self.policy(interval, span("floor", &self.floor)?, span("ceiling", &self.ceiling)?, &wrong)?;
        Ok(Partial {
            interval,
            burst: count("burst", self.burst)?,
            in_flight: count("in_flight", self.in_flight)?,
            windows,
            policy,
            retry_after_limit: span("retry_after_limit", &self.retry_after_limit)?,
            quota_hold_limit: span("quota_hold_limit", &self.quota_hold_limit)?,
            crawl_delay_limit: span("crawl_delay_limit", &self.crawl_delay_limit)?,
            reading: self.reading(span("min_refusal_wait", &self.min_refusal_wait)?),
            retries: self.retries,
            retry_unsafe_503: self.retry_unsafe_503,
            retry_statuses: self.retry_statuses.clone(),
            overrides_preset: self.override_preset.unwrap_or_default(),
            source: Some(source),
        })
    }

    pub(crate) fn refetch_age(&self, place: &str) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = &self.min_refetch_age else { return Ok(None) };
        read_span(&text.written()).map(Some).ok_or_else(|| ConfigError::Value {
            key: "min_refetch_age",
            value: text.written(),
            place: place.to_owned(),
            allowed: "allowed are times such as \"1h\" or a number of seconds",
        })
    }

    fn policy(
        &self,
        interval: Option<Duration>,
        floor: Option<Duration>,
        ceiling: Option<Duration>,
        wrong: &impl Fn(&'static str, &str, &'static str) -> ConfigError,
    ) -> Result<Option<Policy>, ConfigError> {
        let Some(name) = &self.policy else {
            return match (&self.floor, &self.ceiling) {
                (Some(text), _) => {
                    Err(wrong("floor", &text.written(), "floor needs a policy beside it: aimd or refusal"))
                }
                (_, Some(text)) => Err(wrong("ceiling", &text.written(), "ceiling needs policy = \"aimd\" beside it")),
                _ => Ok(None),
            };
        };
        let mut policy = policy_named(name)
            .ok_or_else(|| wrong("policy", name, "allowed are off, fixed, pressure, aimd and refusal"))?;
        if let Some(interval) = interval {
            policy = policy.bounded_by(interval);
        }
        match &mut policy {
            Policy::Aimd(settings) => {
                settings.floor = floor.unwrap_or(settings.floor);
                settings.ceiling = ceiling.unwrap_or(settings.ceiling).max(settings.floor);
                settings.start = settings.start.clamp(settings.floor, settings.ceiling);
            }
            Policy::Refusal { floor: least } => *least = floor.unwrap_or(*least),
            _ if floor.is_some() || ceiling.is_some() => {
                return Err(wrong("policy", name, "floor and ceiling belong to aimd, floor to refusal"));
            }
            _ => {}
        }
        Ok(Some(policy))
    }

    fn reading(&self, min_refusal_wait: Option<Duration>) -> Option<Arc<Reading>> {
        let reading = Reading {
            refuse_also: self.refuse_also.clone().unwrap_or_default(),
            never_refuse: self.never_refuse.clone().unwrap_or_default(),
            refuse_when: self
                .refuse_when
                .iter()
                .flatten()
                .map(|m| HeaderMatch { status: m.status, header: m.header.clone(), contains: m.contains.clone() })
                .collect(),
            reset_headers: self.reset_headers.clone().unwrap_or_default(),
            riot: self.riot.unwrap_or_default(),
            min_refusal_wait,
        };
        (reading != Reading::default()).then(|| Arc::new(reading))
    }
}

/// Every key of `[default]` and of a `[limits."…"]` table, with what it means.
pub const KEYS: &[(&str, &str)] = &[
    (
        "interval",
        "least time between two starts: `\"500ms\"`, `\"1.5s\"`, `\"2m\"`, or a number of seconds; 0 is no spacing",
    ),
    ("per_second", "the same as a rate: `2`, `0.2`"),
    (
        "rate",
        "the same as a rate over any time: `\"15/min\"`, `\"1/5s\"`, `\"1/day\"`; only one of the three may be given",
    ),
    ("burst", "starts that may come at once after a rest; 1 unless given"),
    ("in_flight", "requests in flight at most, from start to response headers"),
    ("windows", "true sliding windows, all of which hold: `[\"20:1\", \"100:120\"]` (COUNT:SECONDS) or `[\"60/1h\"]`"),
    ("policy", "how the pace is learned: `off`, `fixed`, `pressure`, `aimd`, `refusal`"),
    ("floor", "the policy never goes faster (`aimd`, `refusal`)"),
    ("ceiling", "the policy never goes slower (`aimd`)"),
    ("refuse_also", "statuses that refuse, beside 429, 503 and 405 with Retry-After: `[403]`"),
    ("never_refuse", "statuses that never refuse: `[503]`"),
    (
        "refuse_when",
        "answers that refuse by a header field: `[{ status = 200, header = \"MediaWiki-API-Error\", contains = \"maxlag\" }]`",
    ),
    ("min_refusal_wait", "how long a refusal without advice pauses the host; it doubles on repetition"),
    ("reset_headers", "header fields that say how long to wait, asked after Retry-After: `[\"X-Retry-In\"]`"),
    ("riot", "whether `X-App-Rate-Limit: 20:1,100:120` declares windows"),
    ("retry_after_limit", "a request asked to wait longer gives up at once"),
    ("quota_hold_limit", "the longest an advertised quota on a served answer may hold the host"),
    ("crawl_delay_limit", "a host whose robots.txt asks for more is skipped"),
    ("retries", "how often a refused request is tried again"),
    ("retry_unsafe_503", "whether a 503 may be retried for methods that are not idempotent"),
    ("retry_statuses", "statuses retried after a second where a retry count was asked for, beside 504"),
    ("min_refetch_age", "the least age of what is kept before `comity fetch` asks for it again"),
    ("override_preset", "these limits win over a preset's stricter ones"),
];

/// A policy by its name, with its usual settings.
pub fn policy_named(name: &str) -> Option<Policy> {
    Some(match name {
        "off" => Policy::Off,
        "fixed" => Policy::Fixed,
        "pressure" => Policy::pressure(),
        "aimd" => Policy::Aimd(AimdSettings::default()),
        "refusal" => Policy::refusal(),
        _ => return None,
    })
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
