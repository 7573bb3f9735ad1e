//! The binary as a person meets it: what it says where nothing is sent, and how it refuses what it does not understand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use serde_json::Value;

fn comity(words: &[&str]) -> Command {
    let mut command = Command::cargo_bin("comity").unwrap();
    // No test shares a pace with who runs it, unless it says where.
    command.args(words).env_remove("COMITY_CONFIG").env("COMITY_SHARED", "none").env("NO_COLOR", "1");
    for proxy in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(proxy).env_remove(proxy.to_uppercase());
    }
    command
}

/// Standard output of a command that ends well.
fn output(words: &[&str]) -> String {
    let output = comity(words).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that ends with this code and prints no data.
fn refused(words: &[&str], code: i32) -> String {
    let output = comity(words).assert().code(code).get_output().clone();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&output(words)).unwrap()
}

#[test]
fn a_wrong_value_names_flag_value_and_what_is_allowed() {
    for (words, told) in [
        (&["--interval", "soon"][..], ["--interval", "soon", "500ms"]),
        (&["--rate", "0/min"], ["--rate", "0/min", "15/min"]),
        (&["--policy", "fast"], ["--policy", "fast", "aimd"]),
        (&["--stop-when-limited", "many"], ["--stop-when-limited", "many", "20/300s"]),
        (&["--connect-to", "a.example"], ["--connect-to", "a.example", "HOST1:PORT1:HOST2:PORT2"]),
        (&["--limits", "a.example: burst=0"], ["--limits", "burst = 0", "whole numbers from 1"]),
        (&["-H", "nonsense"], ["--header", "nonsense", "Name: value"]),
        (&["--resume"], ["--resume", "needs", "--output"]),
        (&["--limits", "x.test:burst=0"], ["--limits", "x.test:burst=0", "'x.test: burst=0'"]),
        (&["--contact", "http://"], ["--contact", "http://", "https://example.org/bot"]),
        (&["--report", "no/such/dir/report.json"], ["--report", "no/such/dir/report.json", "allowed"]),
    ] {
        let error = refused(&[&["fetch", "https://a.example/"], words].concat(), 2);
        assert!(told.iter().all(|part| error.contains(part)), "{words:?}: {error}");
    }
}

#[test]
fn a_wrong_configuration_names_file_key_value_and_what_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, "[limits.\"a.example\"]\nper_second = 0\n").unwrap();
    let path = path.to_str().unwrap();
    for error in [
        refused(&["fetch", "--config", path, "https://a.example/"], 2),
        refused(&["explain", "--config", path, "https://a.example/"], 2),
    ] {
        let told = ["mine.toml", "per_second = 0", "a.example", "allowed"];
        assert!(told.iter().all(|part| error.contains(part)), "{error}");
    }
    let named = comity(&["explain", "https://a.example/"]).env("COMITY_CONFIG", path).assert().code(2);
    assert!(String::from_utf8_lossy(&named.get_output().stderr).contains("mine.toml"));
}

#[test]
fn a_file_in_the_working_directory_is_not_read_unasked() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("comity.toml"), "nonsense").unwrap();
    comity(&["explain", "https://a.example/"]).current_dir(dir.path()).assert().success();
}

#[test]
fn help_has_every_exit_code() {
    let help = output(&["fetch", "--help"]);
    for told in [
        "Exit codes",
        "  130  interrupted",
        "    5  some URLs were refused, or not checked",
        "    9  some URLs were disallowed by robots.txt",
        "COMITY_CONFIG",
    ] {
        assert!(help.contains(told), "{told}: {help}");
    }
}

