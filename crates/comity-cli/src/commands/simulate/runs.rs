//! Runs, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use comity::clock::Clock;
use comity_simulate::outcome::Outcome;
use comity_simulate::scenario::Scenario;
use comity_simulate::world::{self, RunOptions};

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) policy: &'a str,
    pub(super) seed: u64,
    pub(super) options: RunOptions,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// How long it took one core.
    pub(super) took: Duration,
}

/// Runs all, as many at a time as there are cores, and hands back the results in the jobs' order. `done` hears of each run
/// that ended.
///
/// # Errors
/// The first run's that cannot be carried out; no other is begun then.
pub(super) fn all(jobs: &[Job<'_>], mut done: impl FnMut(&Job<'_>)) -> Result<Vec<Ran>> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let mut ran: Vec<Option<Ran>> = jobs.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for _ in 0..cores {
            let (tell, next) = (tell.clone(), &next);
            scope.spawn(move || {
                while let Some((nth, job)) = take(jobs, next) {
                    if tell.send((nth, run(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        for (nth, result) in told {
            // What is left of `told` goes with this function, and the others stop at their next run.
            ran[nth] = Some(result?);
            done(&jobs[nth]);
        }
        anyhow::Ok(())
    })?;
    ran.into_iter().map(|ran| ran.context("a run ended without a result")).collect()
}

fn take<'a, 'b>(jobs: &'a [Job<'b>], next: &AtomicUsize) -> Option<(usize, &'a Job<'b>)> {
    let nth = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(nth).map(|job| (nth, job))
}

fn run(job: &Job<'_>) -> Result<Ran> {
    let clock = Clock::start();
    let begun = clock.now();
    let outcome = world::run(job.scenario, job.policy, job.seed, &job.options)
        .with_context(|| format!("cannot run {} with {}", job.scenario.name, job.policy))?;
    Ok(Ran { outcome, took: clock.now().since(begun) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: &str =
        "name = 'ten'\ntime = '5s'\n[[host]]\nname = 'a.example'\nkind = 'bucket'\nrate = '10/s'\nburst = 5";

    fn jobs<'a>(scenario: &'a Scenario, policy: &'a str) -> Vec<Job<'a>> {
        (1..=9).map(|seed| Job { scenario, policy, seed, options: RunOptions::default() }).collect()
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let scenario = Scenario::parse(TEN).unwrap();
        let mut heard = 0;
        let ran = all(&jobs(&scenario, "adaptive"), |_| heard += 1).unwrap();
        let seeds: Vec<u64> = ran.iter().map(|ran| ran.outcome.seed).collect();
        assert_eq!((seeds, heard), ((1..=9).collect(), 9));
        assert!(all(&[], |_| {}).unwrap().is_empty());
    }

    #[test]
    fn a_run_that_cannot_be_carried_out_is_named() {
        let scenario = Scenario::parse(TEN).unwrap();
        let error = all(&jobs(&scenario, "nobody"), |_| {}).unwrap_err();
        assert!(format!("{error:#}").contains("ten") && format!("{error:#}").contains("nobody"), "{error:#}");
    }
}
