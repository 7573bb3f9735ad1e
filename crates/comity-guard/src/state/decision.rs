//! What is told of each decision.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::key::ClientKey;

/// What was decided of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Whom it counted as; `None` where nobody asked.
    pub key: Option<ClientKey>,
    /// What became of it.
    pub outcome: Outcome<'a>,
    /// Whether this is a dry run, and the request passed whatever the outcome says.
    pub dry_run: bool,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Let in.
    Admitted,
    /// Let in later.
    Delayed {
        /// The rule that makes it wait.
        rule: &'a str,
        /// How long.
        wait: Duration,
    },
    /// A limit refused it.
    Refused {
        /// The rule that asks for the longest wait.
        rule: &'a str,
        /// That wait.
        retry: Duration,
    },
    /// No place in flight was free.
    Shed,
}

/// In a dry run, an extension of a request and of its answer that would have been refused or shed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldRefuse {
    /// The rule; `None` where no place in flight was free.
    pub rule: Option<String>,
    /// The wait it would have been told.
    pub retry: Duration,
}

type Watcher = Box<dyn Fn(&Decision<'_>) + Send + Sync>;

/// Who is told of decisions.
#[derive(Default)]
pub(super) struct Watch(OnceLock<Watcher>);

impl Watch {
    pub(super) fn set(&self, watch: impl Fn(&Decision<'_>) + Send + Sync + 'static) -> bool {
        self.0.set(Box::new(watch)).is_ok()
    }

    /// Whether somebody listens to what is let in.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    #[cold]
    pub(super) fn tell(&self, decision: &Decision<'_>) {
        if let Some(watch) = self.0.get() {
            watch(decision);
        }
        let key = || decision.key.map(|key| key.to_string());
        match decision.outcome {
            Outcome::Admitted | Outcome::Delayed { .. } => {}
            Outcome::Refused { rule, retry } => {
                tracing::debug!(target: "comity_guard", key = key(), rule, ?retry, dry_run = decision.dry_run, "refused");
            }
            Outcome::Shed => {
                tracing::debug!(target: "comity_guard", dry_run = decision.dry_run, "shed");
            }
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({})", if self.0.get().is_some() { "set" } else { "none" })
    }
}
