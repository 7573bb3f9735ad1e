//! A Redis server of our own, and what it counts.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use redis::Connection;

/// A server on loopback that keeps nothing. Dropped, it is ended.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    _folder: tempfile::TempDir,
}

/// What it has been asked.
pub(super) struct Asked {
    /// How often it read from a connection: of clients that wait for each answer, round trips.
    pub(super) reads: u64,
    /// Scripts that it ran.
    pub(super) scripts: u64,
}

impl Server {
    pub(super) fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server cannot be started: is it installed?")?;
        let server = Self { child, port, _folder: folder };
        server.wait()?;
        Ok(server)
    }

    pub(super) fn asked(&self) -> anyhow::Result<Asked> {
        let mut connection = connect(self.port)?;
        let stats: String = redis::cmd("INFO").arg("stats").query(&mut connection)?;
        let commands: String = redis::cmd("INFO").arg("commandstats").query(&mut connection)?;
        let reads = number_after(&stats, "total_reads_processed:").context("this Redis does not count its reads")?;
        let calls = |command: &str| number_after(&commands, &format!("cmdstat_{command}:calls=")).unwrap_or(0);
        Ok(Asked { reads, scripts: ["eval", "evalsha", "fcall"].map(calls).iter().sum() })
    }

    #[expect(clippy::disallowed_methods, reason = "a server that starts tells nobody when it is ready")]
    fn wait(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while connect(self.port).is_err() {
            if begun.elapsed() > PATIENCE {
                bail!("redis-server is not ready after {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Asked {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self { reads: self.reads - earlier.reads, scripts: self.scripts - earlier.scripts }
    }
}

pub(super) fn connect(port: u16) -> anyhow::Result<Connection> {
    Ok(redis::Client::open(("127.0.0.1", port))?.get_connection()?)
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

const PATIENCE: Duration = Duration::from_secs(10);
