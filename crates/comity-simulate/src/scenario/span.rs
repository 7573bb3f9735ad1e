//! Spans of time as a person writes them: `"500ms"`, `"1.5s"`, `"10min"`.

use core::time::Duration;

use comity_core::limits::read_span;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reads a span, for `#[serde(deserialize_with)]`.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    read_span(&text).ok_or_else(|| {
        D::Error::custom(format!(
            "`{text}` is no span of time: allowed are such as \"500ms\", \"1.5s\", \"10min\", \"1h\""
        ))
    })
}

/// Reads a span that may be left out.
pub(super) fn read_some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    read(from).map(Some)
}