#[test]
fn explain_says_which_limits_hold_and_from_where() {
    let text = output(&["explain", "https://nominatim.openstreetmap.org/search?q=x"]);
    for told in [
        "nominatim.openstreetmap.org",
        "interval          = 1s",
        "from preset J01 Nominatim",
        "from profile crawl",
        "https://operations.osmfoundation.org/policies/nominatim/",
        "high confidence, read 2026-",
        "robots.txt is not read here",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn explain_follows_a_persons_own_words() {
    let url = "https://nominatim.openstreetmap.org/search";
    let stricter = output(&["explain", url, "--limits", "nominatim.openstreetmap.org: interval=3"]);
    assert!(stricter.contains("= 3s          from --limits nominatim.openstreetmap.org"), "{stricter}");
    let off = output(&["explain", url, "--no-presets"]);
    assert!(off.contains("switched off") && !off.contains("from preset"), "{off}");
    let over = "nominatim.openstreetmap.org: per_second=10, override_preset=true";
    let over = output(&["explain", url, "--limits", over]);
    assert!(over.contains("interval          = 100ms"), "{over}");
}

#[test]
fn p3_explain_says_that_loopback_is_exempt() {
    let exempt = json(&["explain", "--json", "http://127.0.0.1:8080/"]);
    assert_eq!(exempt[0]["loopback_exempt"], true);
    let paced = json(&["explain", "--json", "--pace-loopback", "http://127.0.0.1:8080/"]);
    assert_eq!(paced[0]["loopback_exempt"], false);
    assert!(output(&["explain", "http://localhost/"]).contains("loopback"));
}

#[test]
fn explain_prints_json_for_programs() {
    let url = "https://www.example.org/a";
    let words =
        ["explain", "--json", "--profile", "api", "--limits", "*.example.org: rate=15/min, min_refetch_age=1h", url];
    let explained = &json(&words)[0];
    assert_eq!((explained["url"].as_str(), explained["profile"].as_str()), (Some(url), Some("api")));
    assert_eq!((explained["robots"].as_bool(), explained["min_refetch_age"].as_f64()), (Some(false), Some(3600.0)));
    let scopes = explained["scopes"].as_array().unwrap();
    let group = scopes.iter().find(|scope| scope["name"] == "*.example.org").unwrap();
    let interval = group["limits"].as_array().unwrap().iter().find(|said| said["limit"] == "interval").unwrap();
    assert_eq!((interval["value"].as_str(), interval["source"].as_str()), (Some("4s"), Some("--limits *.example.org")));
}

#[test]
fn explain_refuses_what_is_not_fetched() {
    for url in ["nonsense", "ftp://a.example/", "mailto:a@a.example"] {
        assert!(refused(&["explain", url], 2).contains(url), "{url}");
    }
}

#[test]
fn x4_the_demo_shows_what_the_far_end_received() {
    let text = output(&["demo", "--quick", "--quiet"]);
    for told in
        ["what the far end received", "bucket.example", "a token bucket", "monastery.example", "22 pages fetched"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn presets_are_listed_with_their_sources() {
    let text = output(&["presets", "nominatim"]);
    assert!(text.starts_with("J01  Nominatim") && text.contains("interval = 1s, in_flight = 1"), "{text}");
    let all = json(&["presets", "--json"]);
    let all = all.as_array().unwrap();
    assert!(all.len() >= 30);
    for preset in all {
        for key in ["id", "service", "source", "read", "confidence"] {
            assert!(preset[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {preset}");
        }
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    assert!(refused(&["fetch", "--config", "no/such.toml", "https://a.example/"], 2).contains("no/such.toml"));
    assert!(refused(&["fetch", "-q", "-i", "no/such/list.txt"], 1).contains("no/such/list.txt"));
    assert!(refused(&["fetch", "--cacert", "no/such.pem", "https://a.example/"], 2).contains("no/such.pem"));
}

#[test]
fn a_wrong_use_is_shown_the_usage_of_its_own_command() {
    assert!(refused(&["fetch", "--resume", "https://a.example/"], 2).contains("Usage: comity fetch"));
    assert!(refused(&["explain", "nonsense"], 2).contains("Usage: comity explain"));
}

#[test]
fn windows_are_explained_as_the_help_writes_them() {
    let limits = "api.example.org/v1: windows=20:1;100:120";
    let text = output(&["explain", "https://api.example.org/v1/x", "--limits", limits]);
    assert!(text.contains("20 in 1s") && text.contains("100 in 120s"), "{text}");
}

#[test]
fn an_own_name_beside_a_contact_is_told_of() {
    let end = comity(&["fetch", "--contact", "a@example.org", "-A", "our-bot/1", "nonsense"]).assert().code(7);
    let said = String::from_utf8_lossy(&end.get_output().stderr).into_owned();
    assert!(said.contains("--contact is not sent") && said.contains("1 line of the list is no URL"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_run_with_what_is_done() {
    // Nobody listens there: the URL is done at once, and its line cannot be written.
    let url = "http://127.0.0.1:1/";
    let end = comity(&["fetch", "--jsonl", "/dev/full", "--danger-ignore-robots", "--contact", "a@example.org", url])
        .assert()
        .code(1);
    let said = String::from_utf8_lossy(&end.get_output().stderr).into_owned();
    for told in ["Ended by an error", "--resume", "/dev/full"] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn h08_signals_are_heard_while_the_list_is_read() {
    use std::process::{Command, Stdio};
    for (name, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        // Under nohup nobody listens for a hang-up, as whoever said nohup wants it.
        if has("self", "SigIgn:", number) {
            continue;
        }
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("comity"))
            .arg("fetch")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = child.id().to_string();
        while !has(&id, "SigCgt:", number) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it listened");
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
        // Its standard input stays open: nothing but the signal can end it.
        let stdin = child.stdin.take();
        let end = child.wait_with_output().unwrap();
        drop(stdin);
        assert_eq!(end.status.code(), Some(130), "{name}");
        assert!(String::from_utf8_lossy(&end.stderr).contains("interrupted while the list was being read"), "{name}");
    }
}

/// Whether a signal is in one of a process's sets: those it catches, or those it ignores.
#[cfg(target_os = "linux")]
fn has(id: &str, set: &str, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let signals = status.lines().find_map(|line| line.strip_prefix(set)).unwrap_or("0");
    u64::from_str_radix(signals.trim(), 16).is_ok_and(|set| set & (1 << (signal - 1)) != 0)
}

#[test]
fn explain_goes_on_without_a_store_that_does_not_answer() {
    let words = ["explain", "--json", "--shared", "redis://127.0.0.1:1", "https://a.example/"];
    let output = comity(&words).assert().success().get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.lines().count() == 1 && said.contains("the shared store does not answer"), "{said}");
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
    let scope = explained[0]["scopes"][0].as_object().unwrap();
    assert!(scope["known"].is_null() && scope.contains_key("known") && !scope["limits"].as_array().unwrap().is_empty());
}

#[test]
fn hosts_and_forget_need_a_store_and_a_host_that_can_be_one() {
    for command in [&["hosts"][..], &["forget", "--all"]] {
        assert!(refused(&[command, &["--shared", "none"]].concat(), 2).contains("nothing is shared"), "{command:?}");
        let gone = refused(&[command, &["--shared", "redis://127.0.0.1:1"]].concat(), 1);
        assert!(gone.contains("the shared store does not answer"), "{gone}");
    }
    for command in ["hosts", "forget"] {
        let error = refused(&[command, "a.*.example"], 2);
        assert!(error.contains("a.*.example") && error.contains("allowed are a host"), "{error}");
    }
    assert!(refused(&["forget"], 2).contains("--all"));
    assert!(refused(&["forget", "a.example", "--all"], 2).contains("--all"));
}
