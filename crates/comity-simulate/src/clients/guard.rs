//! The guard above all hosts (A10), driven as the library drives it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use comity_core::limits::ScopeId;
use comity_core::limits::all::Cells as _;
use comity_core::policy::Learned;
use comity_core::signal::Inferred;
use comity_core::time::Instant;
use comity_core::uplink::{Exchange, Heard, Uplink};
use comity_store::{Lesson, Memory, Store as _};

/// The guard of one process, or none.
#[derive(Debug)]
pub(super) struct Guard {
    uplink: Option<Uplink>,
    /// Whether somebody may have been held back because the uplink is full, and when that last ended.
    held_back: bool,
    room_since: Instant,
}

impl Guard {
    pub(super) fn new(is_on: bool) -> Self {
        Self { uplink: is_on.then(Uplink::default), held_back: false, room_since: Instant::ZERO }
    }

    /// Since when there has been room for another start: what was held back until then was not due before. `None` where there
    /// is no room.
    pub(super) fn room(&mut self, now: Instant) -> Option<Instant> {
        if self.is_full(now) {
            self.held_back = true;
            return None;
        }
        if core::mem::take(&mut self.held_back) {
            self.room_since = now;
        }
        Some(self.room_since)
    }

    /// When there is room again if nothing comes free before; `None` where there is room.
    pub(super) fn full_until(&self, now: Instant) -> Option<Instant> {
        let uplink = self.uplink.as_ref().filter(|_| self.is_full(now))?;
        Some(uplink.ends(now).unwrap_or(Instant::FAR))
    }

    pub(super) fn started(&mut self) {
        if let Some(uplink) = &mut self.uplink {
            uplink.started();
        }
    }

    pub(super) fn ended(&mut self) {
        if let Some(uplink) = &mut self.uplink {
            uplink.ended();
        }
    }

    /// Watches what was heard of a host. Whether what it suggests is the uplink's and not the host's.
    pub(super) fn is_ours(&mut self, now: Instant, memory: &Memory, host: ScopeId, lesson: &Lesson<'_>) -> bool {
        let Some(uplink) = &mut self.uplink else { return false };
        // A host whose pace answers never change is neither blamed nor watched (P10).
        if matches!(memory.cell(host).learned(), Learned::Nothing) {
            return false;
        }
        let heard = match (lesson.signal.inferred, lesson.latency) {
            (Inferred::Healthy, Some(latency)) => Heard::Served(latency),
            (Inferred::NoAnswer(_), _) => Heard::Nothing,
            _ => Heard::Answered,
        };
        let started = lesson.grant.start;
        let kin_of = |scope| kin(memory.inspect(scope).map_or("", |(name, _)| name));
        uplink.heard(now, &Exchange { host, started, heard }, kin_of);
        uplink.is_ours(now, started)
    }

    fn is_full(&self, now: Instant) -> bool {
        self.uplink.as_ref().is_some_and(|uplink| uplink.room(now) == 0)
    }
}

/// The same number for hosts of one registrable domain: they may well stand on one machine.
fn kin(name: &str) -> u64 {
    let domain = psl::domain_str(name).unwrap_or(name);
    BuildHasherDefault::<DefaultHasher>::default().hash_one(domain)
}
