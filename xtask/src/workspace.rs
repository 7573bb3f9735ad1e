//! The workspace a chore works on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

/// Where everything is, and what cargo knows of it.
pub(crate) struct Workspace {
    /// The folder of the workspace's manifest.
    pub(crate) root: PathBuf,
    /// All packages with all features, as locked.
    pub(crate) metadata: Metadata,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml");
        let options = ["--locked", "--all-features"].map(str::to_owned);
        let metadata = MetadataCommand::new().manifest_path(manifest).other_options(options).exec()?;
        Ok(Self { root: metadata.workspace_root.clone().into(), metadata })
    }

    /// A command that runs in the workspace's root.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The cargo that runs this chore.
    pub(crate) fn cargo(&self) -> Command {
        self.command(&env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
    }

    /// Every file whose name ends so, below a folder of the workspace; built and fetched things are not looked at.
    pub(crate) fn files(&self, folder: &str, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry?;
                let name = entry.file_name();
                if entry.file_type()?.is_dir() {
                    if !PASSED_OVER.iter().any(|passed| name == *passed) {
                        folders.push(entry.path());
                    }
                } else if name.to_string_lossy().ends_with(ending) {
                    found.push(entry.path());
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// A file's path as a person in the workspace's root would type it.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Runs a command that shows its own output.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("`{shown}` could not be started"))?;
    ensure!(status.success(), "`{shown}` failed");
    Ok(())
}

/// Runs a command and returns what it printed; what it complained of becomes the error.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("`{shown}` could not be started"))?;
    ensure!(output.status.success(), "`{shown}` failed:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Folders that hold nothing of ours.
const PASSED_OVER: [&str; 3] = ["target", ".git", "node_modules"];
