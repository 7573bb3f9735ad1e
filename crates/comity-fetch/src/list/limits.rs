//! An entry's own limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use comity::config::{Config, ConfigError};
use comity::{Partial, Source};
use serde_json::{Value, json};

/// Limits read so far: a million lines with the same limits are one set, read once.
#[derive(Default)]
pub(super) struct LimitsRead {
    read: HashMap<String, (Arc<Partial>, Option<Duration>)>,
}

impl LimitsRead {
    /// Reads the keys of one `[limits."…"]` table, written as JSON. The second value is `min_refetch_age`.
    pub(super) fn read(&mut self, table: &Value) -> Result<(Arc<Partial>, Option<Duration>), String> {
        if !table.is_object() {
            return Err("limits: allowed is an object such as {\"per_second\": 2}".to_owned());
        }
        let written = table.to_string();
        if let Some(limits) = self.read.get(&written) {
            return Ok(limits.clone());
        }
        let limits = config(table)?;
        self.read.insert(written, limits.clone());
        Ok(limits)
    }
}

fn config(table: &Value) -> Result<(Arc<Partial>, Option<Duration>), String> {
    let file = toml::to_string(&json!({ "limits": { NAME: table } })).map_err(|error| format!("limits: {error}"))?;
    let config = Config::parse(&file).map_err(|error| match error {
        // The text it points into is not what the person wrote.
        ConfigError::Syntax(error) => format!("limits: {}", error.message()),
        error => format!("limits: {error}").replace(&format!(" in [limits.\"{NAME}\"]"), ""),
    })?;
    let age = config.min_refetch_age.first().map(|(_, age)| *age);
    let mut limits = config.rules.into_iter().next().map(|(_, limits)| limits).unwrap_or_default();
    limits.source = Some(Source::Person("limits in the list".into()));
    Ok((Arc::new(limits), age))
}

/// What the table is called for the reader of configurations; any host name would do.
const NAME: &str = "list";
