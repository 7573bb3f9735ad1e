//! How a host answers: how long it takes, how it refuses, and what it says about its limit.

use core::time::Duration;

use comity_core::time::Instant;
use serde::Deserialize;

use super::Reply;
use super::advice::{Advice, AdviceSettings, Fields, QuotaFields, say};
use super::law::{Law, SECOND};
use super::said::{ModelError, Said, duration, sigma};
use super::spread::Spread;

/// The keys every host may have, whatever its law.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswersSettings {
    /// The mean time to the first byte of a served answer, beside what its law adds.
    latency: Option<Said>,
    /// How it spreads (of its logarithm).
    sigma: Option<f64>,
    /// How it refuses: a status, `"reset"` or `"silence"`.
    refusal: Option<Said>,
    /// The time a refusal takes.
    refusal_latency: Option<Said>,
    /// What a refusal says.
    #[serde(default)]
    advice: AdviceSettings,
    /// Quota fields on every answer.
    #[serde(default)]
    quota_fields: Vec<QuotaFields>,
}

/// What a law's hosts do where a scenario does not say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub(super) latency: &'static str,
    pub(super) refusal: &'static str,
}

impl AnswersSettings {
    pub(super) fn build(&self, usual: Usual) -> Result<Answers, ModelError> {
        let or = |said: &Option<Said>, usual: &str| said.clone().unwrap_or_else(|| usual.into());
        let latency = or(&self.latency, usual.latency).span("latency")?;
        let spread = sigma("sigma", self.sigma.unwrap_or(USUAL_SIGMA))?;
        Ok(Answers {
            latency: Spread::new(duration(latency), spread),
            refusal: Refusal::read("refusal", &or(&self.refusal, usual.refusal))?,
            refusal_latency: or(&self.refusal_latency, USUAL_REFUSAL_LATENCY).span("refusal_latency")?,
            advice: self.advice.build()?,
            quota_fields: self.quota_fields.clone().into_boxed_slice(),
        })
    }

    /// Whether quota fields are wanted.
    pub(super) fn tell_quotas(&self) -> bool {
        !self.quota_fields.is_empty()
    }
}

/// How a host answers.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) latency: Spread,
    refusal: Refusal,
    refusal_latency: u64,
    advice: Advice,
    quota_fields: Box<[QuotaFields]>,
}

impl Answers {
    /// A served answer. Without quota fields nothing is allocated.
    pub(super) fn served(&self, now: u64, after: u64, law: &dyn Law) -> Reply {
        let fields = match self.quota_fields.is_empty() {
            true => Fields::new(),
            false => say(Instant::from_nanos(now), &law.standing(now), None, &self.quota_fields),
        };
        Reply { status: Some(200), after: Duration::from_nanos(after), fields }
    }

    /// A refusal.
    pub(super) fn refused(&self, now: u64, law: &dyn Law) -> Reply {
        let silent = (self.advice.is_none() && self.quota_fields.is_empty()) || self.refusal.status().is_none();
        let fields = match silent {
            true => Fields::new(),
            false => say(Instant::from_nanos(now), &law.standing(now), Some(self.advice), &self.quota_fields),
        };
        self.refusal.reply(self.refusal_latency, fields)
    }
}

/// How a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// With a status.
    Status(u16),
    /// The connection is reset.
    Reset,
    /// Nothing comes, and after a long time the connection is given up.
    Silence,
}

impl Refusal {
    pub(super) fn read(key: &str, said: &Said) -> Result<Self, ModelError> {
        match said.0.as_str() {
            "reset" => Ok(Self::Reset),
            "silence" => Ok(Self::Silence),
            text => text
                .parse()
                .ok()
                .filter(|status| (400..=599).contains(status))
                .map(Self::Status)
                .ok_or_else(|| ModelError::value(key, said, "a status from 400 to 599, \"reset\" or \"silence\"")),
        }
    }

    fn status(self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status),
            Self::Reset | Self::Silence => None,
        }
    }

    /// The reply it makes; silence takes its own time.
    pub(super) fn reply(self, after: u64, fields: Fields) -> Reply {
        let after = if self == Self::Silence { SILENCE } else { after };
        Reply { status: self.status(), after: Duration::from_nanos(after), fields }
    }
}

/// Refusals are cheap: that is what they are for.
const USUAL_REFUSAL_LATENCY: &str = "5ms";
/// A silent peer is given up by TCP or a proxy after about this long, and by clients sooner.
const SILENCE: u64 = 120 * SECOND;
/// Of latencies: most lie within a third of the mean.
const USUAL_SIGMA: f64 = 0.2;
