//! The run itself: one task that owns the list, the sites and the line, and hands permits to attempts.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use comity::{Ask, Line, Pacer, Permit, Profile, Replay};
use http::Method;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;

use super::attempt::{Context, attempt, now};
use super::job::{Job, Message, Queued, RobotsAnswer, Sent, Tag};
use super::options::Options;
use super::sites::{RobotsState, SiteId, Sites};
use super::status::{HostLine, Observer, Status};
use super::{End, Fetch, FetchError, Stop};
use crate::keep::{Outcome, Record, Tally, Timestamp};

pub(super) struct Run<'a> {
    pacer: Pacer,
    line: Line,
    context: Arc<Context>,
    options: Options,
    sites: Sites,
    /// Sites nobody has asked anything yet, in order of the list.
    fresh: u32,
    queued: HashMap<u64, Queued, foldhash::fast::RandomState>,
    /// Permits for jobs whose last attempt has not reported yet.
    early: HashMap<u64, Permit, foldhash::fast::RandomState>,
    /// Redirects that wait for the robots.txt of the site they lead to.
    visitors: HashMap<SiteId, Vec<Job>, foldhash::fast::RandomState>,
    attempts: JoinSet<()>,
    /// A pacer for each set of limits that lines of the list bring.
    own_pacers: HashMap<usize, Pacer, foldhash::fast::RandomState>,
    /// Crawl-delays by host, and which of its sites declares which.
    crawl_delays: HashMap<Box<str>, Vec<(SiteId, Duration)>>,
    /// Jobs whose attempt has not reported yet.
    in_flight: HashSet<u64, foldhash::fast::RandomState>,
    active: usize,
    reports: mpsc::UnboundedSender<Message>,
    tally: Tally,
    observer: &'a mut dyn Observer,
    started: Timestamp,
    total: u64,
    requests: u64,
    /// Times of the last refusals, where the run stops after too many (H10).
    refusals: VecDeque<Timestamp>,
    limited: bool,
    /// Sites that are silent now, and when any host last answered (A10).
    silent_sites: u32,
    last_answer: Timestamp,
    /// When the last time without any answer ended.
    recovered: Timestamp,
    outage_told: bool,
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

    fn is_done(&self) -> bool {
        self.active == 0
            && self.queued.is_empty()
            && self.fresh as usize >= self.sites.len()
            && self.attempts.is_empty()
    }

    /// Starts what may start now, and opens fresh sites as long as there is room for more.
    fn fill(&mut self) {
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
    fn open(&mut self, site: SiteId) {
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

    fn ask_robots(&mut self, site: SiteId, after: Option<Duration>) {
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

    /// Puts the site's next URL in line, past those that are not asked at all.
    fn push_next(&mut self, site: SiteId) {
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

    fn may_ask(&self, job: &Job) -> bool {
        match &self.sites.get(job.site).robots {
            RobotsState::Known(robots, _) => {
                let target = &job.url[url::Position::BeforePath..url::Position::AfterQuery];
                robots.allows(target)
            }
            _ => true,
        }
    }

    /// Whether what is kept is younger than the least age of a new fetch (H12).
    fn is_young(&self, index: u32, job: &Job) -> bool {
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
    fn push(&mut self, job: Box<Job>, after: Option<Duration>) -> bool {
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

    fn enqueue(&mut self, queued: Queued) {
        self.sites.get_mut(queued.job.site).in_line += 1;
        self.queued.insert(queued.job.tag.number(), queued);
    }

    fn dequeue(&mut self, tag: u64) -> Option<Queued> {
        let queued = self.queued.remove(&tag)?;
        self.sites.get_mut(queued.job.site).in_line -= 1;
        Some(queued)
    }

    /// A job cannot even wait. Without its robots.txt nothing of a site can be asked.
    fn refuse(&mut self, job: &Job, outcome: Outcome, reason: &str) {
        match job.tag {
            Tag::Page(_) => self.end(job, outcome, reason),
            Tag::Robots(site) => self.leave(site, outcome, reason),
        }
    }

    /// A robots.txt goes in the place of the first URL that waits for it.
    fn place_of(&self, site: SiteId) -> Option<u64> {
        let visitor = || match self.visitors.get(&site)?.first()?.tag {
            Tag::Page(index) => Some(index),
            Tag::Robots(_) => None,
        };
        self.sites.peek(site).or_else(visitor).map(u64::from)
    }

    /// The line says that a job may start.
    fn granted(&mut self, tag: u64, permit: Permit) {
        let Some(Queued { mut job, .. }) = self.dequeue(tag) else {
            self.early.insert(tag, permit);
            return;
        };
        let goes_on = matches!(job.tag, Tag::Page(_)) && !std::mem::replace(&mut job.passed_on, true);
        let site = job.site;
        self.active += 1;
        self.requests += 1;
        self.in_flight.insert(tag);
        self.attempts.spawn(attempt(Arc::clone(&self.context), job, permit, self.reports.clone()));
        if goes_on {
            self.push_next(site);
        }
    }

    /// An attempt reports.
    fn reported(&mut self, message: Message) -> Result<(), FetchError> {
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

    /// A redirect comes to a site: its robots.txt is asked for first.
    fn visit(&mut self, job: Box<Job>) {
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

    fn robots(&mut self, job: &Job, answer: RobotsAnswer, sent: Sent) {
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
    fn declare(&mut self, site: SiteId, delay: Duration) -> Option<String> {
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

    /// Gives a site up that has refused, or has not answered, for too long; and the run, where it is told to (H10).
    fn judge(&mut self, site: SiteId, sent: Sent) {
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

    /// Ends all that is left of a site, each URL reported, and what redirects bring to it from now on.
    fn leave(&mut self, site: SiteId, outcome: Outcome, reason: &str) {
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

    /// Which of the requests for its URL an entry is.
    fn variant(&self, index: u32) -> Option<Box<str>> {
        self.context.list.variant(index, &self.context.requests.method(None))
    }

    fn end(&mut self, job: &Job, outcome: Outcome, reason: &str) {
        if let Tag::Page(_) = job.tag {
            let mut record = job.record(outcome, now());
            record.reason = Some(reason.to_owned());
            self.note(record);
        }
    }

    /// Records a URL that ended without an answer.
    fn note(&mut self, record: Record) {
        match self.context.kept.note(record) {
            Ok(record) => {
                self.tally.record(&record);
                self.observer.record(&record);
            }
            // The next attempt's report ends the run.
            Err(error) => drop(self.reports.send(Message::Fatal(error))),
        }
    }

    fn tick(&mut self) -> Result<(), FetchError> {
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

    fn time_out(&mut self, tag: u64, limit: Duration) {
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

    fn status(&self) -> Status {
        let mut waiting: Vec<&Queued> =
            self.queued.values().filter(|queued| queued.place.is_some()).take(MOST_LOOKED_AT).collect();
        waiting
            .sort_by_key(|queued| (std::cmp::Reverse(self.sites.get(queued.job.site).left), queued.job.tag.number()));
        let mut slowest: Vec<HostLine> = Vec::new();
        for queued in waiting {
            let host = queued.job.url.host_str().unwrap_or_default();
            if slowest.iter().any(|line| line.host == host) {
                continue;
            }
            let Some(delay) = queued.place.and_then(|place| self.line.delay(place)) else { continue };
            let because = if delay.scope == host {
                delay.because.to_string()
            } else {
                format!("{} {}", delay.scope, delay.because)
            };
            let left = self.sites.get(queued.job.site).left + 1;
            slowest.push(HostLine { host: host.to_owned(), left, because, wait: delay.wait });
            if slowest.len() == SLOWEST {
                break;
            }
        }
        Status {
            total: self.total,
            counts: *self.tally.totals(),
            active: self.active,
            requests: self.requests,
            bytes: self.tally.bytes(),
            elapsed: since(self.started, now()),
            slowest,
            hosts_left: self.sites.len() - self.fresh as usize + self.queued.len(),
        }
    }

    /// Counts what is not done, closes the outputs and reports.
    fn finish(mut self, stopped: Option<Stop>) -> Result<End, FetchError> {
        let visitors = self.visitors.values().flatten().map(|job| job.tag.number());
        let unfinished: Vec<u64> =
            self.queued.keys().copied().chain(self.in_flight.iter().copied()).chain(visitors).collect();
        for tag in unfinished {
            if let Tag::Page(index) = Tag::of(tag) {
                let host = self.context.list.url(index).host_str().unwrap_or_default().to_owned();
                self.tally.record_many(&host, Outcome::NotChecked, 1);
            }
        }
        for site in self.sites.ids() {
            let left = self.sites.get(site).left;
            if left > 0 {
                let host = Url::parse(self.sites.origin(&self.context.list, site)).ok();
                let host = host.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned();
                self.tally.record_many(&host, Outcome::NotChecked, left);
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

fn disallowed(job: &Job) -> Record {
    let mut record = job.record(Outcome::Robots, now());
    record.reason = Some("disallowed by robots.txt".to_owned());
    record
}

fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or_default())
}

fn longer(from: Timestamp, to: Timestamp, span: Duration) -> bool {
    since(from, to) >= span
}

const TICK: Duration = Duration::from_millis(100);
/// Jobs in the line at once; a fresh site waits outside it, where it costs less.
const MOST_QUEUED: usize = 200_000;
const MOST_LOOKED_AT: usize = 2_000;
const SLOWEST: usize = 10;
/// A host is silent after so many attempts in a row.
const SILENT_TIMES: u32 = 3;
/// Hosts that are silent together before our own network is suspected.
const MANY_SITES: u32 = 4;
const ROBOTS_TRIES: u8 = 3;
const ROBOTS_AGAIN: Duration = Duration::from_secs(2);
/// When a body that broke off is asked for again.
const BROKEN_AGAIN: Duration = Duration::from_secs(1);
