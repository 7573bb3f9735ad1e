//! `comity audit` over limiters that are not ours: the programs in `examples/audit`.
//!
//! They need node with the packages of `examples/audit/package-lock.json`, redis-server, curl and python3. Where
//! `COMITY_NODE_MODULES` names the folder of the packages, all of these must be there; without it, a test that lacks
//! something says what, and is skipped.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

#[test]
fn x4_bottleneck_with_its_local_datastore_fails() {
    let Some(modules) = needs(&["node"]).and_then(|()| packages()) else { return };
    for (script, workers, each) in [("bottleneck-local.js", "6", "5"), ("bottleneck-cluster.js", "1", "30")] {
        let words = ["--workers", workers, "--requests", each, "--", "node"];
        let judged = audit(&words, script, &[("NODE_PATH", modules.clone().into())]);
        assert_eq!(judged.code, 1, "{script}: {judged:#?}");
        let host = judged.host(0);
        assert_eq!(host["arrivals"], 30, "{script}: {judged:#?}");
        assert!(number(&host["per_second"]) > 6.0, "2 a second were promised: {script}: {judged:#?}");
    }
}

#[test]
fn x4_bottleneck_with_its_redis_datastore_passes() {
    let Some(modules) = needs(&["node", "redis-server"]).and_then(|()| packages()) else { return };
    let redis = Redis::start();
    let env = [("NODE_PATH", modules.into()), ("REDIS_URL", format!("redis://127.0.0.1:{}", redis.port).into())];
    let words = ["--workers", "6", "--requests", "2", "--", "node"];
    let judged = audit(&words, "bottleneck-redis.js", &env);
    assert_eq!(judged.code, 0, "{judged:#?}");
    let host = judged.host(0);
    assert_eq!(host["arrivals"], 12, "{judged:#?}");
    assert!(number(&host["per_second"]) < 2.5, "2 a second were promised: {judged:#?}");
}

#[test]
fn x4_a_shell_loop_passes_alone_and_fails_six_times() {
    let Some(()) = needs(&["sh", "curl"]) else { return };
    let judged = audit(&["--sweep", "1,6", "--requests", "3", "--", "sh"], "curl.sh", &[]);
    assert_eq!(judged.code, 1, "{judged:#?}");
    assert_eq!([judged.host(0)["arrivals"].clone(), judged.host(1)["arrivals"].clone()], [3, 18], "{judged:#?}");
    assert_eq!([judged.verdict(0), judged.verdict(1)], ["passes", "fails"], "{judged:#?}");
    assert!(number(&judged.host(0)["least_gap_ms"]) > 495.0, "{judged:#?}");
}

#[test]
fn x4_a_lock_shared_by_six_processes_passes() {
    let Some(()) = needs(&["python3"]) else { return };
    let judged = audit(&["--workers", "6", "--requests", "2", "--", "python3"], "polite.py", &[]);
    assert_eq!(judged.code, 0, "{judged:#?}");
    assert_eq!(judged.host(0)["arrivals"], 12, "{judged:#?}");
    assert!(number(&judged.host(0)["least_gap_ms"]) > 495.0, "{judged:#?}");
}

#[test]
fn packages_that_were_named_and_are_not_there_are_told() {
    let empty = tempfile::tempdir().unwrap();
    let told = lacking(empty.path()).unwrap();
    assert!(told.contains("bottleneck") && told.contains(empty.path().to_str().unwrap()), "{told}");
}

/// How an audit came out.
#[derive(Debug)]
struct Judged {
    code: i32,
    report: Value,
    #[expect(dead_code, reason = "read where a test fails")]
    words: String,
}

impl Judged {
    /// What the first host of an arm received.
    fn host(&self, arm: usize) -> &Value {
        &self.report["arms"][arm]["hosts"][0]
    }

    fn verdict(&self, arm: usize) -> &str {
        self.report["arms"][arm]["verdict"].as_str().unwrap()
    }
}

/// Judges a script of `examples/audit` by one arrival every half second; `words` end with the program that runs it.
fn audit(words: &[&str], script: &str, env: &[(&str, OsString)]) -> Judged {
    // One at a time: who measures on this machine should have it to itself.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_comity"));
    command.args(["audit", "--json", "--show-output", "--interval", "500ms", "--tolerance", TOLERANCE]);
    command.args(words).arg(examples().join(script));
    let output = command.envs(env.iter().map(|(name, value)| (name, value))).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{script}: {error}: {words}"));
    Judged { code: output.status.code().unwrap(), report, words }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A Redis of the test's own.
struct Redis {
    server: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Redis {
    #[expect(clippy::disallowed_methods, reason = "a real server takes real time to come up")]
    fn start() -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        let server = command.arg(dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let redis = Self { server, port, _dir: dir };
        for _ in 0..500 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return redis;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not answer on port {port}");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Whether these programs are there. Where one is not, the test is skipped, or fails where nothing may be lacking.
fn needs(programs: &[&str]) -> Option<()> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let absent = programs.iter().find(|program| !folders.iter().any(|folder| folder.join(program).is_file()));
    absent.map_or(Some(()), |program| skipped(&format!("{program} is not on the PATH")))
}

/// The folder with the packages that the scripts for node require.
fn packages() -> Option<PathBuf> {
    let modules = std::env::var_os(MODULES).map_or_else(|| examples().join("node_modules"), PathBuf::from);
    match lacking(&modules) {
        None => Some(modules),
        Some(what) => skipped(&what),
    }
}

/// What a folder of packages lacks.
fn lacking(modules: &Path) -> Option<String> {
    let absent = ["bottleneck", "redis"].into_iter().find(|name| !modules.join(name).join("package.json").is_file())?;
    Some(format!("{} has no package `{absent}`; `npm ci` in examples/audit installs it", modules.display()))
}

/// Says what is lacking, past the test runner's capture; a failure where `COMITY_NODE_MODULES` promised that nothing is.
fn skipped<T>(lacking: &str) -> Option<T> {
    assert!(std::env::var_os(MODULES).is_none(), "{MODULES} is set, but {lacking}");
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    std::io::stderr().write_all(format!("{name}: skipped: {lacking}\n").as_bytes()).unwrap();
    None
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("examples/audit")
}

/// Half the interval: on a busy machine the first request of a process may come 200 ms late, and the one after it in time.
/// What six processes send that know nothing of each other is ahead of the promise by whole intervals.
const TOLERANCE: &str = "250ms";

/// Names the folder of the packages for node.
const MODULES: &str = "COMITY_NODE_MODULES";
