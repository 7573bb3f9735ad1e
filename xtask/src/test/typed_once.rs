//! The version and the oldest Rust that will do are typed once, in the workspace's manifest.

use std::fs;

use anyhow::{Context, ensure};

use super::Outcome;
use crate::workspace::Workspace;

/// Checks the members' manifests, the toolchain file, the documents and the sources against the workspace's manifest.
pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let packages = workspace.metadata.workspace_packages();
    let any = packages.first().context("the workspace is empty")?;
    let version = any.version.to_string();
    let rust = any.rust_version.as_ref().context("rust-version is missing")?;
    let rust = format!("{}.{}", rust.major, rust.minor);

    let mut faults = Vec::new();
    for package in &packages {
        let manifest = fs::read_to_string(&package.manifest_path)?;
        faults.extend(own_settings(&manifest).map(|key| format!("{}: take `{key}` from the workspace", package.name)));
    }
    let toolchain = fs::read_to_string(workspace.root.join("rust-toolchain.toml"))?;
    if !toolchain.contains(&format!("channel = \"{rust}.")) {
        faults.push(format!("rust-toolchain.toml names another Rust than rust-version = \"{rust}\""));
    }
    for file in workspace.files("", ".md")? {
        let other = other_rust(&fs::read_to_string(&file)?, &rust);
        faults.extend(other.map(|other| format!("{}: says Rust {other}, it is {rust}", workspace.relative(&file))));
    }
    for file in workspace.files("crates", ".rs")? {
        if types_version(&fs::read_to_string(&file)?, &version) {
            let file = workspace.relative(&file);
            faults.push(format!("{file}: types the version; env!(\"CARGO_PKG_VERSION\") knows it"));
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(Outcome::Passed)
}

/// What a member's manifest says itself although the workspace says it for all.
fn own_settings(manifest: &str) -> impl Iterator<Item = &'static str> {
    let has = |key: &str| manifest.lines().any(|line| line == format!("{key}.workspace = true"));
    let lints = manifest.contains("[lints]\nworkspace = true");
    let missing: Vec<_> = INHERITED.iter().copied().filter(|key| !has(key)).collect();
    missing.into_iter().chain((!lints).then_some("lints"))
}

/// A Rust version that a text names and that is not ours.
fn other_rust(text: &str, rust: &str) -> Option<String> {
    let named = text.split("Rust 1.").skip(1).map(|rest| {
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        format!("1.{minor}")
    });
    named.into_iter().find(|named| named != rust)
}

/// A string that is the version, or ends in it as a product token does (`comity/1.2.3`).
fn types_version(source: &str, version: &str) -> bool {
    [format!("\"{version}\""), format!("comity/{version}")].iter().any(|typed| source.contains(typed))
}

const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_types_its_own_version_is_found() {
        let inherits = |key: &&str| format!("{key}.workspace = true\n");
        let good = INHERITED.iter().map(inherits).collect::<String>() + "[lints]\nworkspace = true\n";
        assert_eq!(own_settings(&good).count(), 0);
        let bad =
            good.replace("version.workspace = true\nedition", "version = \"1.0.0\"\nedition").replace("[lints]", "");
        assert_eq!(own_settings(&bad).collect::<Vec<_>>(), ["version", "lints"]);
    }

    #[test]
    fn a_document_that_names_another_rust_is_found() {
        assert_eq!(other_rust("needs Rust 1.95 or later; Rust 1.95.", "1.95"), None);
        assert_eq!(other_rust("needs Rust 1.95, and Rust 1.9 is too old", "1.95").as_deref(), Some("1.9"));
    }

    #[test]
    fn a_source_that_types_the_version_is_found() {
        assert!(types_version("x = \"9.8.7\";", "9.8.7") && types_version("\"comity/9.8.7 (+…)\"", "9.8.7"));
        assert!(!types_version("format!(\"comity/{}\", env!(\"CARGO_PKG_VERSION\")) // since 9.8.7", "9.8.7"));
    }
}
