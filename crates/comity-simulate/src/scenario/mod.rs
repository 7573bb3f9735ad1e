//! A scenario: which hosts, which network, which clients, for how long. A TOML file says it.
//!
//! Every key, with what holds where it is left out in brackets; a key that does not exist is an error:
//!
//! | key | what it says |
//! |---|---|
//! | `name` | its name: that of its file |
//! | `about` | what it is about, in a sentence (nothing) |
//! | `time` | how long it runs, in virtual time: `"10min"` |
//! | `seeds` | how many seeds it is run from (10) |
//! | `policies` | what it is run with (our own four): names of ours, of [baselines](crate::baselines::NAMES), `"curl 100ms"` for one that is told an interval, `"interval 100ms"` for an interval a person set in our own core |
//! | `remembered` | run twice, and measure the second run, which has what the first one learned (false) |
//! | `age` | how long after the first run the second begins (`"10min"`) |
//! | `report` | tell of `"each"` host or of all `"together"` (`"each"`) |
//! | `[[host]]` | `name`, and `hosts`: how many (1), each with its number for `{}` in the name; beside them the keys of a [host's model](crate::hosts::Model) |
//! | `[network]` | `latency`: the round trip (0); `jitter`: what it may take longer (0); `loss`, `resets`: shares of requests (0) |
//! | `[uplink]` | `bytes_per_second`, `answer_bytes`, `queue`: answers that may wait; `from`: when it begins to be so narrow (0) (no `[uplink]`: room for all) |
//! | `[clients]` | `count` (1); `coordinated`: they share a store (true); `urls`: of each host for each (no end); `in_flight_total`: workers of each over all hosts (no end); `profile`: `"api"` or `"crawl"` (`"api"`); `in_flight`, `floor`, `start` instead of the profile's; `uplink_guard`: all hosts are watched together (true); `retries` (5); `attempt_timeout` (`"30s"`) |
//!
//! ```
//! use comity_simulate::scenario::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     name = "four-strangers"
//!     about = "Four clients that know nothing of each other at one token bucket"
//!     time = "20min"
//!     policies = ["adaptive", "scrapy", "fixed 200ms"]
//!
//!     [[host]]
//!     name = "api.example"
//!     kind = "bucket"
//!     rate = "20/s"
//!     burst = 20
//!
//!     [network]
//!     latency = "40ms"
//!
//!     [clients]
//!     count = 4
//!     coordinated = false
//!     "#,
//! )?;
//! assert_eq!(scenario.clients.count.get(), 4);
//! # Ok::<(), comity_simulate::scenario::ScenarioError>(())
//! ```

mod clients;
mod host;
mod network;
mod span;

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::HashSet;
use std::path::Path;

use comity_core::scope::HostKey;
use serde::Deserialize;

pub use self::clients::{Clients, OWN_POLICIES, Profile};
pub use self::host::HostEntry;
pub use self::network::{Network, Uplink};
use crate::baselines;
use crate::hosts::{Groups, ModelError};

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name: that of its file.
    pub name: String,
    /// What it is about, in a sentence.
    #[serde(default)]
    pub about: String,
    /// How long it runs, in virtual time.
    #[serde(deserialize_with = "span::read")]
    pub time: Duration,
    /// How many seeds it is run from, counted from 1, where nobody says. 10 where it is left out.
    #[serde(default = "ten")]
    pub seeds: NonZeroU32,
    /// The policies it is run with where nobody names others. All of ours where it is left out.
    #[serde(default = "own_policies")]
    pub policies: Vec<String>,
    /// Whether it is run twice: once to learn, and then anew with what was learned, which is measured. Baselines remember
    /// nothing. False where it is left out.
    #[serde(default)]
    pub remembered: bool,
    /// How long after the first run ended the second begins. 10 minutes where it is left out.
    #[serde(default = "ten_minutes", deserialize_with = "span::read")]
    pub age: Duration,
    /// Whether the outcome tells of each host or of all of them together. `"each"` where it is left out.
    #[serde(default)]
    pub report: Report,
    /// The hosts.
    #[serde(rename = "host")]
    pub hosts: Vec<HostEntry>,
    /// The network.
    #[serde(default)]
    pub network: Network,
    /// Our own way out.
    #[serde(default)]
    pub uplink: Option<Uplink>,
    /// The clients.
    #[serde(default)]
    pub clients: Clients,
}

/// What an outcome tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Report {
    /// Each host by itself.
    #[default]
    Each,
    /// All hosts as if they were one.
    Together,
}

