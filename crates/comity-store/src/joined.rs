//! A shared store and the memory beside it, as one store.

use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use comity_core::limits::all::{Begin, Cells, Claim, Effects, Grant};
use comity_core::limits::{Cell, Member, Route, ScopeId, Wait};
use comity_core::scope::Target;
use comity_core::signal::Signal;
use comity_core::time::Instant;

use crate::{Asked, Claimed, Lesson, Memory, OwnLimits, RouteError, Shared, Store};

/// A [`Shared`] store joined to a [`Memory`], for callers that wait for its answers: the conformance suite, tools and
/// benchmarks.
pub struct Joined<S> {
    memory: Memory,
    shared: S,
    came: Arc<(Mutex<bool>, Condvar)>,
    claims: u64,
}

impl<S: Shared> Joined<S> {
    /// Joins them.
    pub fn new(memory: Memory, mut shared: S) -> Self {
        let came = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&came);
        shared.on_news(Arc::new(move || {
            *told.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            told.1.notify_all();
        }));
        Self { memory, shared, came, claims: 0 }
    }

    /// The shared store.
    pub fn shared(&mut self) -> &mut S {
        &mut self.shared
    }

    /// The memory beside it.
    pub fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Both.
    pub fn parts(&mut self) -> (&mut S, &mut Memory) {
        (&mut self.shared, &mut self.memory)
    }

    /// Waits for an answer that comes late; every answer comes within the store's deadline.
    fn wait_for(&mut self, now: Instant, id: u64) -> Result<Grant, Wait> {
        loop {
            let news = self.shared.news(&mut self.memory, now);
            if let Some((_, answer)) = news.answers.into_iter().find(|(of, _)| *of == id) {
                return answer;
            }
            let came = self.came.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.came.1.wait_timeout_while(came, LOOK_AGAIN, |came| !*came);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        }
    }
}

impl<S: Shared> Store for Joined<S> {
    fn route(&mut self, now: Instant, target: &Target<'_>, own: Option<&OwnLimits>) -> Result<Route, RouteError> {
        self.memory.route(now, target, own)
    }

    fn claim(&mut self, now: Instant, claim: &Claim<'_>) -> Result<Grant, Wait> {
        self.claims += 1;
        let asked = Asked { id: self.claims, waiting: 1 };
        match self.shared.claim(&mut self.memory, now, claim, asked) {
            Claimed::Now(answer) => answer,
            Claimed::Later => self.wait_for(now, asked.id),
        }
    }

    fn begin(&mut self, now: Instant, members: &[Member], grant: &mut Grant) -> Begin {
        self.shared.begin(&mut self.memory, now, members, grant)
    }

    fn learn(
        &mut self,
        now: Instant,
        members: &[Member],
        grant: &Grant,
        signal: &Signal,
        latency: Option<Duration>,
    ) -> Effects {
        self.shared.learn(&mut self.memory, now, members, &Lesson { grant, signal, latency })
    }

    fn release(&mut self, now: Instant, members: &[Member], grant: &Grant) -> Effects {
        self.shared.release(&mut self.memory, now, members, grant)
    }

    fn inspect(&self, scope: ScopeId) -> Option<(&str, &Cell)> {
        self.memory.inspect(scope)
    }
}

impl<S: Shared> Cells for Joined<S> {
    fn cell(&self, scope: ScopeId) -> &Cell {
        self.memory.cell(scope)
    }

    fn cell_mut(&mut self, scope: ScopeId) -> &mut Cell {
        self.memory.cell_mut(scope)
    }
}

/// How long a late answer is waited for before news is asked for anyway.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
