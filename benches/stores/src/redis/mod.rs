//! Programs that share a pace through Redis: Comity beside a plain GCRA script and beside Bottleneck.
//!
//! One real server on loopback, which counts what it is asked.

mod comity;
mod gcra;
mod server;
mod work;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::workers::{Report, Workers};
use server::{Asked, Server};
pub(crate) use work::worker;
use work::{Case, Contender};

/// Prints the table.
pub(crate) fn run(node_modules: &Path) -> anyhow::Result<()> {
    println!("{}", crate::preamble());
    println!(
        "A slot is the right to start one request, and the place it gives back; 1 scope is a host, 3 are a host, its"
    );
    println!(
        "group and all hosts. µs are from asking until the request may start. Round trips and scripts are counted by the"
    );
    println!(
        "server, of one client that asks one at a time. Rate and percentiles are the best of {ROUNDS} rounds of {} s.",
        SPAN.as_secs()
    );
    println!(
        "\n{:>6} {:>7}  {:22} {:>11} {:>7} {:>8} {:>7} {:>9} {:>9} {:>10}  {:>7}",
        "scopes", "clients", "", "round trips", "scripts", "slots/s", "of rates", "p50", "p99", "worst", "of p50s"
    );
    for scopes in [1, 3] {
        for clients in [1, 16] {
            table(&Case { scopes, clients, span: SPAN }, node_modules)?;
        }
    }
    println!(
        "comity-redis gives places back while it already goes on: a release is a script, but nobody waits for it."
    );
    println!("Ratios above 1 are in favour of {}: its slots/s by theirs, their p50 by its.", Contender::ALL[0].name());
    println!(
        "The plain script knows one scope a call, so three are not claimed as one; it has no places to give back."
    );
    Ok(())
}

struct Measured {
    best: Report,
    asked: Asked,
    worst: f64,
    refused: u64,
}

fn table(case: &Case, node_modules: &Path) -> anyhow::Result<()> {
    let mut results: Vec<(Contender, Measured)> = Vec::new();
    for _ in 0..ROUNDS {
        for contender in Contender::ALL.iter().copied().filter(|contender| contender.takes_part(case.scopes)) {
            let (report, asked) = round(contender, case, node_modules).with_context(|| contender.name())?;
            let (worst, refused) = (report.worst, report.refused);
            match results.iter_mut().find(|(known, _)| *known == contender) {
                Some((_, known)) => {
                    known.worst = known.worst.max(worst);
                    known.refused += refused;
                    if report.rate > known.best.rate {
                        (known.best, known.asked) = (report, asked);
                    }
                }
                None => results.push((contender, Measured { best: report, asked, worst, refused })),
            }
        }
    }
    let (_, ours) = results.first().context("nothing was measured")?;
    for (contender, result) in &results {
        let best = &result.best;
        let p50 = best.latencies.micros(0.5);
        let a_slot = |count: u64| match case.clients {
            1 => format!("{:.2}", count as f64 / best.latencies.count() as f64),
            // Of several that ask at once the server reads more than one at a time.
            _ => String::new(),
        };
        let refused = if result.refused > 0 { format!("  {} not granted", result.refused) } else { String::new() };
        println!(
            "{:>6} {:>7}  {:22} {:>11} {:>7} {:>8.0} {:>8.2} {p50:>9.1} {:>9.1} {:>10.1} {:>8.2}{refused}",
            case.scopes,
            case.clients,
            contender.name(),
            a_slot(result.asked.reads),
            a_slot(result.asked.scripts),
            best.rate,
            ours.best.rate / best.rate,
            best.latencies.micros(0.99),
            result.worst,
            p50 / ours.best.latencies.micros(0.5),
        );
    }
    Ok(())
}

fn round(contender: Contender, case: &Case, node_modules: &Path) -> anyhow::Result<(Report, Asked)> {
    let server = Server::start()?;
    let mut command = match contender {
        Contender::Bottleneck => {
            let mut node = Command::new("node");
            node.env("NODE_PATH", node_modules).args(["-e", BOTTLENECK]);
            node
        }
        _ => {
            let mut ourselves = Command::new(std::env::current_exe()?);
            ourselves.args(["redis-worker", &format!("{contender:?}")]);
            ourselves
        }
    };
    command.args(case.words(server.port));
    let mut workers = Workers::start([command].into_iter())?;
    let before = server.asked()?;
    let report = workers.go()?;
    Ok((report, server.asked()?.since(&before)))
}

const BOTTLENECK: &str = include_str!("bottleneck.cjs");
const ROUNDS: usize = 3;
const SPAN: Duration = Duration::from_secs(2);
