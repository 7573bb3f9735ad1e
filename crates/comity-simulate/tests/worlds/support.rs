//! Small worlds to run.

use comity_simulate::outcome::{HostOutcome, Outcome};
use comity_simulate::scenario::Scenario;
use comity_simulate::world::{RunOptions, run};

/// A bucket of ten a second, and what is said besides.
pub(crate) fn bucket(rest: &str) -> String {
    format!(
        "name = 'small'\ntime = '120s'\n[[host]]\nname = 'api.example'\nkind = 'bucket'\nrate = '10/s'\nburst = 20\n{rest}"
    )
}

/// One of the files of scenarios.
pub(crate) fn file(name: &str) -> Scenario {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Scenario::read(path.as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn scenario(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn outcome(text: &str, policy: &str, seed: u64) -> Outcome {
    let options = RunOptions { samples: true, ..RunOptions::default() };
    run(&scenario(text), policy, seed, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// The only host of a world.
pub(crate) fn host(text: &str, policy: &str) -> HostOutcome {
    let outcome = outcome(text, policy, 1);
    assert_eq!(outcome.hosts.len(), 1);
    outcome.hosts[0].clone()
}

pub(crate) fn arrived(host: &HostOutcome) -> u64 {
    host.minutes.iter().map(|minute| minute.arrived).sum()
}

pub(crate) fn failed(host: &HostOutcome) -> u64 {
    host.minutes.iter().map(|minute| minute.failed).sum()
}

pub(crate) fn refused(host: &HostOutcome) -> u64 {
    host.minutes.iter().map(|minute| minute.refused).sum()
}
