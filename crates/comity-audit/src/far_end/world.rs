//! The hosts a far end plays, and how each behaves.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::limit::{Ledger, Limit};
use super::log::Arrival;
use super::reply::Reply;

/// A set of hosts.
#[derive(Clone, Debug, Default)]
pub struct World {
    hosts: Vec<(Vec<String>, Host)>,
    default: Option<Host>,
}

impl World {
    /// A world without hosts: every request gets 421.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host.
    #[must_use]
    pub fn host(self, name: &str, host: Host) -> Self {
        self.hosts([name], host)
    }

    /// Adds several names of one host: they share its limits, as the subdomains of one service do.
    #[must_use]
    pub fn hosts<'a>(mut self, names: impl IntoIterator<Item = &'a str>, host: Host) -> Self {
        self.hosts.push((names.into_iter().map(host_name).collect(), host));
        self
    }

    /// What every name not added behaves like; all of them together are one host.
    #[must_use]
    pub fn default_host(mut self, host: Host) -> Self {
        self.default = Some(host);
        self
    }

    pub(super) fn open(self) -> Hosts {
        let mut named = HashMap::new();
        for (names, host) in self.hosts {
            let open = Arc::new(OpenHost::new(host));
            named.extend(names.into_iter().map(|name| (name, Arc::clone(&open))));
        }
        Hosts { named, default: self.default.map(|host| Arc::new(OpenHost::new(host))) }
    }
}

/// How one host behaves. A new one answers 200 to everything but `/robots.txt`, at once and without limits.
#[derive(Clone)]
pub struct Host {
    pub(super) limits: Vec<Limit>,
    pub(super) refuse_with: Option<u16>,
    pub(super) retry_after: RetryAfter,
    pub(super) advertise: Advertise,
    pub(super) outages: Vec<(Duration, Duration, Outage)>,
    pub(super) script: Option<Arc<Script>>,
    pub(super) answers: HashMap<String, Reply>,
    pub(super) only_listed: bool,
    pub(super) size: usize,
    pub(super) service: Duration,
    pub(super) cached: Option<Cache>,
    pub(super) validators: bool,
    pub(super) clock_off_by: i64,
}

/// A cache in front of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    /// Of 100 targets, those it holds.
    percent: u64,
    /// The time it takes.
    pub(super) service: Duration,
}

impl Cache {
    /// Whether it holds this target: always or never, and by nothing that a client could tell from the name.
    pub(super) fn holds(&self, arrival: &Arrival) -> bool {
        let mut hasher = DefaultHasher::new();
        arrival.target().hash(&mut hasher);
        hasher.finish() % 100 < self.percent
    }
}

pub(super) type Script = dyn Fn(&Arrival, u64) -> Option<Reply> + Send + Sync;

/// What a refusal says about when to come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RetryAfter {
    /// Nothing.
    #[default]
    None,
    /// The time until the limit has room, in seconds with three decimals, rounded up.
    Exact,
    /// The same in whole seconds, rounded up (RFC 9110 section 10.2.3).
    WholeSeconds,
    /// The same as a date by the host's clock, rounded up.
    HttpDate,
    /// Always so many seconds.
    Seconds(u64),
    /// These words.
    Text(String),
}

