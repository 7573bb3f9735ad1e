//! Who is asked.

use core::num::NonZeroU32;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::model::Model;

/// One host, or many alike: `[[host]]`. Beside these keys stand those of its [`Model`].
#[derive(Clone, Debug)]
pub struct HostEntry {
    /// Its name: `shop.example`. Of many, `{}` in it is the number of each, from 1 on.
    pub name: String,
    /// How many there are. 1 where it is left out.
    pub count: NonZeroU32,
    /// Whether all of them are one host behind several names, with one limit. False where it is left out.
    pub behind_one: bool,
    /// What it does.
    pub model: Model,
}

/// The keys of an entry that are not its model's.
#[derive(Deserialize)]
#[serde(default)]
struct Own {
    name: String,
    count: NonZeroU32,
    behind_one: bool,
}

impl Default for Own {
    fn default() -> Self {
        Self { name: String::new(), count: NonZeroU32::MIN, behind_one: false }
    }
}

impl HostEntry {
    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        (1..=self.count.get()).map(|n| self.name.replace("{}", &n.to_string()))
    }
}

impl<'de> Deserialize<'de> for HostEntry {
    /// Sorts an entry's keys into its own and its model's: a model refuses keys that it does not know.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut model = toml::Table::deserialize(from)?;
        let own: toml::Table =
            OWN_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), model.remove(*key)?))).collect();
        let own = Own::deserialize(own).map_err(D::Error::custom)?;
        let named = |why: &dyn core::fmt::Display| D::Error::custom(format!("host `{}`: {why}", own.name));
        if own.name.is_empty() {
            return Err(D::Error::missing_field("name"));
        }
        if own.count.get() > 1 && !own.name.contains("{}") {
            return Err(named(&"`name` needs a `{}` for the number of each where `count` is more than 1"));
        }
        let model = Model::deserialize(model).map_err(|error| named(&error.message()))?;
        Ok(Self { name: own.name, count: own.count, behind_one: own.behind_one, model })
    }
}

const OWN_KEYS: [&str; 3] = ["name", "count", "behind_one"];
