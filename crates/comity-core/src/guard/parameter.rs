//! What a person may set, and the error that says so (G5).

use core::fmt;
use core::time::Duration;

/// A parameter that cannot be: which, what it was, and what is allowed (G5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{parameter}` is {value}: allowed is {allowed}")]
pub struct ParameterError {
    /// Its name.
    pub parameter: &'static str,
    /// What it was.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl ParameterError {
    fn of(parameter: &'static str, value: impl fmt::Display, allowed: &'static str) -> Self {
        Self { parameter, value: value.to_string(), allowed }
    }
}

/// A whole number above zero.
pub(super) fn count(parameter: &'static str, value: i64) -> Result<u32, ParameterError> {
    match u32::try_from(value) {
        Ok(count @ 1..=MOST) => Ok(count),
        _ => Err(ParameterError::of(parameter, value, "a whole number from 1 to 1000000000")),
    }
}

/// A whole number, zero among them.
pub(super) fn count_or_none(parameter: &'static str, value: i64) -> Result<u32, ParameterError> {
    match u32::try_from(value) {
        Ok(count @ 0..=MOST) => Ok(count),
        _ => Err(ParameterError::of(parameter, value, "a whole number from 0 to 1000000000")),
    }
}

/// A span of whole microseconds above zero.
pub(super) fn span(parameter: &'static str, value: Duration) -> Result<u64, ParameterError> {
    let whole = value.subsec_nanos().is_multiple_of(1000);
    match u64::try_from(value.as_micros()) {
        Ok(micros @ 1..=LONGEST) if whole => Ok(micros),
        _ => Err(ParameterError::of(parameter, format_args!("{value:?}"), "whole microseconds, from 1 to a century")),
    }
}

/// A rate that is so slow or so fast that it cannot be counted.
pub(super) fn rate_error(count: u32, per: Duration, allowed: &'static str) -> ParameterError {
    ParameterError::of("rate", format_args!("{count} per {per:?}"), allowed)
}

/// More than any server serves; sums and products of it stay far from overflowing.
const MOST: u32 = 1_000_000_000;
/// A century, in microseconds.
pub(super) const LONGEST: u64 = 3_155_760_000_000_000;
