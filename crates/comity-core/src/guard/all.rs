//! Several limits on one request: per key, per route, over all. Decide all, then charge all.

use core::time::Duration;

use super::bucket::micros;
use super::{Bucket, Limit};
use crate::time::Instant;

/// The most limits that one request may fall under.
pub const MOST_LIMITS: usize = 8;

/// What all limits of a request came to. Limits are told by their place in the order in which they were asked.
///
/// There is room for `MOST` of them: one of a single limit is a tenth of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<const MOST: usize = MOST_LIMITS> {
    ruling: Ruling,
    left: [Left; MOST],
    asked: usize,
}

/// Whether it may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may, and every limit was charged.
    Admitted {
        /// When it starts: now, or later where a limit lets requests wait for their turn.
        start: Instant,
        /// The limit that makes it wait.
        delayed_by: Option<usize>,
    },
    /// It may not, and no limit was charged.
    Refused {
        /// The limit that asks for the longest wait of those that refused.
        by: usize,
        /// That wait: long enough for all of them.
        retry: Duration,
    },
}

/// How one limit stands after the verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How many more of cost 1 it would let in now.
    pub remaining: u32,
    /// How long until one more than `remaining` is let in; zero where nothing is missing.
    pub next: Duration,
    /// How long until it is as if nobody had ever come.
    pub full: Duration,
    /// How long it asks this request to stay away; `None` where it let it in.
    pub retry: Option<Duration>,
    /// The key has no bucket of its own, for lack of room, and shares one with all such keys (G8).
    pub shared: bool,
}

/// Takes the cost of a request from the buckets of all its limits, or from none. Costs are what
/// [`Limit::check_cost`] allows; at most [`MOST_LIMITS`] are asked.
///
/// Refill steps are counted either way: they change no verdict.
pub fn take(now: Instant, limits: &[(Limit, u32)], buckets: &mut [Bucket]) -> Verdict {
    let mut verdict =
        Verdict { ruling: Ruling::Admitted { start: now, delayed_by: None }, left: [NOTHING; MOST_LIMITS], asked: 0 };
    for ((limit, cost), bucket) in limits.iter().zip(buckets.iter_mut()).take(MOST_LIMITS) {
        limit.refill(now, bucket);
        let nth = verdict.asked;
        verdict.asked += 1;
        verdict.left[nth].retry = limit.retry(now, bucket, *cost);
        verdict.ruling = match (verdict.ruling, verdict.left[nth].retry) {
            (Ruling::Refused { by, retry }, Some(more)) if more <= retry => Ruling::Refused { by, retry },
            (_, Some(retry)) => Ruling::Refused { by: nth, retry },
            (Ruling::Admitted { start, .. }, None) if limit.start(now, bucket) > start => {
                Ruling::Admitted { start: limit.start(now, bucket), delayed_by: Some(nth) }
            }
            (ruling, None) => ruling,
        };
    }
    let admitted = matches!(verdict.ruling, Ruling::Admitted { .. });
    for (((limit, cost), bucket), left) in limits.iter().zip(buckets).zip(&mut verdict.left) {
        if admitted {
            limit.charge(now, bucket, *cost);
        }
        left.stands(now, limit, bucket);
    }
    verdict
}

/// As [`take`], of the only limit of a request, which is the common case.
#[inline]
pub fn take_one(now: Instant, limit: &Limit, cost: u32, bucket: &mut Bucket) -> Verdict<1> {
    limit.refill(now, bucket);
    let mut left = Left { retry: limit.retry(now, bucket, cost), ..NOTHING };
    let ruling = match left.retry {
        Some(retry) => Ruling::Refused { by: 0, retry },
        None => {
            let start = limit.start(now, bucket);
            limit.charge(now, bucket, cost);
            Ruling::Admitted { start, delayed_by: (start > now).then_some(0) }
        }
    };
    left.stands(now, limit, bucket);
    Verdict { ruling, left: [left], asked: 1 }
}

impl<const MOST: usize> Verdict<MOST> {
    /// Whether it may go on.
    #[inline]
    pub fn ruling(&self) -> Ruling {
        self.ruling
    }

    /// How each limit stands, in the order in which they were asked.
    #[inline]
    pub fn left(&self) -> &[Left] {
        &self.left[..self.asked]
    }

    /// The limit and the wait of a refusal.
    #[inline]
    pub fn refused(&self) -> Option<(usize, Duration)> {
        match self.ruling {
            Ruling::Refused { by, retry } => Some((by, retry)),
            Ruling::Admitted { .. } => None,
        }
    }

    /// Says that the key of a limit shares its bucket with others (G8).
    #[inline]
    pub fn mark_shared(&mut self, nth: usize) {
        if let Some(left) = self.left[..self.asked].get_mut(nth) {
            left.shared = true;
        }
    }
}

impl From<Verdict<1>> for Verdict {
    fn from(one: Verdict<1>) -> Self {
        let mut left = [NOTHING; MOST_LIMITS];
        left[..one.asked].copy_from_slice(one.left());
        Self { ruling: one.ruling, left, asked: one.asked }
    }
}

impl Left {
    #[inline]
    fn stands(&mut self, now: Instant, limit: &Limit, bucket: &Bucket) {
        self.remaining = limit.remaining(now, bucket);
        let full = limit.full_at(bucket).saturating_sub(micros(now));
        self.full = Duration::from_micros(full);
        self.next = match self.remaining.checked_add(1) {
            Some(next) if next <= limit.capacity() => limit.retry(now, bucket, next).unwrap_or_default(),
            _ => Duration::ZERO,
        };
    }
}

const NOTHING: Left = Left { remaining: 0, next: Duration::ZERO, full: Duration::ZERO, retry: None, shared: false };
