//! `comity simulate`: policies in virtual worlds of hosts with hidden limits.

mod builtin;
mod list;
mod pick;
mod progress;
mod runs;

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comity_fetch::keep::write_atomically;
use comity_simulate::outcome::Outcome;
use comity_simulate::picture::{html, svg};
use comity_simulate::report::{Report, World};
use comity_simulate::scenario::{Report as Told, Scenario};
use comity_simulate::table::Table;
use comity_simulate::world::RunOptions;

use crate::exit::Exit;
use crate::flags::simulate::{ShownFlags, WorldFlags};
use crate::screen::print;
use progress::Progress;
use runs::{Job, Ran};

/// Tell policies apart in virtual worlds of hosts with hidden limits
///
/// The worlds run in virtual time, from seeds: ten minutes take a fraction of a second, and the same seed gives the same run.
/// Our own policies are run by the code that paces real requests; what is counted is what the hosts received. Nothing is
/// sent.
#[derive(Debug, Args)]
pub(crate) struct SimulateCommand {
    #[command(flatten)]
    worlds: WorldFlags,
    #[command(flatten)]
    shown: ShownFlags,
}

impl SimulateCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        if self.shown.list {
            print(&list::text()?)?;
            return Ok(Exit::Done);
        }
        self.shown.check()?;
        let scenarios = pick::scenarios(&self.worlds.scenarios)?;
        let mut picked = Vec::new();
        for scenario in &scenarios {
            picked.push((scenario, pick::policies(&self.worlds.policies, scenario)?));
        }
        let jobs = self.jobs(&picked);
        let mut progress = Progress::new(!self.shown.quiet && std::io::stderr().is_terminal(), jobs.len());
        let ran = runs::all(&jobs, |job| progress.done(job));
        progress.clear();
        let ran = ran?;
        let speed = self.shown.events.then(|| speed(&jobs, &ran));
        self.show(report(&picked, &jobs, ran, self.worlds.time), speed)?;
        Ok(Exit::Done)
    }

    /// What is to be run, scenario by scenario, policy by policy, seed by seed.
    fn jobs<'a>(&self, picked: &'a [(&'a Scenario, Vec<String>)]) -> Vec<Job<'a>> {
        let mut jobs = Vec::new();
        for (scenario, policies) in picked {
            let drawable = self.shown.draws() && scenario.report == Told::Each;
            for (nth, policy) in policies.iter().enumerate() {
                let drawn = drawable && (nth == 0 || picked.len() == 1);
                for (nth_seed, seed) in self.worlds.seeds(scenario.seeds_of(policy)).enumerate() {
                    let options = RunOptions { samples: drawn && nth_seed == 0, time: self.worlds.time };
                    jobs.push(Job { scenario, policy, seed, options });
                }
            }
        }
        jobs
    }

    fn show(&self, report: Report, speed: Option<String>) -> Result<()> {
        if let Some(path) = self.shown.picture() {
            write_atomically(path, svg(&report).as_bytes())?;
        }
        if let Some(path) = self.shown.html() {
            write_atomically(path, html(&report).as_bytes())?;
        }
        if self.shown.json {
            let worlds = report.worlds.into_iter().map(|world| world.cut_to(TOLD_HOSTS)).collect();
            print(&format!("{}\n", serde_json::to_string_pretty(&Report { worlds })?))?;
        } else {
            print(&Table { report: &report, spread: self.shown.spread }.to_string())?;
            print(&speed.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Puts the outcomes together by world.
fn report(picked: &[(&Scenario, Vec<String>)], jobs: &[Job<'_>], ran: Vec<Ran>, time: Option<Duration>) -> Report {
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); picked.len()];
    for (job, ran) in jobs.iter().zip(ran) {
        if let Some(world) = picked.iter().position(|(scenario, _)| std::ptr::eq(*scenario, job.scenario)) {
            outcomes[world].push(ran.outcome);
        }
    }
    let worlds = picked.iter().zip(outcomes).map(|((scenario, _), runs)| World::of(scenario, time, runs));
    Report { worlds: worlds.collect() }
}

/// Events of each policy in each world, and of all.
fn speed(jobs: &[Job<'_>], ran: &[Ran]) -> String {
    let mut rows: Vec<(String, u64, Duration)> = Vec::new();
    let names = jobs.iter().map(|job| format!("{} {}", job.scenario.name, job.policy));
    for (name, Ran { outcome, took }) in names.zip(ran) {
        match rows.last_mut().filter(|(last, ..)| *last == name) {
            Some((_, events, whole)) => (*events, *whole) = (*events + outcome.events, *whole + *took),
            None => rows.push((name, outcome.events, *took)),
        }
    }
    let whole = rows.iter().fold((0, Duration::ZERO), |whole, row| (whole.0 + row.1, whole.1 + row.2));
    rows.push(("all".to_owned(), whole.0, whole.1));
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or_default();
    let mut text = format!("\n{:width$} {:>13} {:>9} {:>15}\n", "", "events", "seconds", "events a second");
    for (name, events, took) in rows {
        let seconds = took.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with few digits")]
        let rate = if seconds > 0.0 { events as f64 / seconds } else { 0.0 };
        text.push_str(&format!("{name:width$} {events:>13} {seconds:>9.2} {rate:>15.0}\n"));
    }
    text
}

/// Hosts of a run that the JSON tells of, so that a crawl of many can be read; the figures are those of all.
const TOLD_HOSTS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::schema::check;

    fn command(words: &[&str]) -> SimulateCommand {
        crate::flags::testing::parse(&[words, &["--picture", "a.svg"]].concat()).unwrap()
    }

    fn reported(words: &[&str]) -> Report {
        let command = command(words);
        let scenarios = pick::scenarios(&command.worlds.scenarios).unwrap();
        let policies = |scenario| pick::policies(&command.worlds.policies, scenario).unwrap();
        let picked: Vec<_> = scenarios.iter().map(|scenario| (scenario, policies(scenario))).collect();
        let jobs = command.jobs(&picked);
        let ran = runs::all(&jobs, |_| {}).unwrap();
        report(&picked, &jobs, ran, command.worlds.time)
    }

    #[test]
    fn the_json_is_as_its_schema_says() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../../../schema/simulate.schema.json")).unwrap();
        let policies = ["--policy", "adaptive", "--policy", "curl 100ms", "--policy", "lychee"];
        let worlds = ["bucket-10", "arm-bucket-10-20", "uplink", "--seeds", "2", "--time", "70s"];
        let report = reported(&[&worlds[..], &policies].concat());
        let written = serde_json::to_value(&report).unwrap();
        check(&schema, &schema, &written, "simulate");
        assert!(
            written["worlds"][0]["plane"].is_object()
                && written["worlds"][2]["arms"][0]["runs"][0]["uplink"].is_object()
        );
        let sampled = |arm: usize, run: usize| {
            written["worlds"][0]["arms"][arm]["runs"][run]["hosts"][0]["samples"].as_array().unwrap().len()
        };
        assert!(sampled(0, 0) > 100, "the first seed of the first policy is drawn");
        assert_eq!((sampled(0, 1), sampled(1, 0)), (0, 0), "and nothing else");
    }

    #[test]
    fn what_costs_as_much_as_hundreds_of_runs_is_run_once_and_it_is_said() {
        let words = ["bucket-1", "--time", "1s", "--policy", "fixed", "--policy", "gradient2"];
        let runs = |words: &[&str]| -> Vec<usize> {
            reported(words).worlds[0].arms.iter().map(|arm| arm.runs.len()).collect()
        };
        assert_eq!(runs(&words), [10, 1]);
        assert_eq!(runs(&[&words[..], &["--seeds", "2"]].concat()), [2, 2]);
        let table = Table { report: &reported(&words), spread: false }.to_string();
        assert!(table.contains("\ngradient2 was run from 1 of 10 seeds"), "{table}");
    }

    #[test]
    fn one_scenario_draws_every_policy() {
        let report =
            reported(&["bucket-10", "--seeds", "1", "--time", "10s", "--policy", "adaptive", "--policy", "aimd"]);
        assert!(report.worlds[0].arms.iter().all(|arm| !arm.runs[0].hosts[0].samples.is_empty()));
    }

    #[test]
    fn a_thousand_hosts_are_drawn_by_the_busiest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("many.toml");
        let text = "name = 'many'\ntime = '20s'\n[[host]]\nname = 'h{}.example'\nhosts = 1000\nkind = 'bucket'\nrate = '1/s'\nburst = 5\n";
        std::fs::write(&path, text).unwrap();
        let report = reported(&[path.to_str().unwrap(), "--seeds", "1"]);
        let hosts = &report.worlds[0].arms[0].runs[0].hosts;
        assert_eq!((hosts.len(), hosts.iter().filter(|host| !host.samples.is_empty()).count()), (1000, 20));
        assert!(svg(&report).contains("These are the 20 busiest of 1000 hosts."));
    }

    #[test]
    fn the_same_seed_gives_the_same_table() {
        let words = ["halves", "--seeds", "2", "--time", "2min", "--policy", "adaptive", "--policy", "scrapy"];
        let table = || Table { report: &reported(&words), spread: true }.to_string();
        assert_eq!(table(), table());
    }

    #[test]
    fn events_are_counted_by_world_and_policy() {
        let command = command(&["bucket-1", "--seeds", "2", "--time", "1min"]);
        let scenarios = pick::scenarios(&command.worlds.scenarios).unwrap();
        let picked = [(&scenarios[0], vec!["adaptive".to_owned()])];
        let jobs = command.jobs(&picked);
        let text = speed(&jobs, &runs::all(&jobs, |_| {}).unwrap());
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines.len() == 4 && lines[2].starts_with("bucket-1 adaptive ") && lines[3].starts_with("all"),
            "{text}"
        );
    }
}
