//! Losing the store, and finding it again; and what the others are told of it (decision 7).

use std::sync::atomic::Ordering;
use std::time::Duration;

use comity_core::limits::Share;
use comity_core::time::{Instant, nanos};
use comity_store::{Memory, OnFailure};

use super::{FIRST_BACKOFF, Machine};
use crate::clock;
use crate::header::Header;
use crate::trouble::Trouble;
use crate::watch::beat_every;

impl Machine {
    /// Counts those that share the store, which needs no lock. Where that cannot be told, the last known number holds.
    pub(super) fn count(&mut self) {
        self.counted = clock::since_boot();
        if let Some(count) = self.roster.count() {
            self.alone.heard(count.members, count.rank, Duration::ZERO);
            self.part = Some(Share::of_members(count.members, count.rank, Duration::ZERO));
            self.another_is_alone = count.any_alone;
        }
    }

    pub(super) fn lose(&mut self, memory: &mut Memory, now: Instant, trouble: &Trouble) {
        // Others may have come since they were last counted, and while this process was idle nobody counted them.
        self.count();
        self.alone.lost(memory, now, &self.name, &trouble.to_string());
        if let Some(part) = self.part
            && self.settings.on_failure == OnFailure::Share
        {
            memory.set_share(part);
        }
        self.say_alone();
        self.retry_at = now.after(self.backoff);
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        self.watching.watch.lost.store(true, Ordering::Relaxed);
    }

    pub(super) fn found(&mut self, memory: &mut Memory, now: Instant) {
        self.alone.found(memory, now, &self.name);
        self.backoff = FIRST_BACKOFF;
        self.watching.watch.lost.store(false, Ordering::Relaxed);
        if self.said_alone != 0 {
            self.said_alone = 0;
            self.say(false);
        }
        // Those that wait for a part of the limits may use all of them.
        self.watching.watch.tell();
    }

    /// Says to those that still have the store that this process goes on with its part of every limit: they must leave it
    /// that, or together all were faster than one. Said anew as often as signs of life are given.
    pub(super) fn say_alone(&mut self) {
        let now = clock::since_boot();
        let is_said = now.saturating_sub(self.said_alone) < nanos(beat_every(self.settings.lease));
        if self.settings.on_failure == OnFailure::Share && !is_said {
            self.said_alone = now;
            self.say(true);
        }
    }

    /// First in this member's own file, then in the file that all read, so that they look there.
    fn say(&self, alone: bool) {
        let said = self.roster.own().map_or(Ok(()), |own| own.say_alone(alone));
        let told = self.opened.as_ref().map_or(Ok(()), |opened| Header::say_alone(&opened.file, clock::since_boot()));
        if let Err(error) = said.and(told) {
            tracing::debug!("the others were not told how this process goes on: {error}");
        }
    }
}

/// After a loss the store is tried again so soon at last.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
