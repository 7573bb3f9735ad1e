//! A host as a scenario describes it.

use serde::{Deserialize, Deserializer, de};
use toml::{Table, Value};

use super::Host;
use super::answers::{AnswersSettings, Usual};
use super::behind::Groups;
use super::bucket::BucketSettings;
use super::cap::CapSettings;
use super::crowd::CrowdSettings;
use super::keys::keys;
use super::law::AnyLaw;
use super::leaky::LeakySettings;
use super::mix::MixSettings;
use super::outage::{OutageSettings, Outages};
use super::said::{ModelError, Said, in_order};
use super::site::{Name, Part, Site};
use super::sliding::SlidingSettings;
use super::window::WindowSettings;
use super::workers::WorkersSettings;

/// A host as a scenario describes it: a `[[host]]` table without what the scenario itself keeps there (its name).
///
/// | `kind` | keys | law |
/// |---|---|---|
/// | `"bucket"` | `rate`, `burst` | token bucket |
/// | `"window"` | `count`, `span`; `begins = "first"` or `"clock"`, `phase` | fixed window |
/// | `"sliding"` | `count`, `span` | sliding window log |
/// | `"leaky"` | `rate`, `depth` | leaky bucket: a queue that drains at the rate, refuses when full |
/// | `"cap"` | `in_flight` | concurrency cap |
/// | `"workers"` | `workers`, `service`; `service_sigma`, `depth` | a queue before workers |
/// | `"mix"` | `cached`, `cache`; `cache_sigma`, and those of workers | a cache before an origin with workers |
///
/// Every host may have `latency`, `sigma`, `refusal` (a status, `"reset"`, `"silence"`), `refusal_latency`,
/// `quota_fields` (of `"ratelimit"`, `"x-ratelimit"`, `"x-ratelimit-epoch"`) and `advice`: `"none"`, `"exact"`,
/// `{ too_short = 0.5 }`, `{ too_long = 3 }`, `{ fixed = "30s" }`, `{ date = { clock_ahead = "90s" } }`.
///
/// - `[[host.then]]` with `at`: other values from a time on. Keys it does not name stay as they were; with a `kind` of its
///   own nothing stays.
/// - `[[host.outage]]` with `from`, `to`; `with`, `advice`.
/// - `[host.crowd]` with `rate`, and `[[host.crowd.then]]` with `at`, `rate`: other clients' requests at the same limit.
/// - `behind = "name"`: the limit is shared by all hosts that say the same. The first of them describes it, with its
///   `then` and `crowd`; the others say the same again or nothing but `behind`. Outages are each host's own.
///
/// ```
/// use comity_simulate::hosts::{Groups, Model};
///
/// let model: Model = toml::from_str("kind = 'bucket'\nrate = '10/s'\nburst = 20\nadvice = 'exact'")?;
/// let host = model.build(1, &mut Groups::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    /// None where another host describes the limit both are behind.
    described: Option<Described>,
    outages: Vec<OutageSettings>,
    behind: Option<String>,
}

/// A limit with all that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    first: PartSettings,
    then: Vec<(Said, PartSettings)>,
    crowd: Option<CrowdSettings>,
}

/// A law and how it is answered by.
#[derive(Clone, Debug, PartialEq)]
struct PartSettings {
    law: LawSettings,
    answers: AnswersSettings,
}

#[derive(Clone, Debug, PartialEq)]
enum LawSettings {
    Bucket(BucketSettings),
    Window(WindowSettings),
    Sliding(SlidingSettings),
    Leaky(LeakySettings),
    Cap(CapSettings),
    Workers(WorkersSettings),
    /// The cache, and the origin behind it.
    Mix(MixSettings, WorkersSettings),
}

