//! A scope's record as the script keeps it, and as the core reads it.

use core::time::Duration;
use std::collections::BTreeMap;

use comity_core::limits::{AdvertisedQuota, Gcra, Pause, Restart, Snapshot, Tally, Windows};
use comity_core::policy::{Learned, Policy, Pressure};
use comity_core::time::{Instant, nanos};
use serde::{Deserialize, Serialize};

/// A record. Instants are microseconds on the store's clock; the names are those of `pace.lua`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) v: Option<i64>,
    pub(crate) w: Option<i64>,
    pub(crate) l: Option<i64>,
    pub(crate) pu: Option<i64>,
    pub(crate) pr: u8,
    pub(crate) pn: u8,
    pub(crate) ti: Option<String>,
    pub(crate) c: Option<i64>,
    pub(crate) k: Option<String>,
    pub(crate) i: Option<i64>,
    pub(crate) cn: Option<u32>,
    pub(crate) b: Option<String>,
    pub(crate) bv: Option<String>,
    pub(crate) p: Option<u16>,
    pub(crate) d: Option<i64>,
    pub(crate) s: Option<u16>,
    pub(crate) q: Option<Quota>,
    pub(crate) n: Option<Counted>,
    pub(crate) f: BTreeMap<String, (u32, i64)>,
    pub(crate) e: BTreeMap<String, (u32, i64)>,
    pub(crate) o: Vec<String>,
    pub(crate) fg: u32,
    pub(crate) lo: Option<LastLowered>,
    pub(crate) hi: Option<i64>,
    pub(crate) mf: Option<u32>,
    /// How many starts back, and how long, the log reaches.
    pub(crate) wc: Option<u32>,
    pub(crate) wl: Option<i64>,
    pub(crate) x: i64,
}

/// An advertised quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Quota {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) li: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wi: Option<i64>,
    pub(crate) re: u64,
    pub(crate) he: i64,
    pub(crate) rs: i64,
}

/// What was counted; as an argument, what is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counted {
    /// Refusals with advice, without, give-ups, no answers, server errors.
    pub(crate) ra: u32,
    pub(crate) rw: u32,
    pub(crate) gu: u32,
    pub(crate) na: u32,
    pub(crate) se: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) st: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wa: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<i64>,
}

/// Who last made it slower.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LastLowered {
    pub(crate) by: String,
    pub(crate) st: Option<u16>,
    pub(crate) at: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl State {
    /// From the bytes of a record.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        rmp_serde::from_slice(bytes).ok()
    }

    /// As the core keeps it, on the store's clock. Without its log of windows.
    pub(crate) fn snapshot(&self, policy: Option<&Policy>) -> Snapshot {
        let clock = |at: Option<i64>| at.map_or_else(Gcra::default, |at| Gcra::started(instant(at)));
        let restart = match self.pr {
            0 => Restart::Free,
            1 => Restart::Due,
            _ => Restart::Out,
        };
        Snapshot {
            spacing: clock(self.v),
            pace: clock(self.w),
            last_start: self.l.map_or(Instant::ZERO, instant),
            pause: Pause::kept(self.pu.map_or(Instant::ZERO, instant), restart, self.pn),
            crawl_delay: span(self.c.unwrap_or(0)),
            in_flight: self.f.values().map(|(count, _)| count).sum(),
            learned: self.learned(policy),
            windows: Windows::default(),
            quota: self.q.map(|quota| AdvertisedQuota {
                limit: quota.li,
                window: quota.wi.map(span),
                remaining: quota.re,
                heard: instant(quota.he),
                resets: instant(quota.rs),
            }),
            tally: self.n.map_or_else(Tally::default, |n| Tally {
                refusals_with_advice: n.ra,
                refusals_without_advice: n.rw,
                give_ups: n.gu,
                no_answers: n.na,
                server_errors: n.se,
                last_refusal: n.st,
                last_wait: n.wa.map(span),
                last_refused: n.at.map_or(Instant::ZERO, instant),
            }),
        }
    }

    /// What was learned under this policy: as of a new scope where the record has another policy's.
    pub(crate) fn learned(&self, policy: Option<&Policy>) -> Learned {
        let kept = match self.k.as_deref() {
            Some("p") => Pressure::kept(instant(self.d.unwrap_or(0)), self.p.unwrap_or(0), self.s.unwrap_or(0))
                .map(Learned::Pressure),
            _ => self.b.as_deref().and_then(from_text),
        };
        match (kept, policy) {
            (Some(kept), None) => kept,
            (Some(kept), Some(policy)) if kind(policy) == self.k.as_deref() => kept,
            (_, Some(policy)) => policy.fresh(),
            (None, None) => Learned::Nothing,
        }
    }
}

/// A policy's letter in a record; `None` where it learns nothing.
pub(crate) fn kind(policy: &Policy) -> Option<&'static str> {
    match policy {
        Policy::Off | Policy::Fixed => None,
        Policy::Pressure { .. } => Some("p"),
        Policy::Aimd(_) => Some("a"),
        Policy::Adaptive(_) => Some("d"),
        Policy::Refusal { .. } => Some("r"),
    }
}

/// What was learned, as a record keeps it: each byte a character, for the scripts' msgpack knows text alone.
pub(crate) fn to_text(learned: &Learned) -> String {
    learned.to_bytes().into_iter().map(char::from).collect()
}

fn from_text(text: &str) -> Option<Learned> {
    let bytes: Option<Vec<u8>> = text.chars().map(|char| u8::try_from(char).ok()).collect();
    Learned::from_bytes(&bytes?)
}

/// An instant on the store's clock.
pub(crate) fn instant(micros: i64) -> Instant {
    Instant::from_nanos(u64::try_from(micros).unwrap_or(0).saturating_mul(1000))
}

/// Its microseconds.
pub(crate) fn micros(at: Instant) -> i64 {
    i64::try_from(at.as_nanos() / 1000).unwrap_or(i64::MAX).min(FAR)
}

/// A span of so many microseconds.
pub(crate) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// A span's microseconds: what is not whole counts as one more, for it is a wait.
pub(crate) fn wait_micros(span: Duration) -> i64 {
    i64::try_from(nanos(span).div_ceil(1000)).unwrap_or(FAR).min(FAR)
}

/// The last instant of the script: the largest whole number its numbers hold exactly.
pub(crate) const FAR: i64 = (1 << 53) - 1;
