//! Who may use whom, and what may be used at all.

use std::fs;

use anyhow::{Context, ensure};
use cargo_metadata::{DependencyKind, Metadata};

use super::Outcome;
use crate::workspace::{Workspace, output};

/// Checks the edges between our crates, the banned packages, and that what must build without a C compiler does.
pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let mut faults = edges(&workspace.metadata);
    let deny = fs::read_to_string(workspace.root.join("deny.toml"))?;
    faults.extend(banned(&workspace.metadata, &deny)?);
    for package in WITHOUT_C {
        let mut cargo = workspace.cargo();
        cargo.args(["tree", "--locked", "--package", package, "--all-features"]);
        let tree = output(cargo.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]))?;
        faults.extend(builds_c(&tree).map(|used| format!("{package} must build without C and uses {used}")));
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(Outcome::Passed)
}

/// Uses between our own crates that no rule allows.
fn edges(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages();
    let ours = |name: &str| packages.iter().any(|package| package.name.as_str() == name);
    let mut faults = Vec::new();
    for package in &packages {
        let user = package.name.as_str();
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == user) else {
            faults.push(format!("{user} has no rule yet: say in xtask/src/test/dependencies.rs whom it may use"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| ours(&dependency.name)) {
            let used = dependency.name.as_str();
            let test_only = dependency.kind == DependencyKind::Development;
            let in_tests = used == WITNESS || TESTS_MAY_USE.contains(&(user, used));
            if !(allowed.contains(&used) || *allowed == EVERYTHING || test_only && in_tests) {
                faults.push(format!("{user} may not use {used}"));
            }
        }
    }
    faults
}

/// Packages that deny.toml bans and that some feature of some crate brings.
fn banned(metadata: &Metadata, deny: &str) -> anyhow::Result<Vec<String>> {
    let deny: toml::Table = deny.parse().context("deny.toml")?;
    let bans = deny.get("bans").and_then(|bans| bans.get("deny")).and_then(|deny| deny.as_array());
    let found = |name: &str| metadata.packages.iter().any(|package| package.name.as_str() == name);
    let mut faults = Vec::new();
    for ban in bans.context("deny.toml has no [bans] deny")? {
        let text = |key| ban.get(key).and_then(|value| value.as_str());
        let name = text("crate").context("deny.toml: a ban names no crate")?;
        if found(name) {
            faults.push(format!("{name} is banned: {}", text("reason").unwrap_or("deny.toml does not say why")));
        }
    }
    Ok(faults)
}

/// Packages in a printed dependency tree that need a C compiler or library.
fn builds_c(tree: &str) -> impl Iterator<Item = &str> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| C_BUILDERS.contains(name) || name.ends_with("-sys") && !SYS_WITHOUT_C.contains(name))
}

/// Whom each of our crates may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("comity-core", &[]),
    ("comity-audit", &[]),
    ("comity-store", &["comity-core"]),
    ("comity-machine", &["comity-store", "comity-core"]),
    ("comity-redis", &["comity-store", "comity-core"]),
    ("comity-guard", &["comity-store", "comity-core"]),
    ("comity-simulate", &["comity-core", "comity-store"]),
    ("comity", &["comity-store", "comity-core"]),
    ("comity-fetch", &["comity", "comity-store", "comity-core"]),
    ("comity-proxy", &["comity", "comity-store", "comity-core"]),
    ("comity-cli", EVERYTHING),
    ("xtask", &[]),
];

const EVERYTHING: &[&str] = &["*"];

/// Any crate's tests may ask it what arrived.
const WITNESS: &str = "comity-audit";

/// Whom tests may use beside that: our own client is tried at our own guard.
const TESTS_MAY_USE: &[(&str, &str)] = &[("comity-guard", "comity")];

/// Crates that build wherever Rust does.
const WITHOUT_C: [&str; 3] = ["comity-core", "comity-store", "comity"];

/// What calls a C compiler or looks for C libraries.
const C_BUILDERS: [&str; 4] = ["cc", "cmake", "bindgen", "pkg-config"];

