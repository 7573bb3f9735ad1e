//! The hosts, and what they saw.

use core::cmp::Reverse;
use core::time::Duration;

use comity_core::time::Instant;
use rand_pcg::Pcg64Mcg;

use super::latencies::Latencies;
use crate::hosts::{ClientId, Host, Reply};
use crate::outcome::{HostOutcome, Minute};

/// All hosts.
#[derive(Debug)]
pub(super) struct FarEnd {
    hosts: Vec<Asked>,
    rows: Vec<Row>,
    /// When the present minute began.
    minute: Instant,
    minutes: usize,
    end: Instant,
}

/// A host with its own dice, so that what one host does changes nothing at another.
#[derive(Debug)]
struct Asked {
    host: Box<dyn Host>,
    rng: Pcg64Mcg,
    row: usize,
    asked: bool,
    /// Whether its refusals are noted one by one.
    sampled: bool,
}

/// What an outcome tells of.
#[derive(Debug, Default)]
struct Row {
    outcome: HostOutcome,
    latencies: Latencies,
    asked: bool,
}

impl FarEnd {
    /// Hosts, each with its dice and the row it is told in; rows by their names.
    pub(super) fn new(
        hosts: Vec<(Box<dyn Host>, Pcg64Mcg, usize)>,
        rows: Vec<String>,
        clients: usize,
        end: Instant,
        sampled: &[usize],
    ) -> Self {
        let row = |name| Row {
            outcome: HostOutcome { name, served_by_client: vec![0; clients], ..HostOutcome::default() },
            ..Row::default()
        };
        let hosts =
            hosts.into_iter().map(|(host, rng, row)| Asked { host, rng, row, asked: false, sampled: false }).collect();
        let mut far_end =
            Self { hosts, rows: rows.into_iter().map(row).collect(), minute: Instant::ZERO, minutes: 0, end };
        far_end.sample_only(sampled);
        far_end.begin_minute(Instant::ZERO);
        far_end
    }

    /// How many hosts there are.
    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Refusals are noted at these hosts.
    pub(super) fn sample_only(&mut self, hosts: &[usize]) {
        self.hosts.iter_mut().for_each(|host| host.sampled = false);
        for host in hosts {
            self.hosts[*host].sampled = true;
        }
    }

    /// The hosts that most requests came to, so many at most, in their order.
    pub(super) fn busiest(&self, most: usize) -> Vec<usize> {
        let arrived = |host: &usize| {
            let minutes = &self.rows[self.hosts[*host].row].outcome.minutes;
            minutes.iter().map(|minute| minute.arrived).sum::<u64>()
        };
        let mut hosts: Vec<usize> = (0..self.hosts.len()).collect();
        hosts.sort_by_cached_key(|host| Reverse(arrived(host)));
        hosts.truncate(most);
        hosts.sort_unstable();
        hosts
    }

    /// When the present minute ends.
    pub(super) fn next_minute(&self) -> Instant {
        self.minute.after(MINUTE)
    }

    /// Time goes on: minutes end and begin.
    pub(super) fn passes(&mut self, now: Instant) {
        while self.next_minute() <= now && self.next_minute() < self.end {
            let next = self.next_minute();
            self.end_minute(next);
            self.begin_minute(next);
        }
    }

    /// A request arrives.
    pub(super) fn arrives(&mut self, now: Instant, host: usize, client: u32) -> Reply {
        let Asked { host, rng, row, asked, sampled } = &mut self.hosts[host];
        *asked = true;
        let reply = host.arrives(now, ClientId(client), rng);
        let row = &mut self.rows[*row];
        row.asked = true;
        let minutes = &mut row.outcome.minutes;
        let this = &mut minutes[self.minutes - 1];
        this.arrived += 1;
        match reply.status {
            Some(status) if status < 400 => {
                // Served is what has left it: what still waits in its queue is not.
                let left = now.after(reply.after);
                if left < self.end {
                    let at = (left.as_nanos() / MINUTE.as_nanos() as u64) as usize;
                    if at >= minutes.len() {
                        minutes.resize(at + 1, Minute::default());
                    }
                    minutes[at].served += 1;
                    row.outcome.served_by_client[client as usize] += 1;
                }
            }
            Some(429 | 503) => {
                this.refused += 1;
                if *sampled {
                    row.outcome.refusals.push(now.since(Instant::ZERO).as_secs_f64());
                }
            }
            // What else comes of it is known when its client hears of it, or does not.
            _ => {}
        }
        reply
    }

