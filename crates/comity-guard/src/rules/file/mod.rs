//! `guard.toml`.

use std::fmt::Display;
use std::num::NonZeroU8;
use std::time::Duration;

use comity_core::guard::{CostError, FixedWindow, LeakyBucket, Limit, MOST_LIMITS, ParameterError, TokenBucket};
use comity_core::limits::{read_rate, read_span};
use http::{HeaderName, StatusCode};
use serde::Deserialize;

use super::{InFlight, LONGEST_WAIT, OnStoreFailure, Queue, Route, RouteError, Rule, Settings};
use crate::answer::Answers;
use crate::key::{By, ForwardedField, Ipv6Prefix, KeyBy, Trust};

/// What is wrong with `guard.toml`: the key, its value, and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The text is no TOML, or has keys or types that are not known. The message has the line.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A value that means nothing.
    #[error("`{key} = {value}`{place}: allowed is {allowed}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// In which table.
        place: String,
        /// What is allowed.
        allowed: String,
    },
    /// A parameter that cannot be.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Two rules have one name.
    #[error("`name = \"{0}\"` twice: allowed is a name that no other limit has")]
    Twice(String),
    /// More limits than are asked could hold for one request.
    #[error(
        "more than {MOST_LIMITS} limits could hold for a request that falls under `{0}`: allowed are {MOST_LIMITS}"
    )]
    TooMany(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    max_in_flight: Option<Text>,
    queue: Option<i64>,
    queue_time: Option<Text>,
    #[serde(default)]
    exempt: Vec<String>,
    status: Option<i64>,
    refused_status: Option<i64>,
    shed_status: Option<i64>,
    ratelimit_fields: Option<bool>,
    dry_run: Option<bool>,
    on_store_failure: Option<String>,
    #[serde(default)]
    key: Key,
    #[serde(default)]
    limit: Vec<Entry>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    by: Option<String>,
    ipv6_prefix: Option<i64>,
    trusted_proxies: Option<Vec<String>>,
    trusted_hops: Option<i64>,
    forwarded: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    path: Option<String>,
    #[serde(default)]
    methods: Vec<String>,
    host: Option<String>,
    rate: Text,
    burst: Option<i64>,
    key: Option<String>,
    mode: Option<String>,
    cost: Option<i64>,
}

/// A number or a text: `10`, `0.5`, `"10/s"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(i64),
    Real(f64),
    Words(String),
}

pub(super) fn parse(text: &str) -> Result<Settings, SettingsError> {
    let file: File = toml::from_str(text)?;
    let top = Place(String::new());
    let rules = (1..).zip(&file.limit).map(|(nth, entry)| entry.rule(nth)).collect::<Result<_, _>>()?;
    let settings = Settings {
        exempt: file.exempt.iter().map(|text| exempt(text, &top)).collect::<Result<_, _>>()?,
        in_flight: file.in_flight(&top)?,
        queue: file.waiting(&top)?,
        key: file.key.key_by()?,
        answers: file.answers(&top)?,
        dry_run: file.dry_run.unwrap_or_default(),
        on_store_failure: match file.on_store_failure.as_deref() {
            None | Some("local") => OnStoreFailure::Local,
            Some("admit") => OnStoreFailure::Admit,
            Some(other) => return Err(top.wrong("on_store_failure", quoted(other), "\"local\" or \"admit\"")),
        },
        rules,
    };
    settings.check()?;
    Ok(settings)
}

impl File {
    fn in_flight(&self, top: &Place) -> Result<InFlight, SettingsError> {
        match &self.max_in_flight {
            None => Ok(InFlight::Unbounded),
            Some(Text::Words(word)) if word == "auto" => Ok(InFlight::Auto),
            Some(Text::Whole(most)) => InFlight::at_most(*most).map_err(|error| top.parameter("max_in_flight", &error)),
            Some(other) => Err(top.wrong("max_in_flight", other.shown(), "a whole number from 1, or \"auto\"")),
        }
    }

