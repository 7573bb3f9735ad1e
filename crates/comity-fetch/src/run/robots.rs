//! robots.txt: asked for first, obeyed by all that comes to its site.

use std::time::Duration;

use http::Method;
use url::Url;

use super::attempt::now;
use super::job::{Job, RobotsAnswer, Sent, Tag};
use super::sites::{RobotsState, SiteId};
use super::work::Run;
use crate::keep::{Outcome, Record, Timestamp};

impl Run<'_> {
    pub(super) fn ask_robots(&mut self, site: SiteId, after: Option<Duration>) {
        let tried = match self.sites.get(site).robots {
            RobotsState::Asked(tried) => tried,
            _ => 0,
        };
        self.sites.get_mut(site).robots = RobotsState::Asked(tried);
        let origin = self.sites.origin(&self.context.list, site);
        let Ok(url) = Url::parse(&format!("{origin}/robots.txt")) else { return };
        let job = Box::new(Job {
            tag: Tag::Robots(site),
            site,
            first: url.clone(),
            url,
            variant: None,
            method: Method::GET,
            redirects: Vec::new(),
            attempts: 0,
            waits: Vec::new(),
            started: now(),
            passed_on: false,
        });
        self.push(job, after);
    }

    pub(super) fn may_ask(&self, job: &Job) -> bool {
        match &self.sites.get(job.site).robots {
            RobotsState::Known(robots, _) => {
                let target = &job.url[url::Position::BeforePath..url::Position::AfterQuery];
                robots.allows(target)
            }
            _ => true,
        }
    }

    /// A robots.txt goes in the place of the first URL that waits for it.
    pub(super) fn place_of(&self, site: SiteId) -> Option<u64> {
        let visitor = || match self.visitors.get(&site)?.first()?.tag {
            Tag::Page(index) => Some(index),
            Tag::Robots(_) => None,
        };
        self.sites.peek(site).or_else(visitor).map(u64::from)
    }

    /// A redirect comes to a site: its robots.txt is asked for first.
    pub(super) fn visit(&mut self, job: Box<Job>) {
        let site = job.site;
        if let Some((outcome, reason)) = self.sites.get(site).left_for.as_deref().cloned() {
            return self.refuse(&job, outcome, &reason);
        }
        if !self.options.robots || matches!(job.tag, Tag::Robots(_)) {
            self.push(job, None);
            return;
        }
        match &self.sites.get(site).robots {
            RobotsState::Known(_, until) if *until < now() => {
                self.visitors.entry(site).or_default().push(*job);
                self.ask_robots(site, None);
            }
            RobotsState::Known(..) if self.may_ask(&job) => {
                self.push(job, None);
            }
            RobotsState::Known(..) => self.note(disallowed(&job)),
            RobotsState::Asked(_) => self.visitors.entry(site).or_default().push(*job),
            RobotsState::Unknown => {
                self.sites.get_mut(site).opened = true;
                self.visitors.entry(site).or_default().push(*job);
                self.ask_robots(site, None);
            }
        }
    }

    pub(super) fn robots(&mut self, job: &Job, answer: RobotsAnswer, sent: Sent) {
        let Tag::Robots(site) = job.tag else { return };
        match answer {
            RobotsAnswer::Rules(robots, lifetime) => {
                // A missing robots.txt is no error of the host.
                self.judge(site, Sent::Answered);
                let delay = robots.crawl_delay().max(robots.request_rate()).unwrap_or_default();
                let life = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
                let until = Timestamp::from_millis(now().as_millis().saturating_add(life));
                self.sites.get_mut(site).robots = RobotsState::Known(robots, until);
                if let Some(reason) = self.declare(site, delay) {
                    return self.leave(site, Outcome::Skipped, &reason);
                }
                self.push_next(site);
                for visitor in self.visitors.remove(&site).unwrap_or_default() {
                    self.visit(Box::new(visitor));
                }
            }
            RobotsAnswer::NotNow(why) => {
                let RobotsState::Asked(tried) = self.sites.get(site).robots else { return };
                self.sites.get_mut(site).robots = RobotsState::Asked(tried + 1);
                // One that refused was asked as often as refusals are (T10).
                if tried + 1 < ROBOTS_TRIES && sent != Sent::Refused {
                    self.ask_robots(site, Some(ROBOTS_AGAIN * 2u32.pow(u32::from(tried))));
                } else {
                    let reason = format!("robots.txt could not be read: {why}");
                    let outcome = if sent == Sent::NoAnswer { Outcome::Failed } else { Outcome::NotChecked };
                    self.observer.notice(&format!("{}: {reason}", self.sites.origin(&self.context.list, site)));
                    self.leave(site, outcome, &reason);
                }
            }
        }
    }

    /// A site declares a Crawl-delay. Its host keeps the longest of what its sites declare, because the pace is the host's.
    /// A reason where it is longer than anybody waits.
    pub(super) fn declare(&mut self, site: SiteId, delay: Duration) -> Option<String> {
        let origin = Url::parse(self.sites.origin(&self.context.list, site)).ok()?;
        let host: Box<str> = origin.host_str()?.into();
        if delay.is_zero() && !self.crawl_delays.contains_key(&host) {
            return None;
        }
        let limit = self.pacer.crawl_delay_limit(&origin).unwrap_or(self.options.crawl_delay_limit);
        if delay > limit && !self.options.clamp_crawl_delay {
            return Some(format!("robots.txt asks for a Crawl-delay of {delay:?}, over the limit of {limit:?}"));
        }
        let declared = self.crawl_delays.entry(host).or_default();
        declared.retain(|(other, _)| *other != site);
        declared.push((site, delay.min(limit)));
        let longest = declared.iter().map(|(_, delay)| *delay).max().unwrap_or_default();
        let _ = self.pacer.set_crawl_delay(&origin, longest);
        None
    }
}

pub(super) fn disallowed(job: &Job) -> Record {
    let mut record = job.record(Outcome::Robots, now());
    record.reason = Some("disallowed by robots.txt".to_owned());
    record
}

const ROBOTS_TRIES: u8 = 3;
const ROBOTS_AGAIN: Duration = Duration::from_secs(2);
