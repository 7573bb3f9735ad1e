//! `comity audit` as a script meets it: exit codes, data on standard output, words on standard error.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;

/// Exit code, standard output and standard error.
fn audit(words: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("comity").unwrap();
    let output = command.arg("audit").args(words).env("NO_COLOR", "1").write_stdin(input).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn x6_a_program_that_keeps_its_pace_passes() {
    let comity = assert_cmd::cargo::cargo_bin("comity");
    let judging = ["--interval", "300ms", "--tolerance", "100ms", "--workers", "1", "--requests", "3", "--"];
    let pace = ["--profile", "api", "--policy", "fixed", "--interval", "300ms"];
    let judged =
        [&[comity.to_str().unwrap(), "fetch", "-q", "--resolve", "{resolve}", "-i", "{urls}"], &pace[..]].concat();
    let (code, out, err) = audit(&[&judging[..], &judged].concat(), "");
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("audit-1.example") && out.contains("Verdict: passes"), "{out}");
    assert!(err.contains("1 worker") && !err.contains("\x1b"), "{err}");
}

#[test]
fn x5_an_audit_that_shows_nothing_is_void_and_its_json_says_so() {
    let (code, out, err) = audit(&["--interval", "10ms", "--json", "-q", "--", "true"], "");
    assert_eq!((code, err.as_str()), (10, ""));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((report["verdict"].as_str(), report["arms"][0]["workers"].as_u64()), (Some("void"), Some(2)));
}

#[test]
fn x6_arrivals_are_drawn_and_output_is_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    for (name, begins) in [("a.svg", "<svg"), ("a.html", "<!")] {
        let path = dir.path().join(name);
        let words =
            ["--interval", "10ms", "--show-output", "--picture", path.to_str().unwrap(), "--", "echo", "w{worker}"];
        let (_, _, err) = audit(&words, "");
        assert!(err.contains("w1| w1"), "{err}");
        let drawn = std::fs::read_to_string(&path).unwrap();
        assert!(drawn.trim_start().to_lowercase().starts_with(begins), "{drawn:.80}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left there");
}

#[test]
fn a_log_is_judged_from_files_and_from_standard_input() {
    let line = |second: u32| format!("192.0.2.1 - - [01/Jan/2026:00:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 5\n");
    let log = |seconds: &[u32]| seconds.iter().map(|&second| line(second)).collect::<String>();
    let kept = audit(&["--log", "-", "--interval", "10s"], &log(&[0, 10, 20]));
    assert_eq!(kept.0, 0, "{kept:?}");
    let broken = audit(&["--log", "-", "--interval", "10s"], &log(&[0, 1, 2]));
    assert_eq!(broken.0, 1, "{broken:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    std::fs::write(&path, log(&[0, 10])).unwrap();
    let both = audit(&["--log", path.to_str().unwrap(), "--log", "-", "--interval", "10s"], &log(&[11, 12]));
    assert_eq!(both.0, 1, "{both:?}");
    let absent = audit(&["--log", "no-such.log", "--interval", "10s"], "");
    assert!(absent.0 == 10 && absent.2.contains("no-such.log"), "{absent:?}");
}

#[test]
fn what_cannot_be_audited_is_told_before_anything_runs() {
    for (words, told) in [
        (&["--workers", "0", "--interval", "1", "--", "true"][..], &["--workers", "'0'", "allowed"][..]),
        (&["--interval", "1"], &["-- CMD", "--log"]),
        (&["--", "true"], &["--interval", "--rate"]),
        (&["--log", "-"], &["--interval", "--rate"]),
        (&["--interval", "1", "--picture", "a.png", "--", "true"], &["--picture", "a.png", ".svg"]),
        (&["--interval", "1", "--sweep", "1,x", "--", "true"], &["--sweep", "'1,x'", "allowed"]),
    ] {
        let (code, out, err) = audit(words, "");
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(told.iter().all(|part| err.contains(part)), "{words:?}: {err}");
    }
    let (code, _, err) = audit(&["--interval", "10ms", "-q", "--", "/nowhere/at/all"], "");
    assert!(code == 10 && err.contains("/nowhere/at/all"), "{err}");
}
