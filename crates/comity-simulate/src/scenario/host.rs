//! Who is asked.

use core::num::NonZeroU32;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::hosts::Model;

/// One host, or many alike: `[[host]]`. Beside the keys here stand those of its [`Model`].
#[derive(Clone, Debug)]
pub struct HostEntry {
    /// `name`: `"shop.example"`. Of many, `{}` in it is the number of each, from 1 on.
    pub name: String,
    /// `hosts`: how many there are. 1 where it is left out.
    pub hosts: NonZeroU32,
    /// What each of them does.
    pub model: Model,
    /// What all but the first do where they are behind one limit: the first describes it.
    others: Option<Model>,
}

impl HostEntry {
    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        (1..=self.hosts.get()).map(|n| self.name.replace("{}", &n.to_string()))
    }

    /// What the `nth` of them does, counted from 0.
    pub(crate) fn model(&self, nth: usize) -> &Model {
        self.others.as_ref().filter(|_| nth > 0).unwrap_or(&self.model)
    }
}

impl<'de> Deserialize<'de> for HostEntry {
    /// Sorts an entry's keys into its own and its model's: a model refuses keys that it does not know.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(from)?;
        let name = match table.remove("name") {
            Some(toml::Value::String(name)) if !name.is_empty() => name,
            Some(other) => return Err(D::Error::custom(format!("`name` is {other}: a host's name is needed"))),
            None => return Err(D::Error::missing_field("name")),
        };
        let wrong = |why: String| D::Error::custom(format!("host `{name}`: {why}"));
        let hosts = match table.remove("hosts") {
            None => NonZeroU32::MIN,
            Some(value) => value
                .as_integer()
                .and_then(|hosts| u32::try_from(hosts).ok())
                .and_then(NonZeroU32::new)
                .ok_or_else(|| wrong(format!("`hosts` is {value}: a whole number from 1 on is needed")))?,
        };
        if hosts.get() > 1 && !name.contains("{}") {
            return Err(wrong("of more than one, `name` needs a `{}` for the number of each".to_owned()));
        }
        let behind = table.get("behind").map(|behind| toml::Table::from_iter([("behind".to_owned(), behind.clone())]));
        let model = |table| Model::from_table(table).map_err(|why| wrong(why.to_string()));
        let others = behind.map(&model).transpose()?;
        Ok(Self { model: model(table)?, others, hosts, name })
    }
}
