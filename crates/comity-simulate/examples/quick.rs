//! Runs one scenario with some policies and prints how they did: `quick FILE [POLICY,POLICY…] [SEEDS]`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to the person who runs it")]

use std::path::Path;
use std::process::ExitCode;

use comity_simulate::outcome::{HostOutcome, Outcome};
use comity_simulate::scenario::Scenario;
use comity_simulate::world::{RunOptions, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(file) = arguments.first() else {
        eprintln!("usage: quick FILE [POLICY,POLICY…] [SEEDS]");
        return ExitCode::FAILURE;
    };
    match print(file, arguments.get(1), arguments.get(2)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(file: &str, policies: Option<&String>, seeds: Option<&String>) -> Result<(), Box<dyn std::error::Error>> {
    let scenario = Scenario::read(Path::new(file))?;
    let policies: Vec<String> =
        policies.map_or_else(|| scenario.policies.clone(), |names| names.split(',').map(str::to_owned).collect());
    let seeds: u64 = seeds.map_or(Ok(u64::from(scenario.seeds.get())), |seeds| seeds.parse())?;
    println!("{}: {}", scenario.name, scenario.about);
    println!(
        "{:<20} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>7} {:>7} {:>8} {:>7} {:>8} {:>9}",
        "policy",
        "used 2+",
        "poss. 2+",
        "used",
        "refused",
        "refusals",
        "failed",
        "queue",
        "wait",
        "p95 ms",
        "got",
        "ended",
        "Mevents/s"
    );
    for policy in &policies {
        let begun = now();
        let outcomes = (1..=seeds)
            .map(|seed| run(&scenario, policy, seed, &RunOptions::default()))
            .collect::<Result<Vec<Outcome>, _>>()?;
        let took = begun.elapsed().as_secs_f64();
        let mean = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64;
        let over_hosts = |of: &dyn Fn(&HostOutcome) -> f64| {
            mean(&|outcome| outcome.hosts.iter().map(of).sum::<f64>() / outcome.hosts.len().max(1) as f64)
        };
        let count = |of: &dyn Fn(&HostOutcome) -> f64| mean(&|outcome| outcome.hosts.iter().map(of).sum());
        let ended = mean(&|outcome| outcome.ended.unwrap_or(f64::NAN));
        println!(
            "{policy:<20} {:>8.2}% {:>8.2}% {:>8.2}% {:>8.3}% {:>8.1} {:>8.1} {:>7.2} {:>7.2} {:>8.1} {:>7.0} {ended:>8.1} {:>9.2}",
            100.0 * over_hosts(&|host| host.used(1)),
            100.0 * over_hosts(&HostOutcome::used_of_possible),
            100.0 * over_hosts(&|host| host.used(0)),
            100.0 * over_hosts(&HostOutcome::refused_share),
            count(&|host| host.minutes.iter().map(|minute| minute.refused).sum::<u64>() as f64),
            count(&|host| host.minutes.iter().map(|minute| minute.failed).sum::<u64>() as f64),
            over_hosts(&|host| host.queue),
            over_hosts(&|host| host.wait),
            1000.0 * over_hosts(&|host| host.latency_p95),
            count(&|host| host.got as f64),
            outcomes.iter().map(|outcome| outcome.events).sum::<u64>() as f64 / took / 1e6,
        );
        if let Some(uplink) = outcomes.first().and_then(|outcome| outcome.uplink) {
            println!("  uplink: {:.1} % used, {:.3} s wait, {} lost", 100.0 * uplink.used, uplink.wait, uplink.lost);
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how fast the simulator is, is measured on the real clock")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
