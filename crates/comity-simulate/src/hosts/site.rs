//! A host put together: a law that may change, other clients' traffic on it, and outages before it.

use core::fmt::Debug;
use core::time::Duration;

use comity_core::time::Instant;
use rand_pcg::Pcg64Mcg;

use super::answers::Answers;
use super::behind::Reach;
use super::crowd::Crowd;
use super::law::{AnyLaw, Verdict, secs};
use super::moving::Changes;
use super::outage::Outages;
use super::{ClientId, Host, Queued, Reply};

/// A law and how it is answered by.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) law: AnyLaw,
    pub(super) answers: Answers,
}

impl Part {
    /// Requests a second in the long run.
    pub(super) fn rate(&self) -> f64 {
        self.law.get().rate(&self.answers.latency)
    }
}

/// What stands behind one host name or several: a limit, what replaces it, and a crowd.
#[derive(Clone, Debug)]
pub(super) struct Site {
    part: Part,
    changes: Option<Box<Changes>>,
    crowd: Option<Box<Crowd>>,
}

impl Site {
    /// `coming` replaces `part` and is in order.
    pub(super) fn new(part: Part, coming: Vec<(u64, Part)>, crowd: Option<Crowd>) -> Self {
        let changes = (!coming.is_empty()).then(|| Box::new(Changes::new(&part, coming)));
        Self { part, changes, crowd: crowd.map(Box::new) }
    }

    /// A request of ours: the reply, and what it waited in a queue if it met one.
    pub(super) fn asks(&mut self, now: u64, rng: &mut Pcg64Mcg) -> (Reply, Option<u64>) {
        self.advances(now);
        let Part { law, answers } = &mut self.part;
        match law.get_mut().asks(now, &answers.latency, rng) {
            Verdict::Served { after, waited } => (answers.served(now, after, law.get()), waited),
            Verdict::Refused => (answers.refused(now, law.get()), None),
        }
    }

    /// Lets what others did until now happen.
    fn advances(&mut self, now: u64) {
        if self.crowd.is_some() {
            self.lets_the_crowd_ask(now);
        }
        self.moves_to(now);
    }

    fn lets_the_crowd_ask(&mut self, now: u64) {
        while let Some(at) = self.crowd.as_ref().map(|crowd| crowd.next()).filter(|at| *at <= now) {
            self.moves_to(at);
            if let Some(crowd) = &mut self.crowd {
                let Part { law, answers } = &mut self.part;
                let _ = law.get_mut().asks(at, &answers.latency, crowd.services());
                crowd.asked();
            }
        }
    }

    fn moves_to(&mut self, now: u64) {
        if let Some(changes) = &mut self.changes {
            changes.apply(now, &mut self.part);
        }
    }

    /// Requests it serves in the long run: its rate over the span, less what the crowd asks.
    pub(super) fn capacity(&self, from: u64, to: u64) -> f64 {
        let served = match &self.changes {
            Some(changes) => changes.rates().between(from, to),
            None => self.part.rate() * secs(to.saturating_sub(from)),
        };
        (served - self.crowd_asks(from, to)).max(0.0)
    }

    /// What it would serve in these spans, one after the other, to somebody who knew all about it, less what the crowd
    /// asks meanwhile.
    pub(super) fn possible(&self, spans: impl Iterator<Item = (u64, u64)>) -> f64 {
        let mut site = self.clone();
        let mut served = 0.0;
        for (from, to) in spans {
            site.advances(from);
            site.crowd = None;
            served += (site.takes_all(from, to) - self.crowd_asks(from, to)).max(0.0);
        }
        served
    }

    fn takes_all(&mut self, from: u64, to: u64) -> f64 {
        let (mut at, mut served) = (from, 0.0);
        while at < to {
            self.moves_to(at);
            let until = self.changes.as_ref().map_or(to, |changes| to.min(changes.next()));
            served += self.part.law.get_mut().takes_all(at, until, &self.part.answers.latency);
            at = until;
        }
        served
    }

    fn crowd_asks(&self, from: u64, to: u64) -> f64 {
        self.crowd.as_ref().map_or(0.0, |crowd| crowd.rates().between(from, to))
    }

    /// The mean time a request takes up where others queue for it.
    fn service(&self) -> u64 {
        self.part.law.get().service()
    }
}

/// One host name.
#[derive(Debug)]
pub(super) struct Name<S> {
    site: S,
    outages: Outages,
    queued: Queued,
}

impl<S: Reach> Name<S> {
    pub(super) fn new(site: S, outages: Outages) -> Self {
        Self { site, outages, queued: Queued::default() }
    }
}

impl<S: Reach> Host for Name<S> {
    fn arrives(&mut self, now: Instant, _: ClientId, rng: &mut Pcg64Mcg) -> Reply {
        if let Some(reply) = self.outages.answer(now) {
            return reply;
        }
        let (reply, waited) = self.site.change(|site| site.asks(now.as_nanos(), rng));
        if let Some(waited) = waited {
            self.queued.requests += 1;
            self.queued.waited += Duration::from_nanos(waited);
        }
        reply
    }

    fn capacity(&self, from: Instant, to: Instant) -> f64 {
        let up = self.outages.between(from, to);
        self.site.share() * self.site.look(|site| up.map(|(from, to)| site.capacity(from, to)).sum::<f64>())
    }

    fn possible(&self, from: Instant, to: Instant) -> f64 {
        self.site.share() * self.site.look(|site| site.possible(self.outages.between(from, to)))
    }

    fn queue(&self) -> Queued {
        Queued { service: Duration::from_nanos(self.site.look(Site::service)), ..self.queued }
    }
}