    /// The row a host is told in.
    pub(super) fn row(&mut self, host: usize) -> &mut HostOutcome {
        &mut self.rows[self.hosts[host].row].outcome
    }

    /// A request came to nothing: an error other than a refusal, or no answer. It may never have arrived here.
    pub(super) fn failed(&mut self, host: usize) {
        let Asked { row, asked, .. } = &mut self.hosts[host];
        *asked = true;
        let row = &mut self.rows[*row];
        row.asked = true;
        row.outcome.minutes[self.minutes - 1].failed += 1;
    }

    /// A client saw the first byte of a served answer.
    pub(super) fn seen(&mut self, host: usize, latency: Duration) {
        self.rows[self.hosts[host].row].latencies.add(latency);
    }

    /// Rows of hosts that were asked, each with the first of its hosts.
    pub(super) fn outcome(mut self, now: Instant) -> Vec<(usize, HostOutcome)> {
        self.end_minute(now);
        let seconds = now.since(Instant::ZERO).as_secs_f64();
        let mut met = vec![(None, 0u64, 0.0, 0.0); self.rows.len()];
        for (n, asked) in self.hosts.iter().enumerate().filter(|(_, host)| host.asked) {
            let queued = asked.host.queue();
            let (first, requests, waited, service) = &mut met[asked.row];
            first.get_or_insert(n);
            *requests += queued.requests;
            *waited += queued.waited.as_secs_f64();
            *service += queued.service.as_secs_f64() * queued.requests as f64;
        }
        let mut outcomes = Vec::new();
        for (row, (first, requests, waited, service)) in self.rows.into_iter().zip(met) {
            let (Some(first), true) = (first, row.asked) else { continue };
            let mut outcome = row.outcome;
            outcome.minutes.truncate(self.minutes);
            outcome.queue = if seconds > 0.0 { waited / seconds } else { 0.0 };
            outcome.wait = if requests > 0 && service > 0.0 { waited / service } else { 0.0 };
            outcome.latency_p95 = row.latencies.quantile(0.95);
            outcomes.push((first, outcome));
        }
        outcomes
    }

    fn begin_minute(&mut self, now: Instant) {
        self.minute = now;
        self.minutes += 1;
        for row in &mut self.rows {
            if row.outcome.minutes.len() < self.minutes {
                row.outcome.minutes.resize(self.minutes, Minute::default());
            }
        }
        let until = self.next_minute().min(self.end);
        for host in &self.hosts {
            let outcome = &mut self.rows[host.row].outcome;
            outcome.minutes[self.minutes - 1].possible += host.host.possible(now, until);
            if self.minutes == 1 {
                // Nobody of ours has asked yet: this is what is possible whatever a policy does.
                outcome.possible_in_all += host.host.possible(now, self.end);
                outcome.possible_later += host.host.possible(until, self.end);
            }
        }
    }

    /// The present minute ends at `now`, which is sooner than planned where a run is over.
    fn end_minute(&mut self, now: Instant) {
        let planned = self.next_minute().min(self.end).since(self.minute).as_secs_f64();
        let part = if planned > 0.0 { (now.since(self.minute).as_secs_f64() / planned).min(1.0) } else { 1.0 };
        for row in &mut self.rows {
            row.outcome.minutes[self.minutes - 1].possible *= part;
        }
        for host in &self.hosts {
            let minute = &mut self.rows[host.row].outcome.minutes[self.minutes - 1];
            minute.capacity += host.host.capacity(self.minute, now);
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);
