//! A small program for `comity audit` to judge: one of several that share a pace by a file lock, or that do not.
//!
//! ```sh
//! comity audit --interval 200ms -- target/debug/examples/paced_client shared 200 /tmp/pace.lock
//! comity audit --interval 200ms -- target/debug/examples/paced_client alone 200
//! ```
//!
//! `shared MS FILE` holds the lock while it sends and for MS milliseconds after it, or until the end of a pause that it was
//! asked for; `rude MS FILE` does the same and ignores such pauses; `alone MS` keeps MS milliseconds by itself; `burst N MS
//! FILE` is `shared` whose first N are sent at once; `idle` sends nothing and `hang` never ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let sent = match words[..] {
        ["shared", millis, lock] => shared(span(millis)?, lock, true, 0)?,
        ["rude", millis, lock] => shared(span(millis)?, lock, false, 0)?,
        ["burst", first, millis, lock] => shared(span(millis)?, lock, true, first.parse().map_err(io::Error::other)?)?,
        ["alone", millis] => alone(span(millis)?)?,
        ["idle"] => 0,
        ["hang"] => loop {
            rest(Duration::from_secs(600));
        },
        _ => {
            return Err(io::Error::other(
                "usage: paced_client shared|rude MS FILE, alone MS, burst N MS FILE, idle, hang",
            ));
        }
    };
    writeln!(io::stdout(), "{sent} sent")
}

/// Sends while it holds the lock, and keeps it until the next may be sent; the first `at_once` without a rest between.
fn shared(interval: Duration, lock: &str, heeds: bool, at_once: usize) -> io::Result<usize> {
    let urls = urls()?;
    let lock = File::options().create(true).append(true).open(lock)?;
    for (number, url) in urls.iter().enumerate() {
        lock.lock()?;
        let pause = get(url)?.filter(|_| heeds);
        if number + 1 >= at_once {
            rest(pause.unwrap_or_default().max(interval));
        }
        lock.unlock()?;
    }
    Ok(urls.len())
}

fn alone(interval: Duration) -> io::Result<usize> {
    let urls = urls()?;
    for url in &urls {
        get(url)?;
        rest(interval);
    }
    Ok(urls.len())
}

/// What this process was told to ask for.
fn urls() -> io::Result<Vec<String>> {
    let list = std::fs::read_to_string(variable("COMITY_URLS")?)?;
    Ok(list.lines().map(str::to_owned).collect())
}

/// Asks for a URL, which the far end takes in whole as a proxy does; the pause it was answered, if any.
fn get(url: &str) -> io::Result<Option<Duration>> {
    let proxy = variable("COMITY_PROXY")?;
    let mut stream = TcpStream::connect(proxy.trim_start_matches("http://"))?;
    stream.set_nodelay(true)?;
    write!(stream, "GET {url} HTTP/1.1\r\nhost: audit\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let pause = answer.lines().find_map(|line| line.strip_prefix("retry-after: "));
    Ok(pause.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs))
}

fn variable(name: &str) -> io::Result<String> {
    std::env::var(name).map_err(|error| io::Error::other(format!("{name}: {error}")))
}

fn span(millis: &str) -> io::Result<Duration> {
    millis.parse().map(Duration::from_millis).map_err(io::Error::other)
}

#[expect(clippy::disallowed_methods, reason = "a program with nothing else to do")]
fn rest(span: Duration) {
    std::thread::sleep(span);
}
