//! The hosts an arm's processes visit, and what tells the processes of them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::plan::Plan;
use crate::far_end::{Arrival, Host, Reply, World};
use crate::stop::lock;

/// Where the control that goes alone is served.
pub(super) const ALONE: &str = "control-alone.example";
/// Where the controls that share nothing are served.
pub(super) const UNSHARED: &str = "control-unshared.example";

/// The hosts of an arm: names of its own, so that what a limiter remembers of one arm does not colour the next. Each is a
/// registrable domain of its own too, for limiters that count by those.
pub(super) fn hosts(workers: u32, hosts: u32) -> Vec<String> {
    match hosts {
        1 => vec![format!("audit-{workers}.example")],
        _ => (1..=hosts).map(|host| format!("audit-{workers}-{host}.example")).collect(),
    }
}

/// What the hosts remember of the arm that runs.
#[derive(Debug, Default)]
pub(super) struct Memory {
    requests: Mutex<HashMap<String, u64>>,
    /// Requests of all hosts, controls and robots.txt not among them.
    received: AtomicU64,
}

impl Memory {
    /// Forgets, for the next arm.
    pub(super) fn clear(&self) {
        lock(&self.requests).clear();
        self.received.store(0, Ordering::Relaxed);
    }

    /// Requests received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Counts a request of a host; says how many came before it.
    fn count(&self, host: &str) -> u64 {
        self.received.fetch_add(1, Ordering::Relaxed);
        let mut requests = lock(&self.requests);
        if requests.len() >= HOSTS_COUNTED && !requests.contains_key(host) {
            return 0;
        }
        let count = requests.entry(host.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

/// A world in which any name is a host that behaves as planned, and the controls' names are never refused.
pub(super) fn world(plan: &Plan, memory: &Arc<Memory>) -> World {
    let (refusing, memory) = (plan.refusing, Arc::clone(memory));
    let mut host = Host::new().respond(move |arrival: &Arrival, _| {
        if is_robots(arrival) {
            return None;
        }
        let nth = memory.count(&arrival.host);
        let refusing = refusing.filter(|refusing| refusing.refuses(nth))?;
        let reply = Reply::status(refusing.status);
        Some(match refusing.retry_after {
            Some(span) => reply.header("retry-after", span.as_secs().to_string()),
            None => reply,
        })
    });
    if let Some(delay) = plan.crawl_delay {
        host = host.robots(&format!("User-agent: *\nCrawl-delay: {}\nAllow: /\n", delay.as_secs_f64()));
    }
    World::new().host(ALONE, Host::new()).host(UNSHARED, Host::new()).default_host(host)
}

/// Whether robots.txt was asked for.
pub(super) fn is_robots(arrival: &Arrival) -> bool {
    arrival.path == "/robots.txt"
}

/// Whose request it was, by the prefix of its path.
pub(super) fn worker(arrival: &Arrival) -> Option<u32> {
    let rest = arrival.path.strip_prefix("/w")?;
    rest.split_once('/').map_or(rest, |(number, _)| number).parse().ok()
}

/// What one process is told, as names in lower case and values: `COMITY_…` in its environment, `{…}` in its arguments.
pub(super) fn settings(plan: &Plan, workers: u32, worker: u32, addr: SocketAddr, urls: &Path) -> Vec<Setting> {
    let port = addr.port();
    let targets: Vec<String> =
        hosts(workers, plan.hosts).iter().map(|host| format!("http://{host}:{port}/w{worker}/")).collect();
    let first = hosts(workers, plan.hosts).swap_remove(0);
    vec![
        ("target", targets[0].clone()),
        ("targets", targets.join(" ")),
        ("target_addr", format!("http://{addr}/w{worker}/")),
        ("resolve", format!("{first}:{port}:{}", addr.ip())),
        ("connect_to", format!("::{addr}")),
        ("proxy", format!("http://{addr}")),
        ("worker", worker.to_string()),
        ("workers", workers.to_string()),
        ("requests", plan.requests.to_string()),
        ("urls", urls.display().to_string()),
    ]
}

/// A name and its value.
pub(super) type Setting = (&'static str, String);

/// The URLs of one process, one a line: distinct, and going round all hosts.
pub(super) fn urls(plan: &Plan, workers: u32, worker: u32, port: u16) -> String {
    let hosts = hosts(workers, plan.hosts);
    let mut text = String::new();
    for (number, host) in (1..=plan.requests).zip(hosts.iter().cycle()) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "http://{host}:{port}/w{worker}/{number}");
    }
    text
}

/// Hosts whose requests are counted; a program that makes up more of them is not refused at those.
const HOSTS_COUNTED: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::plan::Promise;
    use std::time::Duration;

    fn plan(hosts: u32) -> Plan {
        Plan { hosts, requests: 3, ..Plan::new(vec!["true".into()], Promise::new(Duration::from_secs(1))) }
    }

    #[test]
    fn a_process_is_told_where_to_go_in_every_form() {
        let addr = "127.0.0.1:8080".parse().unwrap();
        let told = settings(&plan(1), 6, 3, addr, Path::new("/tmp/u"));
        let value = |name: &str| told.iter().find(|(told, _)| *told == name).map(|(_, value)| value.as_str());
        assert_eq!(value("target"), Some("http://audit-6.example:8080/w3/"));
        assert_eq!(value("target_addr"), Some("http://127.0.0.1:8080/w3/"));
        assert_eq!(value("resolve"), Some("audit-6.example:8080:127.0.0.1"));
        assert_eq!(value("connect_to"), Some("::127.0.0.1:8080"));
        assert_eq!(value("proxy"), Some("http://127.0.0.1:8080"));
        assert_eq!((value("worker"), value("workers"), value("requests")), (Some("3"), Some("6"), Some("3")));
        assert_eq!(value("urls"), Some("/tmp/u"));
    }

    #[test]
    fn urls_go_round_the_hosts() {
        assert_eq!(
            urls(&plan(2), 4, 1, 80),
            "http://audit-4-1.example:80/w1/1\nhttp://audit-4-2.example:80/w1/2\nhttp://audit-4-1.example:80/w1/3\n"
        );
        let targets = settings(&plan(2), 4, 1, "127.0.0.1:80".parse().unwrap(), Path::new("u")).swap_remove(1).1;
        assert_eq!(targets, "http://audit-4-1.example:80/w1/ http://audit-4-2.example:80/w1/");
    }

    #[test]
    fn an_arrival_is_its_worker_s_by_its_path() {
        let by = |path: &str| worker(&Arrival { path: path.to_owned(), ..Arrival::default() });
        assert_eq!([by("/w3/1"), by("/w12"), by("/w0/")], [Some(3), Some(12), Some(0)]);
        assert_eq!([by("/"), by("/wild/1"), by("/robots.txt"), by("/x/w3/")], [None; 4]);
    }

    #[test]
    fn each_host_counts_for_itself_and_an_arm_begins_anew() {
        let memory = Memory::default();
        assert_eq!([memory.count("a"), memory.count("a"), memory.count("b")], [0, 1, 0]);
        assert_eq!(memory.received(), 3);
        memory.clear();
        assert_eq!((memory.count("a"), memory.received()), (0, 1));
    }
}
