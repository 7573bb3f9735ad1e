//! The run itself: one task that owns the list, the sites and the line, and hands permits to attempts.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use comity::{Ask, Line, Origin, Pacer, Permit, Profile, Replay};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::attempt::{Context, attempt, now};
use super::job::{Job, Message, Queued, Sent, Tag};
use super::options::Options;
use super::robots::disallowed;
use super::sites::{RobotsState, SiteId, Sites};
use super::status::Observer;
use super::{End, Fetch, FetchError, Stop};
use crate::keep::{Outcome, Tally, Timestamp};

pub(super) struct Run<'a> {
    pub(super) pacer: Pacer,
    pub(super) line: Line,
    pub(super) context: Arc<Context>,
    pub(super) options: Options,
    pub(super) sites: Sites,
    /// Sites nobody has asked anything yet, in order of the list.
    pub(super) fresh: u32,
    pub(super) queued: HashMap<u64, Queued, foldhash::fast::RandomState>,
    /// Permits for jobs whose last attempt has not reported yet.
    pub(super) early: HashMap<u64, Permit, foldhash::fast::RandomState>,
    /// Redirects that wait for the robots.txt of the site they lead to.
    pub(super) visitors: HashMap<SiteId, Vec<Job>, foldhash::fast::RandomState>,
    pub(super) attempts: JoinSet<()>,
    /// Requests that started without the store that is shared.
    pub(super) degraded: u64,
    /// A pacer for each set of limits that lines of the list bring.
    pub(super) own_pacers: HashMap<usize, Pacer, foldhash::fast::RandomState>,
    /// Crawl-delays by host, and which of its sites declares which.
    pub(super) crawl_delays: HashMap<Box<str>, Vec<(SiteId, Duration)>>,
    /// Jobs whose attempt has not reported yet.
    pub(super) in_flight: HashSet<u64, foldhash::fast::RandomState>,
    pub(super) active: usize,
    pub(super) reports: mpsc::UnboundedSender<Message>,
    pub(super) tally: Tally,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) started: Timestamp,
    pub(super) total: u64,
    pub(super) requests: u64,
    /// Times of the last refusals, where the run stops after too many (H10).
    pub(super) refusals: VecDeque<Timestamp>,
    pub(super) limited: bool,
    /// Sites that are silent now, and when any host last answered (A10).
    pub(super) silent_sites: u32,
    pub(super) last_answer: Timestamp,
    /// When the last time without any answer ended.
    pub(super) recovered: Timestamp,
    pub(super) outage_told: bool,
    /// Whether it was told that our own uplink is slow.
    pub(super) uplink_told: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(fetch: Fetch, observer: &'a mut dyn Observer) -> (Self, mpsc::UnboundedReceiver<Message>) {
        let Fetch { pacer, client, requests, kept, mut list, options } = fetch;
        list.shrink();
        let plain = requests.method(None);
        let sites = Sites::of(&list, |index| {
            !kept.resumes() || !kept.is_done(&list.url(index), list.variant(index, &plain).as_deref())
        });
        let total = sites.ids().map(|site| u64::from(sites.get(site).left)).sum();
        let (reports, inbox) = mpsc::unbounded_channel();
        let context = Context {
            client,
            requests,
            kept,
            list,
            max_time: options.max_time,
            max_redirects: options.max_redirects,
            product_token: options.product_token.clone(),
            if_newer: options.if_newer,
            idle_time: options.idle_time,
            bodies_hold_places: pacer.profile() == Profile::Crawl,
        };
        let run = Self {
            line: pacer.line(),
            pacer,
            context: Arc::new(context),
            options,
            sites,
            fresh: 0,
            queued: HashMap::default(),
            early: HashMap::default(),
            visitors: HashMap::default(),
            attempts: JoinSet::new(),
            own_pacers: HashMap::default(),
            degraded: 0,
            crawl_delays: HashMap::new(),
            in_flight: HashSet::default(),
            active: 0,
            reports,
            tally: Tally::default(),
            observer,
            started: now(),
            total,
            requests: 0,
            refusals: VecDeque::new(),
            limited: false,
            silent_sites: 0,
            last_answer: now(),
            recovered: Timestamp::default(),
            outage_told: false,
            uplink_told: false,
        };
        (run, inbox)
    }

    /// Works through the list.
    pub(super) async fn work(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<Message>,
        stop: impl Future<Output = ()>,
    ) -> Result<End, FetchError> {
        let mut stop = pin!(stop);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stopped = loop {
            self.fill();
            if self.is_done() {
                break None;
            }
            if self.limited {
                break Some(Stop::Limited);
            }
            tokio::select! {
                biased;
                () = &mut stop => break Some(Stop::Interrupted),
                Some(message) = inbox.recv() => {
                    self.reported(message)?;
                    // What is there already is handled before anything new is sent.
                    while let Ok(message) = inbox.try_recv() {
                        self.reported(message)?;
                    }
                }
                (tag, permit) = self.line.next(), if self.active < self.options.parallel => self.granted(tag, permit),
                _ = tick.tick() => self.tick()?,
            }
        };
        self.attempts.shutdown().await;
        // What was kept before the run was stopped is counted, although nothing more is sent.
        while let Ok(message) = inbox.try_recv() {
            match message {
                Message::Done { job, record, .. } => {
                    self.in_flight.remove(&job.tag.number());
                    self.tally.record(&record);
                    self.observer.record(&record);
                }
                Message::Fatal(error) => return Err(error.into()),
                _ => {}
            }
        }
        self.finish(stopped)
    }

    pub(super) fn is_done(&self) -> bool {
        self.active == 0
            && self.queued.is_empty()
            && self.fresh as usize >= self.sites.len()
            && self.attempts.is_empty()
    }

    /// Starts what may start now, and opens fresh sites as long as there is room for more.
    pub(super) fn fill(&mut self) {
        while let Some(ended) = self.attempts.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        loop {
            while self.active < self.options.parallel {
                let Some((tag, permit)) = self.line.try_next() else { break };
                self.granted(tag, permit);
            }
            let room = self.options.parallel.saturating_sub(self.active);
            let mut opened = 0;
            while opened < room && (self.fresh as usize) < self.sites.len() && self.queued.len() < MOST_QUEUED {
                let site = SiteId(self.fresh);
                self.fresh += 1;
                self.open(site);
                opened += 1;
            }
            if opened == 0 {
                return;
            }
        }
    }

    /// Begins with a site: with its robots.txt, where it is asked for.
    pub(super) fn open(&mut self, site: SiteId) {
        if std::mem::replace(&mut self.sites.get_mut(site).opened, true) {
            // A redirect came here first and asked for its robots.txt: the answer goes on with the site.
            return;
        }
        if self.options.robots {
            self.ask_robots(site, None);
        } else {
            self.push_next(site);
        }
    }

    /// Puts the site's next URL in line, past those that are not asked at all.
    pub(super) fn push_next(&mut self, site: SiteId) {
        while let Some(index) = self.sites.peek(site) {
            match &self.sites.get(site).robots {
                RobotsState::Known(_, until) if *until < now() => return self.ask_robots(site, None),
                // Its answer will go on with the site.
                RobotsState::Asked(_) => return,
                RobotsState::Known(..) | RobotsState::Unknown => {}
            }
            let url = self.context.list.url(index);
            self.sites.pop(site);
            let method = self.context.requests.method(self.context.list.extra(index));
            let job = Box::new(Job {
                tag: Tag::Page(index),
                site,
                first: url.clone(),
                url,
                variant: self.variant(index),
                method,
                redirects: Vec::new(),
                attempts: 0,
                waits: Vec::new(),
                started: now(),
                passed_on: false,
            });
            if self.is_young(index, &job) {
                let mut record = job.record(Outcome::Unchanged, now());
                record.reason = Some("what is kept is younger than min_refetch_age".to_owned());
                self.note(record);
                continue;
            }
            if !self.may_ask(&job) {
                self.note(disallowed(&job));
            } else if self.push(job, None) {
                return;
            }
        }
    }

    /// Whether what is kept is younger than the least age of a new fetch (H12).
    pub(super) fn is_young(&self, index: u32, job: &Job) -> bool {
        let own = self.context.list.extra(index).and_then(|extra| extra.min_refetch_age);
        if own.is_none() && self.options.min_refetch_age.is_empty() {
            return false;
        }
        let url = &job.url;
        let path = url.path();
        let host = url.host_str().unwrap_or_default();
        let age = self
            .options
            .min_refetch_age
            .iter()
            .filter(|(pattern, _)| pattern.covers_host(host, url.port()) && pattern.narrowing.covers(path, None));
        let Some(least) = age.map(|(_, age)| *age).chain(own).max() else { return false };
        self.context.kept.fetched_at(url, job.variant.as_deref()).is_some_and(|at| {
            let age = now().as_millis().saturating_sub(at.as_millis());
            u64::try_from(age).is_ok_and(|age| u128::from(age) < least.as_millis())
        })
    }

    /// Puts a job in line for the host it is asked of now. False where it cannot even wait, which is recorded.
    pub(super) fn push(&mut self, job: Box<Job>, after: Option<Duration>) -> bool {
        let tag = job.tag.number();
        let (place, extra) = match job.tag {
            Tag::Page(index) => (Some(u64::from(index)), self.context.list.extra(index)),
            Tag::Robots(site) => (self.place_of(site), None),
        };
        let replay = Replay { idempotent: job.method.is_idempotent(), replayable: true, retries: self.options.retries };
        let mut ask = Ask::new(&job.url).replay(replay);
        if let Some(place) = place {
            ask = ask.place(place);
        }
        if let Some(after) = after {
            ask = ask.after(after);
        }
        if let Some(identity) = extra.and_then(|extra| extra.identity.as_deref()) {
            ask = ask.identity(identity);
        }
        if let Some(cost) = extra.and_then(|extra| extra.cost) {
            ask = ask.cost(cost.get());
        }
        let pushed = match extra.and_then(|extra| extra.limits.as_ref()) {
            Some(limits) => {
                let own = self.own_pacers.entry(Arc::as_ptr(limits) as usize);
                let pacer = own.or_insert_with(|| self.pacer.with_limits(limits));
                self.line.push_under(pacer, &ask, tag)
            }
            None => self.line.push(&ask, tag),
        };
        match pushed {
            Ok(Ok(place)) => {
                self.enqueue(Queued { job, place: Some(place), since: now() });
                return true;
            }
            Ok(Err(full)) => self.refuse(&job, Outcome::NotChecked, &full.to_string()),
            Err(error) => self.refuse(&job, Outcome::Skipped, &error.to_string()),
        }
        false
    }

    pub(super) fn enqueue(&mut self, queued: Queued) {
        self.sites.get_mut(queued.job.site).in_line += 1;
        self.queued.insert(queued.job.tag.number(), queued);
    }

    pub(super) fn dequeue(&mut self, tag: u64) -> Option<Queued> {
        let queued = self.queued.remove(&tag)?;
        self.sites.get_mut(queued.job.site).in_line -= 1;
        Some(queued)
    }

    /// The line says that a job may start.
    pub(super) fn granted(&mut self, tag: u64, permit: Permit) {
        let Some(Queued { mut job, .. }) = self.dequeue(tag) else {
            self.early.insert(tag, permit);
            return;
        };
        let goes_on = matches!(job.tag, Tag::Page(_)) && !std::mem::replace(&mut job.passed_on, true);
        let site = job.site;
        self.active += 1;
        self.requests += 1;
        self.in_flight.insert(tag);
        self.degraded += u64::from(permit.origin() == Origin::Degraded);
        self.attempts.spawn(attempt(Arc::clone(&self.context), job, permit, self.reports.clone()));
        if goes_on {
            self.push_next(site);
        }
    }

    /// An attempt reports.
    pub(super) fn reported(&mut self, message: Message) -> Result<(), FetchError> {
        self.active = self.active.saturating_sub(1);
        if let Some(tag) = message.tag() {
            self.in_flight.remove(&tag.number());
        }
        match message {
            Message::Requeued { job, place, sent } => {
                let (site, tag) = (job.site, job.tag.number());
                if sent == Sent::No {
                    self.requests = self.requests.saturating_sub(1);
                }
                self.enqueue(Queued { job, place, since: now() });
                if let Some(permit) = self.early.remove(&tag) {
                    self.granted(tag, permit);
                }
                self.judge(site, sent);
            }
            Message::Hop { mut job, method, to } => {
                self.judge(job.site, Sent::Answered);
                job.method = method;
                job.site = self.sites.site_of(&self.context.list, &to);
                job.url = to;
                self.visit(job);
            }
            Message::Done { job, record, sent } => {
                self.requests = self.requests.saturating_sub(u64::from(sent == Sent::No));
                self.tally.record(&record);
                self.observer.record(&record);
                self.judge(job.site, sent);
            }
            Message::Broken { job, failure } => {
                let tried = job.attempts.saturating_sub(job.redirects.len() as u32);
                let again = self.options.retries.is_some_and(|retries| tried <= retries);
                if again && job.method.is_idempotent() {
                    self.push(job, Some(BROKEN_AGAIN));
                } else {
                    let mut record = job.record(Outcome::Failed, now());
                    record.error = Some(failure.to_string());
                    self.note(record);
                }
            }
            Message::Robots { job, answer, sent } => self.robots(&job, answer, sent),
            Message::Fatal(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Which of the requests for its URL an entry is.
    pub(super) fn variant(&self, index: u32) -> Option<Box<str>> {
        self.context.list.variant(index, &self.context.requests.method(None))
    }
}

pub(super) fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or_default())
}

pub(super) fn longer(from: Timestamp, to: Timestamp, span: Duration) -> bool {
    since(from, to) >= span
}

const TICK: Duration = Duration::from_millis(100);
/// Jobs in the line at once; a fresh site waits outside it, where it costs less.
const MOST_QUEUED: usize = 200_000;
/// When a body that broke off is asked for again.
const BROKEN_AGAIN: Duration = Duration::from_secs(1);
