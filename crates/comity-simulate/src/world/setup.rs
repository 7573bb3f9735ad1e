//! What a world begins with: hosts and clients, each with dice of its own.

use core::num::NonZeroU32;
use core::time::Duration;

use comity_core::limits::Limits;
use comity_core::time::Instant;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Error;
use crate::baselines;
use crate::clients::{Beginning, Kept, Others, Ours, Party, is_one_list};
use crate::hosts::{Groups, Host};
use crate::scenario::{Report, Scenario, ScenarioError, policy_names};

/// Which run of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    /// 0 for the first, 1 for the one that remembers it.
    pub(super) nth: u64,
}

impl Run {
    /// Dice for one thing in this run, independent of all others.
    pub(super) fn dice(self, thing: u64) -> Pcg64Mcg {
        let stream = thing.wrapping_mul(2).wrapping_add(self.nth);
        Pcg64Mcg::seed_from_u64(self.seed.wrapping_mul(SPREAD).wrapping_add(stream.wrapping_mul(SPREAD_TOO)))
    }
}

/// The hosts of a scenario.
pub(super) struct Built {
    pub(super) names: Vec<String>,
    /// Each host, with its dice and its row.
    pub(super) hosts: Vec<(Box<dyn Host>, Pcg64Mcg, usize)>,
    /// The rows' names.
    pub(super) rows: Vec<String>,
}

/// Builds them, each with dice of its own.
pub(super) fn build(scenario: &Scenario, run: Run) -> Result<Built, Error> {
    let mut built = Built { names: Vec::new(), hosts: Vec::new(), rows: Vec::new() };
    let mut groups = Groups::default();
    if scenario.report == Report::Together {
        built.rows.push(ALL_HOSTS.to_owned());
    }
    for entry in &scenario.hosts {
        for (nth, name) in entry.names().enumerate() {
            let mut dice = run.dice(FIRST_HOST + built.hosts.len() as u64);
            let host = entry
                .model(nth)
                .build(dice.next_u64(), &mut groups)
                .map_err(|why| Error::Model(ScenarioError::Host { name: name.clone(), why }))?;
            let row = match scenario.report {
                Report::Together => 0,
                Report::Each => {
                    built.rows.push(name.clone());
                    built.rows.len() - 1
                }
            };
            built.hosts.push((host, dice, row));
            built.names.push(name);
        }
    }
    Ok(built)
}

/// The clients of a scenario: those that share a store together, others each by itself.
pub(super) fn parties(
    scenario: &Scenario,
    policy: &str,
    run: Run,
    kept: &[Vec<Kept>],
    built: &Built,
    time: Duration,
) -> Result<Vec<Party>, Error> {
    let clients = &scenario.clients;
    let workers = clients.in_flight_total.map(NonZeroU32::get);
    let all = clients.count.get();
    if let Some(limits) = clients.limits(policy) {
        let since = if kept.is_empty() { Duration::ZERO } else { time + scenario.age };
        let together = if clients.coordinated { all } else { 1 };
        let ours = |(n, first): (usize, u32)| {
            let beginning = Beginning {
                limits: Limits::clone(&limits),
                names: &built.names,
                clients: first..first + together,
                urls: clients.urls,
                workers,
                guarded: clients.uplink_guard,
                kept: kept.get(n).map(Vec::as_slice).unwrap_or_default(),
                since,
            };
            Ok(Party::Ours(Box::new(Ours::new(beginning)?)))
        };
        return (0..all).step_by(together as usize).enumerate().map(ours).collect();
    }
    let (name, settings) = clients.baseline(policy);
    let mut dice = run.dice(BASELINES);
    let mut parties = Vec::new();
    for client in 0..all {
        let mut paces = Vec::with_capacity(built.hosts.len());
        for (host, ..) in &built.hosts {
            // Each is told its part.
            let capacity =
                host.capacity(Instant::ZERO, Instant::ZERO.after(time)) / time.as_secs_f64() / f64::from(all);
            let settings = baselines::Settings { capacity, seed: dice.next_u64(), ..settings };
            paces.push(baselines::named(name, &settings).ok_or_else(|| no_policy(policy))?);
            if is_one_list(name) {
                break;
            }
        }
        let hosts = built.hosts.len() as u32;
        parties.push(Party::Others(Box::new(Others::new(client, paces, hosts, clients.urls, workers))));
    }
    Ok(parties)
}

fn no_policy(name: &str) -> Error {
    Error::Policy { name: name.to_owned(), allowed: policy_names().join(", ") }
}

/// What has which dice.
pub(super) const NETWORK: u64 = 0;
const BASELINES: u64 = 1;
const FIRST_HOST: u64 = 2;
/// What all hosts together are called in an outcome.
const ALL_HOSTS: &str = "all hosts";
/// Odd numbers without a pattern (from the golden ratio and from the square root of 3), so that neighbouring seeds and
/// things have dice that have nothing in common.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const SPREAD_TOO: u64 = 0xbb67_ae85_84ca_a73b;
