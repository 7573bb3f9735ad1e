//! What a take says to `guard.lua`, and what it answers.

use comity_core::guard::{Bucket, Limit, Verdict, all};
use comity_core::time::Instant;
use comity_store::guard::Charge;
use serde::{Deserialize, Serialize};

/// A take.
#[derive(Debug, Serialize)]
pub(super) struct Call {
    /// The time, where a test gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<u64>,
    /// The generation this process knows, and a name for one that begins now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#gen: Option<String>,
    pub(super) rid: String,
    pub(super) b: Vec<Cost>,
}

/// One charge, named as at the head of the script.
#[derive(Debug, Default, Serialize)]
pub(super) struct Cost {
    k: &'static str,
    c: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    i: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    q: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    o: Option<u64>,
}

/// The answer.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    t: String,
    ok: bool,
    b: Vec<String>,
    pub(super) g: String,
}

impl Cost {
    pub(super) fn of(charge: &Charge<'_>) -> Self {
        let micros = |span: core::time::Duration| u64::try_from(span.as_micros()).unwrap_or(MOST).min(MOST);
        let cost = u64::from(charge.cost);
        match charge.limit.limit() {
            Limit::Bucket(bucket) => Self {
                k: "b",
                c: cost,
                m: Some(bucket.capacity()),
                r: Some(bucket.refill()),
                i: Some(micros(bucket.interval())),
                ..Self::default()
            },
            Limit::Window(window) => {
                Self { k: "w", c: cost, m: Some(window.count()), i: Some(micros(window.per())), ..Self::default() }
            }
            Limit::Leaky(leaky) => {
                let queue = |places: u64| micros(leaky.spacing()).saturating_mul(places);
                let all = queue(u64::from(leaky.burst()) + 1);
                let taken = queue(cost);
                Self {
                    k: "l",
                    c: taken.min(MOST),
                    q: Some(all.min(MOST)),
                    o: Some(all.saturating_sub(taken).min(MOST)),
                    ..Self::default()
                }
            }
        }
    }
}

impl Answer {
    /// The verdict, with instants on this process's clock, on which it is `now`; `None` where the answer is none.
    pub(super) fn verdict(&self, now: Instant, limits: &[(Limit, u32)]) -> Option<Verdict> {
        let now = now.as_nanos() / 1000;
        let store: u64 = self.t.parse().ok()?;
        let here = |at: u64| (u128::from(at) + u128::from(now)).saturating_sub(u128::from(store));
        let bucket = |text: &String| {
            let (tokens, last) = text.split_once(':')?;
            let last = u64::try_from(here(last.parse().ok()?)).ok()?;
            Some(Bucket { tokens: tokens.parse().ok()?, last })
        };
        let mut buckets: Vec<Bucket> = self.b.iter().map(bucket).collect::<Option<_>>()?;
        let verdict = all::take(Instant::from_nanos(now.saturating_mul(1000)), limits, &mut buckets);
        (buckets.len() == limits.len() && verdict.refused().is_none() == self.ok).then_some(verdict)
    }
}

/// The script counts exactly so far: 285 years of microseconds.
const MOST: u64 = (1 << 53) - 1;
