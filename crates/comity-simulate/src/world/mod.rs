//! The world: an event loop in virtual time.
//!
//! It steps from event to event. Nothing sleeps, nothing reads a clock, and what is random comes from the seed: the same
//! scenario, policy and seed give the same outcome to the digit.

mod events;
mod far_end;
mod flights;
mod latencies;
mod link;
mod setup;

use core::time::Duration;

use comity_core::signal::NoAnswer;
use comity_core::time::Instant;
use comity_store::RouteError;

use self::events::{Event, Events};
use self::far_end::FarEnd;
use self::flights::{Flight, Flights};
use self::link::{Fortune, Link, Pipe};
use self::setup::{Built, NETWORK, Run, build, parties};
use crate::clients::{Answer, Fate, Kept, Party, Start};
use crate::outcome::Outcome;
use crate::scenario::{Scenario, ScenarioError};

/// What a run is asked to do beside what its scenario says.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Whether the first client's pace is sampled over time, and refusals are noted one by one: at every host or, where there are
    /// more than [`MOST_SAMPLED`], at the busiest of them. Who they are is known from a first run without samples, which
    /// takes its time.
    pub samples: bool,
    /// Another length than the scenario's.
    pub time: Option<Duration>,
}

/// Why a scenario was not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No policy has this name.
    #[error("`{name}` is no policy: allowed are {allowed}")]
    Policy {
        /// The name.
        name: String,
        /// The names there are.
        allowed: String,
    },
    /// A host has a name that none can have.
    #[error("a host's name")]
    Host(#[from] RouteError),
    /// A host's model makes no sense.
    #[error(transparent)]
    Model(ScenarioError),
}

/// Runs a scenario with a policy from a seed.
///
/// # Errors
/// When the policy is unknown, or a host's name is no name.
pub fn run(scenario: &Scenario, policy: &str, seed: u64, options: &RunOptions) -> Result<Outcome, Error> {
    let limits = scenario.clients.limits(policy);
    let kept = match &limits {
        Some(_) if scenario.remembered => {
            let lesson = RunOptions { samples: false, ..*options };
            let mut world = World::new(scenario, policy, Run { seed, nth: 0 }, &lesson, &[])?;
            world.go();
            world.parties.iter().map(Party::kept).collect()
        }
        _ => Vec::new(),
    };
    let this = Run { seed, nth: u64::from(scenario.remembered) };
    let mut world = World::new(scenario, policy, this, options, &kept)?;
    if options.samples && world.far_end.len() > MOST_SAMPLED {
        // The same run twice: nobody knows before who will be the busiest.
        let unsampled = RunOptions { samples: false, ..*options };
        let mut first = World::new(scenario, policy, this, &unsampled, &kept)?;
        first.go();
        world.sample_only(&first.far_end.busiest(MOST_SAMPLED));
    }
    world.go();
    Ok(world.outcome(policy, seed))
}

#[derive(Debug)]
struct World<'a> {
    scenario: &'a Scenario,
    now: Instant,
    end: Instant,
    events: Events,
    flights: Flights,
    far_end: FarEnd,
    parties: Vec<Party>,
    /// When each party wants to be asked again.
    wakes: Vec<Instant>,
    link: Link,
    pipe: Option<Pipe>,
    starts: Vec<Start>,
    steps: u64,
    /// URLs of all clients that have not come to an end.
    open: Option<u64>,
    ended: Option<Instant>,
    sampling: Option<Sampling>,
}

