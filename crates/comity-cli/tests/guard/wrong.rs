//! What cannot be obeyed.

use std::net::TcpListener;

use crate::town::command;

/// Exit code and standard error.
fn refused(words: &[&str]) -> (Option<i32>, String) {
    let output = command().args(words).output().unwrap();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_wrong_value_names_flag_value_and_what_is_allowed_and_nothing_is_listened_on() {
    // Whoever tried to listen here would end with another code.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let (config, text) = (dir.path().join("guard.toml"), dir.path().join("text"));
    std::fs::write(&config, "max_in_flight = 0\n").unwrap();
    std::fs::write(&text, "no PEM").unwrap();
    let (config, text) = (config.to_str().unwrap(), text.to_str().unwrap());
    for (words, told) in [
        (&["--rate", "0/s"][..], &["--rate", "0/s", "10/s"][..]),
        (&["--rate", "1", "--burst", "-1"], &["--burst", "-1", "from 1"]),
        (&["--max-in-flight", "many"], &["--max-in-flight", "many", "auto"]),
        (&["--rate", "1", "--trusted-proxy", "10.0.0.1/8"], &["--trusted-proxy", "10.0.0.1/8", "10.0.0.0/8"]),
        (&["--rate", "1", "--admin", "nowhere"], &["--admin", "nowhere", "9090"]),
        (&["--rate", "1", "--listen", "a.example:1"], &["--listen", "a.example:1", ":8080"]),
        (&["--config", config], &["--config", "guard.toml", "max_in_flight = 0", "allowed"]),
        (&["--config", "no/such.toml"], &["--config", "no/such.toml"]),
        (&["--rate", "1", "--tls-cert", text, "--tls-key", text], &["--tls-cert", "text", "no PEM certificate"]),
        (&["--rate", "1", "--access-log", "no/such/dir/a.log"], &["--access-log", "no/such/dir/a.log", "allowed"]),
        (&["--rate", "1", "--upstream-cacert", text], &["--upstream-cacert", "text"]),
        (&[], &["nothing is limited", "--rate", "--max-in-flight"]),
    ] {
        let upstream = if words.contains(&"--upstream-cacert") { "https://127.0.0.1:1" } else { "http://127.0.0.1:1" };
        let all = [&["--listen", &listen, "--upstream", upstream], words].concat();
        let (code, error) = refused(&all);
        assert_eq!(code, Some(2), "{words:?}: {error}");
        assert!(told.iter().all(|part| error.contains(part)), "{words:?}: {error}");
    }
    for upstream in ["127.0.0.1:3000", "http://a/b"] {
        let (code, error) = refused(&["--listen", &listen, "--upstream", upstream, "--rate", "1"]);
        assert!(code == Some(2) && error.contains("--upstream") && error.contains("http://HOST:PORT"), "{error}");
    }
}

#[test]
fn an_address_that_is_taken_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    for words in [&["--listen", &taken][..], &["--listen", "127.0.0.1:0", "--admin", &taken]] {
        let (code, error) = refused(&[&["--upstream", "http://127.0.0.1:1", "--rate", "1"], words].concat());
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(words[words.len() - 2]) && error.contains(&taken), "{error}");
    }
}
