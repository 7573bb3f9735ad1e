//! What a host makes of a request.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::limit::{Standing, Verdict};
use super::lock;
use super::log::Arrival;
use super::reply::{Ending, Reply};
use super::world::{Advertise, Host, Hosts, OpenHost, Outage, RetryAfter};
use crate::clock::{http_date, wall_seconds};

/// An answer and when the host lets it go.
pub(super) struct Answer<'a> {
    pub(super) reply: Reply,
    /// The earliest time of its head; the reply's own wait comes after the host's.
    pub(super) ready: Duration,
    /// The part of that which was spent in the host's queue, where it has one.
    pub(super) queued: Option<Duration>,
    /// The date by the host's clock.
    pub(super) date: String,
    /// Held until the head is on its way.
    pub(super) place: Option<Place<'a>>,
}

impl Answer<'_> {
    /// An answer at once, at this second of the host's clock.
    fn new(status: u16, now: Duration, seconds: i64) -> Self {
        Self { reply: Reply::status(status), ready: now, queued: None, date: http_date(seconds), place: None }
    }
}

/// A place among a host's running requests, given back when dropped.
pub(super) struct Place<'a>(&'a OpenHost);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.0.memory).ledger.leave();
    }
}

/// Decides the answer to one request.
pub(super) fn answer<'a>(hosts: &'a Hosts, arrival: &Arrival) -> Answer<'a> {
    let now = arrival.at;
    let Some(open) = hosts.find(&arrival.host) else {
        return Answer::new(421, now, wall_seconds());
    };
    let host = &open.host;
    let seconds = wall_seconds().saturating_add(host.clock_off_by);
    let mut answer = Answer::new(200, now, seconds);

    let (nth, standing) = {
        let mut memory = lock(&open.memory);
        let first = *memory.first.get_or_insert(now);
        if let Some(outage) = outage(host, now.saturating_sub(first)) {
            answer.reply = outage;
            return answer;
        }
        if let Some(cache) = host.cached.filter(|cache| cache.holds(arrival)) {
            answer.reply = page(host, arrival).after(cache.service);
            return answer;
        }
        match memory.ledger.admit(now) {
            Verdict::Refused { status, retry } => {
                let status = host.refuse_with.unwrap_or(status);
                answer.reply = refusal(status, &host.retry_after, retry, seconds);
                advertise(&mut answer.reply, host.advertise, memory.ledger.standing(now));
                return answer;
            }
            Verdict::Admitted { ready, queued } => (answer.ready, answer.queued) = (ready, queued),
        }
        (memory.nth(arrival), memory.ledger.standing(now))
    };
    answer.place = Some(Place(open));
    // The script runs unlocked: it may take its time, and what it panics with is its own.
    answer.reply = match host.script.as_ref().and_then(|script| script(arrival, nth)) {
        Some(reply) => reply,
        None => {
            let reply = listed(host, arrival).unwrap_or_else(|| page(host, arrival));
            let after = reply.after.saturating_add(host.service);
            reply.after(after)
        }
    };
    advertise(&mut answer.reply, host.advertise, standing);
    answer
}

fn outage(host: &Host, since_first: Duration) -> Option<Reply> {
    let now = host.outages.iter().find(|(from, until, _)| (*from..*until).contains(&since_first))?;
    Some(match now.2 {
        Outage::Status(status) => Reply::status(status),
        Outage::Reset => Reply::status(0).ending(Ending::Reset),
        Outage::Silence => Reply::status(0).ending(Ending::Silence),
    })
}

fn refusal(status: u16, advice: &RetryAfter, retry: Duration, now: i64) -> Reply {
    let whole = retry.as_nanos().div_ceil(1_000_000_000);
    let value = match advice {
        RetryAfter::None => return Reply::status(status),
        RetryAfter::Exact => {
            let millis = retry.as_nanos().div_ceil(1_000_000);
            format!("{}.{:03}", millis / 1000, millis % 1000)
        }
        RetryAfter::WholeSeconds => whole.to_string(),
        // The Date of the answer was rounded down, so the whole span has to be added and one more for what was lost.
        RetryAfter::HttpDate => {
            http_date(now.saturating_add(i64::try_from(whole).unwrap_or(i64::MAX)).saturating_add(1))
        }
        RetryAfter::Seconds(seconds) => seconds.to_string(),
        RetryAfter::Text(text) => text.clone(),
    };
    Reply::status(status).header("retry-after", value)
}

fn advertise(reply: &mut Reply, how: Advertise, standing: Option<Standing>) {
    let Some(Standing { limit, window, remaining, reset }) = standing else { return };
    let seconds = |span: Duration| span.as_nanos().div_ceil(1_000_000_000);
    let (window, reset) = (seconds(window), seconds(reset));
    let mut field = |name: &str, value: String| reply.headers.push((name.to_owned(), value.into_bytes()));
    match how {
        Advertise::Nothing => {}
        Advertise::XRateLimit => {
            field("x-ratelimit-limit", limit.to_string());
            field("x-ratelimit-remaining", remaining.to_string());
            field("x-ratelimit-reset", reset.to_string());
        }
        Advertise::Structured => {
            field("ratelimit-policy", format!("\"default\";q={limit};w={window}"));
            field("ratelimit", format!("\"default\";r={remaining};t={reset}"));
        }
    }
}

fn listed(host: &Host, arrival: &Arrival) -> Option<Reply> {
    let answers = &host.answers;
    let named = answers.get(&arrival.target()).or_else(|| answers.get(&arrival.path)).cloned();
    named.or_else(|| host.only_listed.then(|| Reply::status(404)))
}

