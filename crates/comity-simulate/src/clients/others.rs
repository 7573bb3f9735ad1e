//! Baselines: one client, that paces each host by itself or goes through one list of all of them.

use core::cmp::Reverse;
use core::ops::Range;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use comity_core::signal::retry_after;
use comity_core::time::Instant;

use super::work::Work;
use super::{Answer, Fate, Start};
use crate::baselines::{Again, Answered, Baseline, Start as May};
use crate::hosts::wall;
use crate::outcome::Sample;

/// A client that runs a baseline.
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

/// What one pace is kept for: one host, or all of them in turn.
#[derive(Debug)]
struct Lane {
    pace: Box<dyn Baseline>,
    hosts: Range<u32>,
    /// The host whose turn it is.
    turn: u32,
    in_flight: u32,
    is_ready: bool,
    planned: Instant,
    again: Retries,
}

/// Refused requests that will be tried again: their host, and how often they were tried.
#[derive(Debug, Default)]
struct Retries {
    first: VecDeque<(u32, u32)>,
    last: VecDeque<(u32, u32)>,
    rested: BinaryHeap<Reverse<(Instant, u32, u32)>>,
}

/// Whether a program goes through one list with one pace, whatever hosts are in it, and does not pace each host by itself.
pub(crate) fn is_one_list(name: &str) -> bool {
    ONE_LIST.contains(&name)
}

impl Others {
    /// A client that has not asked for anything yet, with one pace for each of so many hosts, or with one for all of them.
    pub(crate) fn new(
        client: u32,
        paces: Vec<Box<dyn Baseline>>,
        hosts: u32,
        urls: Option<u64>,
        workers: Option<u32>,
    ) -> Self {
        let each = hosts / (paces.len() as u32).max(1);
        let lane = |(pace, first): (_, u32)| Lane {
            pace,
            hosts: first * each..(first + 1) * each,
            turn: first * each,
            in_flight: 0,
            is_ready: true,
            planned: Instant::FAR,
            again: Retries::default(),
        };
        let lanes: Vec<Lane> = paces.into_iter().zip(0..).map(lane).collect();
        Self {
            client,
            work: Work::new(urls, hosts as usize),
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
            && let Some(number) = self.ready.pop_front()
        {
            let lane = &mut self.lanes[number as usize];
            lane.is_ready = false;
            let fresh = lane.next_host(&self.work);
            if fresh.is_none() && !lane.again.any_due(now) {
                if let Some(until) = lane.again.next_due() {
                    self.plan(number, until);
                }
                continue;
            }
            match lane.pace.may_start(now, lane.in_flight) {
                May::AfterAnswer => {}
                May::At(at) if at > now => self.plan(number, at),
                May::At(_) | May::Now => {
                    let next = match (lane.again.before_others(now), fresh) {
                        (Some(again), _) => Some(again),
                        (None, Some(host)) => {
                            self.work.take(host as usize);
                            lane.turn = if host + 1 < lane.hosts.end { host + 1 } else { lane.hosts.start };
                            Some((host, 0))
                        }
                        (None, None) => lane.again.last.pop_front(),
                    };
                    let Some((host, tried)) = next else { continue };
                    lane.pace.started(now);
                    lane.in_flight += 1;
                    self.workers_free -= 1;
                    starts.push(Start { host, client: self.client, tried, place: 0, grant: None });
                    self.make_ready(number);
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
        let number = self.lane_of(start.host);
        let lane = &mut self.lanes[number as usize];
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
                let (host, tried) = (start.host, start.tried.saturating_add(1));
                match lane.pace.again() {
                    Again::First => lane.again.first.push_back((host, tried)),
                    Again::Rested(rest) => lane.again.rested.push(Reverse((now.after(rest), host, tried))),
                    // A list without end never comes to its last.
                    Again::Last if self.work.is_endless() => {}
                    Again::Last => lane.again.last.push_back((host, tried)),
                }
                Fate::Again
            }
            Ok(status) if status < 400 => Fate::Got,
            _ => Fate::GivenUp,
        };
        self.make_ready(number);
        fate
    }

    pub(crate) fn worker_free(&mut self) {
        self.workers_free = self.workers_free.saturating_add(1);
    }

    /// The state of the pace at a host.
    pub(crate) fn sample(&self, now: Instant, host: u32) -> Sample {
        let lane = &self.lanes[self.lane_of(host) as usize];
        Sample {
            at: now.since(Instant::ZERO).as_secs_f64(),
            interval: lane.pace.interval().unwrap_or_default().as_secs_f64(),
            in_flight: lane.in_flight,
            most_in_flight: lane.pace.most_in_flight(),
        }
    }

    fn lane_of(&self, host: u32) -> u32 {
        if self.lanes.len() == 1 { 0 } else { host }
    }

    fn make_ready(&mut self, number: u32) {
        let lane = &mut self.lanes[number as usize];
        if !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(number);
        }
    }

    fn plan(&mut self, number: u32, at: Instant) {
        let lane = &mut self.lanes[number as usize];
        if at < lane.planned {
            lane.planned = at;
            self.timers.push(Reverse((at, number)));
        }
    }
}

impl Lane {
    /// The host of the next URL that was not tried yet, where there is one: each in turn.
    fn next_host(&self, work: &Work) -> Option<u32> {
        (self.turn..self.hosts.end).chain(self.hosts.start..self.turn).find(|host| work.has(*host as usize))
    }
}

impl Retries {
    /// Whether one may be tried now.
    fn any_due(&self, now: Instant) -> bool {
        !self.first.is_empty() || !self.last.is_empty() || self.next_due().is_some_and(|at| at <= now)
    }

    /// When the next of those that rest has rested.
    fn next_due(&self) -> Option<Instant> {
        self.rested.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next that goes before the rest of its list.
    fn before_others(&mut self, now: Instant) -> Option<(u32, u32)> {
        if self.next_due().is_some_and(|at| at <= now) {
            return self.rested.pop().map(|Reverse((_, host, tried))| (host, tried));
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

/// Their manuals have no word of hosts: curl goes through its list one after the other, as wget does, and aria2's `-j` counts
/// all downloads.
const ONE_LIST: [&str; 3] = ["curl", "wget", "aria2"];
