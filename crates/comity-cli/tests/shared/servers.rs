//! Redis servers of the tests' own.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;

/// A server on a port of its own, killed when dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
    more: Vec<String>,
    _dir: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(free_port(), &[])
    }

    pub(crate) fn start_with(port: u16, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        let process = launch(port, &more, dir.path());
        let server = Self { process, port, more, _dir: dir };
        server.wait_until_up();
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again, empty, on the same port.
    pub(crate) fn restart(&mut self) {
        self.process = launch(self.port, &self.more, self._dir.path());
        self.wait_until_up();
    }

    /// One command, and its answer's first line.
    pub(crate) fn ask(&self, words: &str) -> String {
        self.try_ask(words).unwrap()
    }

    fn try_ask(&self, words: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "{words}\r\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    #[expect(clippy::disallowed_methods, reason = "a real server takes real time to come up")]
    fn wait_until_up(&self) {
        for _ in 0..500 {
            if self.try_ask("PING").is_ok_and(|answer| answer == "+PONG") {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not answer on port {}", self.port);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn launch(port: u16, more: &[String], dir: &std::path::Path) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(dir).args(more);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is needed: `cargo xtask test` brings it, or `apt-get install redis-server`")
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A door in front of servers, which can be turned to another: what a failover looks like to clients.
pub(crate) struct Front {
    pub(crate) port: u16,
    to: Arc<AtomicU16>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Front {
    pub(crate) fn of(server: &Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = Arc::new(AtomicU16::new(server.port));
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let (aim, kept) = (Arc::clone(&to), Arc::clone(&open));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, aim.load(Ordering::SeqCst))) else {
                    continue;
                };
                for (from, into) in [(&client, &server), (&server, &client)] {
                    let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                    into.set_nodelay(true).unwrap();
                    kept.lock().unwrap().push(from.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { port, to, open }
    }

    /// From now on it leads to another server; what was open is broken.
    pub(crate) fn turn_to(&self, server: &Server) {
        self.to.store(server.port, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
