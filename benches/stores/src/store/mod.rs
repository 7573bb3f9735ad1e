//! Processes of one machine that share a pace: Comity's file beside an embedded database, a memory map and a bare file.
//!
//! Every contender does the same work: a claim reads, changes and writes the records of three scopes (the host, its group,
//! all hosts) as one, and so does the release after it.

mod comity;
mod flock;
mod lmdb;
mod records;
mod sqlite;
mod work;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::workers::{Report, Workers};
pub(crate) use work::worker;
use work::{Case, Contender};

/// Prints both tables.
pub(crate) fn run() -> anyhow::Result<()> {
    println!("{}", crate::preamble());
    println!("A claim is three records of {} bytes, read, changed and written as one.", records::BYTES);
    println!(
        "Rate and percentiles are the best of {ROUNDS} rounds of {} s each, in turns; worst is of all.",
        SPAN.as_secs()
    );

    println!("\n-- Unpaced: claims a second, each followed by its release; µs of the claim alone");
    table(None)?;
    println!("\n-- Paced, {PACE} a second a process: µs of the claim alone");
    table(Some(PACE))
}

fn table(pace: Option<u32>) -> anyhow::Result<()> {
    println!(
        "{:>9} {:>5}  {:24} {:>9} {:>8} {:>9} {:>9} {:>10} {:>8}",
        "processes", "keys", "", "claims/s", "of rates", "p50", "p99", "worst", "of p99s"
    );
    for processes in [1, 6] {
        for keys in [1, 1_000] {
            let results = measure(&Case { keys, pace, span: SPAN }, processes)?;
            let (_, ours) = results.first().context("nothing was measured")?;
            for (contender, result) in &results {
                let best = &result.best;
                let (rate, p99) = (best.rate, best.latencies.micros(0.99));
                let refused =
                    if result.refused > 0 { format!("  {} not granted", result.refused) } else { String::new() };
                println!(
                    "{processes:>9} {keys:>5}  {:24} {rate:>9.0} {:>8.2} {:>9.1} {p99:>9.1} {:>10.1} {:>8.2}{refused}",
                    contender.name(),
                    ours.best.rate / rate,
                    best.latencies.micros(0.5),
                    result.worst,
                    p99 / ours.best.latencies.micros(0.99),
                );
            }
        }
    }
    let first = Contender::ALL[0].name();
    println!("Ratios above 1 are in favour of {first}: its claims/s by theirs, their p99 by its.");
    Ok(())
}

struct Measured {
    best: Report,
    worst: f64,
    refused: u64,
}

/// Every contender in turn, several times, so that a busy moment hits none of them alone.
fn measure(case: &Case, processes: usize) -> anyhow::Result<Vec<(Contender, Measured)>> {
    let mut results: Vec<(Contender, Measured)> = Vec::new();
    for _ in 0..ROUNDS {
        for contender in Contender::ALL.iter().copied() {
            let report = round(contender, case, processes).with_context(|| contender.name())?;
            let (worst, refused) = (report.worst, report.refused);
            match results.iter_mut().find(|(known, _)| *known == contender) {
                Some((_, known)) => {
                    known.worst = known.worst.max(worst);
                    known.refused += refused;
                    if case.is_better(&report, &known.best) {
                        known.best = report;
                    }
                }
                None => results.push((contender, Measured { best: report, worst, refused })),
            }
        }
    }
    Ok(results)
}

fn round(contender: Contender, case: &Case, processes: usize) -> anyhow::Result<Report> {
    // Beside the program, so on a real file system: a temporary folder may be memory.
    let program = std::env::current_exe()?;
    let beside = program.parent().context("this program lies in no folder")?;
    let folder = tempfile::Builder::new().prefix("stores-bench-").tempdir_in(beside)?;
    contender.prepare(folder.path(), case.keys)?;
    let command = |n| {
        let mut command = Command::new(&program);
        command.arg("store-worker").args(case.words(contender, n)).arg(folder.path());
        command
    };
    let report = Workers::start((0..processes).map(command))?.go()?;
    check(contender, folder.path(), &report)?;
    Ok(report)
}

/// No claim may have been lost: a contender that is not atomic has not done the work.
fn check(contender: Contender, folder: &Path, report: &Report) -> anyhow::Result<()> {
    if let Some(record) = contender.record_of_all(folder)? {
        let granted = report.latencies.count();
        ensure!(record.starts() == granted, "{} starts of {granted}", record.starts());
        ensure!(record.in_flight() == 0, "{} places were not given back", record.in_flight());
    }
    Ok(())
}

const ROUNDS: usize = 3;
const SPAN: Duration = Duration::from_secs(2);
/// Claims a second of a process, as many as a polite program may ever need.
const PACE: u32 = 100;
