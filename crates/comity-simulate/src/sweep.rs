//! Many runs, on all cores.

use core::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::world::{Error, RunOptions, run};

/// One run to do.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The policy's name.
    pub policy: &'a str,
    /// The seed.
    pub seed: u64,
}

/// All runs of some scenarios: each with each of its policies (or of `policies`, where any are named) from each seed, counted
/// from 1, up to what it says for the policy (or to `seeds`).
pub fn jobs<'a>(scenarios: &'a [Scenario], policies: &'a [String], seeds: Option<u32>) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for scenario in scenarios {
        let policies = if policies.is_empty() { &scenario.policies } else { policies };
        for policy in policies {
            let seeds = seeds.unwrap_or(scenario.seeds_of(policy).get());
            jobs.extend((1..=u64::from(seeds)).map(|seed| Job { scenario, policy, seed }));
        }
    }
    jobs
}

/// Does them, on so many threads (one a core where it is left out), and tells of each when it is done. The outcomes are in the
/// order of the jobs, however they came.
///
/// # Errors
/// The first of the jobs, in their order, that cannot be run; see [`run`].
pub fn sweep(
    jobs: &[Job<'_>],
    threads: Option<NonZeroUsize>,
    options: &RunOptions,
    done: &(dyn Fn(&Outcome) + Sync),
) -> Result<Vec<Outcome>, Error> {
    let cores = threads.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let came: Mutex<Vec<(usize, Result<Outcome, Error>)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(nth) else { return };
                    let outcome = run(job.scenario, job.policy, job.seed, options);
                    if let Ok(outcome) = &outcome {
                        done(outcome);
                    }
                    came.lock().unwrap_or_else(PoisonError::into_inner).push((nth, outcome));
                }
            });
        }
    });
    let mut came = came.into_inner().unwrap_or_else(PoisonError::into_inner);
    came.sort_by_key(|(nth, _)| *nth);
    came.into_iter().map(|(_, outcome)| outcome).collect()
}
