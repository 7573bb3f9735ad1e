//! One table of limits.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use comity_core::limits::{Partial, Source, Window, read_rate, read_span};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Policy};
use comity_core::signal::{HeaderMatch, Reading};
use serde::Deserialize;

use super::ConfigError;

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
                    Err(wrong("floor", &text.written(), "floor needs a policy beside it: adaptive, aimd or refusal"))
                }
                (_, Some(text)) => {
                    Err(wrong("ceiling", &text.written(), "ceiling needs a policy beside it: adaptive or aimd"))
                }
                _ => Ok(None),
            };
        };
        let mut policy = policy_named(name).ok_or_else(|| wrong("policy", name, POLICIES))?;
        if let (Some(most), Some(text)) = (ceiling, &self.ceiling)
            && (most.is_zero() || floor.is_some_and(|least| most < least))
        {
            return Err(wrong("ceiling", &text.written(), "allowed are times above zero, and no less than the floor"));
        }
        if let Some(interval) = interval {
            policy = policy.bounded_by(interval);
        }
        match &mut policy {
            Policy::Aimd(settings) => {
                settings.floor = floor.unwrap_or(settings.floor);
                settings.ceiling = ceiling.unwrap_or(settings.ceiling).max(settings.floor);
                settings.start = settings.start.clamp(settings.floor, settings.ceiling);
            }
            Policy::Adaptive(settings) => {
                settings.floor = floor.unwrap_or(settings.floor);
                settings.ceiling = ceiling.unwrap_or(settings.ceiling).max(settings.floor);
                settings.start = settings.start.clamp(settings.floor, settings.ceiling);
            }
            Policy::Refusal { floor: least } => *least = floor.unwrap_or(*least),
            _ if floor.is_some() || ceiling.is_some() => {
                return Err(wrong("policy", name, "floor and ceiling belong to adaptive and aimd, floor to refusal"));
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

/// What is allowed for a policy's name.
pub const POLICIES: &str = "allowed are off, fixed, pressure, aimd, adaptive and refusal";

/// A policy by its name, with its usual settings.
pub fn policy_named(name: &str) -> Option<Policy> {
    Some(match name {
        "off" => Policy::Off,
        "fixed" => Policy::Fixed,
        "pressure" => Policy::pressure(),
        "aimd" => Policy::Aimd(AimdSettings::default()),
        "adaptive" => Policy::Adaptive(AdaptiveSettings::default()),
        "refusal" => Policy::refusal(),
        _ => return None,
    })
}
