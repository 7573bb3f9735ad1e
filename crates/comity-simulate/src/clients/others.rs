//! Baselines: each host is paced by itself, for one client.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use comity_core::signal::retry_after;
use comity_core::time::Instant;

use super::work::Work;
use super::{Answer, Fate, Start};
use crate::baselines::{Again, Answered, Baseline, Start as May};
use crate::hosts::wall;
use crate::outcome::Sample;

/// A client that runs a baseline at every host.
#[derive(Debug)]
pub(crate) struct Others {
    client: u32,
    lanes: Vec<Lane>,
    work: Work,
    /// Lanes to try now, in turn.
    ready: VecDeque<u32>,
    /// Lanes to try later. One that was planned anew since is passed over.
    timers: BinaryHeap<Reverse<(Instant, u32)>>,
    workers_free: u64,
}

/// One host, as this client has it.
#[derive(Debug)]
struct Lane {
    pace: Box<dyn Baseline>,
    in_flight: u32,
    is_ready: bool,
    planned: Instant,
    again: Retries,
}

/// Refused requests that will be tried again, by how often they were.
#[derive(Debug, Default)]
struct Retries {
    first: VecDeque<u32>,
    last: VecDeque<u32>,
    rested: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Others {
    /// A client with one pace a host, that has not asked for anything yet.
    pub(crate) fn new(client: u32, paces: Vec<Box<dyn Baseline>>, urls: Option<u64>, workers: Option<u32>) -> Self {
        let lane = |pace| Lane { pace, in_flight: 0, is_ready: true, planned: Instant::FAR, again: Retries::default() };
        let lanes: Vec<Lane> = paces.into_iter().map(lane).collect();
        Self {
            client,
            work: Work::new(urls, lanes.len()),
            ready: (0..lanes.len() as u32).collect(),
            lanes,
            timers: BinaryHeap::new(),
            workers_free: workers.map_or(u64::MAX, u64::from),
        }
    }

    /// Lets start what may, the hosts in turn.
    pub(crate) fn pump(&mut self, now: Instant, starts: &mut Vec<Start>) {
        while let Some(Reverse((at, lane))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            if self.lanes[lane as usize].planned == at {
                self.lanes[lane as usize].planned = Instant::FAR;
                self.make_ready(lane);
            }
        }
        while self.workers_free > 0
            && let Some(host) = self.ready.pop_front()
        {
            let lane = &mut self.lanes[host as usize];
            lane.is_ready = false;
            if !self.work.has(host as usize) && !lane.again.any_due(now) {
                if let Some(until) = lane.again.next_due() {
                    self.plan(host, until);
                }
                continue;
            }
            match lane.pace.may_start(now, lane.in_flight) {
                May::AfterAnswer => {}
                May::At(at) if at > now => self.plan(host, at),
                May::At(_) | May::Now => {
                    let tried = lane.again.before_others(now).unwrap_or_else(|| {
                        if self.work.take(host as usize) { 0 } else { lane.again.last.pop_front().unwrap_or(0) }
                    });
                    lane.pace.started(now);
                    lane.in_flight += 1;
                    self.workers_free -= 1;
                    starts.push(Start { host, client: self.client, tried, place: 0, grant: None });
                    self.make_ready(host);
                }
            }
        }
    }

    /// When to pump again.
    pub(crate) fn wake(&self) -> Instant {
        match self.timers.peek() {
            Some(Reverse((at, _))) if self.workers_free > 0 => *at,
            _ => Instant::FAR,
        }
    }

    /// A request ends.
    pub(crate) fn answered(&mut self, now: Instant, start: &Start, answer: &Answer<'_>) -> Fate {
        let lane = &mut self.lanes[start.host as usize];
        lane.in_flight = lane.in_flight.saturating_sub(1);
        let answered = Answered {
            started: answer.started,
            status: answer.status.ok(),
            latency: now.since(answer.started),
            retry_after: advice(now, answer),
            tried: start.tried,
        };
        lane.pace.answered(now, &answered);
        let fate = match answer.status {
            Ok(429 | 503) if start.tried < lane.pace.retries() => {
                let tried = start.tried.saturating_add(1);
                match lane.pace.again() {
                    Again::First => lane.again.first.push_back(tried),
                    Again::Rested(rest) => lane.again.rested.push(Reverse((now.after(rest), tried))),
                    // A list without end never comes to its last.
                    Again::Last if self.work.is_endless() => {}
                    Again::Last => lane.again.last.push_back(tried),
                }
                Fate::Again
            }
            Ok(status) if status < 400 => Fate::Got,
            _ => Fate::GivenUp,
        };
        self.make_ready(start.host);
        fate
    }

    pub(crate) fn worker_free(&mut self) {
        self.workers_free = self.workers_free.saturating_add(1);
    }

    /// The state of the pace at a host.
    pub(crate) fn sample(&self, now: Instant, host: u32) -> Sample {
        let lane = &self.lanes[host as usize];
        Sample {
            at: now.since(Instant::ZERO).as_secs_f64(),
            interval: lane.pace.interval().unwrap_or_default().as_secs_f64(),
            in_flight: lane.in_flight,
            most_in_flight: lane.pace.most_in_flight(),
        }
    }

    fn make_ready(&mut self, host: u32) {
        let lane = &mut self.lanes[host as usize];
        if !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(host);
        }
    }

    fn plan(&mut self, host: u32, at: Instant) {
        let lane = &mut self.lanes[host as usize];
        if at < lane.planned || lane.planned == Instant::FAR {
            lane.planned = at;
            self.timers.push(Reverse((at, host)));
        }
    }
}

impl Retries {
    /// Whether one may be tried now.
    fn any_due(&self, now: Instant) -> bool {
        !self.first.is_empty() || !self.last.is_empty() || self.next_due().is_some_and(|at| at <= now)
    }

    /// When the next of those that rest has rested.
    fn next_due(&self) -> Option<Instant> {
        self.rested.peek().map(|Reverse((at, _))| *at)
    }

    /// The next that goes before the rest of its list.
    fn before_others(&mut self, now: Instant) -> Option<u32> {
        if self.next_due().is_some_and(|at| at <= now) {
            return self.rested.pop().map(|Reverse((_, tried))| tried);
        }
        self.first.pop_front()
    }
}

/// The wait a refusal asked for.
fn advice(now: Instant, answer: &Answer<'_>) -> Option<Duration> {
    if answer.fields.is_empty() {
        return None;
    }
    let fields = answer.fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    retry_after(fields, wall(now)).wait()
}
