//! The core decides and does nothing else: no clock, no I/O, no threads, no async, no randomness.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::Outcome;
use super::source::{Mention, mentions};
use crate::workspace::{Workspace, output, run};

/// Looks through the core's source for what it may not use.
pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let mut faults = Vec::new();
    for file in workspace.files("crates/comity-core/src", ".rs")? {
        let named = workspace.relative(&file).to_string();
        let source = fs::read_to_string(&file)?;
        let impure = impurities(&source).with_context(|| named.clone())?;
        faults.extend(impure.into_iter().map(|fault| format!("{named}:{fault}")));
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(Outcome::Passed)
}

/// Builds the core for WebAssembly, where there is neither clock nor file nor socket, if the target is installed.
pub(super) fn check_wasm(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let library = output(workspace.command("rustc").args(["--print", "target-libdir", "--target", WASM]))?;
    if !Path::new(library.trim()).is_dir() {
        return Ok(Outcome::Skipped(format!("`rustup target add {WASM}` brings the target")));
    }
    run(workspace.cargo().args(["check", "--package", "comity-core", "--target", WASM, "--locked"]))?;
    Ok(Outcome::Passed)
}

/// `line: what it uses, and why it may not`, for each forbidden mention.
fn impurities(source: &str) -> anyhow::Result<Vec<String>> {
    let forbidden = |Mention { line, path }: Mention| {
        let words: Vec<_> = path.iter().map(String::as_str).collect();
        let reason = FORBIDDEN_PATHS
            .iter()
            .find(|(forbidden, _)| words.starts_with(forbidden) || is_glob_over(&words, forbidden))
            .or_else(|| FORBIDDEN_WORDS.iter().find(|(forbidden, _)| words.contains(&forbidden[0])));
        reason.map(|(_, reason)| format!("{line}: `{}`: {reason}", path.join("::")))
    };
    Ok(mentions(source)?.into_iter().filter_map(forbidden).collect())
}

/// `std::time::*` brings `std::time::Instant`.
fn is_glob_over(path: &[&str], forbidden: &[&str]) -> bool {
    path.split_last().is_some_and(|(last, parents)| *last == "*" && forbidden.starts_with(parents))
}

type Forbidden = (&'static [&'static str], &'static str);

const FORBIDDEN_PATHS: &[Forbidden] = &[
    (&["std", "time", "Instant"], "time is an argument"),
    (&["std", "time", "SystemTime"], "time is an argument"),
    (&["std", "fs"], "the core does no I/O"),
    (&["std", "io"], "the core does no I/O"),
    (&["std", "net"], "the core does no I/O; addresses are in core::net"),
    (&["std", "process"], "the core does no I/O"),
    (&["std", "env"], "what is configured is an argument"),
    (&["std", "os"], "the core runs on no particular system"),
    (&["std", "thread"], "the core has no threads; a store makes its decisions atomic"),
    (&["std", "sync"], "the core has no threads; a store makes its decisions atomic"),
    (&["std", "collections", "HashMap"], "its order is random; take a BTreeMap, or hashbrown with a seed"),
    (&["std", "collections", "HashSet"], "its order is random; take a BTreeSet, or hashbrown with a seed"),
];

const FORBIDDEN_WORDS: &[Forbidden] = &[
    (&["tokio"], "whoever has a runtime drives the core"),
    (&["async"], "whoever has a runtime drives the core"),
    (&["await"], "whoever has a runtime drives the core"),
    (&["unsafe"], "the core is safe Rust"),
    (&["rand"], "randomness is a seed"),
    (&["getrandom"], "randomness is a seed"),
    (&["RandomState"], "randomness is a seed"),
    (&["println"], "the core does no I/O"),
    (&["eprintln"], "the core does no I/O"),
];

const WASM: &str = "wasm32-unknown-unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_word_is_found_with_its_line_and_reason() {
        let source = "use std::time::{Duration, Instant};\nfn f() {\n  let x = unsafe { 1 };\n}\nasync fn g() {}";
        let expected = [
            "1: `std::time::Instant`: time is an argument",
            "3: `unsafe`: the core is safe Rust",
            "5: `async`: whoever has a runtime drives the core",
        ];
        assert_eq!(impurities(source).unwrap(), expected);
    }

    #[test]
    fn every_forbidden_path_and_word_is_found() {
        for (path, reason) in FORBIDDEN_PATHS.iter().chain(FORBIDDEN_WORDS) {
            let source = format!("fn f() {{ {}(); }}", path.join("::"));
            assert!(impurities(&source).unwrap()[0].ends_with(reason), "{source}");
        }
    }

    #[test]
    fn a_glob_over_something_forbidden_is_found() {
        assert_eq!(impurities("use std::time::*; use std::*;").unwrap().len(), 2);
    }

    #[test]
    fn what_is_pure_passes() {
        let source = "
            //! Never async, no std::fs.
            use core::time::Duration;
            use std::collections::BTreeMap;
            use crate::time::Instant;
            #[cfg(test)] mod tests { use std::fs; }
            fn f(now: Instant) -> &'static str { \"tokio\" }";
        assert_eq!(impurities(source).unwrap(), [""; 0]);
    }
}