    fn waiting(&self, top: &Place) -> Result<Option<Queue>, SettingsError> {
        let most = self.queue.map(|most| {
            let fits = u32::try_from(most).ok().filter(|most| *most <= MOST_WAITING);
            fits.ok_or_else(|| top.wrong("queue", most, format!("a whole number from 0 to {MOST_WAITING}")))
        });
        let longest = self.queue_time.as_ref().map(|longest| {
            let allowed = "a time of at least a millisecond, up to a minute: \"500ms\"";
            read_span(&longest.written())
                .filter(|span| (Duration::from_millis(1)..=Duration::from_secs(60)).contains(span))
                .ok_or_else(|| top.wrong("queue_time", longest.shown(), allowed))
        });
        match (most.transpose()?, longest.transpose()?) {
            (None, None) => Ok(None),
            (None, Some(longest)) => Err(top.wrong("queue_time", format_args!("{longest:?}"), "only beside `queue`")),
            (Some(most), longest) => Ok(Some(Queue { most, longest: longest.unwrap_or(LONGEST_WAIT) })),
        }
    }

    fn answers(&self, top: &Place) -> Result<Answers, SettingsError> {
        let status = |key: &str, value: Option<i64>| match value {
            None => Ok(None),
            Some(value) => u16::try_from(value)
                .ok()
                .and_then(|value| StatusCode::from_u16(value).ok())
                .filter(|status| status.is_client_error() || status.is_server_error())
                .map(Some)
                .ok_or_else(|| top.wrong(key, value, "a status from 400 to 599")),
        };
        let mut answers = Answers { fields: self.ratelimit_fields.unwrap_or(true), ..Answers::default() };
        let both = status("status", self.status)?;
        let (refused, shed) =
            (status("refused_status", self.refused_status)?, status("shed_status", self.shed_status)?);
        if let Some(both) = both {
            if refused.is_some() || shed.is_some() {
                let allowed = "either `status` or `refused_status` and `shed_status`";
                return Err(top.wrong("status", both.as_u16(), allowed));
            }
            return Ok(Answers { fields: answers.fields, ..Answers::one_status(both) });
        }
        answers.refused = refused.unwrap_or(answers.refused);
        answers.shed = shed.unwrap_or(answers.shed);
        Ok(answers)
    }
}

impl Key {
    fn key_by(&self) -> Result<KeyBy, SettingsError> {
        let place = Place(" in [key]".into());
        let by = match self.by.as_deref() {
            None | Some("address") => By::Address,
            Some(other) => {
                let name = other.strip_prefix("header:").and_then(|name| name.trim().parse::<HeaderName>().ok());
                By::Header(name.ok_or_else(|| place.wrong("by", quoted(other), "\"address\" or \"header:X-Api-Key\""))?)
            }
        };
        let ipv6_prefix = match self.ipv6_prefix {
            None => Ipv6Prefix::default(),
            Some(bits) => u8::try_from(bits)
                .ok()
                .and_then(|bits| Ipv6Prefix::new(bits).ok())
                .ok_or_else(|| place.wrong("ipv6_prefix", bits, "a whole number from 1 to 128"))?,
        };
        let trust = match (&self.trusted_proxies, self.trusted_hops) {
            (None, None) => Trust::Nobody,
            (Some(networks), None) => Trust::Networks(
                networks
                    .iter()
                    .map(|text| text.parse())
                    .collect::<Result<_, _>>()
                    .map_err(|error| place.wrong("trusted_proxies", quoted_list(networks), error))?,
            ),
            (None, Some(hops)) => Trust::Hops(
                u8::try_from(hops)
                    .ok()
                    .and_then(NonZeroU8::new)
                    .filter(|hops| usize::from(hops.get()) <= crate::key::MOST_ENTRIES)
                    .ok_or_else(|| place.wrong("trusted_hops", hops, "a whole number from 1 to 32"))?,
            ),
            (Some(_), Some(hops)) => {
                return Err(place.wrong("trusted_hops", hops, "either trusted_hops or trusted_proxies"));
            }
        };
        let forwarded = match self.forwarded.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("x-forwarded-for") => ForwardedField::XForwardedFor,
            Some("forwarded") => ForwardedField::Forwarded,
            Some(other) => {
                return Err(place.wrong("forwarded", quoted(other), "\"x-forwarded-for\" or \"forwarded\""));
            }
        };
        Ok(KeyBy { by, ipv6_prefix, trust, forwarded })
    }
}

