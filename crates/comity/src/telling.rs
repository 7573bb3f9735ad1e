//! What is told of requests: events, the log, metrics.

use std::sync::atomic::Ordering;

use comity_core::limits::{Route, Wait};
use comity_core::signal::Signal;
use comity_core::time::Instant;
use comity_store::Store;

use crate::answer::Answer;
use crate::counted;
use crate::engine::{Engine, host_of};
use crate::event::{Event, EventKind, Events};
use crate::inner::Inner;
use crate::permit::Held;

impl Inner {
    pub(crate) fn subscribe(&self) -> Events {
        self.watched.store(true, Ordering::Release);
        Events(self.events.subscribe())
    }

    /// Whether anybody listens: asked for every request, so it costs no lock.
    fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    /// One notice a host, the first time it is delayed (P12).
    pub(crate) fn tell_first_delays(&self, engine: &mut Engine, now: Instant) {
        for (host, place, wait) in std::mem::take(&mut engine.first_delays) {
            let name = engine.memory.inspect(host).map(|(name, _)| name.to_owned()).unwrap_or_default();
            let delay = engine.delay(now, &wait);
            tracing::info!(host = %name, delay = %delay, "requests to this host are being delayed");
            self.emit(now, &name, place, EventKind::FirstDelay { delay });
        }
    }

    /// A request comes to wait.
    pub(crate) fn queued_event(&self, engine: &Engine, now: Instant, route: &Route, place: u64, wait: &Wait) {
        if self.is_watched() {
            let host = host_of(route.members());
            let name = engine.memory.inspect(host).map(|(name, _)| name.to_owned()).unwrap_or_default();
            self.emit(now, &name, place, EventKind::Queued { delay: engine.delay(now, wait) });
        }
    }

    fn emit(&self, now: Instant, host: &str, place: u64, kind: EventKind) {
        if self.is_watched() {
            let _ = self.events.send(Event { at: self.clock.since_start(now), host: host.to_owned(), place, kind });
        }
    }

    fn host_name(engine: &Engine, held: &Held) -> String {
        let host = host_of(held.route.members());
        engine.memory.inspect(host).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }

    pub(crate) fn sent(&self, held: &Held) {
        let waited = held.grant.start.since(held.request.queued);
        counted::started(waited);
        if self.is_watched() {
            let name = Self::host_name(&self.engine.lock(), held);
            let attempt = held.request.attempted.attempts;
            self.emit(held.grant.start, &name, held.request.place, EventKind::Sent { attempt, waited });
        }
    }

    pub(crate) fn settled_event(
        &self,
        engine: &Engine,
        now: Instant,
        held: &Held,
        answer: &Answer<'_>,
        signal: &Signal,
    ) {
        let refused = signal.authoritative.refusal.is_some();
        counted::settled(signal);
        if let Some(refusal) = &signal.authoritative.refusal {
            let wait = refusal.wait.map(tracing::field::debug);
            let text = if wait.is_some() { "refused; the host is paused" } else { "refused without saying until when" };
            let host = Self::host_name(engine, held);
            tracing::debug!(%host, status = refusal.status, wait, retry_after = answer.retry_after().map(tracing::field::debug), "{text}");
        }
        if self.is_watched() {
            let name = Self::host_name(engine, held);
            self.emit(now, &name, held.request.place, EventKind::Settled { status: signal.status, refused });
        }
    }

    pub(crate) fn retrying_event(&self, engine: &Engine, now: Instant, held: &Held) {
        counted::retried();
        if self.is_watched() {
            let name = Self::host_name(engine, held);
            let attempts = held.request.attempted.attempts;
            self.emit(now, &name, held.request.place, EventKind::Retrying { attempts });
        }
    }
}
