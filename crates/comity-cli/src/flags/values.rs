//! How the values of flags are read. A wrong one says what is allowed; clap adds the flag and the value.

use std::num::NonZeroU32;
use std::time::Duration;

use comity::{Policy, Profile, read_rate, read_span};

/// A span of time: `500ms`, `1.5s`, `2m`, `1h`, a bare number of seconds.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    read_span(text)
        .ok_or_else(|| "allowed are times such as 500ms, 1.5s, 2m, 1h or a number of seconds, not negative".to_owned())
}

/// A span of time above 0.
pub(crate) fn some_span(text: &str) -> Result<Duration, String> {
    match span(text)? {
        Duration::ZERO => Err("allowed are times above 0 such as 500ms, 1.5s, 2m".to_owned()),
        span => Ok(span),
    }
}

/// A rate as the spacing it means: `15/min`, `1/5s`, a bare number a second.
pub(crate) fn rate(text: &str) -> Result<Duration, String> {
    read_rate(text).ok_or_else(|| "allowed are rates above 0 such as 2, 0.2, 15/min or 1/5s".to_owned())
}

/// So many a second, as the spacing it means.
pub(crate) fn per_second(text: &str) -> Result<Duration, String> {
    let number = if text.contains('/') { None } else { read_rate(text) };
    number.ok_or_else(|| "allowed are numbers above 0 such as 2 or 0.2".to_owned())
}

/// A whole number from 1.
pub(crate) fn count(text: &str) -> Result<NonZeroU32, String> {
    text.trim().parse().map_err(|_| "allowed are whole numbers from 1".to_owned())
}

/// A whole number from 0.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| "allowed are whole numbers from 0".to_owned())
}

/// `COUNT/SPAN`, such as `20/300s`.
pub(crate) fn count_in_span(text: &str) -> Result<(u32, Duration), String> {
    let allowed = || "allowed is COUNT/TIME such as 20/300s, COUNT from 1, TIME above 0".to_owned();
    let (number, time) = text.split_once('/').ok_or_else(allowed)?;
    let number = count(number).map_err(|_| allowed())?;
    let time = some_span(time).map_err(|_| allowed())?;
    Ok((number.get(), time))
}

/// A profile.
pub(crate) fn profile(text: &str) -> Result<Profile, String> {
    text.parse().map_err(|_| "allowed are crawl, api and browse".to_owned())
}

/// A policy with its usual settings.
pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    comity::config::policy_named(text).ok_or_else(|| comity::config::POLICIES.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c14_c15_values_mean_what_the_configuration_means_by_them() {
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(rate("15/min"), Ok(Duration::from_secs(4)));
        assert_eq!(per_second("2"), Ok(Duration::from_millis(500)));
        assert_eq!(count_in_span("20/300s"), Ok((20, Duration::from_secs(300))));
        assert_eq!(profile("api"), Ok(Profile::Api));
        assert_eq!(policy("fixed"), Ok(Policy::Fixed));
        assert!(matches!(policy("adaptive"), Ok(Policy::Adaptive(_))));
    }

    #[test]
    fn wrong_values_are_told_what_is_allowed() {
        let wrong = [
            span("soon").map(drop),
            span("-1s").map(drop),
            some_span("0").map(drop),
            rate("0").map(drop),
            per_second("15/min").map(drop),
            count("0").map(drop),
            count("-3").map(drop),
            number("-1").map(drop),
            count_in_span("20").map(drop),
            count_in_span("0/5s").map(drop),
            count_in_span("5/0s").map(drop),
            profile("bot").map(drop),
            policy("fast").map(drop),
        ];
        for (n, result) in wrong.into_iter().enumerate() {
            assert!(result.as_ref().is_err_and(|error| error.starts_with("allowed ")), "{n}: {result:?}");
        }
    }
}