impl Entry {
    fn rule(&self, nth: usize) -> Result<Rule, SettingsError> {
        let place = Place::of_limit(nth);
        let mut route = Route::all();
        if let Some(path) = &self.path {
            route = route.path(path).map_err(|error| place.route(&error))?;
        }
        if let Some(host) = &self.host {
            route = route.host(host).map_err(|error| place.route(&error))?;
        }
        let methods: Vec<_> = self
            .methods
            .iter()
            .map(|name| Route::method_named(name))
            .collect::<Result<_, _>>()
            .map_err(|error| place.route(&error))?;
        route = route.methods(methods);
        let limit = self.limit(&place)?;
        let name = self.name.as_deref().or(self.path.as_deref()).unwrap_or("default");
        let rule = Rule::new(name, limit).map_err(|error| place.parameter("name", &error))?.on(route);
        let cost = self.cost.unwrap_or(1);
        let most = limit.capacity();
        let rule =
            u32::try_from(cost).map_err(|_| CostError { cost: 0, most }).and_then(|cost| rule.cost(cost)).map_err(
                |_| place.wrong("cost", cost, format!("a whole number from 1 to {most}, all that comes at once")),
            )?;
        match self.key.as_deref() {
            None | Some("client") => Ok(rule),
            Some("all") => Ok(rule.all_together()),
            Some(other) => Err(place.wrong("key", quoted(other), "\"client\" or \"all\"")),
        }
    }

    fn limit(&self, place: &Place) -> Result<Limit, SettingsError> {
        let (count, per) = rate(&self.rate).ok_or_else(|| {
            place.wrong("rate", self.rate.shown(), "a rate above 0: \"10/s\", \"100/min\", \"1/60s\", 0.5")
        })?;
        let burst = self.burst.unwrap_or(count);
        let wrong = |error: ParameterError| place.parameter(error.parameter, &error);
        match self.mode.as_deref() {
            None | Some("reject") => TokenBucket::rate(count, per, burst).map(Limit::from).map_err(wrong),
            Some("delay") => LeakyBucket::new(count, per, burst).map(Limit::from).map_err(wrong),
            Some("window") => match self.burst {
                None => FixedWindow::new(count, per).map(Limit::from).map_err(wrong),
                Some(burst) => {
                    Err(place.wrong("burst", burst, "none beside mode = \"window\": the rate's count is all there is"))
                }
            },
            Some(other) => Err(place.wrong("mode", quoted(other), "\"reject\", \"delay\" or \"window\"")),
        }
    }
}

/// A whole count in a span of whole microseconds; a fraction of one is one in a longer span.
fn rate(text: &Text) -> Option<(i64, Duration)> {
    let written = text.written();
    let (count, per) = written.split_once('/').unwrap_or((&written, "1s"));
    if let Ok(count) = count.trim().parse::<i64>() {
        let per = read_span(per)?;
        return (count > 0 && !per.is_zero()).then_some((count, per));
    }
    let spacing = read_rate(&written)?;
    let micros = u64::try_from(spacing.as_nanos().div_ceil(1000)).ok()?;
    Some((1, Duration::from_micros(micros)))
}

/// `/healthz`, or `GET /ready`.
fn exempt(text: &str, place: &Place) -> Result<Route, SettingsError> {
    let wrong =
        |error: RouteError| place.wrong("exempt", quoted(text), format_args!("a path or a method and a path: {error}"));
    match text.split_once(' ') {
        None => Route::all().path(text).map_err(wrong),
        Some((method, path)) => {
            let method = Route::method_named(method).map_err(wrong)?;
            Ok(Route::all().path(path.trim()).map_err(wrong)?.methods([method]))
        }
    }
}

/// The table a value stands in.
struct Place(String);

impl Place {
    fn of_limit(nth: usize) -> Self {
        Self(format!(" in [[limit]] {nth}"))
    }

    fn wrong(&self, key: &str, value: impl Display, allowed: impl Display) -> SettingsError {
        SettingsError::Value {
            key: key.to_owned(),
            value: value.to_string(),
            place: self.0.clone(),
            allowed: allowed.to_string(),
        }
    }

    fn parameter(&self, key: &str, error: &ParameterError) -> SettingsError {
        self.wrong(key, &error.value, error.allowed)
    }

    fn route(&self, error: &RouteError) -> SettingsError {
        self.wrong(error.part, quoted(&error.value), error.allowed)
    }
}

impl Text {
    fn written(&self) -> String {
        match self {
            Self::Whole(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Words(text) => text.clone(),
        }
    }

    fn shown(&self) -> String {
        if let Self::Words(text) = self { quoted(text) } else { self.written() }
    }
}

fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(LONGEST_SHOWN).collect::<String>())
}

fn quoted_list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().take(8).map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// Each holds a connection open; more than that is no queue but an outage.
const MOST_WAITING: u32 = 1_000_000;
const LONGEST_SHOWN: usize = 64;

#[cfg(test)]
mod tests;
