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
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};

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
    let Done { seen, failed } = all(&options, &programs);
    print!("{}", table::table(&options.arms, &seen));
    if let Some(file) = &options.json {
        let json = serde_json::to_string_pretty(&table::json(&options.arms, &seen))?;
        std::fs::write(file, json + "\n").with_context(|| file.display().to_string())?;
    }
    let faults = [failed, table::missed(&options.arms, &seen)].concat();
    ensure!(faults.is_empty(), "\nnot as it should be:\n  {}", faults.join("\n  "));
    Ok(())
}

/// What came of all runs.
#[derive(Default)]
struct Done {
    /// In the arms' and the tools' order.
    seen: Vec<Seen>,
    /// Why some could not be made.
    failed: Vec<String>,
}

/// Every tool at every arm, several at once.
fn all(options: &Options, programs: &Programs) -> Done {
    let pairs = options.arms.iter().flat_map(|arm| options.tools.iter().map(move |tool| (arm, tool)));
    let mut queue: Vec<(usize, (&Arm, &Tool))> = pairs.enumerate().collect();
    // What takes longest begins first.
    queue.sort_by_key(|(_, (_, tool))| !tool.remembers);
    let queue = Mutex::new(VecDeque::from(queue));
    let done: Mutex<Vec<(usize, anyhow::Result<Vec<Seen>>)>> = Mutex::default();
    let work = || {
        loop {
            let next = lock(&queue).pop_front();
            let Some((place, (arm, tool))) = next else { return };
            let runs = tempfile::tempdir()
                .map_err(anyhow::Error::from)
                .and_then(|folder| run::run(arm, tool, programs, &options.manner, folder.path()));
            for run in runs.iter().flatten() {
                let name = table::name(run);
                println!("{}, {name}: {} of {}, {} refused", arm.name, run.got(), run.possible(), run.refused());
            }
            lock(&done).push((place, runs));
        }
    };
    std::thread::scope(|scope| (0..options.jobs).for_each(|_| drop(scope.spawn(work))));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().fold(Done::default(), |mut all, (_, runs)| {
        match runs {
            Ok(runs) => all.seen.extend(runs),
            Err(error) => all.failed.push(format!("{error:#}")),
        }
        all
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
