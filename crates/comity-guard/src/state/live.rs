//! The settings in force, ready to be asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::rules::{Plan, Settings};

/// The settings that hold at the moment. A request keeps to those it began under.
pub(super) struct InForce {
    live: RwLock<Arc<Live>>,
    /// Goes up with each change, after it.
    changes: AtomicU64,
}

/// The settings in force as one service knows them: it asks for them only when they have changed, so that services on many
/// threads share no counter for it.
#[derive(Clone)]
pub(crate) struct Known {
    live: Arc<Live>,
    changes: u64,
}

/// Settings, and what belongs to each of their rules.
pub(crate) struct Live {
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    /// Refusals by rule, in the plan's order; a rule of the same name keeps its count over a reload.
    refused: Vec<Arc<AtomicU64>>,
}

impl InForce {
    pub(super) fn new(live: Live) -> Self {
        Self { live: RwLock::new(Arc::new(live)), changes: AtomicU64::new(0) }
    }

    pub(super) fn get(&self) -> Arc<Live> {
        Arc::clone(&self.live.read())
    }

    pub(super) fn known(&self) -> Known {
        let changes = self.changes.load(Ordering::Acquire);
        Known { live: self.get(), changes }
    }

    pub(super) fn replace(&self, next: impl FnOnce(&Live) -> Live) {
        let mut live = self.live.write();
        *live = Arc::new(next(&live));
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl Known {
    /// The settings in force now.
    #[inline]
    pub(super) fn latest(&mut self, in_force: &InForce) -> &Arc<Live> {
        if in_force.changes.load(Ordering::Acquire) != self.changes {
            *self = in_force.known();
        }
        &self.live
    }
}

impl Live {
    pub(super) fn of(settings: Settings, before: Option<&Self>) -> Self {
        let plan = Plan::of(&settings);
        let count = |name: &str| {
            let before = before?;
            let place = before.plan.rules().position(|rule| rule.name() == name)?;
            before.refused.get(place).cloned()
        };
        let refused = plan.rules().map(|rule| count(rule.name()).unwrap_or_default()).collect();
        Self { settings, plan, refused }
    }

    pub(super) fn count_refused(&self, place: u16) {
        if let Some(count) = self.refused.get(usize::from(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each rule's name, and how many it refused.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&str, u64)> {
        self.plan.rules().map(|rule| rule.name()).zip(self.refused.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
