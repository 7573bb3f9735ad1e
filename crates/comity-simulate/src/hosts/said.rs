//! Quantities as a scenario says them, and what is wrong with them where they are not understood.

use core::fmt;
use core::time::Duration;

use comity_core::limits::{read_rate, read_span};
use comity_core::time::nanos;
use serde::{Deserialize, Deserializer, de};

/// Why a host's description is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A value that is not allowed.
    #[error("{key} = {value}: allowed is {allowed}")]
    Value {
        /// The key, with those it stands under: `crowd.rate`.
        key: String,
        /// What was said.
        value: String,
        /// What may be said.
        allowed: String,
    },
    /// A table that cannot be read: a key that is unknown or missing, a value of another type.
    #[error("{0}")]
    Table(String),
}

impl ModelError {
    pub(super) fn value(key: &str, value: impl fmt::Display, allowed: &str) -> Self {
        Self::Value { key: key.to_owned(), value: value.to_string(), allowed: allowed.to_owned() }
    }

    /// The same, where the table stands under a key of another.
    pub(super) fn under(self, place: &str) -> Self {
        match self {
            Self::Value { key, value, allowed } => Self::Value { key: format!("{place}.{key}"), value, allowed },
            Self::Table(why) => Self::Table(format!("{place}: {why}")),
        }
    }
}

/// A quantity as text: `"50ms"`, `"10/s"`, or a bare number (of seconds, or a second).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said(pub(super) String);

impl Said {
    /// A span in nanoseconds, zero included.
    pub(super) fn span(&self, key: &str) -> Result<u64, ModelError> {
        read_span(&self.0)
            .map(nanos)
            .ok_or_else(|| ModelError::value(key, self, "a span of time such as 50ms, 2s, 5min"))
    }

    /// A span that is not zero.
    pub(super) fn some_span(&self, key: &str) -> Result<u64, ModelError> {
        let longer = self.span(key).ok().filter(|span| *span > 0);
        longer.ok_or_else(|| ModelError::value(key, self, "a span of time above zero such as 50ms, 2s, 5min"))
    }

    /// A rate, as the nanoseconds between two.
    pub(super) fn interval(&self, key: &str) -> Result<u64, ModelError> {
        let allowed = "a rate above zero such as 10/s, 60/min, 1/5s";
        read_rate(&self.0).map(nanos).ok_or_else(|| ModelError::value(key, self, allowed))
    }
}

/// A number within bounds.
pub(super) fn within<T: PartialOrd + fmt::Display + Copy>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, ModelError> {
    let inside = value >= least && value <= most;
    inside.then_some(value).ok_or_else(|| ModelError::value(key, value, &format!("{least} to {most}")))
}

/// Times that must follow each other.
pub(super) fn in_order(key: &str, times: impl Iterator<Item = u64> + Clone) -> Result<(), ModelError> {
    let follows = times.clone().zip(times.skip(1)).find(|(one, next)| next <= one);
    let wrong = |(one, next): (u64, u64)| {
        ModelError::value(key, format!("{:?}", duration(next)), &format!("a time after {:?}", duration(one)))
    };
    follows.map_or(Ok(()), |pair| Err(wrong(pair)))
}

/// The standard deviation of a logarithm.
pub(super) fn sigma(key: &str, value: f64) -> Result<f64, ModelError> {
    within(key, value, 0.0, WIDEST_SIGMA)
}

/// A span as a duration.
pub(super) fn duration(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SaidVisitor)
    }
}

struct SaidVisitor;

impl de::Visitor<'_> for SaidVisitor {
    type Value = Said;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"50ms\" or \"10/s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Said, E> {
        Ok(Said(text.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Said, E> {
        Ok(Said(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Said, E> {
        Ok(Said(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Said, E> {
        Ok(Said(number.to_string()))
    }
}

/// At 3 the mean is ninety times the median: what is wider is a mistake.
const WIDEST_SIGMA: f64 = 3.0;
