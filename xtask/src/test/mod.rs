//! `cargo xtask test`: all that CI checks, the quick checks first.

mod dependencies;
mod links;
mod purity;
mod source;
mod tools;
mod typed_once;
mod vectors;

use std::time::Instant;

use anyhow::{bail, ensure};

pub(crate) use tools::node_modules;

use crate::workspace::{Workspace, run as run_command};

/// One thing that is checked.
struct Step {
    name: &'static str,
    check: fn(&Workspace) -> anyhow::Result<Outcome>,
}

/// How a step that did not fail came out.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// It needs something that is not here and that not everyone has to have; the text says what and how to get it.
    Skipped(String),
}

const STEPS: &[Step] = &[
    Step { name: "format", check: format },
    Step { name: "who may use whom", check: dependencies::check },
    Step { name: "purity of the core", check: purity::check },
    Step { name: "vectors", check: vectors::check },
    Step { name: "links", check: links::check },
    Step { name: "typed once", check: typed_once::check },
    Step { name: "tools of the tests", check: tools::check },
    Step { name: "clippy", check: clippy },
    Step { name: "core as WebAssembly", check: purity::check_wasm },
    Step { name: "tests", check: tests },
    Step { name: "documentation", check: documentation },
    Step { name: "licences and bans", check: deny },
];

/// Runs every step up to the first that fails, and ends with a line that counts them.
#[expect(clippy::disallowed_methods, reason = "says how long each step took")]
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    ensure!(arguments.is_empty(), "`cargo xtask test` takes no arguments");
    let (mut passed, mut skipped) = (0, Vec::new());
    for step in STEPS {
        println!("==> {}", step.name);
        let begun = Instant::now();
        let outcome = (step.check)(workspace);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(Outcome::Passed) => {
                println!("    {} passed ({seconds:.1} s)", step.name);
                passed += 1;
            }
            Ok(Outcome::Skipped(why)) => {
                println!("    {} skipped: {why}", step.name);
                skipped.push(step.name);
            }
            Err(error) => {
                println!("\n{} failed ({seconds:.1} s), and what comes after it was not tried: {error:#}\n", step.name);
                bail!(summary(passed, 1, &skipped));
            }
        }
    }
    println!("\n{}", summary(passed, 0, &skipped));
    Ok(())
}

fn summary(passed: usize, failed: usize, skipped: &[&str]) -> String {
    let skipped = if skipped.is_empty() { String::new() } else { format!(" (skipped: {})", skipped.join(", ")) };
    format!("{passed} passed, {failed} failed{skipped}")
}

fn format(workspace: &Workspace) -> anyhow::Result<Outcome> {
    run_command(workspace.cargo().args(["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed)
}

fn clippy(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
    run_command(workspace.cargo().args(arguments))?;
    Ok(Outcome::Passed)
}

fn tests(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--workspace", "--all-features", "--locked"]);
    cargo.env(tools::PYTHON, tools::python(workspace)?).env(tools::NODE_MODULES, tools::node_modules_folder(workspace));
    run_command(&mut cargo)?;
    Ok(Outcome::Passed)
}

fn documentation(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let mut cargo = workspace.cargo();
    cargo.args(["doc", "--workspace", "--lib", "--all-features", "--no-deps", "--locked"]);
    run_command(cargo.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}

/// cargo-deny takes minutes to install, so it is asked only where it already is.
fn deny(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if !tools::works(workspace.cargo().args(["deny", "--version"])) {
        return Ok(Outcome::Skipped("`cargo install --locked cargo-deny` brings what reads deny.toml".into()));
    }
    run_command(workspace.cargo().args(["deny", "--all-features", "check", "bans", "licenses", "sources"]))?;
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_what_passed_and_what_failed() {
        assert_eq!(summary(3, 0, &[]), "3 passed, 0 failed");
        assert_eq!(summary(2, 1, &["links", "format"]), "2 passed, 1 failed (skipped: links, format)");
    }
}