/// Which rate limit fields a host's answers carry; they tell of its first limit that counts requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advertise {
    /// None.
    #[default]
    Nothing,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` (seconds from now), as many services have them.
    XRateLimit,
    /// `RateLimit` and `RateLimit-Policy` as structured fields (the IETF's draft 10).
    Structured,
}

/// How a host is out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// It answers every request with this status.
    Status(u16),
    /// It resets the connection once it has read the request.
    Reset,
    /// It never answers.
    Silence,
}

impl Host {
    /// A host that answers 200 to everything but `/robots.txt` (404).
    pub fn new() -> Self {
        Self {
            limits: Vec::new(),
            refuse_with: None,
            retry_after: RetryAfter::None,
            advertise: Advertise::Nothing,
            outages: Vec::new(),
            script: None,
            answers: HashMap::from([(ROBOTS.to_owned(), Reply::status(404))]),
            only_listed: false,
            size: 64,
            service: Duration::ZERO,
            cached: None,
            validators: false,
            clock_off_by: 0,
        }
    }

    /// A host that reads requests and never answers.
    pub fn silent() -> Self {
        Self::new().outage(Duration::ZERO, Duration::MAX, Outage::Silence)
    }

    /// A host that resets every connection once it has read a request.
    pub fn resetting() -> Self {
        Self::new().outage(Duration::ZERO, Duration::MAX, Outage::Reset)
    }

    /// Adds a limit. Every request counts, robots.txt too; one that any limit refuses costs none of them anything.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// The status of refusals; without it 429, and 503 from a full queue.
    #[must_use]
    pub fn refuse_with(mut self, status: u16) -> Self {
        self.refuse_with = Some(status);
        self
    }

    /// What refusals say about when to come back.
    #[must_use]
    pub fn retry_after(mut self, retry_after: RetryAfter) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Which rate limit fields answers carry.
    #[must_use]
    pub fn advertise(mut self, advertise: Advertise) -> Self {
        self.advertise = advertise;
        self
    }

    /// Out of order from `from` until `until`, counted from the host's first request.
    #[must_use]
    pub fn outage(mut self, from: Duration, until: Duration, outage: Outage) -> Self {
        self.outages.push((from, until, outage));
        self
    }

    /// Answers by a script: it gets what arrived and how often this host, path and query was asked for before (0 the first
    /// time; counted for 10,000 targets), and may leave the answer to the rest of the host with `None`. Requests that a
    /// limit refuses do not reach it.
    #[must_use]
    pub fn respond<R: Into<Option<Reply>>>(
        mut self,
        script: impl Fn(&Arrival, u64) -> R + Send + Sync + 'static,
    ) -> Self {
        self.script = Some(Arc::new(move |arrival, nth| script(arrival, nth).into()));
        self
    }

    /// The answer for one path (or path and query).
    #[must_use]
    pub fn page(mut self, target: &str, reply: Reply) -> Self {
        self.answers.insert(target.to_owned(), reply);
        self
    }

    /// A redirect from one path to a URL or path.
    #[must_use]
    pub fn redirect(self, target: &str, status: u16, location: &str) -> Self {
        self.page(target, Reply::redirect(status, location))
    }

    /// The robots.txt.
    #[must_use]
    pub fn robots(self, text: &str) -> Self {
        self.page(ROBOTS, Reply::ok(text).header("content-type", "text/plain"))
    }

    /// What asking for robots.txt is answered instead of a text.
    #[must_use]
    pub fn robots_reply(self, reply: Reply) -> Self {
        self.page(ROBOTS, reply)
    }

    /// Answers 404 to every path that was not named.
    #[must_use]
    pub fn only_listed(mut self) -> Self {
        self.only_listed = true;
        self
    }

    /// The size of pages in bytes (64).
    #[must_use]
    pub fn size(mut self, bytes: usize) -> Self {
        self.size = bytes;
        self
    }

    /// The time a page takes before its head is sent.
    #[must_use]
    pub fn service(mut self, time: Duration) -> Self {
        self.service = time;
        self
    }

    /// Puts a cache in front of the host: about `percent` of 100 targets are always answered by it after `service`, without
    /// the host and its limits ever hearing of them. A host that answers in two ways looks slow and fast at once.
    #[must_use]
    pub fn cached(mut self, percent: u32, service: Duration) -> Self {
        self.cached = Some(Cache { percent: percent.into(), service });
        self
    }

    /// Gives pages an ETag and a Last-Modified, and answers 304 to a request that brings either back.
    #[must_use]
    pub fn validators(mut self) -> Self {
        self.validators = true;
        self
    }

    /// Sets the host's wall clock so many seconds ahead (or behind).
    #[must_use]
    pub fn clock_off_by(mut self, seconds: i64) -> Self {
        self.clock_off_by = seconds;
        self
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("limits", &self.limits)
            .field("scripted", &self.script.is_some())
            .finish_non_exhaustive()
    }
}

/// The hosts of a running far end.
#[derive(Debug)]
pub(super) struct Hosts {
    named: HashMap<String, Arc<OpenHost>>,
    default: Option<Arc<OpenHost>>,
}

impl Hosts {
    pub(super) fn find(&self, name: &str) -> Option<&OpenHost> {
        self.named.get(name).or(self.default.as_ref()).map(Arc::as_ref)
    }
}

/// A host and what it remembers of its clients.
#[derive(Debug)]
pub(super) struct OpenHost {
    pub(super) host: Host,
    pub(super) memory: Mutex<Memory>,
}

#[derive(Debug)]
pub(super) struct Memory {
    pub(super) ledger: Ledger,
    pub(super) first: Option<Duration>,
    asked: HashMap<(String, String), u64>,
}

impl OpenHost {
    fn new(host: Host) -> Self {
        let ledger = Ledger::new(&host.limits);
        Self { host, memory: Mutex::new(Memory { ledger, first: None, asked: HashMap::new() }) }
    }
}

impl Memory {
    /// How often this target was asked for before.
    pub(super) fn nth(&mut self, arrival: &Arrival) -> u64 {
        let key = (arrival.host.clone(), arrival.target());
        if self.asked.len() >= TARGETS_COUNTED && !self.asked.contains_key(&key) {
            return 0;
        }
        let asked = self.asked.entry(key).or_default();
        *asked += 1;
        *asked - 1
    }
}

/// A host's name as it is compared: lower case, without port and trailing dot.
pub(super) fn host_name(authority: &str) -> String {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => authority,
    };
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Where every host keeps its robots.txt (RFC 9309 section 2.3).
const ROBOTS: &str = "/robots.txt";

/// Targets a host counts requests of.
const TARGETS_COUNTED: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_case_port_and_trailing_dot() {
        for authority in ["a.example", "A.Example:8080", "a.example.", "a.example.:80"] {
            assert_eq!(host_name(authority), "a.example", "{authority}");
        }
        assert_eq!(host_name("[2001:DB8::1]:8080"), "[2001:db8::1]");
        assert_eq!(host_name("[2001:db8::1]"), "[2001:db8::1]");
    }
}