fn page(host: &Host, arrival: &Arrival) -> Reply {
    let line = format!("{} {}\n", arrival.host, arrival.target());
    let body: Vec<u8> = line.bytes().cycle().take(host.size).collect();
    let mut reply = Reply::ok(body).header("content-type", "text/plain");
    if !host.validators {
        return reply;
    }
    let mut hasher = DefaultHasher::new();
    (&arrival.host, arrival.target(), host.size).hash(&mut hasher);
    let etag = format!("\"{:016x}\"", hasher.finish());
    // If-None-Match decides alone where it is present (RFC 9110 section 13.2.2).
    let unchanged = match arrival.header("if-none-match") {
        Some(tags) => tags == "*" || tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag),
        None => arrival.header("if-modified-since") == Some(LAST_MODIFIED),
    };
    if unchanged {
        reply = Reply::status(304);
    }
    reply.header("etag", etag).header("last-modified", LAST_MODIFIED)
}

/// When every page was last changed.
const LAST_MODIFIED: &str = "Wed, 01 Jan 2025 00:00:00 GMT";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::far_end::{Limit, World};

    fn get(path: &str) -> Arrival {
        Arrival { host: "a.example".into(), method: "GET".into(), path: path.into(), ..Arrival::default() }
    }

    fn field(reply: &Reply, name: &str) -> Option<String> {
        let value = reply.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value);
        value.map(|value| String::from_utf8(value.clone()).unwrap())
    }

    #[test]
    fn a_refusal_says_when_to_come_back_in_the_form_asked_for() {
        let retry = Duration::from_micros(1_492_100);
        let said = |advice| field(&refusal(429, &advice, retry, 784_111_777), "retry-after");
        assert_eq!(said(RetryAfter::None), None);
        assert_eq!(said(RetryAfter::Exact).as_deref(), Some("1.493"));
        assert_eq!(said(RetryAfter::WholeSeconds).as_deref(), Some("2"));
        assert_eq!(said(RetryAfter::Seconds(9)).as_deref(), Some("9"));
        assert_eq!(said(RetryAfter::HttpDate).as_deref(), Some("Sun, 06 Nov 1994 08:49:40 GMT"));
        assert_eq!(said(RetryAfter::Text("soon".into())).as_deref(), Some("soon"));
    }

    #[test]
    fn a_host_can_tell_of_its_limit() {
        let host = Host::new().limit(Limit::FixedWindow { count: 3, per: Duration::from_secs(60) });
        let hosts = World::new().host("a.example", host.clone().advertise(Advertise::Structured)).open();
        let reply = answer(&hosts, &get("/")).reply;
        assert_eq!(field(&reply, "ratelimit-policy").as_deref(), Some("\"default\";q=3;w=60"));
        assert_eq!(field(&reply, "ratelimit").as_deref(), Some("\"default\";r=2;t=60"));

        let hosts = World::new().host("a.example", host.advertise(Advertise::XRateLimit)).open();
        let reply = answer(&hosts, &get("/")).reply;
        assert_eq!(field(&reply, "x-ratelimit-remaining").as_deref(), Some("2"));
    }

    #[test]
    fn a_place_is_given_back_when_the_answer_is_done() {
        let hosts = World::new().host("a.example", Host::new().limit(Limit::Concurrency(1))).open();
        let first = answer(&hosts, &get("/"));
        assert_eq!(answer(&hosts, &get("/")).reply.status, 429);
        drop(first);
        assert_eq!(answer(&hosts, &get("/")).reply.status, 200);
    }

    #[test]
    fn a_cache_answers_its_share_whatever_the_host_s_limits() {
        let refuses_all = Limit::FixedWindow { count: 0, per: Duration::from_secs(60) };
        let host = Host::new().limit(refuses_all).cached(80, Duration::from_millis(5));
        let hosts = World::new().host("a.example", host).open();
        let replies: Vec<_> = (0..1000).map(|n| answer(&hosts, &get(&format!("/{n}"))).reply).collect();
        let cached: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        assert!((760..840).contains(&cached.len()), "{}", cached.len());
        assert!(cached.iter().all(|reply| reply.after == Duration::from_millis(5)));
        assert_eq!(replies.iter().filter(|reply| reply.status == 429).count(), 1000 - cached.len());
        // The same target, the same answer.
        assert_eq!(answer(&hosts, &get("/7")).reply.status, replies[7].status);
    }

    #[test]
    fn time_in_the_queue_is_told_apart_from_service() {
        let limit = Limit::SlowQueue { workers: 1, service: Duration::from_millis(200), depth: 9 };
        let hosts = World::new().host("a.example", Host::new().limit(limit)).host("b.example", Host::new()).open();
        let queued = [(); 3].map(|()| answer(&hosts, &get("/")).queued.map(|queued| queued.as_millis()));
        assert_eq!(queued, [Some(0), Some(200), Some(400)]);
        assert_eq!(answer(&hosts, &Arrival { host: "b.example".into(), ..get("/") }).queued, None);
    }

    #[test]
    fn an_outage_is_counted_from_the_first_request() {
        let (from, until) = (Duration::from_secs(1), Duration::from_secs(2));
        let host = Host::new().outage(from, until, Outage::Status(500));
        let hosts = World::new().host("a.example", host).open();
        let status = |at| answer(&hosts, &Arrival { at: Duration::from_millis(at), ..get("/") }).reply.status;
        assert_eq!([status(5000), status(5999), status(6000), status(6999), status(7000)], [200, 200, 500, 500, 200]);
    }

    #[test]
    fn a_host_s_clock_can_be_wrong() {
        let hosts = World::new().host("a.example", Host::new().clock_off_by(-1_000_000_000)).open();
        assert_ne!(answer(&hosts, &get("/")).date[..16], http_date(wall_seconds())[..16]);
    }
}
