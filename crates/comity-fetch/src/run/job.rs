//! One URL's way through a run, and what comes back from each attempt.

use comity::InLine;
use http::Method;
use url::Url;

use super::sites::SiteId;
use crate::client::Failure;
use crate::keep::{KeepError, Record, Redirect, Timestamp, Waited};
use crate::robots::Robots;

/// A URL (or a robots.txt) on its way.
#[derive(Debug)]
pub(super) struct Job {
    /// Its name in the line.
    pub(super) tag: Tag,
    /// The site it is asked of now.
    pub(super) site: SiteId,
    /// Where it is asked now.
    pub(super) url: Url,
    /// Where its chain of redirects began.
    pub(super) first: Url,
    /// Which of the requests for that URL it is, for what is kept.
    pub(super) variant: Option<Box<str>>,
    pub(super) method: Method,
    pub(super) redirects: Vec<Redirect>,
    pub(super) attempts: u32,
    pub(super) waits: Vec<Waited>,
    pub(super) started: Timestamp,
    /// Its site has gone on to the next URL: the job has had its first turn.
    pub(super) passed_on: bool,
}

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tag {
    /// The URL with this number in the list.
    Page(u32),
    /// A site's robots.txt.
    Robots(SiteId),
}

impl Tag {
    pub(super) fn of(number: u64) -> Self {
        let low = (number & u64::from(u32::MAX)) as u32;
        if number & ROBOTS == 0 { Self::Page(low) } else { Self::Robots(SiteId(low)) }
    }

    /// As the line keeps it.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Page(index) => u64::from(index),
            Self::Robots(site) => ROBOTS | u64::from(site.0),
        }
    }
}

const ROBOTS: u64 = 1 << 32;

/// A job in the line.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) job: Box<Job>,
    pub(super) place: Option<InLine>,
    pub(super) since: Timestamp,
}

/// What an attempt came to.
#[derive(Debug)]
pub(super) enum Message {
    /// It is back in the line: refused, or its start came too late (`sent` says which).
    Requeued { job: Box<Job>, place: Option<InLine>, sent: Sent },
    /// A redirect: a start on the host it leads to.
    Hop { job: Box<Job>, method: Method, to: Url },
    /// A page is done; its record is written.
    Done { job: Box<Job>, record: Box<Record>, sent: Sent },
    /// The body broke off after the headers; it may be tried again.
    Broken { job: Box<Job>, failure: Failure },
    /// A robots.txt was answered, or not.
    Robots { job: Box<Job>, answer: RobotsAnswer, sent: Sent },
    /// An output cannot be written: the run ends.
    Fatal(KeepError),
}

/// How the host took an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Nothing was sent.
    No,
    /// It answered.
    Answered,
    /// It answered with a status of 400 or more.
    Error,
    /// It refused.
    Refused,
    /// It did not answer.
    NoAnswer,
}

/// What came of asking for a robots.txt.
#[derive(Debug)]
pub(super) enum RobotsAnswer {
    /// It holds for so long.
    Rules(Robots, std::time::Duration),
    /// Not now (B15, B16); why, in words.
    NotNow(String),
}

impl Message {
    /// The job whose attempt has ended.
    pub(super) fn tag(&self) -> Option<Tag> {
        match self {
            Self::Requeued { job, .. }
            | Self::Hop { job, .. }
            | Self::Done { job, .. }
            | Self::Broken { job, .. }
            | Self::Robots { job, .. } => Some(job.tag),
            Self::Fatal(_) => None,
        }
    }
}

impl Job {
    /// The record of a page, as far as the job knows it.
    pub(super) fn record(&self, outcome: crate::keep::Outcome, now: Timestamp) -> Record {
        let mut record = Record::new(self.first.as_str(), outcome, self.started, now);
        record.method = self.method.to_string();
        record.variant = self.variant.as_deref().map(str::to_owned);
        record.attempts = self.attempts;
        record.waits.clone_from(&self.waits);
        record.redirects.clone_from(&self.redirects);
        record
    }
}
