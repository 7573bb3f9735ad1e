//! What the tests need beside Rust: a Python that has `warcio`, to read what we write with other eyes.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, path::Path};

use anyhow::{Context, ensure};

use super::Outcome;
use crate::workspace::{Workspace, run};

/// The environment variable that tells tests which Python has `warcio`.
pub(super) const PYTHON: &str = "COMITY_PYTHON";

/// Sees to it that there is a Python with `warcio`, in `target/python` where the system's has none.
pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if candidates(workspace).iter().any(|python| has_warcio(python)) {
        return Ok(Outcome::Passed);
    }
    let folder = folder(workspace);
    let make = || run(workspace.command("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    if make().is_err() {
        install(workspace, &["python3", "python3-venv"])?;
        make()?;
    }
    let mut pip = Command::new(in_folder(&folder));
    run(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", WARCIO])).with_context(|| {
        format!("tests need a Python with {WARCIO}: install it, or name one that has it in {PYTHON}")
    })?;
    Ok(Outcome::Passed)
}

/// The Python that has `warcio`.
pub(super) fn python(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let found = candidates(workspace).into_iter().find(|python| has_warcio(python));
    found.context("no Python has warcio")
}

/// Whether a command can be run at all and succeeds; what it prints is not shown.
pub(super) fn works(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn candidates(workspace: &Workspace) -> Vec<PathBuf> {
    let named = env::var_os(PYTHON).map(PathBuf::from);
    named.into_iter().chain(["python3".into(), in_folder(&folder(workspace))]).collect()
}

fn has_warcio(python: &Path) -> bool {
    works(Command::new(python).args(["-c", "import warcio"]))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.metadata.target_directory.join("python").into()
}

fn in_folder(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

/// Installs Debian packages where we are root on Debian; elsewhere says what is missing.
fn install(workspace: &Workspace, packages: &[&str]) -> anyhow::Result<()> {
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    let debian = Path::new("/etc/debian_version").exists();
    ensure!(root && debian, "tests need {}: install them with your system's package manager", packages.join(" and "));
    run(workspace.command("apt-get").args(["update", "--quiet"]))?;
    let mut apt = workspace.command("apt-get");
    apt.args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(packages);
    run(apt.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// One release, so that a test means the same everywhere.
const WARCIO: &str = "warcio==1.8.1";
