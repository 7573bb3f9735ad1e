//! `cargo xtask bench store` and `cargo xtask bench redis`: `benches/stores`, which is built apart because its peers bring C.

use crate::test::node_modules;
use crate::workspace::{Workspace, run};

/// The store of one machine beside SQLite, LMDB and a bare file lock.
pub(super) fn store(workspace: &Workspace) -> anyhow::Result<()> {
    println!("\n== store: processes of one machine that share a pace");
    stores(workspace, &["store"])
}

/// The store on Redis beside a plain script and Bottleneck.
pub(super) fn redis(workspace: &Workspace) -> anyhow::Result<()> {
    println!("\n== redis: clients that share a pace through one redis-server on loopback");
    let packages = node_modules(workspace)?;
    stores(workspace, &["redis", &packages.to_string_lossy()])
}

fn stores(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<()> {
    let mut cargo = workspace.cargo();
    // Not `--locked`: what our crates use changes without anybody thinking of this package's lock file.
    cargo.args(["run", "-q", "--release", "--manifest-path", "benches/stores/Cargo.toml", "--target-dir"]);
    cargo.arg(workspace.metadata.target_directory.join("benches-stores"));
    run(cargo.arg("--").args(arguments))
}
