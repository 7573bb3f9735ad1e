//! How a process goes on while the store it shares is out of reach: slower, never faster (decision 7).
//!
//! That holds where the store is lost to all. Where it is lost to some only, those inside may not know of it, and the parts of
//! those outside come on top.

use core::num::NonZeroU32;
use core::time::Duration;

use comity_core::limits::all::{self, Claim, Grant, Origin};
use comity_core::limits::{Share, Wait};
use comity_core::time::Instant;

use crate::{Memory, OnFailure};

/// What a process does by itself, and with which part of every limit.
#[derive(Clone, Debug)]
pub struct Alone {
    on_failure: OnFailure,
    share: Share,
    known: bool,
    since: Option<(Instant, String)>,
    losses: u32,
    /// Until when others may not have found the store yet that it came back to.
    settles: Instant,
}

impl Alone {
    /// Not alone yet. `seed` tells newcomers that know of no others apart.
    pub fn new(on_failure: OnFailure, seed: u32) -> Self {
        let share = Share::of_members(ASSUMED_MEMBERS, seed, Duration::ZERO);
        Self { on_failure, share, known: false, since: None, losses: 0, settles: Instant::ZERO }
    }

    /// How many shared the store when it last answered, which of them in order this process is, and what the store's clock
    /// is ahead of the instants here.
    pub fn heard(&mut self, members: NonZeroU32, rank: u32, phase: Duration) {
        self.share = Share::of_members(members, rank, phase);
        self.known = true;
    }

    /// Members, as far as is known.
    pub fn members(&self) -> u32 {
        if self.known { self.share.members() } else { 1 }
    }

    /// The store was lost: since when, and why.
    pub fn since(&self) -> Option<&(Instant, String)> {
        self.since.as_ref()
    }

    /// How often it was.
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// The store is lost. One warning a loss.
    pub fn lost(&mut self, memory: &mut Memory, now: Instant, place: &str, why: &str) {
        if self.since.is_some() {
            return;
        }
        self.since = Some((now, why.to_owned()));
        self.losses += 1;
        let members = self.share.members();
        match self.on_failure {
            OnFailure::Share => {
                memory.set_share(self.share);
                let known = if self.known { "known" } else { "assumed" };
                tracing::warn!(
                    "the shared pace at {place} is out of reach ({why}): this process goes on at a {members}th of every limit, for {members} {known} members, until it is back"
                );
            }
            OnFailure::Pause => {
                tracing::warn!("the shared pace at {place} is out of reach ({why}): nothing starts until it is back");
            }
            OnFailure::Local => {
                tracing::warn!(
                    "the shared pace at {place} is out of reach ({why}): this process goes on by itself, and hosts may be asked up to {members} times as often as was promised"
                );
            }
        }
    }

    /// The store is back.
    pub fn found(&mut self, memory: &mut Memory, now: Instant, place: &str) {
        if let Some((since, _)) = self.since.take() {
            memory.set_share(Share::WHOLE);
            self.settles = now.after(SETTLING);
            tracing::warn!("the shared pace at {place} is back after {:.1} s", now.since(since).as_secs_f64());
        }
    }

    /// The wait for this process's turn, where it has found the store and others may not have yet: until they have, it starts
    /// only where neither the store nor a turn of theirs is against it.
    pub fn turn(&self, memory: &Memory, now: Instant, claim: &Claim<'_>) -> Option<Wait> {
        if now >= self.settles || self.on_failure != OnFailure::Share {
            return None;
        }
        all::turn(memory, now, claim.members, self.share)
    }

    /// A claim without the store.
    ///
    /// # Errors
    /// The wait that ends last.
    pub fn claim(&self, memory: &mut Memory, now: Instant, claim: &Claim<'_>) -> Result<Grant, Wait> {
        if self.on_failure == OnFailure::Pause {
            return Err(Wait::store_lost(now.after(ASK_AGAIN), claim.members[0].scope));
        }
        all::claim(memory, now, claim).map(|grant| Grant { from: Origin::Degraded, ..grant }).map_err(|wait| Wait {
            // Whoever waits for others' places looks again: they may be gone, and so may be the store's absence.
            until: if wait.until == Instant::FAR { now.after(ASK_AGAIN) } else { wait.until },
            ..wait
        })
    }
}

/// What a process that has never reached the store takes for the number of those that share it: more than most are.
const ASSUMED_MEMBERS: NonZeroU32 = NonZeroU32::new(16).unwrap();
/// How long after the store came back every process has found it: they look for it each second.
const SETTLING: Duration = Duration::from_millis(2500);
/// When a request that only the store's return can help is tried again.
const ASK_AGAIN: Duration = Duration::from_millis(250);
