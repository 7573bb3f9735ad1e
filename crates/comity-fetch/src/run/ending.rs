//! How URLs end that are not answered, and how the run does.

use std::time::Duration;

use super::attempt::now;
use super::job::{Job, Message, Queued, Tag};
use super::sites::SiteId;
use super::work::{Run, longer};
use super::{End, FetchError, Stop};
use crate::keep::{Outcome, Record};

impl Run<'_> {
    /// A job cannot even wait. Without its robots.txt nothing of a site can be asked.
    pub(super) fn refuse(&mut self, job: &Job, outcome: Outcome, reason: &str) {
        match job.tag {
            Tag::Page(_) => self.end(job, outcome, reason),
            Tag::Robots(site) => self.leave(site, outcome, reason),
        }
    }

    /// Ends all that is left of a site, each URL reported, and what redirects bring to it from now on.
    pub(super) fn leave(&mut self, site: SiteId, outcome: Outcome, reason: &str) {
        let state = self.sites.get_mut(site);
        state.left_for = Some(Box::new((outcome, reason.to_owned())));
        if let Some(trouble) = state.trouble.take()
            && trouble.silent_since.is_some()
        {
            self.silent_sites -= 1;
        }
        let mut guests = Vec::new();
        if self.sites.get(site).in_line > 0 {
            let tags: Vec<u64> = self.queued.iter().filter(|(_, q)| q.job.site == site).map(|(tag, _)| *tag).collect();
            for tag in tags {
                if let Some(Queued { job, place, .. }) = self.dequeue(tag) {
                    if let Some(place) = place {
                        self.line.remove(place);
                    }
                    match job.tag {
                        // Another site's robots.txt was looked for here.
                        Tag::Robots(other) if other != site => guests.push(other),
                        _ => self.end(&job, outcome, reason),
                    }
                }
            }
        }
        for job in self.visitors.remove(&site).unwrap_or_default() {
            self.end(&job, outcome, reason);
        }
        while let Some(index) = self.sites.pop(site) {
            let mut record = Record::new(self.context.list.text(index), outcome, now(), now());
            record.method = self.context.requests.method(self.context.list.extra(index)).to_string();
            record.variant = self.variant(index).map(String::from);
            record.reason = Some(reason.to_owned());
            self.note(record);
        }
        for guest in guests {
            self.leave(guest, outcome, reason);
        }
    }

    pub(super) fn end(&mut self, job: &Job, outcome: Outcome, reason: &str) {
        if let Tag::Page(_) = job.tag {
            let mut record = job.record(outcome, now());
            record.reason = Some(reason.to_owned());
            self.note(record);
        }
    }

    /// Records a URL that ended without an answer.
    pub(super) fn note(&mut self, record: Record) {
        match self.context.kept.note(record) {
            Ok(record) => {
                self.tally.record(&record);
                self.observer.record(&record);
            }
            // The next attempt's report ends the run.
            Err(error) => drop(self.reports.send(Message::Fatal(error))),
        }
    }

    pub(super) fn tick(&mut self) -> Result<(), FetchError> {
        if let Some(limit) = self.options.queue_timeout {
            let at = now();
            let late: Vec<u64> =
                self.queued.iter().filter(|(_, queued)| longer(queued.since, at, limit)).map(|(tag, _)| *tag).collect();
            for tag in late {
                self.time_out(tag, limit);
            }
        }
        let status = self.status();
        self.observer.status(&status);
        Ok(())
    }

    pub(super) fn time_out(&mut self, tag: u64, limit: Duration) {
        let Some(queued) = self.queued.get(&tag) else { return };
        let Some(place) = queued.place else { return };
        let delay = self.line.delay(place);
        if !self.line.remove(place) {
            return;
        }
        let Some(Queued { mut job, .. }) = self.dequeue(tag) else { return };
        let why = delay.map_or_else(String::new, |delay| format!(" ({delay})"));
        let reason = format!("waited longer than the {limit:?} of --queue-timeout{why}");
        match job.tag {
            Tag::Page(_) => {
                self.end(&job, Outcome::NotChecked, &reason);
                if !std::mem::replace(&mut job.passed_on, true) {
                    self.push_next(job.site);
                }
            }
            Tag::Robots(site) => self.leave(site, Outcome::NotChecked, &reason),
        }
    }

    /// Counts what is not done, closes the outputs and reports.
    pub(super) fn finish(mut self, stopped: Option<Stop>) -> Result<End, FetchError> {
        let visitors = self.visitors.values().flatten().map(|job| job.tag.number());
        let unfinished: Vec<u64> =
            self.queued.keys().copied().chain(self.in_flight.iter().copied()).chain(visitors).collect();
        for tag in unfinished {
            if let Tag::Page(index) = Tag::of(tag) {
                self.tally.record_many(&self.context.list.url(index), Outcome::NotChecked, 1);
            }
        }
        for site in self.sites.ids() {
            let left = self.sites.get(site).left;
            if let Some(next) = self.sites.peek(site) {
                self.tally.record_many(&self.context.list.url(next), Outcome::NotChecked, left);
            }
        }
        let status = self.status();
        self.observer.status(&status);
        if self.tally.totals().not_checked > 0 {
            self.context.kept.leave_open();
        }
        self.context.kept.close()?;
        self.context.requests.save_cookies()?;
        let dropped = self.context.requests.cookies_dropped();
        if dropped > 0 {
            self.observer.notice(&format!("{dropped} cookies were refused: too long, or too many of one site"));
        }
        Ok(End { report: self.tally.report(self.started, now(), self.requests), stopped })
    }
}
