//! The far end, seen by plain clients on loopback.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop at what should not happen; clippy excuses only #[test] functions"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use comity_audit::arrivals::{most_in_flight, statuses};
use comity_audit::control::control_run;
use comity_audit::far_end::{Ending, FarEnd, Host, Limit, Outage, Reply, RetryAfter, World};

/// One keep-alive connection.
struct Client(BufReader<TcpStream>);

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Client {
    fn new(far_end: &FarEnd) -> Self {
        let stream = TcpStream::connect(far_end.addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &str) {
        self.0.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    fn get(&mut self, host: &str, target: &str) -> Answer {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        self.answer()
    }

    fn answer(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "closed after {head:?}");
        }
        let status = head[9..12].parse().unwrap();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Answer { status, head, body }
    }

    /// What comes until the connection ends, or the error it ends with.
    fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).map(|_| rest)
    }
}

fn start(host: Host) -> FarEnd {
    FarEnd::start(World::new().host("a.example", host)).unwrap()
}

fn get_statuses(client: &mut Client, requests: usize) -> Vec<u16> {
    (0..requests).map(|_| client.get("a.example", "/").status).collect()
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn arrivals_are_recorded_with_what_was_asked_and_given() {
    let far_end = start(Host::new());
    let mut client = Client::new(&far_end);
    let before = far_end.now();
    client.send("POST /x/y?z=1 HTTP/1.1\r\nHost: A.Example:99\r\nUser-Agent: t/1\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.get("b.example", "/").status, 421);
    Client::new(&far_end).get("a.example", "/robots.txt");

    let arrivals = far_end.arrivals();
    let [post, lost, robots] = &arrivals[..] else { panic!("{arrivals:?}") };
    assert_eq!((post.host.as_str(), post.method.as_str(), post.path.as_str()), ("a.example", "POST", "/x/y"));
    assert_eq!((post.query.as_deref(), post.header("user-agent")), (Some("z=1"), Some("t/1")));
    assert_eq!((post.body.as_slice(), post.body_length), (&b"hi"[..], 2));
    assert_eq!((post.status, lost.status, robots.status), (Some(200), Some(421), Some(404)));
    assert!(before <= post.at && post.at <= post.answered.unwrap() && post.at < lost.at);
    assert_eq!((post.connection, robots.connection), (lost.connection, lost.connection + 1));
    assert_eq!(far_end.unrecorded(), comity_audit::far_end::Unrecorded::default());

    far_end.clear();
    assert!(far_end.arrivals().is_empty());
}

#[test]
fn an_arrival_is_stamped_at_its_first_byte() {
    let far_end = start(Host::new());
    let mut client = Client::new(&far_end);
    client.get("a.example", "/");
    client.send("GET / HT");
    let mut other = Client::new(&far_end);
    // Other exchanges pass while the head is incomplete.
    while far_end.now() < far_end.arrivals()[0].at + Duration::from_millis(100) {
        other.get("a.example", "/other");
    }
    client.send("TP/1.1\r\nHost: a.example\r\n\r\n");
    client.answer();
    let arrivals = far_end.arrivals();
    let split = arrivals.iter().rposition(|arrival| arrival.path == "/").unwrap();
    assert!(split < arrivals.len() - 1, "stamped after what came later: {split} of {}", arrivals.len());
}

#[test]
fn a_token_bucket_refuses_past_its_burst() {
    let limited = Host::new().limit(Limit::TokenBucket { every: LONG, burst: 3 });
    let far_end = start(limited.retry_after(RetryAfter::WholeSeconds));
    let mut client = Client::new(&far_end);
    assert_eq!(get_statuses(&mut client, 4), [200, 200, 200, 429]);
    assert!(client.get("a.example", "/").head.contains("\r\nretry-after: 600\r\n"));
    assert_eq!(statuses(&far_end.arrivals()), [(Some(200), 3), (Some(429), 2)].into());
}

#[test]
fn windows_refuse_past_their_count() {
    for limit in [Limit::FixedWindow { count: 2, per: LONG }, Limit::SlidingWindow { count: 2, per: LONG }] {
        let far_end = start(Host::new().limit(limit).refuse_with(420));
        assert_eq!(get_statuses(&mut Client::new(&far_end), 3), [200, 200, 420], "{limit:?}");
    }
}

#[test]
fn concurrency_refuses_what_comes_beside() {
    let held = Reply::status(0).ending(Ending::Silence);
    let far_end = start(Host::new().limit(Limit::Concurrency(1)).page("/held", held));
    let mut client = Client::new(&far_end);
    let mut seen = |status, most| (0..most).any(|_| client.get("a.example", "/").status == status);
    // A holder gets its place, and loses it, when its own thread comes to it. It may come beside the client and be the one
    // that is refused: then the next one holds it.
    let holder = (0..100).find_map(|_| {
        let mut holder = Client::new(&far_end);
        holder.send("GET /held HTTP/1.1\r\nHost: a.example\r\n\r\n");
        seen(429, 2_000).then_some(holder)
    });
    assert!(holder.is_some());
    drop(holder);
    assert!(seen(200, 100_000));
    assert_eq!(most_in_flight(&far_end.arrivals()), 2);
}

#[test]
fn a_slow_queue_answers_one_after_the_other_and_503_past_its_depth() {
    let service = Duration::from_millis(60);
    let far_end = start(Host::new().limit(Limit::SlowQueue { workers: 1, service, depth: 1 }));
    let mut clients: Vec<_> = (0..3).map(|_| Client::new(&far_end)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    }
    let mut given: Vec<_> = clients.iter_mut().map(|client| client.answer().status).collect();
    given.sort_unstable();
    assert_eq!(given, [200, 200, 503]);
    let arrivals = far_end.arrivals();
    let served = arrivals.iter().filter(|arrival| arrival.status == Some(200));
    let mut answered: Vec<_> = served.map(|arrival| arrival.answered.unwrap() - arrivals[0].at).collect();
    answered.sort_unstable();
    assert!(answered[0] >= service && answered[1] >= service * 2, "{answered:?}");
}

#[test]
fn names_of_one_host_share_its_limit_and_others_do_not() {
    let limited = || Host::new().limit(Limit::TokenBucket { every: LONG, burst: 1 });
    let world = World::new().hosts(["a.example", "b.example"], limited()).host("c.example", limited());
    let far_end = FarEnd::start(world).unwrap();
    let mut client = Client::new(&far_end);
    let given = ["a.example", "b.example", "c.example"].map(|host| client.get(host, "/").status);
    assert_eq!(given, [200, 429, 200]);
}

#[test]
fn a_script_answers_by_count_and_may_leave_it() {
    let host = Host::new().size(7).respond(|arrival, nth| {
        (arrival.path == "/once" && nth == 0).then(|| Reply::status(503).header("Retry-After", "1"))
    });
    let far_end = start(host);
    let mut client = Client::new(&far_end);
    assert!(client.get("a.example", "/once").head.contains("\r\nRetry-After: 1\r\n"));
    let second = client.get("a.example", "/once");
    assert_eq!((second.status, second.body.len()), (200, 7));
    assert_eq!(client.get("a.example", "/other").status, 200);
}

#[test]
fn pages_redirects_and_robots_are_as_listed() {
    let host = Host::new().robots("User-agent: *\nCrawl-delay: 2\n").redirect("/a", 302, "/b?c=d");
    let far_end = start(host.page("/b?c=d", Reply::ok("there")).only_listed());
    let mut client = Client::new(&far_end);
    let redirect = client.get("a.example", "/a");
    assert!(redirect.status == 302 && redirect.head.contains("\r\nlocation: /b?c=d\r\n"));
    assert_eq!(client.get("a.example", "/b?c=d").body, b"there");
    assert_eq!(client.get("a.example", "/b").status, 404);
    assert!(client.get("a.example", "/robots.txt").body.ends_with(b"delay: 2\n"));
}

#[test]
fn validators_make_a_304_of_a_second_visit() {
    let far_end = start(Host::new().validators());
    let mut client = Client::new(&far_end);
    let first = client.get("a.example", "/page");
    let etag = first.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let date = first.head.lines().find_map(|line| line.strip_prefix("last-modified: ")).unwrap();
    let mut conditional = |field: &str| {
        client.send(&format!("GET /page HTTP/1.1\r\nHost: a.example\r\n{field}\r\n\r\n"));
        client.answer().status
    };
    assert_eq!(conditional(&format!("If-None-Match: \"x\", W/{etag}")), 304);
    assert_eq!(conditional(&format!("If-Modified-Since: {date}")), 304);
    assert_eq!(conditional(&format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}")), 200);
}

#[test]
fn head_has_the_length_and_no_body() {
    let far_end = start(Host::new().size(9));
    let mut client = Client::new(&far_end);
    client.send("HEAD / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(client.rest().unwrap()).unwrap();
    assert!(answer.contains("content-length: 9\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn answers_end_as_scripted() {
    let ending = |ending| Reply::ok("abc").ending(ending);
    let host = Host::new()
        .page("/close", ending(Ending::Close))
        .page("/cut", ending(Ending::CutAfter(2)))
        .page("/reset", ending(Ending::Reset))
        .page("/raw", Reply::raw("not http"));
    let far_end = start(host);
    let rest = |path: &str| {
        let mut client = Client::new(&far_end);
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        client.rest()
    };
    assert!(rest("/close").unwrap().ends_with(b"\r\n\r\nabc"));
    assert!(rest("/cut").unwrap().ends_with(b"\r\n\r\nab"));
    assert_eq!(rest("/raw").unwrap(), b"not http");
    assert_eq!(rest("/reset").unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(far_end.arrivals().last().unwrap().status, None);
}

#[test]
fn a_host_out_of_order_refuses_resets_or_keeps_silent() {
    let out = |outage| Host::new().outage(Duration::ZERO, LONG, outage);
    let world = World::new()
        .host("status.example", out(Outage::Status(500)))
        .host("reset.example", Host::resetting())
        .host("silent.example", Host::silent());
    let far_end = FarEnd::start(world).unwrap();
    assert_eq!(Client::new(&far_end).get("status.example", "/").status, 500);
    let mut reset = Client::new(&far_end);
    reset.send("GET / HTTP/1.1\r\nHost: reset.example\r\n\r\n");
    assert_eq!(reset.rest().unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);

    let mut silent = Client::new(&far_end);
    silent.send("GET / HTTP/1.1\r\nHost: silent.example\r\n\r\n");
    silent.0.get_ref().set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    assert!(matches!(silent.rest().unwrap_err().kind(), std::io::ErrorKind::WouldBlock));
}

#[test]
fn what_is_not_http_is_counted_and_not_recorded() {
    let far_end = start(Host::new());
    let mut client = Client::new(&far_end);
    client.send("hello\r\n\r\n");
    assert!(client.rest().unwrap().starts_with(b"HTTP/1.1 400 "));
    assert_eq!((far_end.unrecorded().malformed, far_end.arrivals().len()), (1, 0));
}

#[test]
fn a_body_that_waits_for_leave_gets_it() {
    let far_end = start(Host::new());
    let mut client = Client::new(&far_end);
    client.send("PUT / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.answer().status, 100);
    client.send("abc");
    assert_eq!(client.answer().status, 200);
    assert_eq!(far_end.arrivals()[0].body, b"abc");
}

#[test]
fn a_thousand_connections_are_served_at_once() {
    let far_end = start(Host::new());
    let mut clients: Vec<_> = (0..1000).map(|_| Client::new(&far_end)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    }
    assert!(clients.iter_mut().all(|client| client.answer().status == 200));
    assert_eq!((far_end.arrivals().len(), far_end.connections()), (1000, 1000));
    assert_eq!(far_end.unrecorded().turned_away, 0);
}

#[test]
fn dropped_it_closes_every_connection_even_one_that_waits() {
    let far_end = start(Host::new().service(LONG));
    let addr = far_end.addr();
    let mut waiting = Client::new(&far_end);
    waiting.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut idle = Client::new(&far_end);
    while far_end.arrivals().is_empty() || far_end.connections() < 2 {
        thread::yield_now();
    }
    drop(far_end);
    assert_eq!(waiting.rest().unwrap_or_default(), b"");
    assert_eq!(idle.rest().unwrap_or_default(), b"");
    assert!(TcpStream::connect(addr).is_err());
}

#[test]
fn x5_the_control_keeps_its_spacing_and_a_hurried_one_is_seen() {
    let far_end = start(Host::new());
    let spacing = Duration::from_millis(20);
    let control = control_run(&far_end, "a.example", spacing, 30).unwrap();
    assert_eq!((control.sent.count(), control.sent.below(spacing)), (29, 0));
    // What arrives is spread by the scheduler, but the middle of it is the spacing.
    let median = control.arrived.median().unwrap();
    assert!(median >= spacing * 9 / 10 && median <= spacing * 2, "{median:?}");
    assert!(control.arrived.span() >= spacing * 29 - Duration::from_millis(100), "{:?}", control.arrived.span());

    let hurried = control_run(&far_end, "a.example", Duration::ZERO, 30).unwrap();
    assert!(hurried.arrived.below(spacing) > 20, "{:?}", hurried.arrived);
    assert_eq!(far_end.arrivals().len(), 60);
}