impl Model {
    /// The host. The seed is for what happens at it without us (its crowd); `groups` are the limits that this world's
    /// hosts share. Fails where a value is not allowed.
    pub fn build(&self, seed: u64, groups: &mut Groups) -> Result<Box<dyn Host>, ModelError> {
        let outages = Outages::build(&self.outages).map_err(|e| e.under("outage"))?;
        let Some(group) = &self.behind else {
            let described = self.described.as_ref().ok_or_else(|| ModelError::Table("`kind` is missing".into()))?;
            return Ok(Box::new(Name::new(described.build(seed)?, outages)));
        };
        let shared = groups.joined(group, self.described.as_ref(), |described| described.build(seed))?;
        Ok(Box::new(Name::new(shared, outages)))
    }

    /// Reads it from a table.
    pub fn from_table(mut table: Table) -> Result<Self, ModelError> {
        let outages = take(&mut table, "outage")?.unwrap_or_default();
        let behind: Option<String> = take(&mut table, "behind")?;
        let described = match table.is_empty() && behind.is_some() {
            true => None,
            false => Some(Described::read(table)?),
        };
        Ok(Self { described, outages, behind })
    }
}

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_table(Table::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Described {
    fn read(mut table: Table) -> Result<Self, ModelError> {
        let crowd = take(&mut table, "crowd")?;
        let changes: Vec<Table> = take(&mut table, "then")?.unwrap_or_default();
        let first = PartSettings::read(table.clone(), HOST_KEYS)?;
        let mut then = Vec::with_capacity(changes.len());
        for mut change in changes {
            let at = take(&mut change, "at").map_err(|e| e.under("then"))?;
            let at = at.ok_or_else(|| ModelError::Table("then: `at` is missing".into()))?;
            if change.contains_key("kind") {
                table = change;
            } else {
                table.extend(change);
            }
            then.push((at, PartSettings::read(table.clone(), THEN_KEYS).map_err(|e| e.under("then"))?));
        }
        Ok(Self { first, then, crowd })
    }

    fn build(&self, seed: u64) -> Result<Site, ModelError> {
        let mut then = Vec::with_capacity(self.then.len());
        for (at, part) in &self.then {
            let build = || Ok((at.some_span("at")?, part.build()?));
            then.push(build().map_err(|e: ModelError| e.under("then"))?);
        }
        in_order("then.at", then.iter().map(|(at, _)| *at))?;
        let crowd = self.crowd.as_ref().map(|crowd| crowd.build(seed)).transpose().map_err(|e| e.under("crowd"))?;
        Ok(Site::new(self.first.build()?, then, crowd))
    }
}

impl PartSettings {
    /// Reads it from a table in whose place `beside` may stand too, and nothing else.
    fn read(mut table: Table, beside: &[&str]) -> Result<Self, ModelError> {
        let kind: Option<String> = take(&mut table, "kind")?;
        let (answers, laws) = (keys::<AnswersSettings>(), LawSettings::keys(kind.as_deref()));
        let known = |key: &str| answers.contains(&key) || laws.contains(&key);
        if let Some(unknown) = table.keys().find(|key| !laws.is_empty() && !known(key)) {
            let allowed = [beside, &laws, answers].concat().join(", ");
            return Err(ModelError::Table(format!("unknown key `{unknown}`: allowed are {allowed}")));
        }
        let kind = kind.ok_or_else(|| ModelError::Table(format!("`kind` is missing: allowed are {KINDS}")))?;
        let (answers, law) = table.into_iter().partition(|(key, _)| answers.contains(&key.as_str()));
        Ok(Self { law: LawSettings::read(&kind, law)?, answers: settings(answers)? })
    }

    fn build(&self) -> Result<Part, ModelError> {
        let (law, answers) = (self.law.build()?, self.answers.build(self.law.usual())?);
        if !law.get().rate(&answers.latency).is_finite() {
            return Err(ModelError::value(
                "latency",
                "\"0s\"",
                "a span above zero where requests in flight are limited",
            ));
        }
        if self.answers.tell_quotas() && law.get().standing(0).left.is_none() {
            return Err(ModelError::value("quota_fields", "[..]", "none where nothing is counted"));
        }
        Ok(Part { law, answers })
    }
}

impl LawSettings {
    /// The keys of a kind, none of one that does not exist; where none is said, those of all kinds.
    fn keys(kind: Option<&str>) -> Vec<&'static str> {
        let kinds = KINDS.split(", ").filter(|known| kind.is_none_or(|kind| kind == *known));
        let mut all: Vec<&str> = Vec::new();
        for kind in kinds {
            let keys = match kind {
                "bucket" => keys::<BucketSettings>(),
                "window" => keys::<WindowSettings>(),
                "sliding" => keys::<SlidingSettings>(),
                "leaky" => keys::<LeakySettings>(),
                "cap" => keys::<CapSettings>(),
                "workers" => keys::<WorkersSettings>(),
                _ => &[keys::<MixSettings>(), keys::<WorkersSettings>()].concat(),
            };
            all.extend(keys.iter().filter(|key| !all.contains(key)).copied().collect::<Vec<_>>());
        }
        all
    }

    fn read(kind: &str, table: Table) -> Result<Self, ModelError> {
        Ok(match kind {
            "bucket" => Self::Bucket(settings(table)?),
            "window" => Self::Window(settings(table)?),
            "sliding" => Self::Sliding(settings(table)?),
            "leaky" => Self::Leaky(settings(table)?),
            "cap" => Self::Cap(settings(table)?),
            "workers" => Self::Workers(settings(table)?),
            "mix" => {
                let origins = keys::<WorkersSettings>();
                let (origin, cache) = table.into_iter().partition(|(key, _)| origins.contains(&key.as_str()));
                Self::Mix(settings(cache)?, settings(origin)?)
            }
            _ => return Err(ModelError::value("kind", format!("{kind:?}"), KINDS)),
        })
    }

    fn build(&self) -> Result<AnyLaw, ModelError> {
        Ok(match self {
            Self::Bucket(settings) => AnyLaw::Bucket(settings.build()?),
            Self::Window(settings) => AnyLaw::Window(settings.build()?),
            Self::Sliding(settings) => AnyLaw::Sliding(settings.build()?),
            Self::Leaky(settings) => AnyLaw::Leaky(settings.build()?),
            Self::Cap(settings) => AnyLaw::Cap(settings.build()?),
            Self::Workers(settings) => AnyLaw::Workers(settings.build()?),
            Self::Mix(cache, origin) => AnyLaw::Mix(Box::new(cache.build(origin)?)),
        })
    }

    /// A queue takes its service time and refuses as overloaded; other hosts take a moment and refuse as asked too often.
    fn usual(&self) -> Usual {
        match self {
            Self::Workers(_) | Self::Mix(..) => Usual { latency: "0s", refusal: "503" },
            _ => Usual { latency: "50ms", refusal: "429" },
        }
    }
}

/// Takes a key's value out of a table.
fn take<T: for<'de> Deserialize<'de>>(table: &mut Table, key: &str) -> Result<Option<T>, ModelError> {
    let read = |value: Value| value.try_into().map_err(|e| ModelError::Table(format!("`{key}`: {}", line(&e))));
    table.remove(key).map(read).transpose()
}

fn settings<T: for<'de> Deserialize<'de>>(table: Table) -> Result<T, ModelError> {
    Value::Table(table).try_into().map_err(|e| ModelError::Table(line(&e)))
}

/// What the reader of tables says, in one line.
fn line(error: &toml::de::Error) -> String {
    error.to_string().trim().replace('\n', " ")
}

/// What stands in a host's table beside its law's keys and those of its answers.
const HOST_KEYS: &[&str] = &["name", "hosts", "kind", "behind", "then", "crowd", "outage"];
/// And in the table of what follows.
const THEN_KEYS: &[&str] = &["at", "kind"];
const KINDS: &str = "bucket, window, sliding, leaky, cap, workers, mix";