/// A scenario that cannot be run, and why.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{path}")]
    Unreadable {
        /// Its path.
        path: String,
        /// Why.
        #[source]
        why: std::io::Error,
    },
    /// It is no scenario.
    #[error(transparent)]
    Malformed(#[from] toml::de::Error),
    /// A host's model makes no sense.
    #[error("host `{name}`: {why}")]
    Host {
        /// The host's name.
        name: String,
        /// Why.
        why: ModelError,
    },
    /// A value makes no sense.
    #[error("`{key}` is {value}: {allowed}")]
    Value {
        /// Its key.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },
}

impl Scenario {
    /// Reads a scenario from a file.
    ///
    /// # Errors
    /// When the file cannot be read, and as [`Scenario::parse`].
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path)
            .map_err(|why| ScenarioError::Unreadable { path: path.display().to_string(), why })?;
        Self::parse(&text)
    }

    /// Reads a scenario from its text.
    ///
    /// # Errors
    /// When the text is no TOML, a key is unknown or missing, or a value makes no sense: the error names it and says what is
    /// allowed.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let no =
            |key, value: String, allowed: &str| Err(ScenarioError::Value { key, value, allowed: allowed.to_owned() });
        if self.time.is_zero() {
            return no("time", "nothing".into(), "it must be more");
        }
        if self.hosts.is_empty() {
            return no("host", "empty".into(), "at least one host is needed");
        }
        let hosts = self.hosts.iter().fold(0u64, |all, entry| all + u64::from(entry.hosts.get()));
        if hosts > MOST_HOSTS {
            return no("hosts", hosts.to_string(), "2,000,000 in all is the most");
        }
        if self.clients.count.get() > MOST_CLIENTS {
            return no("clients.count", self.clients.count.to_string(), "10,000 is the most");
        }
        self.check_names()?;
        if self.policies.is_empty() {
            return no("policies", "empty".into(), "leave it out for all of ours, or name one");
        }
        if let Some(unknown) = self.policies.iter().find(|policy| !self.has_policy(policy)) {
            return no("policies", format!("{unknown:?}"), &format!("allowed are {}", policy_names().join(", ")));
        }
        let mut groups = Groups::default();
        for entry in &self.hosts {
            entry.model.build(0, &mut groups).map_err(|why| ScenarioError::Host { name: entry.name.clone(), why })?;
        }
        for (key, share) in [("network.loss", self.network.loss), ("network.resets", self.network.resets)] {
            if !(0.0..=1.0).contains(&share) {
                return no(key, share.to_string(), "a share from 0 to 1 is needed");
            }
        }
        if self.clients.urls == Some(0) {
            return no("clients.urls", "0".into(), "leave it out for URLs without end");
        }
        if let Some(uplink) = &self.uplink {
            for (key, value) in
                [("uplink.bytes_per_second", uplink.bytes_per_second), ("uplink.answer_bytes", uplink.answer_bytes)]
            {
                if !(value.is_finite() && value >= 1.0) {
                    return no(key, value.to_string(), "at least 1 is needed");
                }
            }
        }
        Ok(())
    }

    /// Whether a policy of this name can be run here: one of ours, or of other programs, which may be told an interval.
    pub fn has_policy(&self, policy: &str) -> bool {
        self.clients.limits(policy).is_some() || baselines::is_known(self.clients.baseline(policy).0)
    }

    /// How many seeds a policy is run from where nobody says: [`Scenario::seeds`], and one where a run
    /// [costs](baselines::is_costly) as much as hundreds of others.
    pub fn seeds_of(&self, policy: &str) -> NonZeroU32 {
        if baselines::is_costly(policy) { NonZeroU32::MIN } else { self.seeds }
    }

    /// Every host has a name that one can have, and no two have the same.
    fn check_names(&self) -> Result<(), ScenarioError> {
        let no = |value: &str, allowed: &str| {
            Err(ScenarioError::Value { key: "host.name", value: format!("{value:?}"), allowed: allowed.to_owned() })
        };
        let mut taken = HashSet::new();
        for name in self.hosts.iter().flat_map(HostEntry::names) {
            let key = match HostKey::new(&name, None) {
                Ok(key) => key,
                Err(why) => return no(&name, &why.to_string()),
            };
            if !taken.insert(key) {
                return no(&name, "another host has it, and each needs one of its own");
            }
        }
        Ok(())
    }
}

/// The names of all policies, ours first.
pub fn policy_names() -> Vec<&'static str> {
    let others = baselines::NAMES.iter().map(|(name, ..)| *name);
    OWN_POLICIES.into_iter().chain(["interval 100ms"]).chain(others).collect()
}

fn ten() -> NonZeroU32 {
    SEEDS
}

fn ten_minutes() -> Duration {
    AGE
}

fn own_policies() -> Vec<String> {
    OWN_POLICIES.map(str::to_owned).to_vec()
}

/// What memory holds.
const MOST_HOSTS: u64 = 2_000_000;
const MOST_CLIENTS: u32 = 10_000;
const SEEDS: NonZeroU32 = NonZeroU32::new(10).unwrap();
const AGE: Duration = Duration::from_secs(600);
