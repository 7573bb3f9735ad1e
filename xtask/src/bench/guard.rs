//! `cargo xtask bench guard`: the guard beside nginx, and under four times what a server bears.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::server::Server;
use super::{cargo, release};
use crate::workspace::Workspace;

/// Beside nginx where it is installed, both on one core, wrk asking; then the load test with its figures.
pub(super) fn run(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    if is_installed("wrk") {
        beside(workspace, folder)?;
    } else {
        println!("\n== guard: wrk is not installed, so that requests a second are not measured");
    }
    println!("\n== guard under four times what a server bears");
    let test = ["test", "--locked", "-q", "--release", "-p", "comity-cli", "--test", "guard"];
    cargo(workspace, &[&test[..], &["--", "--ignored", "--nocapture", "load"]].concat())
}

/// The same server behind both; every request passes, then nearly none.
fn beside(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    println!("\n== guard: one core each, {CONNECTIONS} connections, {SECONDS} s; best of {ROUNDS}");
    let nginx = is_installed("nginx");
    // Whoever serves the pages is the same for both.
    let (_pages, server, behind) = if nginx {
        let (pages, port) =
            Ended::nginx(folder, "pages", &format!("location / {{ return 200 \"{}\"; }}", "x".repeat(BYTES)), "")?;
        (Some(pages), None, port)
    } else {
        println!("nginx is not installed: the guard stands alone, before a server of the project's own");
        let server = Server::start(workspace, BYTES)?;
        let port = server.port;
        (None, Some(server), port)
    };
    let path = if server.is_some() { "/file/1" } else { "/" };
    println!(
        "{:24} {:>12} {:>9} {:>9} {:>15} {:>16}",
        "", "requests/s", "p50", "p99", "CPU µs/request", "requests/CPU s"
    );
    for (what, rate, burst) in [("all pass", 1_000_000, 1_000_000), ("nearly all are refused", 1, 1)] {
        let guard = || Ended::guard(workspace, behind, rate, burst);
        let ours = best(what, "comity guard", path, guard)?;
        if nginx {
            let zone =
                format!("limit_req_zone $binary_remote_addr zone=each:10m rate={rate}r/s; limit_req_status 429;");
            let upstream = format!("upstream behind {{ server 127.0.0.1:{behind}; keepalive 64; }}");
            let location = format!(
                "location / {{ limit_req zone=each burst={} nodelay; proxy_pass http://behind; proxy_http_version 1.1; \
                 proxy_set_header Connection \"\"; proxy_set_header Host $host; \
                 proxy_set_header X-Forwarded-For $remote_addr; }}",
                burst - 1
            );
            let theirs =
                best(what, "nginx", path, || Ended::nginx(folder, "proxy", &location, &format!("{zone} {upstream}")))?;
            println!(
                "  comity / nginx: requests/s {:.2}, requests a CPU second {:.2}, p50 {:.2}, p99 {:.2}",
                ours.per_second / theirs.per_second,
                theirs.cpu / ours.cpu,
                ours.p50 / theirs.p50,
                ours.p99 / theirs.p99
            );
        }
    }
    Ok(())
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
struct Figures {
    per_second: f64,
    /// In milliseconds.
    p50: f64,
    p99: f64,
    /// Microseconds of CPU time for each request.
    cpu: f64,
}

fn best(
    what: &str,
    name: &str,
    path: &str,
    start: impl Fn() -> anyhow::Result<(Ended, u16)>,
) -> anyhow::Result<Figures> {
    let mut best: Option<Figures> = None;
    for _ in 0..ROUNDS {
        let (process, port) = start()?;
        let figures = measure(&process, port, path)?;
        if best.is_none_or(|known| figures.cpu < known.cpu) {
            best = Some(figures);
        }
    }
    let figures = best.context("no round was run")?;
    println!(
        "{:24} {:>12.0} {:>6.2} ms {:>6.2} ms {:>15.1} {:>16.0}",
        format!("{name}, {what}").chars().take(36).collect::<String>(),
        figures.per_second,
        figures.p50,
        figures.p99,
        figures.cpu,
        1e6 / figures.cpu
    );
    Ok(figures)
}

fn measure(process: &Ended, port: u16, path: &str) -> anyhow::Result<Figures> {
    let url = format!("http://127.0.0.1:{port}{path}");
    let wrk = |seconds: u32| -> anyhow::Result<String> {
        let connections = CONNECTIONS.to_string();
        let words = ["-t1", "-c", &connections, "--latency", "-d", &format!("{seconds}s"), &url];
        let output = Command::new("wrk").args(words).output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    wrk(1)?;
    let before = process.cpu()?;
    let told = wrk(SECONDS)?;
    let used = process.cpu()? - before;
    let number = |label: &str| {
        let line = told.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
        line.with_context(|| format!("wrk says nothing of {label}: {told}"))
    };
    let requests =
        told.lines().find(|line| line.contains(" requests in ")).and_then(|line| line.split_whitespace().next());
    let requests: f64 = requests.context("wrk counts nothing")?.parse()?;
    Ok(Figures {
        per_second: number("Requests/sec:")?.parse()?,
        p50: millis(number("50%")?)?,
        p99: millis(number("99%")?)?,
        cpu: used * 1e6 / requests,
    })
}

/// `1.23ms`, `456.00us`, `1.00s`.
fn millis(text: &str) -> anyhow::Result<f64> {
    for (unit, scale) in [("us", 1e-3), ("ms", 1.0), ("s", 1e3)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(number.parse::<f64>()? * scale);
        }
    }
    bail!("`{text}` is no time")
}

/// A process that ends with the benchmark.
struct Ended(Child);

impl Ended {
    fn guard(workspace: &Workspace, behind: u16, rate: u32, burst: u32) -> anyhow::Result<(Self, u16)> {
        let mut command = Command::new(release(workspace, "comity"));
        let (upstream, rate, burst) = (format!("http://127.0.0.1:{behind}"), format!("{rate}/s"), burst.to_string());
        command.args(["guard", "--listen", "127.0.0.1:0", "--upstream", &upstream, "--rate", &rate, "--burst", &burst]);
        command.args(["--json", "-q"]).env("TOKIO_WORKER_THREADS", "1");
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it has no stdout")?).read_line(&mut line)?;
        let process = Self(child);
        let event: serde_json::Value = serde_json::from_str(&line).context("the guard tells where it listens")?;
        let port = event["listening"][0].as_str().and_then(|url| url.rsplit(':').next());
        Ok((process, port.context("the guard tells where it listens")?.parse()?))
    }

    /// One worker, and nothing but this in its configuration.
    fn nginx(folder: &Path, name: &str, location: &str, http: &str) -> anyhow::Result<(Self, u16)> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let text = format!(
            "daemon off; master_process off; worker_processes 1; pid {0}/pid; error_log {0}/error.log crit;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy;\n\
             fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\n\
             {http}\nserver {{ listen 127.0.0.1:{port}; {location} }} }}\n",
            folder.display()
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, text)?;
        let child = Command::new("nginx").arg("-c").arg(&file).stderr(Stdio::null()).spawn()?;
        let process = Self(child);
        for _ in 0..1000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok((process, port));
            }
            std::thread::yield_now();
            nap();
        }
        bail!("nginx does not listen: {}", fs::read_to_string(folder.join("error.log")).unwrap_or_default())
    }

    /// CPU seconds that it has used.
    fn cpu(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks =
            |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).context("/proc tells no CPU time");
        Ok((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[expect(clippy::disallowed_methods, reason = "another program takes real time to come up")]
fn nap() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}

const BYTES: usize = 1024;
const CONNECTIONS: u32 = 64;
const SECONDS: u32 = 5;
const ROUNDS: usize = 3;
/// What Linux tells of times in `/proc` (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_wrk_are_read() {
        assert_eq!(millis("1.50ms").unwrap(), 1.5);
        assert_eq!(millis("500.00us").unwrap(), 0.5);
        assert_eq!(millis("2.00s").unwrap(), 2000.0);
        assert!(millis("fast").is_err());
    }
}
