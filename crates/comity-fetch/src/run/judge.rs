//! When a host, or the run, is given up.

use super::attempt::now;
use super::job::Sent;
use super::sites::SiteId;
use super::work::{Run, longer};
use crate::keep::Outcome;

impl Run<'_> {
    /// Gives a site up that has refused, or has not answered, for too long; and the run, where it is told to (H10).
    pub(super) fn judge(&mut self, site: SiteId, sent: Sent) {
        let at = now();
        if sent == Sent::Refused
            && let Some((most, within)) = self.options.stop_when_limited
        {
            self.refusals.push_back(at);
            while self.refusals.front().is_some_and(|first| longer(*first, at, within)) {
                self.refusals.pop_front();
            }
            self.limited |= self.refusals.len() >= most as usize;
        }
        if matches!(sent, Sent::Answered | Sent::Error | Sent::Refused) {
            if longer(self.last_answer, at, self.options.dead_time) {
                // Nobody had answered for so long: all that are silent get their time anew.
                self.recovered = at;
            }
            self.last_answer = at;
            self.outage_told = false;
            if let Some(trouble) = &mut self.sites.get_mut(site).trouble
                && trouble.silent_since.take().is_some()
            {
                trouble.silent = 0;
                self.silent_sites -= 1;
            }
        }
        let state = self.sites.get_mut(site);
        if sent == Sent::Answered {
            state.trouble = None;
            return;
        }
        let trouble = state.trouble.get_or_insert_default();
        let reason = match sent {
            Sent::No | Sent::Answered => None,
            Sent::Error => {
                trouble.refusing_since = None;
                trouble.errors += 1;
                let errors = trouble.errors;
                self.options
                    .stop_after_errors
                    .filter(|most| errors >= *most)
                    .map(|_| (Outcome::Skipped, format!("{errors} errors in a row")))
            }
            Sent::Refused => {
                let since = *trouble.refusing_since.get_or_insert(at);
                longer(since, at, self.options.stall_time).then(|| {
                    let text =
                        format!("the host has refused for {:?} without serving anything", self.options.stall_time);
                    (Outcome::NotChecked, text)
                })
            }
            Sent::NoAnswer => {
                trouble.silent += 1;
                let (silent, before) = (trouble.silent, trouble.silent_since);
                let since = *trouble.silent_since.get_or_insert(at);
                self.silent_sites += u32::from(before.is_none());
                let dead = silent >= SILENT_TIMES && longer(since.max(self.recovered), at, self.options.dead_time);
                // Where many hosts went silent together and none answers, our own network is likelier to blame (A10).
                let ours = self.silent_sites >= MANY_SITES && self.last_answer < since;
                if dead && ours && !std::mem::replace(&mut self.outage_told, true) {
                    let text = format!(
                        "{} hosts went silent together and none answers: our own network, it seems",
                        self.silent_sites
                    );
                    self.observer.notice(&text);
                }
                let patience =
                    if ours { self.options.stall_time.max(self.options.dead_time) } else { self.options.dead_time };
                (dead && longer(since, at, patience))
                    .then(|| (Outcome::Failed, format!("the host has not answered for {patience:?}")))
            }
        };
        if let Some((outcome, reason)) = reason {
            self.observer.notice(&format!("{}: given up: {reason}", self.sites.origin(&self.context.list, site)));
            self.leave(site, outcome, &reason);
        }
    }
}

/// A host is silent after so many attempts in a row.
const SILENT_TIMES: u32 = 3;
/// Hosts that are silent together before our own network is suspected.
const MANY_SITES: u32 = 4;
