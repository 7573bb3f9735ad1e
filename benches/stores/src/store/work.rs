//! What a worker does, with which contender.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::records::{Record, Turn};
use super::{flock, lmdb, sqlite};
use crate::workers::{self, Count, Report};

/// What is measured.
pub(crate) struct Case {
    /// Hosts.
    pub(super) keys: usize,
    /// Claims a second of each process; `None` for as many as there can be.
    pub(super) pace: Option<u32>,
    /// For how long.
    pub(super) span: Duration,
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Comity,
    Flock,
    Lmdb,
    Sqlite,
    SqliteByDefault,
}

/// An open store.
pub(super) trait Store {
    /// Claims the scopes of a host, or gives its claim back; `false` where it may not start now.
    fn turn(&mut self, key: usize, turn: Turn) -> anyhow::Result<bool>;
}

impl Contender {
    /// The one that the others are compared with is first.
    pub(super) const ALL: &[Self] = &[Self::Comity, Self::Flock, Self::Lmdb, Self::Sqlite, Self::SqliteByDefault];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Comity => "comity-machine",
            Self::Flock => "file lock, nothing else",
            Self::Lmdb => "LMDB, no sync",
            Self::Sqlite => "SQLite, short sleeps",
            Self::SqliteByDefault => "SQLite, its busy handler",
        }
    }

    /// Makes what the workers will open.
    pub(super) fn prepare(self, folder: &Path, keys: usize) -> anyhow::Result<()> {
        match self {
            Self::Comity => Ok(()),
            Self::Flock => flock::prepare(folder, keys),
            Self::Lmdb => lmdb::prepare(folder),
            Self::Sqlite | Self::SqliteByDefault => sqlite::prepare(folder),
        }
    }

    fn open(self, folder: &Path, keys: usize) -> anyhow::Result<Box<dyn Store>> {
        Ok(match self {
            Self::Comity => Box::new(super::comity::open(folder, keys)?),
            Self::Flock => Box::new(flock::open(folder)?),
            Self::Lmdb => Box::new(lmdb::open(folder, keys)?),
            Self::Sqlite => Box::new(sqlite::open(folder, keys, true)?),
            Self::SqliteByDefault => Box::new(sqlite::open(folder, keys, false)?),
        })
    }

    /// The record of all hosts together, where it can be read.
    pub(super) fn record_of_all(self, folder: &Path) -> anyhow::Result<Option<Record>> {
        match self {
            Self::Comity => Ok(None),
            Self::Flock => flock::record_of_all(folder).map(Some),
            Self::Lmdb => lmdb::record_of_all(folder).map(Some),
            Self::Sqlite | Self::SqliteByDefault => sqlite::record_of_all(folder).map(Some),
        }
    }
}

impl Case {
    /// Whether a round went better than another.
    pub(super) fn is_better(&self, one: &Report, other: &Report) -> bool {
        match self.pace {
            None => one.rate > other.rate,
            Some(_) => one.latencies.micros(0.99) < other.latencies.micros(0.99),
        }
    }

    /// The arguments of worker number `n`, but for the folder.
    pub(super) fn words(&self, contender: Contender, n: usize) -> [String; 5] {
        [
            format!("{contender:?}"),
            n.to_string(),
            self.keys.to_string(),
            self.pace.unwrap_or(0).to_string(),
            self.span.as_millis().to_string(),
        ]
    }
}

/// Opens the contender's store, waits for the others, works, and reports.
pub(crate) fn worker(words: &[&str]) -> anyhow::Result<()> {
    let [contender, n, keys, pace, millis, folder] = words else { bail!("a worker takes six words") };
    let contender = Contender::ALL.iter().find(|known| format!("{known:?}") == *contender);
    let contender = contender.context("no contender is called so")?;
    let case = Case {
        keys: keys.parse()?,
        pace: Some(pace.parse()?).filter(|pace| *pace > 0),
        span: Duration::from_millis(millis.parse()?),
    };
    let mut store = contender.open(folder.as_ref(), case.keys)?;
    let seed = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(n.parse::<u64>()? + 1);
    workers::ready()?;
    work(&mut *store, &case, seed)?.print()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock, and waits")]
fn work(store: &mut dyn Store, case: &Case, mut seed: u64) -> anyhow::Result<Report> {
    let mut count = Count::new()?;
    let begun = Instant::now();
    for n in 0.. {
        let chance = walk(&mut seed);
        let Some(start) = next_start(case, begun, n, chance) else { break };
        let key = (chance >> 8) as usize % case.keys;
        let granted = store.turn(key, Turn::Claim)?;
        count.claim(start.elapsed(), granted);
        if granted {
            while !store.turn(key, Turn::Release)? {}
        } else {
            std::thread::sleep(ASK_AGAIN);
        }
    }
    Ok(count.report(begun.elapsed()))
}

/// When the claim after `n` others begins: now, or where paced at any moment of its own part of the time, so that processes
/// meet as often as strangers do. `None` after the span.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock, and waits")]
fn next_start(case: &Case, begun: Instant, n: u32, chance: u64) -> Option<Instant> {
    if let Some(pace) = case.pace {
        let interval = Duration::from_secs(1) / pace;
        let at = interval * n + interval.mul_f64((chance & 0xFF) as f64 / 256.0);
        std::thread::sleep(at.saturating_sub(begun.elapsed()));
    }
    let now = Instant::now();
    (now - begun < case.span).then_some(now)
}

/// A pseudo-random walk.
fn walk(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Whoever may not start waits a little: it would only keep the processor from those who may.
const ASK_AGAIN: Duration = Duration::from_millis(1);
