//! The shared vectors: every file parses, and some test runs it.

use std::fs;

use anyhow::ensure;

use super::Outcome;
use crate::workspace::Workspace;

/// Checks each `vectors/*.json`.
pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if !workspace.root.join("vectors").is_dir() {
        return Ok(Outcome::Skipped("there are no vectors yet".into()));
    }
    let mut sources = Vec::new();
    for file in workspace.files("crates", ".rs")? {
        sources.push(fs::read_to_string(file)?);
    }
    let mut faults = Vec::new();
    for file in workspace.files("vectors", ".json")? {
        let named = workspace.relative(&file).to_string();
        faults.extend(fault(&named, &fs::read_to_string(&file)?, &sources));
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(Outcome::Passed)
}

fn fault(named: &str, text: &str, sources: &[String]) -> Option<String> {
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        return Some(format!("{named} is not JSON: {error}"));
    }
    let is_run = sources.iter().any(|source| source.contains(named) && source.contains("#[test]"));
    (!is_run).then(|| format!("{named} is run by no test: none of the files with tests names it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_to_parse_and_to_be_named_where_there_are_tests() {
        let test = ["#[test] fn t() { run(include_str!(\"../../vectors/gcra.json\")) }".to_owned()];
        let untested = ["// see vectors/gcra.json".to_owned()];
        assert_eq!(fault("vectors/gcra.json", "[]", &test), None);
        assert!(fault("vectors/gcra.json", "[", &test).unwrap().contains("not JSON"));
        assert!(fault("vectors/gcra.json", "[]", &untested).unwrap().contains("no test"));
        assert!(fault("vectors/other.json", "[]", &test).is_some());
    }
}
