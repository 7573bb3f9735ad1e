//! A request through the guard's layer beside tower_governor's, around the same service, keyed by peer, in one run; ratios
//! are printed.
//!
//! `cargo bench -p comity-guard --bench layer`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock and prints"
)]

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::ConnectInfo;
use comity_guard::{Answers, Guard, Rule, Settings, TokenBucket};
use http::{Request, Response};
use tower::{Layer, Service, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

async fn serve(_: Request<()>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

fn request(client: u32) -> Request<()> {
    let mut request = Request::get("/page").body(()).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(client)), 4711)));
    request
}

/// One request, polled once: nothing in it waits.
fn once<S, B>(service: &mut S, client: u32)
where
    S: Service<Request<()>, Response = Response<B>>,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    let answer = pin!(service.call(request(client))).as_mut().poll(&mut cx);
    let Poll::Ready(Ok(answer)) = answer else { panic!("an answer at once") };
    black_box(answer.status());
}

/// Nanoseconds a request, on so many threads, over so many clients.
fn timed<S, B>(service: &S, threads: u32, clients: u32, rounds: u32) -> f64
where
    S: Service<Request<()>, Response = Response<B>> + Clone + Send + Sync,
{
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut service = service.clone();
            scope.spawn(move || {
                let mut state = 0x9E37_79B9u32 + thread;
                for _ in 0..rounds {
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    once(&mut service, state % clients);
                }
            });
        }
    });
    start.elapsed().as_nanos() as f64 / f64::from(rounds * threads)
}

fn guarded(fields: bool, burst: i64) -> Settings {
    let (count, per) = if burst == 1 { (1, 3600) } else { (1_000_000_000, 1) };
    let each = TokenBucket::rate(count, Duration::from_secs(per), burst).unwrap();
    let answers = Answers { fields, ..Answers::default() };
    Settings { answers, ..Settings::with([Rule::new("each", each).unwrap()]) }
}

fn layered(settings: Settings) -> impl Service<Request<()>, Response = Response<impl Sized>> + Clone + Send + Sync {
    let layer = Guard::new(settings)
        .unwrap()
        .layer()
        .peer(|extensions| Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0.ip()));
    layer.layer(service_fn(serve))
}

/// Short ones in turn, and the least of each: what else the machine does falls on all alike.
const TURNS: u32 = 30;

fn main() {
    let bare = service_fn(serve);
    println!("ns a request: the bare service, and what each layer adds to it; `whole` is the ratio with the service");
    println!("the guard counts what is in flight as well, its peer does not");
    println!(
        "{:<20} {:>8} {:>8} {:>6} {:>7} {:>9} {:>7} {:>7}",
        "", "clients", "threads", "bare", "guard", "governor", "ratio", "whole"
    );
    for (name, headers, refuses) in
        [("let in, no fields", false, false), ("let in, with fields", true, false), ("refused", true, true)]
    {
        let burst = if refuses { 1 } else { 1_000_000_000 };
        // Its refusals take some 30 µs.
        let rounds = if refuses { 5_000 } else { 50_000 };
        for (clients, threads) in [(1, 1), (10_000, 1), (10_000, 2)] {
            let ours = layered(guarded(headers, burst));
            let mut peer = GovernorConfigBuilder::default();
            if refuses {
                peer.period(Duration::from_secs(3600)).burst_size(1);
            } else {
                peer.per_nanosecond(1).burst_size(1_000_000_000);
            }
            let (mut least, mut without) = ((f64::MAX, f64::MAX), f64::MAX);
            let plain = GovernorLayer::new(Arc::new(peer.finish().unwrap())).layer(bare);
            let with_fields = GovernorLayer::new(Arc::new(peer.use_headers().finish().unwrap())).layer(bare);
            for _ in 0..TURNS {
                without = without.min(timed(&bare, threads, clients, rounds));
                let theirs = if headers {
                    timed(&with_fields, threads, clients, rounds)
                } else {
                    timed(&plain, threads, clients, rounds)
                };
                least = (least.0.min(timed(&ours, threads, clients, rounds)), least.1.min(theirs));
            }
            let (ours, theirs) = (least.0 - without, least.1 - without);
            let whole = least.0 / least.1;
            println!(
                "{name:<20} {clients:>8} {threads:>8} {without:>6.0} {ours:>7.0} {theirs:>9.0} {:>7.2} {whole:>7.2}",
                ours / theirs
            );
        }
    }
}
