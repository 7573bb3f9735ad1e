//! `cargo xtask bench [decide] [waiting] [fetch] [memory] [store] [redis] [guard]`: beside the peers, in one run, as ratios.

mod fetch;
mod guard;
mod memory;
mod server;
mod stores;

use std::path::PathBuf;

use anyhow::bail;

use crate::workspace::{Workspace, run as run_command};

/// Runs the benchmarks that are named, or all.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    const KNOWN: [&str; 7] = ["decide", "waiting", "fetch", "memory", "store", "redis", "guard"];
    if let Some(unknown) = arguments.iter().find(|argument| !KNOWN.contains(&argument.as_str())) {
        bail!("no benchmark is called `{unknown}`; there is: {}", KNOWN.join(", "));
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    for bench in ["decide", "waiting"].into_iter().filter(|bench| wanted(bench)) {
        println!("\n== {bench}: cargo bench -p comity --bench {bench}");
        cargo(workspace, &["bench", "--locked", "-q", "-p", "comity", "--bench", bench])?;
    }
    if wanted("fetch") || wanted("memory") || wanted("guard") {
        cargo(workspace, &["build", "--locked", "-q", "--release", "-p", "comity-cli"])?;
        cargo(
            workspace,
            &["build", "--locked", "-q", "--release", "-p", "comity-audit", "--example", "static_server"],
        )?;
    }
    let folder = tempfile::tempdir()?;
    if wanted("fetch") {
        fetch::run(workspace, folder.path())?;
    }
    if wanted("memory") {
        memory::run(workspace, folder.path())?;
    }
    if wanted("store") {
        stores::store(workspace)?;
    }
    if wanted("redis") {
        stores::redis(workspace)?;
    }
    if wanted("guard") {
        guard::run(workspace, folder.path())?;
    }
    Ok(())
}

fn release(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.metadata.target_directory.join("release").join(name).into_std_path_buf()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<()> {
    run_command(workspace.cargo().args(arguments))
}
