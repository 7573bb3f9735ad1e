//! Four times as much as the server bears, from several clients of whom one is noisy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::town::{Guard, until};

/// A server that works on so many requests at once, each for so long; further ones wait for it.
async fn server(workers: usize, work: Duration) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let workers = Arc::new(Semaphore::new(workers));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let workers = Arc::clone(&workers);
            let service = service_fn(move |_| {
                let workers = Arc::clone(&workers);
                async move {
                    let _worker = workers.acquire().await;
                    tokio::time::sleep(work).await;
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&[b'x'; 1024]))))
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// A client that asks so often, whatever it is answered.
struct Visitor {
    name: String,
    per_second: u32,
}

fn visitors(count: usize, per_second: u32) -> Vec<Visitor> {
    (0..count).map(|n| Visitor { name: format!("good-{n}"), per_second }).collect()
}

/// One request as its client saw it.
#[derive(Debug)]
struct Seen {
    name: String,
    status: u16,
    sent: Instant,
    took: Duration,
}

impl Seen {
    fn is_served(&self) -> bool {
        self.status == 200
    }

    fn is_good(&self) -> bool {
        self.name.starts_with("good")
    }
}

/// All of these visitors, for so long.
async fn visited(at: SocketAddr, visitors: &[Visitor], time: Duration) -> Vec<Seen> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let mut tasks = JoinSet::new();
    for visitor in visitors {
        let (client, name, per_second) = (client.clone(), visitor.name.clone(), visitor.per_second);
        tasks.spawn(async move {
            let mut requests = JoinSet::new();
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
            for _ in 0..(time.as_secs_f64() * f64::from(per_second)) as u32 {
                ticks.tick().await;
                requests.spawn(one(client.clone(), at, name.clone()));
            }
            requests.join_all().await
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

#[expect(clippy::disallowed_methods, reason = "a load test measures")]
async fn one(client: Client<HttpConnector, Empty<Bytes>>, at: SocketAddr, name: String) -> Seen {
    let request = Request::get(format!("http://{at}/")).header("x-key", &name).body(Empty::new()).unwrap();
    let sent = Instant::now();
    let answer = client.request(request).await.unwrap();
    let status = answer.status().as_u16();
    answer.into_body().collect().await.unwrap();
    Seen { name, status, sent, took: sent.elapsed() }
}

/// The time that 99 of 100 served requests took at most.
fn p99(seen: &[Seen]) -> Duration {
    let mut times: Vec<Duration> = seen.iter().filter(|seen| seen.is_served()).map(|seen| seen.took).collect();
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}

fn count(seen: &[Seen], of: impl Fn(&Seen) -> bool) -> usize {
    seen.iter().filter(|seen| of(seen)).count()
}

/// Bytes of a process that are in memory.
fn memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// What a run with a noisy client came to.
#[derive(Debug)]
struct Noisy {
    /// Of the good clients' requests, the part that was served.
    good: f64,
    /// Of the noisy one: what was served, and the most that its limit allows.
    noisy: (usize, f64),
    p99: Duration,
    unloaded: Duration,
    memory: [u64; 2],
}

/// Eight good clients, then the same beside one that asks for the rest of four times what the server bears.
async fn noisy(time: Duration) -> Noisy {
    let server = server(WORKERS, WORK).await;
    let each = format!("{RATE}/s");
    let limits = ["--rate", &each, "--burst", "20", "--key", "header:X-Key", "--max-in-flight", "auto"];
    let guard = Guard::start(server, &limits);
    let mut all = visitors(8, RATE / 2);
    let unloaded = p99(&visited(guard.at[0], &all, time.min(Duration::from_secs(5)) / 2).await);
    let good: u32 = all.iter().map(|visitor| visitor.per_second).sum();
    all.push(Visitor { name: "noisy".to_owned(), per_second: 4 * CAPACITY - good });
    visited(guard.at[0], &all, time / 4).await;
    let before = memory(guard.id());
    let seen = visited(guard.at[0], &all, time).await;
    until("none is in flight", || guard.metric("comity_guard_in_flight") == 0);
    let first = seen.iter().map(|seen| seen.sent).min().unwrap();
    let last = seen.iter().map(|seen| seen.sent + seen.took).max().unwrap();
    let most = 20.0 + f64::from(RATE) * (last - first).as_secs_f64();
    let all_good = count(&seen, Seen::is_good);
    Noisy {
        good: count(&seen, |seen| seen.is_good() && seen.is_served()) as f64 / all_good as f64,
        noisy: (count(&seen, |seen| !seen.is_good() && seen.is_served()), most),
        p99: p99(&seen),
        unloaded,
        memory: [before, memory(guard.id())],
    }
}

impl Noisy {
    /// What holds however busy the machine is.
    fn check(&self) {
        assert!(self.good >= 0.95, "good clients are served: {self:?}");
        assert!(self.noisy.0 as f64 <= self.noisy.1, "the noisy one is held to its rate: {self:?}");
        assert!(self.noisy.0 >= 10, "and not shut out: {self:?}");
        let grown = self.memory[1].saturating_sub(self.memory[0]);
        assert!(grown < 16 << 20, "memory is flat: {self:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g22_good_clients_are_served_beside_a_noisy_one() {
    noisy(Duration::from_secs(4)).await.check();
}

/// `cargo test --release -p comity-cli --test guard -- --ignored --nocapture load`, or `cargo xtask bench guard`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes, and measures: for a machine with nothing else to do"]
async fn load_of_four_times_the_capacity() {
    let run = noisy(Duration::from_secs(60)).await;
    println!(
        "one noisy client, 60 s at 4 x capacity: good served {:.1} %, noisy served {} of at most {:.0}, \
         p99 {:.1} ms, unloaded {:.1} ms, memory {:.1} -> {:.1} MB",
        run.good * 100.0,
        run.noisy.0,
        run.noisy.1,
        run.p99.as_secs_f64() * 1e3,
        run.unloaded.as_secs_f64() * 1e3,
        run.memory[0] as f64 / 1e6,
        run.memory[1] as f64 / 1e6,
    );
    run.check();
    assert!(run.p99 <= 2 * run.unloaded, "{run:?}");

    for (queue, wait) in [(&["--queue", "0"][..], Duration::ZERO), (&[], Duration::from_millis(100))] {
        together(queue, wait).await;
    }
}

/// Nobody breaks a limit, and together they ask four times too much: what is served is served quickly, but for the time
/// that it may wait before the gate.
#[expect(clippy::print_stdout, reason = "whoever runs it wants to see the figures")]
async fn together(queue: &[&str], wait: Duration) {
    let server = server(WORKERS, WORK).await;
    let guard = Guard::start(server, &[&["--max-in-flight", "auto"], queue].concat());
    let unloaded = p99(&visited(guard.at[0], &visitors(8, CAPACITY / 16), Duration::from_secs(5)).await);
    let time = Duration::from_secs(20);
    let seen = visited(guard.at[0], &visitors(40, CAPACITY / 10), time).await;
    let (served, shed) = (count(&seen, Seen::is_served), count(&seen, |seen| seen.status == 503));
    let (p99, rate) = (p99(&seen), served as f64 / time.as_secs_f64());
    println!(
        "40 clients, 20 s at 4 x capacity, {wait:?} before the gate: {rate:.0} served a second of {CAPACITY} at most, \
         {shed} shed, p99 of the served {:.1} ms, unloaded {:.1} ms",
        p99.as_secs_f64() * 1e3,
        unloaded.as_secs_f64() * 1e3,
    );
    assert_eq!(served + shed, seen.len());
    until("none is in flight", || guard.metric("comity_guard_in_flight") == 0);
    assert!(rate >= 0.7 * f64::from(CAPACITY), "the server is kept busy: {rate}");
    assert!(p99 <= 2 * unloaded + wait, "{p99:?} {unloaded:?}");
}

/// The server works on four requests at once, each for 20 ms: two hundred a second.
const WORKERS: usize = 4;
const WORK: Duration = Duration::from_millis(20);
const CAPACITY: u32 = 200;
/// What each client may ask for a second; good ones ask for half of it.
const RATE: u32 = 10;
