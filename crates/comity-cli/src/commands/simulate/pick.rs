//! Which scenarios and policies are meant.

use std::path::Path;

use anyhow::Result;
use comity_simulate::baselines::NAMES;
use comity_simulate::scenario::{OWN_POLICIES, Scenario, policy_names};

use super::builtin::{self, Builtin};
use crate::exit::Usage;

/// The scenarios of these names and files; those that a policy is judged by where there are none.
pub(super) fn scenarios(given: &[String]) -> Result<Vec<Scenario>> {
    if given.is_empty() {
        return builtin::ALL.iter().filter(|builtin| builtin.judged).map(Builtin::scenario).collect();
    }
    given.iter().map(|given| scenario(given)).collect()
}

fn scenario(given: &str) -> Result<Scenario> {
    if let Some(builtin) = builtin::ALL.iter().find(|builtin| builtin.name == given) {
        return builtin.scenario();
    }
    let wrong = |why: &str| Usage(format!("invalid value '{given}' for '[SCENARIO]...': {why}"));
    let path = Path::new(given);
    if !path.exists() {
        let near = near(given);
        let near = if near.is_empty() { String::new() } else { format!(", such as {}", near.join(", ")) };
        return Err(wrong(&format!("allowed are files and the names that --list prints{near}")).into());
    }
    Scenario::read(path).map_err(|error| wrong(format!("{:#}", anyhow::Error::from(error)).trim_end()).into())
}

/// Names that share the longest beginning with another.
fn near(given: &str) -> Vec<&'static str> {
    let shared = |name: &str| name.chars().zip(given.chars()).take_while(|(a, b)| a == b).count();
    let most = builtin::ALL.iter().map(|builtin| shared(builtin.name)).max().unwrap_or(0);
    let names = builtin::ALL.iter().map(|builtin| builtin.name);
    names.filter(|name| most > 1 && shared(name) == most).take(6).collect()
}

/// The policies of these names, each once; our own default where there are none.
pub(super) fn policies(given: &[String], scenario: &Scenario) -> Result<Vec<String>, Usage> {
    let mut policies: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if !policies.iter().any(|policy| policy == name) {
            policies.push(name.to_owned());
        }
    };
    for name in given {
        match name.as_str() {
            ALL => {
                every().for_each(&mut add);
                scenario.policies.iter().for_each(|policy| add(policy));
            }
            OF_THE_FILE => scenario.policies.iter().for_each(|policy| add(policy)),
            name => add(name),
        }
    }
    if given.is_empty() {
        add(OWN_POLICIES[0]);
    }
    for policy in &policies {
        if !scenario.has_policy(policy) {
            let allowed = format!("allowed are {ALL}, {OF_THE_FILE}, {}", policy_names().join(", "));
            return Err(Usage(format!("invalid value '{policy}' for '--policy <NAME>': {allowed}")));
        }
    }
    Ok(policies)
}

/// Ours and those of other programs.
fn every() -> impl Iterator<Item = &'static str> {
    OWN_POLICIES.into_iter().chain(NAMES.iter().map(|(name, ..)| *name))
}

const ALL: &str = "all";
const OF_THE_FILE: &str = "file";

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn told(result: Result<Vec<Scenario>>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn a_scenario_is_a_name_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        std::fs::write(&path, builtin::ALL[0].text).unwrap();
        let picked = scenarios(&named(&["bucket-10", path.to_str().unwrap()])).unwrap();
        assert_eq!(picked[0].name, "bucket-10");
        assert_eq!(picked[1].name, builtin::ALL[0].name);
        assert!(scenarios(&[]).unwrap().len() > 20);
    }

    #[test]
    fn a_wrong_scenario_names_itself_and_what_is_allowed() {
        let error = told(scenarios(&named(&["bucket-11"])));
        assert!(
            ["'bucket-11'", "--list", "bucket-1, ", "bucket-10"].iter().all(|part| error.contains(part)),
            "{error}"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        std::fs::write(&path, "name = 'x'\ntime = '1min'\nspeed = 3\n").unwrap();
        let error = told(scenarios(&named(&[path.to_str().unwrap()])));
        assert!(error.contains("own.toml") && error.matches("speed = 3").count() == 1, "told once: {error}");
        std::fs::write(&path, format!("policies = ['fast']\n{}", builtin::ALL[0].text)).unwrap();
        let error = told(scenarios(&named(&[path.to_str().unwrap()])));
        assert!(["own.toml", "`policies`", "\"fast\"", "adaptive"].iter().all(|part| error.contains(part)), "{error}");
    }

    #[test]
    fn policies_are_ours_and_others_each_once() {
        let scenario = scenarios(&named(&["arm-bucket-10-20"])).unwrap().remove(0);
        let of = |names: &[&str]| policies(&named(names), &scenario);
        assert_eq!(of(&[]).unwrap(), ["adaptive"]);
        assert_eq!(
            of(&["scrapy", "curl 100ms", "interval 1s", "scrapy"]).unwrap(),
            ["scrapy", "curl 100ms", "interval 1s"]
        );
        let all = of(&["all"]).unwrap();
        assert_eq!(all[0], "adaptive");
        assert!(NAMES.iter().all(|(name, ..)| all.contains(&(*name).to_owned())), "{all:?}");
        assert!(all.contains(&"curl 100ms".to_owned()), "and those that the file names");
        assert!(of(&["file"]).unwrap().len() < all.len());
        for wrong in ["fast", "curl soon", "interval", ""] {
            let error = of(&[wrong]).unwrap_err().0;
            assert!(error.contains(&format!("'{wrong}'")) && error.contains("adaptive"), "{error}");
        }
    }
}