/// Named like bindings, yet declarations only.
const SYS_WITHOUT_C: [&str; 4] = ["js-sys", "linux-raw-sys", "web-sys", "windows-sys"];

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;
    use serde_json::{Value, json};

    use super::*;

    /// Metadata of a workspace made up of packages and what each depends on (`name` or `dev:name`).
    fn metadata(packages: &[(&str, &[&str])], strangers: &[&str]) -> Metadata {
        let id = |name: &str| format!("path+file:///w/{name}#0.1.0");
        let package = |name: &str, dependencies: &[&str]| {
            let dependencies: Vec<Value> = dependencies
                .iter()
                .map(|dependency| {
                    let (kind, name) =
                        dependency.split_once(':').map_or((None, *dependency), |(_, name)| (Some("dev"), name));
                    json!({"name": name, "source": null, "req": "*", "kind": kind, "optional": false,
                           "uses_default_features": true, "features": [], "target": null})
                })
                .collect();
            json!({"name": name, "version": "0.1.0", "id": id(name), "dependencies": dependencies, "targets": [],
                   "features": {}, "manifest_path": format!("/w/{name}/Cargo.toml")})
        };
        let members: Vec<_> = packages.iter().map(|(name, _)| id(name)).collect();
        let ours = packages.iter().map(|(name, dependencies)| package(name, dependencies));
        let all: Vec<_> = ours.chain(strangers.iter().map(|name| package(name, &[]))).collect();
        let made_up = json!({"packages": all, "workspace_members": members, "resolve": null, "version": 1,
                             "workspace_root": "/w", "target_directory": "/w/target"});
        MetadataCommand::parse(made_up.to_string()).unwrap()
    }

    #[test]
    fn allowed_edges_pass() {
        let made_up = metadata(
            &[
                ("comity-core", &["jiff"]),
                ("comity-store", &["comity-core"]),
                ("comity-audit", &[]),
                ("comity", &["comity-core", "comity-store", "dev:comity-audit"]),
                ("comity-guard", &["comity-core", "comity-store", "dev:comity"]),
                ("comity-cli", &["comity", "comity-audit"]),
            ],
            &["jiff"],
        );
        assert_eq!(edges(&made_up), [""; 0]);
    }

    #[test]
    fn a_forbidden_edge_is_found() {
        let made_up = metadata(
            &[
                ("comity-core", &["comity-audit"]),
                ("comity-store", &["dev:comity"]),
                ("comity-audit", &["comity-core"]),
                ("comity", &[]),
                ("comity-guard", &["comity"]),
            ],
            &[],
        );
        let expected = [
            "comity-core may not use comity-audit",
            "comity-store may not use comity",
            "comity-audit may not use comity-core",
            "comity-guard may not use comity",
        ];
        assert_eq!(edges(&made_up), expected);
    }

    #[test]
    fn a_crate_without_a_rule_is_found() {
        let faults = edges(&metadata(&[("comity-new", &[])], &[]));
        assert!(faults[0].starts_with("comity-new has no rule yet"), "{faults:?}");
    }

    #[test]
    fn a_banned_package_is_found() {
        let deny = "[bans]\ndeny = [{ crate = \"openssl-sys\", reason = \"no C\" }, { crate = \"other\" }]";
        let made_up = metadata(&[("comity", &["ring"])], &["ring", "openssl-sys"]);
        assert_eq!(banned(&made_up, deny).unwrap(), ["openssl-sys is banned: no C"]);
        assert!(banned(&made_up, "[bans]").is_err());
    }

    #[test]
    fn what_needs_a_c_compiler_is_found() {
        let tree = "comity v0.1.0 (/w/comity)\nlinux-raw-sys v0.12.0\nring v0.17.0\ncc v1.2.0\nlmdb-sys v1.0.0 (*)\n";
        assert_eq!(builds_c(tree).collect::<Vec<_>>(), ["cc", "lmdb-sys"]);
    }
}
