//! Comity's shared stores beside their peers, in one run: `cargo xtask bench store` and `cargo xtask bench redis`.
//!
//! The same program is also the workers: [`workers`] starts it again, as often as there are processes to measure.

mod latencies;
mod open;
mod redis;
mod store;
mod workers;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["store"] => store::run(),
        ["store-worker", rest @ ..] => store::worker(rest),
        ["redis", node_modules] => redis::run(node_modules.as_ref()),
        ["redis-worker", rest @ ..] => redis::worker(rest),
        _ => bail!("`store`, or `redis` and the folder that has the packages of examples/audit"),
    }
}

/// What every table begins with.
fn preamble() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores, whatever else they have to do now: ratios within one run count, not the figures by themselves"
    )
}
