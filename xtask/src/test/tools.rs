//! What the tests need beside Rust: real servers, real clocks to lie with, and other people's programs to read, and be
//! judged, with other eyes.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs, path::Path};

use anyhow::{Context, ensure};

use super::Outcome;
use crate::workspace::{Workspace, run};

/// The environment variable that tells tests which Python has `warcio`.
pub(super) const PYTHON: &str = "COMITY_PYTHON";
/// The environment variable that tells tests where the packages of `examples/audit/package.json` are.
pub(super) const NODE_MODULES: &str = "COMITY_NODE_MODULES";

/// A program that tests run, how to see that it is there, and the Debian packages that bring it.
struct Tool {
    probe: &'static [&'static str],
    packages: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool { probe: &["redis-server", "--version"], packages: &["redis-server"] },
    Tool { probe: &["faketime", "--version"], packages: &["faketime"] },
    Tool { probe: &["node", "--version"], packages: &["nodejs", "npm"] },
    Tool { probe: &["curl", "--version"], packages: &["curl"] },
    Tool { probe: &["python3", "--version"], packages: &["python3", "python3-venv"] },
    Tool { probe: &["npm", "--version"], packages: &["npm"] },
];

/// Sees to it that all of it is there.
pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let missing: Vec<&str> =
        TOOLS.iter().filter(|tool| !tool.works()).flat_map(|tool| tool.packages).copied().collect();
    if !missing.is_empty() {
        install(workspace, &missing)?;
    }
    node_modules(workspace)?;
    warcio(workspace)
}

impl Tool {
    fn works(&self) -> bool {
        works(Command::new(self.probe[0]).args(&self.probe[1..]))
    }
}

/// Where the packages of `examples/audit` are installed.
pub(super) fn node_modules_folder(workspace: &Workspace) -> PathBuf {
    workspace.metadata.target_directory.join("node/node_modules").into()
}

/// Installs the packages of `examples/audit` as its lock file names them, unless that was done, and says where.
pub(crate) fn node_modules(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = workspace.metadata.target_directory.join("node").into_std_path_buf();
    let from = workspace.root.join("examples/audit");
    let lock = fs::read(from.join("package-lock.json"))?;
    let done = folder.join("node_modules/.installed");
    if fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Ok(node_modules_folder(workspace));
    }
    fs::create_dir_all(&folder)?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(from.join(name), folder.join(name))?;
    }
    let mut npm = workspace.command("npm");
    npm.args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&folder);
    run(&mut npm).context("the packages of examples/audit/package.json are needed")?;
    fs::write(done, lock)?;
    Ok(node_modules_folder(workspace))
}

/// Sees to it that there is a Python with `warcio`, in `target/python` where the system's has none.
fn warcio(workspace: &Workspace) -> anyhow::Result<Outcome> {
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
