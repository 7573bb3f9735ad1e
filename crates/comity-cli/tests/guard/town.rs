//! A guard as a process, upstreams, and a client of plain sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use comity_audit::far_end::{FarEnd, Host, World};
use serde_json::Value;

/// A running guard. Dropped, it is ended.
pub(crate) struct Guard {
    child: Child,
    /// Where it listens, in order.
    pub(crate) at: Vec<SocketAddr>,
    pub(crate) admin: SocketAddr,
    events: Receiver<Value>,
    words: Arc<Mutex<String>>,
}

impl Guard {
    /// In front of `upstream`, on a free port, with these further words.
    pub(crate) fn start(upstream: SocketAddr, words: &[&str]) -> Self {
        Self::start_at(&["127.0.0.1:0"], upstream, words)
    }

    pub(crate) fn start_at(listen: &[&str], upstream: SocketAddr, words: &[&str]) -> Self {
        let mut command = command();
        for address in listen {
            command.args(["--listen", address]);
        }
        let upstream = format!("http://{upstream}");
        command.args(["--upstream", &upstream, "--admin", "127.0.0.1:0", "--json"]).args(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, events) = channel::<Value>();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).unwrap());
            }
        });
        let said = Arc::<Mutex<String>>::default();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let hearing = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                hearing.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        let Ok(event) = events.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it does not begin: {}", said.lock().unwrap());
        };
        let address = |url: &Value| url.as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
        assert_eq!(event["event"], "listening");
        let at = event["listening"].as_array().unwrap().iter().map(address).collect();
        Self { child, at, admin: address(&event["admin"]), events, words: said }
    }

    /// Asks it for a path with a request of its own.
    pub(crate) fn get(&self, path: &str) -> Answer {
        get(self.at[0], path, &[])
    }

    pub(crate) fn get_as(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        get(self.at[0], path, fields)
    }

    /// The next line on its standard output.
    pub(crate) fn event(&self) -> Value {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    /// What it has said on standard error.
    pub(crate) fn words(&self) -> String {
        self.words.lock().unwrap().clone()
    }

    /// Waits until it has said that.
    pub(crate) fn hears(&self, words: &str) {
        until(&format!("it says {words:?}"), || self.words().contains(words));
    }

    /// A number that it tells the operator.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = get(self.admin, "/metrics", &[]).body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal: `-HUP`, `-TERM`.
    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("it has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `comity guard`, with nothing of who runs the test.
pub(crate) fn command() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("comity"));
    command.arg("guard").env_remove("COMITY_CONFIG").env_remove("COMITY_SHARED").env("NO_COLOR", "1");
    command
}

/// A server of Redis. Dropped, it is ended.
pub(crate) struct Redis {
    process: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is needed: `apt-get install redis-server`");
        until("redis-server answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { process, port, _dir: dir }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server that answers everything at once, and records it.
pub(crate) fn far_end() -> FarEnd {
    FarEnd::start(World::new().default_host(Host::new())).unwrap()
}

/// A server each of whose connections is given to this.
pub(crate) fn upstream(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The first field of that name, or nothing.
    pub(crate) fn field(&self, name: &str) -> &str {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .next()
            .unwrap_or_default()
    }

    pub(crate) fn retry_after(&self) -> Duration {
        Duration::from_secs(self.field("retry-after").parse().unwrap())
    }
}

/// A request on a connection of its own.
pub(crate) fn get(at: SocketAddr, path: &str, fields: &[(&str, &str)]) -> Answer {
    let mut stream = ask(at, path, fields);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    answer(&bytes)
}

/// The same, sent and not yet answered.
pub(crate) fn ask(at: SocketAddr, path: &str, fields: &[(&str, &str)]) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

pub(crate) fn answer(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Reads up to the end of a head.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{:?}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

/// Real processes take real time.
#[expect(clippy::disallowed_methods, reason = "a client that is told to wait waits")]
pub(crate) fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// Waits for what another process does.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let step = Duration::from_millis(5);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if done() {
            return;
        }
        wait(step);
    }
    panic!("waited in vain until {what}");
}

/// Longer than anything takes on a machine that is busy with something else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
