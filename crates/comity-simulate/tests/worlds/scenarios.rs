//! The files of scenarios, and what is said of one that makes no sense.

use core::num::NonZeroU32;
use core::time::Duration;
use std::path::PathBuf;

use comity_simulate::baselines;
use comity_simulate::scenario::{OWN_POLICIES, Scenario};
use comity_simulate::world::{RunOptions, run};

use crate::support::bucket;

fn files() -> std::io::Result<Vec<PathBuf>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut files = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

#[test]
fn every_file_is_a_scenario_of_its_name_and_runs_with_every_policy() {
    let files = files().unwrap();
    assert!(files.len() > 40, "{}", files.len());
    for file in files {
        let mut scenario = Scenario::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(file.file_stem().and_then(|stem| stem.to_str()), Some(&*scenario.name));
        assert!(!scenario.about.is_empty(), "{} says what it is about", scenario.name);
        for host in &mut scenario.hosts {
            host.hosts = host.hosts.min(MANY);
        }
        let options = RunOptions { samples: true, time: Some(Duration::from_secs(2)) };
        let others = baselines::NAMES.iter().map(|(name, ..)| *name);
        for policy in scenario.policies.iter().map(String::as_str).chain(OWN_POLICIES).chain(others) {
            let outcome = run(&scenario, policy, 1, &options).unwrap_or_else(|e| panic!("{}: {e}", scenario.name));
            let arrived: u64 = outcome.hosts.iter().flat_map(|host| &host.minutes).map(|minute| minute.arrived).sum();
            assert!(arrived > 0, "{} with {policy}: nobody asks", scenario.name);
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_key_value_and_what_is_allowed() {
    let cases = [
        (bucket("").replace("'120s'", "'soon'"), &["time", "soon", "500ms"][..]),
        (bucket("").replace("'120s'", "'0s'"), &["time"]),
        (format!("tiem = '1s'\n{}", bucket("")), &["tiem", "expected", "time"]),
        (format!("report = 'all'\n{}", bucket("")), &["all", "each", "together"]),
        (bucket("").replace("name = 'api.example'", ""), &["name"]),
        (bucket("").replace("'bucket'", "'barrel'"), &["api.example", "kind", "barrel", "bucket"]),
        (
            bucket("rat = 1\n"),
            &[
                "api.example",
                "`rat`",
                "name",
                "hosts",
                "kind",
                "behind",
                "rate",
                "burst",
                "sigma",
                "then",
                "crowd",
                "outage",
            ],
        ),
        (bucket("[[host.then]]\nat = '1s'\nrat = 1\n"), &["api.example", "then", "`rat`", "at", "burst", "advice"]),
        (bucket("").replace("kind = 'bucket'", "behind = 'x'\nrat = 1"), &["`rat`", "workers", "burst", "behind"]),
        (format!("policies = ['adaptive', 'fats']\n{}", bucket("")), &["policies", "\"fats\"", "adaptive", "lychee"]),
        (format!("policies = ['curl soon']\n{}", bucket("")), &["policies", "\"curl soon\"", "curl"]),
        (format!("policies = []\n{}", bucket("")), &["policies", "empty"]),
        (
            bucket("[[host]]\nname = 'api.example'\nkind = 'cap'\nin_flight = 1\n"),
            &["host.name", "api.example", "another"],
        ),
        (
            bucket("[[host]]\nname = 'api.exampl{}'\nhosts = 3\nkind = 'cap'\nin_flight = 1\n")
                .replace("'api.example'", "'api.exampl2'"),
            &["host.name", "\"api.exampl2\"", "another"],
        ),
        (bucket("").replace("'api.example'", "'a b'"), &["host.name", "\"a b\""]),
        (bucket("hosts = 0\n"), &["api.example", "hosts", "0"]),
        (bucket("hosts = 3\n"), &["api.example", "name", "{}"]),
        (bucket("").replace("'10/s'", "'0/s'"), &["api.example", "rate"]),
        (bucket("[clients]\nprofile = 'browse'\n"), &["browse", "api", "crawl"]),
        (bucket("[clients]\ncount = 0\n"), &["count", "0"]),
        (bucket("[clients]\nurls = 0\n"), &["clients.urls", "0"]),
        (bucket("[clients]\nworkers = 3\n"), &["workers", "in_flight_total"]),
        (bucket("[network]\nloss = 1.5\n"), &["network.loss", "1.5", "0 to 1"]),
        (bucket("[network]\nlatency = '-1s'\n"), &["latency", "-1s"]),
        (bucket("[uplink]\nbytes_per_second = 0\nanswer_bytes = 1\nqueue = 1\n"), &["uplink.bytes_per_second", "0"]),
        (bucket("[uplink]\nqueue = 1\n"), &["bytes_per_second"]),
        ("name = 'none'\ntime = '1s'\nhost = []\n".to_owned(), &["host"]),
    ];
    for (text, words) in cases {
        let error = Scenario::parse(&text).err().unwrap_or_else(|| panic!("no error:\n{text}")).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{words:?} are not all in:\n{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Scenario::read(&PathBuf::from("/nowhere/at/all.toml")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all.toml"));
}

/// Enough of a kind of host where a scenario has a hundred thousand.
const MANY: NonZeroU32 = NonZeroU32::new(20).unwrap();
