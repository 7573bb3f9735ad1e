//! Who shares the store: this process's name and its signs of life.

use core::time::Duration;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::script::{Beat, Pulse, unpack};

/// This process, as the others know it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    named: Arc<Mutex<Named>>,
    token: String,
}

#[derive(Debug)]
struct Named {
    base: String,
    number: u32,
    generation: Option<String>,
}

/// What a sign of life brought back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sign {
    /// The store's clock, in microseconds.
    pub(crate) clock: i64,
    pub(crate) members: u32,
    pub(crate) rank: u32,
    pub(crate) generation: Option<String>,
    /// When it began, where another was lost before it.
    pub(crate) born: Option<i64>,
    /// Whether the records are spread over a cluster.
    pub(crate) cluster: bool,
}

/// Why an answer is no [`Sign`].
pub(crate) enum NoSign {
    /// Another process has the name.
    Taken,
    /// It cannot be read.
    Unreadable,
}

impl Member {
    /// `machine:process`, and a number where this process has several.
    pub(crate) fn new() -> Self {
        let base = format!("{}:{}", machine(), std::process::id());
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let named = Named { base, number, generation: None };
        Self { named: Arc::new(Mutex::new(named)), token: random_name() }
    }

    pub(crate) fn id(&self) -> String {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        match named.number {
            0 => named.base.clone(),
            number => format!("{}:{}", named.base, number + 1),
        }
    }

    /// Takes the next number, where another has this one. False where there are too many.
    pub(crate) fn rename(&self) -> bool {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.number += 1;
        named.number < MOST_NUMBER
    }

    pub(crate) fn pulse(&self, lease: Duration) -> Pulse {
        let generation = self.named.lock().unwrap_or_else(PoisonError::into_inner).generation.clone();
        Pulse {
            me: self.id(),
            token: self.token.clone(),
            lease: i64::try_from(lease.as_micros()).unwrap_or(i64::MAX),
            rid: random_name(),
            r#gen: generation,
            leave: false,
        }
    }

    pub(crate) fn leave(&self, lease: Duration) -> Pulse {
        Pulse { leave: true, ..self.pulse(lease) }
    }

    /// Reads the answer.
    pub(crate) fn heard(&self, answer: &[u8]) -> Result<Sign, NoSign> {
        let beat: Beat = unpack(answer).ok_or(NoSign::Unreadable)?;
        if beat.taken {
            return Err(NoSign::Taken);
        }
        self.named.lock().unwrap_or_else(PoisonError::into_inner).generation.clone_from(&beat.g);
        let Beat { t, members, rank, g, gb, .. } = beat;
        Ok(Sign { clock: t, members: members.max(1), rank, generation: g, born: gb, cluster: false })
    }
}

/// Bits that nobody else has.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

pub(crate) fn random_name() -> String {
    format!("{:016x}", random())
}

fn machine() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

static COUNT: AtomicU32 = AtomicU32::new(0);
/// Names tried before it is given up.
const MOST_NUMBER: u32 = 10_000;
