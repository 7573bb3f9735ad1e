//! The guard on real sockets: under hyper, asked by a plain client, by our own, and by clients that go away.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use comity::tower::PacerLayer;
use comity::{Pacer, Profile};
use comity_guard::{Guard, Settings};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

/// A body of one frame, or of one frame and then none for ever, or of one that the client's end never takes.
struct Answer {
    frames: u32,
    ends: bool,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.frames > 0 {
            self.frames -= 1;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))));
        }
        if self.ends { Poll::Ready(None) } else { Poll::Pending }
    }
}

/// `/never` has no head, `/endless` no end, `/panics` a fault; all else is answered.
async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    match request.uri().path() {
        "/never" => std::future::pending().await,
        "/panics" => std::panic::panic_any("a handler's fault"),
        "/endless" => Ok(Response::new(Answer { frames: 1, ends: false })),
        _ => Ok(Response::new(Answer { frames: 1, ends: true })),
    }
}

async fn serve(guard: &Guard) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let guard = guard.clone();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let service = guard.layer().peer_is(peer.ip()).layer(service_fn(answer));
            let connection = http1::Builder::new();
            tokio::spawn(async move {
                // Clients that go away are the point of it.
                let _ = connection.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
            });
        }
    });
    address
}

fn guard(text: &str) -> Guard {
    Guard::new(Settings::parse(text).unwrap()).unwrap()
}

fn client() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

fn get(address: SocketAddr, path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://{address}{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn g2_a_client_that_waits_exactly_retry_after_is_let_in() {
    let guard = guard("[[limit]]\nname = \"each\"\nrate = \"1/s\"\nburst = 2");
    let (address, client) = (serve(&guard).await, client());
    for _ in 0..3 {
        let mut refused = None;
        for _ in 0..4 {
            let answer = client.request(get(address, "/")).await.unwrap();
            if answer.status() == 429 {
                refused = Some(answer);
                break;
            }
            answer.into_body().collect().await.unwrap();
        }
        let refused = refused.expect("two at once, the third is refused");
        let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert_eq!(refused.headers()["ratelimit"], format!("\"each\";r=0;t={wait}"));
        tokio::time::sleep(Duration::from_secs(wait)).await;
        assert_eq!(client.request(get(address, "/")).await.unwrap().status(), 200);
    }
}

/// Our own client in front of our own guard, one request after the other.
async fn ours(
    pacer: &Pacer,
    address: SocketAddr,
    requests: usize,
) -> impl Service<Request<Empty<Bytes>>, Response = Response<Incoming>> {
    let mut client = ServiceBuilder::new().layer(PacerLayer::new(pacer.clone()).replay_bodies()).service(client());
    for _ in 0..requests {
        let answer = client.ready().await.unwrap().call(get(address, "/")).await.unwrap();
        assert_eq!(answer.status(), 200, "a refusal is tried again");
        answer.into_body().collect().await.unwrap();
    }
    client
}

#[tokio::test]
async fn our_own_client_is_refused_at_most_once_per_idle_start() {
    let guard = guard("[[limit]]\nname = \"each\"\nrate = \"4/s\"\nburst = 4");
    let address = serve(&guard).await;
    let pacer = Pacer::builder(Profile::Api).pace_loopback(true).local();
    ours(&pacer, address, 10).await;
    let first = guard.counted().refused;
    assert!(first <= 1, "{first} refusals at the first start");
    tokio::time::sleep(Duration::from_secs(2)).await;
    ours(&pacer, address, 10).await;
    let second = guard.counted().refused - first;
    assert!(second <= 1, "{second} refusals at the second start");
    assert_eq!(guard.counted().admitted, 20);
}

#[tokio::test]
async fn our_own_client_with_many_at_once_is_refused_at_most_once() {
    let guard = guard("[[limit]]\nname = \"each\"\nrate = \"20/s\"\nburst = 10");
    let address = serve(&guard).await;
    let pacer = Pacer::builder(Profile::Api).pace_loopback(true).local();
    let client = ServiceBuilder::new().layer(PacerLayer::new(pacer).replay_bodies()).service(client());
    let tasks: Vec<_> = (0..30).map(|_| tokio::spawn(client.clone().oneshot(get(address, "/")))).collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().status(), 200);
    }
    let counted = guard.counted();
    assert!(counted.admitted == 30 && counted.refused <= 1, "{counted}");
}

/// A connection that has asked for a path.
async fn asked(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

#[tokio::test]
async fn g17_disconnects_on_the_wire_leave_nothing_in_flight() {
    let guard = guard("max_in_flight = 1000");
    let address = serve(&guard).await;
    for round in 0..50 {
        let (mut before, mut after, mut panicked) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..10 {
            before.push(asked(address, "/never").await);
            after.push(asked(address, "/endless").await);
            panicked.push(asked(address, "/panics").await);
        }
        let mut byte = [0; 1];
        for stream in &mut after {
            assert_eq!(stream.read(&mut byte).await.unwrap(), 1, "its head is there");
        }
        for stream in &mut panicked {
            assert!(matches!(stream.read(&mut byte).await, Ok(0) | Err(_)));
        }
        until("all that have no end are in flight", || guard.counted().in_flight == 20).await;
        drop((before, after));
        until(&format!("none is in flight after round {round}"), || guard.counted().in_flight == 0).await;
    }
}

#[tokio::test]
async fn g3_a_reader_that_stalls_holds_its_place_until_it_goes() {
    let guard = guard("max_in_flight = 1");
    let address = serve(&guard).await;
    let mut stalls = asked(address, "/endless").await;
    let mut head = [0; 64];
    assert!(stalls.read(&mut head).await.unwrap() > 0);
    let shed = client().request(get(address, "/")).await.unwrap();
    assert_eq!((shed.status().as_u16(), shed.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    drop(stalls);
    until("the place is free", || guard.counted().in_flight == 0).await;
    assert_eq!(client().request(get(address, "/")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn auto_in_flight_serves_and_ends_with_none() {
    let guard = guard("max_in_flight = \"auto\"");
    let (address, client) = (serve(&guard).await, client());
    let tasks: Vec<_> = (0..200).map(|_| tokio::spawn(client.request(get(address, "/")))).collect();
    let mut served = 0;
    for task in tasks {
        let answer = task.await.unwrap().unwrap();
        served += u32::from(answer.status() == 200);
        answer.into_body().collect().await.unwrap();
    }
    let counted = guard.counted();
    assert_eq!(u64::from(served), counted.admitted);
    assert_eq!(counted.admitted + counted.shed, 200);
    until("none is in flight", || guard.counted().in_flight == 0).await;
}
