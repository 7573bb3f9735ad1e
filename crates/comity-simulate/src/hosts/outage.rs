//! Outages: from one time to another a host serves nobody.

use comity_core::time::Instant;
use serde::Deserialize;

use super::Reply;
use super::advice::{Advice, AdviceSettings, say};
use super::answers::Refusal;
use super::law::Standing;
use super::said::{ModelError, Said, in_order};

/// `[[host.outage]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutageSettings {
    from: Said,
    to: Said,
    /// What requests get: a status (503 where nothing is said), `"reset"` or `"silence"`.
    with: Option<Said>,
    /// What a status says: `"exact"` is the time to the outage's end.
    #[serde(default)]
    advice: AdviceSettings,
}

/// The outages of one host name. Requests that meet one never get to the limit behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages(Box<[Outage]>);

#[derive(Clone, Debug)]
struct Outage {
    from: u64,
    to: u64,
    with: Refusal,
    advice: Advice,
}

impl Outages {
    pub(super) fn build(settings: &[OutageSettings]) -> Result<Self, ModelError> {
        let outages = settings.iter().map(OutageSettings::build).collect::<Result<Box<_>, _>>()?;
        in_order("to", outages.iter().flat_map(|outage: &Outage| [outage.from, outage.to]))?;
        Ok(Self(outages))
    }

    /// What a request gets, if there is one now.
    pub(super) fn answer(&self, now: Instant) -> Option<Reply> {
        let at = now.as_nanos();
        let outage = self.0.iter().find(|outage| (outage.from..outage.to).contains(&at))?;
        let standing = Standing { lets_in: outage.to - at, left: None };
        let says = matches!(outage.with, Refusal::Status(_)) && !outage.advice.is_none();
        let fields = if says { say(now, &standing, Some(outage.advice), &[]) } else { Vec::new() };
        Some(outage.with.reply(REFUSAL_NANOS, fields))
    }

    /// The spans between two instants in which there is none.
    pub(super) fn between(&self, from: Instant, to: Instant) -> impl Iterator<Item = (u64, u64)> {
        let (from, to) = (from.as_nanos(), to.as_nanos());
        let begins = [from].into_iter().chain(self.0.iter().map(|outage| outage.to));
        let ends = self.0.iter().map(|outage| outage.from).chain([to]);
        begins.zip(ends).map(move |(begin, end)| (begin.max(from), end.min(to))).filter(|(begin, end)| begin < end)
    }
}

impl OutageSettings {
    fn build(&self) -> Result<Outage, ModelError> {
        let with = self.with.clone().unwrap_or_else(|| "503".into());
        Ok(Outage {
            from: self.from.span("from")?,
            to: self.to.span("to")?,
            with: Refusal::read("with", &with)?,
            advice: self.advice.build()?,
        })
    }
}

/// A gateway's own error page takes no time to speak of.
const REFUSAL_NANOS: u64 = 5_000_000;
