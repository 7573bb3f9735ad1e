//! What a host says about its limit, in the words clients are told: Retry-After (RFC 9110 §10.2.3) on refusals, quota
//! fields on every answer.

use core::time::Duration;

use comity_core::time::{Instant, Wall};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use serde::Deserialize;

use super::law::{Left, SECOND, Standing};
use super::said::{ModelError, Said, within};

/// The wall date of a virtual instant: the world begins on 2026-06-21 at 00:00:00 GMT, by a clock that is right.
pub fn wall(now: Instant) -> Wall {
    Wall::from_micros(WORLD_BEGINS.as_micros().saturating_add_unsigned(now.as_nanos() / 1_000))
}

/// `advice`: what a refusal says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AdviceSettings {
    /// `"none"`: nothing.
    #[default]
    None,
    /// `"exact"`: Retry-After, the seconds until a request is let in, rounded up.
    Exact,
    /// `{ too_short = 0.5 }`: Retry-After, this share of them, rounded down, a second at least.
    TooShort(f64),
    /// `{ too_long = 3 }`: Retry-After, so many times as long, rounded up.
    TooLong(f64),
    /// `{ fixed = "30s" }`: Retry-After, always the same.
    Fixed(Said),
    /// `{ date = { clock_ahead = "90s" } }`: Retry-After as a date by the server's clock, with its `Date` beside it.
    Date(DateSettings),
}

/// A date in Retry-After.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DateSettings {
    /// How far the server's clock is ahead of the right one …
    clock_ahead: Option<Said>,
    /// … or behind it.
    clock_behind: Option<Said>,
    /// Whether the answer has the server's own `Date`, as RFC 9110 §6.6.1 wants of a server with a clock.
    own_date: Option<bool>,
}

/// What a refusal says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Advice {
    None,
    /// So many times what is true, rounded up or down.
    Times(f64, Round),
    /// Seconds.
    Fixed(u64),
    /// The server's clock less the right one, in microseconds, and whether it shows it.
    Date {
        skew: i64,
        own_date: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    Up,
    Down,
}

/// `quota_fields`: which families of fields every answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum QuotaFields {
    /// `RateLimit-Policy: "default";q=60;w=60` and `RateLimit: "default";r=7;t=12`
    /// (draft-ietf-httpapi-ratelimit-headers-10).
    Ratelimit,
    /// `X-RateLimit-Limit`, `-Remaining`, and `-Reset` in seconds from now.
    XRatelimit,
    /// The same, with the reset as seconds since 1970.
    XRatelimitEpoch,
}

impl AdviceSettings {
    pub(super) fn build(&self) -> Result<Advice, ModelError> {
        Ok(match self {
            Self::None => Advice::None,
            Self::Exact => Advice::Times(1.0, Round::Up),
            Self::TooShort(share) => Advice::Times(within("advice.too_short", *share, 0.0, 1.0)?, Round::Down),
            Self::TooLong(times) => Advice::Times(within("advice.too_long", *times, 1.0, 1e6)?, Round::Up),
            Self::Fixed(span) => Advice::Fixed(span.some_span("advice.fixed")?.div_ceil(SECOND)),
            Self::Date(date) => date.build()?,
        })
    }
}

impl DateSettings {
    fn build(&self) -> Result<Advice, ModelError> {
        let micros = |key: &str, span: &Option<Said>| {
            let span = span.as_ref().map_or(Ok(0), |span| span.span(key))?;
            Ok(i64::try_from(span / 1_000).unwrap_or(i64::MAX))
        };
        let ahead = micros("advice.date.clock_ahead", &self.clock_ahead)?;
        let behind = micros("advice.date.clock_behind", &self.clock_behind)?;
        Ok(Advice::Date { skew: ahead - behind, own_date: self.own_date.unwrap_or(true) })
    }
}

impl Advice {
    /// Whether it needs to be known how things stand.
    pub(super) fn is_none(self) -> bool {
        self == Self::None
    }

    /// Adds what it says to the fields of a refusal.
    pub(super) fn say(self, now: Instant, lets_in: u64, fields: &mut Fields) {
        let seconds = match self {
            Self::None => return,
            Self::Fixed(seconds) => seconds,
            Self::Times(times, Round::Up) => ((lets_in as f64 * times / SECOND as f64).ceil() as u64).max(1),
            Self::Times(times, Round::Down) => ((lets_in as f64 * times / SECOND as f64) as u64).max(1),
            Self::Date { skew, own_date } => {
                let shown = |instant: Instant| wall(instant).as_micros().saturating_add(skew);
                let until = shown(now.after(Duration::from_nanos(lets_in)));
                fields.push((RETRY_AFTER, http_date(until.saturating_add(999_999).div_euclid(1_000_000))));
                if own_date {
                    fields.push(("date", http_date(shown(now).div_euclid(1_000_000))));
                }
                return;
            }
        };
        fields.push((RETRY_AFTER, seconds.to_string()));
    }
}

impl QuotaFields {
    /// Adds what is left to the fields of an answer.
    pub(super) fn say(self, now: Instant, left: &Left, fields: &mut Fields) {
        let Left { limit, remaining, .. } = *left;
        let window = left.window.div_ceil(SECOND);
        let resets_in = left.resets_in.div_ceil(SECOND);
        match self {
            Self::Ratelimit => {
                fields.push(("ratelimit-policy", format!("\"default\";q={limit};w={window}")));
                fields.push(("ratelimit", format!("\"default\";r={remaining};t={resets_in}")));
                return;
            }
            Self::XRatelimit => fields.push(("x-ratelimit-reset", resets_in.to_string())),
            Self::XRatelimitEpoch => {
                let resets = wall(now.after(Duration::from_nanos(left.resets_in))).as_micros();
                fields.push(("x-ratelimit-reset", resets.saturating_add(999_999).div_euclid(1_000_000).to_string()));
            }
        }
        fields.push(("x-ratelimit-limit", limit.to_string()));
        fields.push(("x-ratelimit-remaining", remaining.to_string()));
    }
}

/// Header fields as they are sent.
pub(super) type Fields = Vec<(&'static str, String)>;

/// Says all there is to say in a refusal (`advice` given) or in a served answer.
pub(super) fn say(now: Instant, standing: &Standing, advice: Option<Advice>, quotas: &[QuotaFields]) -> Fields {
    let mut fields = Fields::new();
    if let Some(advice) = advice {
        advice.say(now, standing.lets_in, &mut fields);
    }
    if let Some(left) = &standing.left {
        quotas.iter().for_each(|quota| quota.say(now, left, &mut fields));
    }
    fields
}

/// A date as HTTP writes it; empty for one no calendar has.
fn http_date(secs: i64) -> String {
    let date = Timestamp::from_second(secs).ok();
    date.and_then(|date| DateTimePrinter::new().timestamp_to_rfc9110_string(&date).ok()).unwrap_or_default()
}

const RETRY_AFTER: &str = "retry-after";
/// 2026-06-21T00:00:00Z. Any date would do; a recent one lets Unix times be told from spans.
const WORLD_BEGINS: Wall = Wall::from_secs(1_782_000_000);
