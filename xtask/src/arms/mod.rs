//! `cargo xtask arms`: comity and its peers at hosts with hidden limits, told by what the hosts received.

mod arm;
mod far_end;
mod limit;
mod options;
mod run;
mod seen;
mod table;
#[cfg(test)]
mod tests;
mod tool;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};

use self::arm::Arm;
use self::options::Options;
use self::run::Programs;
use self::seen::Seen;
use self::tool::Tool;
use crate::workspace::{Workspace, run as run_command};

/// Runs the arms that are named, or all, and fails where a goal was missed.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{}", options::USAGE);
        return Ok(());
    }
    let mut options = Options::of(arguments)?;
    options.tools.retain(|tool| {
        let is_installed = tool.is_installed();
        if !is_installed {
            println!("{} is not installed ({})", tool.name, tool.from);
        }
        is_installed
    });
    ensure!(!options.tools.is_empty(), "there is nobody to run");
    let programs = programs(workspace, &options)?;
    let seen = all(&options, &programs)?;
    print!("{}", table::table(&options.arms, &seen));
    if let Some(file) = &options.json {
        let json = serde_json::to_string_pretty(&table::json(&options.arms, &seen))?;
        std::fs::write(file, json + "\n").with_context(|| file.display().to_string())?;
    }
    let missed = table::missed(&options.arms, &seen);
    ensure!(missed.is_empty(), "\nmissed:\n  {}", missed.join("\n  "));
    Ok(())
}

/// Every tool at every arm, several at once; in the arms' and the tools' order.
fn all(options: &Options, programs: &Programs) -> anyhow::Result<Vec<Seen>> {
    let pairs = options.arms.iter().flat_map(|arm| options.tools.iter().map(move |tool| (arm, tool)));
    let mut queue: Vec<(usize, (&Arm, &Tool))> = pairs.enumerate().collect();
    // What takes longest begins first.
    queue.sort_by_key(|(_, (_, tool))| !tool.remembers);
    let queue = Mutex::new(VecDeque::from(queue));
    let done: Mutex<Vec<(usize, Vec<Seen>)>> = Mutex::default();
    let work = || -> anyhow::Result<()> {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((place, (arm, tool))) = next else { return Ok(()) };
            let folder = tempfile::tempdir()?;
            let seen = run::run(arm, tool, programs, &options.manner, folder.path())?;
            for run in &seen {
                println!(
                    "{}, {}: {} of {}, {} refused",
                    arm.name,
                    table::name(run),
                    run.got(),
                    run.possible(),
                    run.refused()
                );
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, seen));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a run panicked"),
        })
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().flat_map(|(_, seen)| seen).collect())
}

/// Builds what is run.
fn programs(workspace: &Workspace, options: &Options) -> anyhow::Result<Programs> {
    let build = |arguments: &[&str]| {
        run_command(workspace.cargo().args(["build", "--locked", "-q", "--release"]).args(arguments))
    };
    build(&["-p", "comity-audit", "--example", "far_end"])?;
    let release = workspace.metadata.target_directory.join("release");
    let comity = match &options.comity {
        Some(file) => file.canonicalize().with_context(|| file.display().to_string())?,
        None => {
            build(&["-p", "comity-cli"])?;
            release.join("comity").into()
        }
    };
    Ok(Programs { comity, far_end: release.join("examples/far_end").into() })
}
