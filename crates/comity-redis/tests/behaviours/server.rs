//! Servers of one test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use comity_core::limits::{Limits, Partial};
use comity_core::policy::Policy;
use comity_core::scope::{Pattern, Rules};
use comity_redis::{Redis, Settings};
use comity_store::{Joined, Memory, MemorySettings};

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    child: Child,
    arguments: Vec<String>,
    pub(crate) directory: tempfile::TempDir,
}

impl Server {
    /// A server without any setting of its own.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// A server with these arguments beside its own.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self::within(directory, free_port(), arguments)
    }

    pub(crate) fn within(directory: tempfile::TempDir, port: u16, arguments: &[&str]) -> Self {
        let arguments: Vec<String> =
            arguments.iter().flat_map(|argument| argument.split(' ').map(str::to_owned)).collect();
        let child = spawn(port, directory.path(), &arguments);
        let server = Self { port, child, arguments, directory };
        server.wait();
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, empty.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.port, self.directory.path(), &self.arguments);
        self.wait();
    }

    fn wait(&self) {
        let tls = self.arguments.iter().any(|argument| argument == "--tls-port");
        for _ in 0..1000 {
            let open = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            if open && (tls || self.say(&["PING"]).contains("PONG") || self.say(&["PING"]).contains("NOAUTH")) {
                return;
            }
            pause(Duration::from_millis(5));
        }
        panic!("the server at port {} does not come up", self.port);
    }

    /// Says a command in the protocol's plainest form, and returns the first answer.
    pub(crate) fn say(&self, words: &[&str]) -> String {
        say(self.port, words)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn say(port: u16, words: &[&str]) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    if stream.write_all(text.as_bytes()).is_err() {
        return String::new();
    }
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let _ = reader.read_line(&mut line);
    if let Some(length) = line.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok()) {
        let mut bytes = vec![0; length];
        let _ = reader.read_exact(&mut bytes);
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    line
}

fn spawn(port: u16, directory: &std::path::Path, arguments: &[String]) -> Child {
    let tls = arguments.iter().any(|argument| argument == "--tls-port");
    let mut command = Command::new("redis-server");
    let plain = if tls { "0".to_owned() } else { port.to_string() };
    command.args(["--port", &plain, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
    command.arg("--dir").arg(directory).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        panic!("these tests need redis-server (Debian, Ubuntu: apt-get install redis-server; or Valkey's): {error}")
    })
}

pub(crate) fn free_port() -> u16 {
    // Below the ports that the system gives out by itself, so that no other test is given it meanwhile.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let seed = std::process::id().wrapping_mul(37) + NEXT.fetch_add(1, Ordering::Relaxed) * 13;
        let port = 12_000 + u16::try_from(seed % 9_000).expect("a port");
        // A cluster's nodes talk to each other ten thousand ports above.
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

/// Waits for what another process does.
#[expect(clippy::disallowed_methods, reason = "a server is another process: only time brings it")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Settings under a prefix that no other store of this test has.
pub(crate) fn settings() -> Settings {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Settings { prefix: format!("test{number}:1"), ..Settings::default() }
}

pub(crate) fn rules(written: &[(&str, Partial)], template: Partial) -> Rules {
    let mut builder = Rules::builder(Limits { policy: Policy::refusal(), ..Limits::none() });
    builder.template(template);
    for (pattern, partial) in written {
        builder.rule(Pattern::parse(pattern).expect("a pattern"), partial.clone());
    }
    builder.build()
}

/// A store whose times are given.
pub(crate) fn given(url: &str, settings: Settings, rules: Rules) -> Joined<Redis> {
    let patient = Settings { deadline: Duration::from_secs(5), ..settings };
    let shared = Redis::at_given_times(url, patient).expect("the server answers");
    Joined::new(Memory::new(rules.into(), MemorySettings::default()), shared)
}
