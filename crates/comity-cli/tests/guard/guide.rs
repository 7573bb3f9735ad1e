//! What docs/guide/guard.md and the README say of the guard: their commands are obeyed, and their answers are given.

use std::path::{Path, PathBuf};

use crate::town::{Guard, command, far_end};

fn document(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The blocks of code of that kind.
fn blocks(text: &str, kind: &str) -> Vec<String> {
    let begins = format!("```{kind}\n");
    text.split(&begins).skip(1).map(|rest| rest.split("```\n").next().unwrap().to_owned()).collect()
}

/// The commands that begin a guard, as words after `guard`.
fn commands(text: &str) -> Vec<Vec<String>> {
    let lines = blocks(text, "sh").join("\n").replace("\\\n", " ");
    let guards = lines.lines().filter_map(|line| line.split_once(" guard ").or_else(|| line.split_once(" -- guard ")));
    guards.map(|(_, words)| words.split_whitespace().map(str::to_owned).collect()).collect()
}

/// A folder with the files that the guide names.
fn folder(guide: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let toml = blocks(guide, "toml").remove(0);
    for (name, text) in
        [("chain.pem", made.cert.pem()), ("key.pem", made.signing_key.serialize_pem()), ("guard.toml", toml)]
    {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let path = dir.path().to_owned();
    (dir, path)
}

#[test]
fn the_commands_of_the_guide_and_the_readme_are_obeyed() {
    let guide = document("docs/guide/guard.md");
    let (_dir, folder) = folder(&guide);
    let all = [commands(&guide), commands(&document("README.md"))].concat();
    assert!(all.len() >= 9, "{all:?}");
    for mut words in all {
        words.retain(|word| word != "--check");
        let checked = command().args(&words).arg("--check").current_dir(&folder).output().unwrap();
        assert!(checked.status.success(), "{words:?}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn what_the_guide_says_is_said() {
    let guide = document("docs/guide/guard.md");
    let plain = blocks(&guide, "text");
    let far_end = far_end();
    let guard = Guard::start(far_end.addr(), &["--rate", "10/s", "--burst", "20", "--max-in-flight", "64"]);
    guard.hears("in flight");
    let told = plain.iter().find(|block| block.starts_with("comity: ")).unwrap();
    for line in told.lines().skip(1) {
        assert!(guard.words().contains(line), "{line}: {}", guard.words());
    }
    let refused = plain.iter().find(|block| block.starts_with("HTTP/1.1 429")).unwrap();
    let answer = std::iter::repeat_with(|| guard.get("/")).find(|answer| answer.status == 429).unwrap();
    for line in refused.lines() {
        assert!(answer.head.lines().any(|told| told == line), "{line}: {}", answer.head);
    }
}