#[derive(Clone, Debug)]
struct Sampling {
    every: Duration,
    next: Instant,
    hosts: Vec<usize>,
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        policy: &str,
        run: Run,
        options: &RunOptions,
        kept: &[Vec<Kept>],
    ) -> Result<Self, Error> {
        let time = options.time.unwrap_or(scenario.time);
        let end = Instant::ZERO.after(time);
        let clients = &scenario.clients;
        let built = build(scenario, run)?;
        let parties = parties(scenario, policy, run, kept, &built, time)?;
        let Built { names, hosts, rows } = built;
        let lists = names.len() as u64 * u64::from(clients.count.get());
        let every = (time / SAMPLES).max(Duration::from_millis(1));
        let sampled: Vec<usize> = if options.samples { (0..hosts.len()).collect() } else { Vec::new() };
        Ok(Self {
            scenario,
            now: Instant::ZERO,
            end,
            events: Events::default(),
            flights: Flights::default(),
            far_end: FarEnd::new(hosts, rows, clients.count.get() as usize, end, &sampled),
            wakes: vec![Instant::ZERO; parties.len()],
            parties,
            link: Link::new(&scenario.network, run.dice(NETWORK)),
            pipe: scenario.uplink.as_ref().map(Pipe::new),
            starts: Vec::new(),
            steps: 0,
            open: clients.urls.map(|urls| urls * lists),
            ended: None,
            sampling: options.samples.then_some(Sampling { every, next: Instant::ZERO, hosts: sampled }),
        })
    }

    /// Samples are taken at these hosts and at no others.
    fn sample_only(&mut self, hosts: &[usize]) {
        self.far_end.sample_only(hosts);
        if let Some(sampling) = &mut self.sampling {
            sampling.hosts = hosts.to_vec();
        }
    }

    /// Goes on until time is up, or nothing is left to do.
    fn go(&mut self) {
        loop {
            let event = self.events.next_at();
            let (party, wake) = self.next_wake();
            let next = event.min(wake);
            if next >= self.end {
                self.passes(self.end);
                self.now = self.end;
                return;
            }
            self.passes(next);
            self.now = next;
            self.steps += 1;
            if event <= wake {
                if let Some(event) = self.events.pop() {
                    self.happens(event);
                }
            } else {
                self.pump(party);
            }
            if self.open == Some(0) {
                self.ended = Some(self.now);
                return;
            }
        }
    }

    fn next_wake(&self) -> (usize, Instant) {
        let mut first = (0, Instant::FAR);
        for (party, wake) in self.wakes.iter().enumerate() {
            if *wake < first.1 {
                first = (party, *wake);
            }
        }
        first
    }

    /// Time passes until an instant: minutes end, samples are taken.
    fn passes(&mut self, until: Instant) {
        if until >= self.far_end.next_minute() {
            self.far_end.passes(until);
        }
        let Some(sampling) = &mut self.sampling else { return };
        while sampling.next < until {
            let now = sampling.next;
            sampling.next = now.after(sampling.every);
            for &host in &sampling.hosts {
                let sample = self.parties[0].sample(now, host as u32);
                self.far_end.row(host).samples.push(sample);
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives(flight) => self.arrives(flight),
            Event::Uplink(flight) => self.enters_uplink(flight),
            Event::Answered(flight) => self.answered(flight),
            Event::Read(party) => {
                self.parties[party as usize].worker_free();
                self.pump(party as usize);
            }
        }
    }

    /// A party lets start what may.
    fn pump(&mut self, party: usize) {
        let mut starts = core::mem::take(&mut self.starts);
        self.parties[party].pump(self.now, &mut starts);
        self.wakes[party] = self.parties[party].wake(self.now);
        for start in starts.drain(..) {
            self.starts(party, start);
        }
        self.starts = starts;
    }

    fn starts(&mut self, party: usize, start: Start) {
        let fortune = self.link.fortune();
        let way = self.link.way();
        let status = match fortune {
            Fortune::Lost | Fortune::AnswerLost => Err(NoAnswer::TimedOut),
            Fortune::Reset => Err(NoAnswer::Reset),
            Fortune::Arrives => Ok(0),
        };
        let flight = self.flights.add(Flight { start, at: self.now, party: party as u32, status, fields: Vec::new() });
        if fortune == Fortune::Lost {
            self.times_out(flight, self.now);
        } else if way.is_zero() {
            self.arrives(flight);
        } else {
            self.events.push(self.now.after(way), Event::Arrives(flight));
        }
    }

    fn arrives(&mut self, number: u32) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let host = flight.start.host as usize;
        let reply = self.far_end.arrives(self.now, host, flight.start.client);
        let started = flight.at;
        match flight.status {
            Err(NoAnswer::TimedOut) => return self.times_out(number, started),
            Err(_) => {}
            Ok(_) => {
                flight.status = reply.status.ok_or(NoAnswer::Reset);
                flight.fields = reply.fields;
            }
        }
        let at = self.now.after(reply.after).after(self.link.way());
        if at > started.after(self.scenario.clients.attempt_timeout) {
            self.times_out(number, started);
        } else if self.pipe.is_some() {
            self.events.push(at, Event::Uplink(number));
        } else {
            self.events.push(at, Event::Answered(number));
        }
    }

    /// Nobody hears of a request again until its client has waited long enough.
    fn times_out(&mut self, number: u32, started: Instant) {
        if let Some(flight) = self.flights.get_mut(number) {
            flight.status = Err(NoAnswer::TimedOut);
        }
        // Where one way alone takes longer, it is over already.
        let at = started.after(self.scenario.clients.attempt_timeout).max(self.now);
        self.events.push(at, Event::Answered(number));
    }

    fn enters_uplink(&mut self, number: u32) {
        let (Some(pipe), Some(flight)) = (&mut self.pipe, self.flights.get_mut(number)) else { return };
        let (started, party) = (flight.at, flight.party);
        match pipe.enters(self.now) {
            Some((first, last)) if first <= started.after(self.scenario.clients.attempt_timeout) => {
                self.events.push(first, Event::Answered(number));
                self.events.push(last, Event::Read(party));
            }
            _ => self.times_out(number, started),
        }
    }

    fn answered(&mut self, number: u32) {
        let Some(flight) = self.flights.remove(number) else { return };
        let party = flight.party as usize;
        let host = flight.start.host as usize;
        let answer = Answer { started: flight.at, status: flight.status, fields: &flight.fields };
        let fate = self.parties[party].answered(self.now, &flight.start, &answer);
        match flight.status {
            Ok(..400) => self.far_end.seen(host, self.now.since(flight.at)),
            Ok(429 | 503) => {}
            _ => self.far_end.failed(host),
        }
        match fate {
            Fate::Got => self.far_end.row(host).got += 1,
            Fate::GivenUp => self.far_end.row(host).given_up += 1,
            Fate::Again => {}
        }
        if let (Some(open), Fate::Got | Fate::GivenUp) = (&mut self.open, fate) {
            *open -= 1;
        }
        // Where answers go through an uplink, a worker reads them to their end.
        if self.pipe.is_none() || flight.status == Err(NoAnswer::TimedOut) {
            self.parties[party].worker_free();
        }
        self.pump(party);
    }

    fn outcome(self, policy: &str, seed: u64) -> Outcome {
        let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        let (parties, now) = (&self.parties, self.now);
        let hosts = self.far_end.outcome(self.now).into_iter().map(|(host, mut outcome)| {
            (outcome.learned, outcome.bimodal) = parties[0].learned(now, host as u32);
            outcome
        });
        Outcome {
            scenario: self.scenario.name.clone(),
            policy: policy.to_owned(),
            seed,
            seconds: seconds(self.now),
            events: self.steps,
            ended: self.ended.map(seconds),
            hosts: hosts.collect(),
            uplink: self.pipe.map(|pipe| pipe.outcome(self.now)),
        }
    }
}

/// The most hosts of a run that are sampled: as many as anybody looks at.
pub const MOST_SAMPLED: usize = 20;
/// Samples of a run.
const SAMPLES: u32 = 600;
