//! Worker processes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::far_end::{Ground, HOST};

/// Several `comity fetch` on one host, each with a list of its own: `/w<worker>/<n>`.
pub(crate) struct Crew<'a> {
    ground: &'a Ground,
    shared: String,
    interval: Duration,
    pages: usize,
    /// Words put before the command of a worker, such as those of faketime.
    before: Vec<Vec<String>>,
    more: Vec<String>,
    host: String,
    lists: Arc<TempDir>,
}

/// Workers at work. Those that still run when it is dropped are killed.
pub(crate) struct AtWork {
    pub(crate) workers: Vec<Child>,
    /// They read their lists from there.
    _lists: Arc<TempDir>,
}

impl<'a> Crew<'a> {
    /// Workers that share their pace there (`--shared`), at this interval, with so many pages each.
    pub(crate) fn new(ground: &'a Ground, shared: &str, interval: Duration, pages: usize) -> Self {
        let lists = Arc::new(tempfile::tempdir().unwrap());
        Self {
            ground,
            shared: shared.to_owned(),
            interval,
            pages,
            before: Vec::new(),
            more: vec!["--danger-ignore-robots".to_owned()],
            host: HOST.to_owned(),
            lists,
        }
    }

    /// Asks another host of the far end.
    pub(crate) fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// Adds flags.
    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.more.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Obeys robots.txt.
    pub(crate) fn with_robots(mut self) -> Self {
        self.more.retain(|flag| flag != "--danger-ignore-robots");
        self
    }

    /// Workers are started by these commands, one after the other and round again.
    pub(crate) fn before(mut self, commands: &[&[&str]]) -> Self {
        self.before = commands.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
        self
    }

    /// Starts a worker.
    pub(crate) fn start(&self, worker: usize) -> Child {
        let list = self.lists.path().join(worker.to_string());
        let urls: String = (0..self.pages).map(|n| format!("http://{}/w{worker}/{n}\n", self.host)).collect();
        std::fs::write(&list, urls).unwrap();
        let mut words = self.before.get(worker % self.before.len().max(1)).cloned().unwrap_or_default();
        words.push(comity().to_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("fetch").arg("--input").arg(&list);
        command.arg("--interval").arg(format!("{}us", self.interval.as_micros()));
        command.args(["--policy", "fixed", "--no-presets", "--quiet", "--shared", &self.shared]);
        command.arg("--connect-to").arg(format!("::127.0.0.1:{}", self.ground.far_end.addr().port()));
        command.args(&self.more);
        quiet_environment(&mut command, self.lists.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
    }

    /// Starts so many.
    pub(crate) fn start_all(&self, workers: usize) -> AtWork {
        AtWork { workers: (0..workers).map(|worker| self.start(worker)).collect(), _lists: Arc::clone(&self.lists) }
    }

    /// Starts so many and waits for all of them to end well.
    pub(crate) fn run(&self, workers: usize) {
        self.start_all(workers).all_done();
    }
}

impl AtWork {
    /// Waits until all have ended well.
    pub(crate) fn all_done(mut self) {
        for child in &mut self.workers {
            let status = child.wait().unwrap();
            assert!(status.success(), "a worker ended with {status}");
        }
        self.workers.clear();
    }

    /// Sends a signal to one of them.
    pub(crate) fn signal(&self, worker: usize, signal: Signal) {
        kill_process(pid(&self.workers[worker]), signal).unwrap();
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        for child in &mut self.workers {
            let _ = kill_process(pid(child), Signal::CONT);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The command.
pub(crate) fn comity() -> &'static str {
    env!("CARGO_BIN_EXE_comity")
}

/// Nothing of the tester's own settings reaches a worker.
pub(crate) fn quiet_environment(command: &mut Command, home: &Path) {
    for proxy in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(proxy).env_remove(proxy.to_uppercase());
    }
    command.env_remove("COMITY_CONFIG").env_remove("COMITY_SHARED").env("NO_COLOR", "1");
    command.env("XDG_STATE_HOME", home.join("state"));
}

/// The library that lies about the time.
pub(crate) fn faketime() -> String {
    let roots = ["/usr/lib", "/usr/local/lib"];
    let named = |root: &str| {
        let mut folders = vec![Path::new(root).to_owned()];
        folders.extend(std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()));
        folders.into_iter().map(|folder| folder.join("faketime/libfaketime.so.1")).find(|path| path.exists())
    };
    let found = roots.iter().find_map(|root| named(root));
    found
        .expect("libfaketime is needed: `cargo xtask test` brings it, or `apt-get install faketime`")
        .display()
        .to_string()
}
