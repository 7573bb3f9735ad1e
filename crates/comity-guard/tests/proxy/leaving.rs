//! Clients that go, services that panic, servers that end: nothing stays behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use comity_guard::proxy::server::RequestBody;
use comity_guard::proxy::{Bounds, Inflight, Settings};
use http::{Request, Response};
use http_body_util::Full;
use tower::{Service as _, service_fn};

use crate::town::{Client, Proxy, answering, serve, status, until, upstream, value};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn i09_a_client_that_goes_cancels_its_request() {
    let gone = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&gone);
    let address = upstream(move |mut client: Client| {
        let gone = Arc::clone(&noted);
        async move {
            client.head().await;
            client.rest().await;
            gone.fetch_add(1, Ordering::Relaxed);
        }
    })
    .await;
    let mut bounds = Bounds::default();
    bounds.half_closed = Duration::from_millis(100);
    let proxy = Proxy::with(address, Settings::default(), bounds).await;
    for (at, closes_in_order) in [(1, true), (2, false)] {
        let mut client = proxy.client().await;
        client.say(GET).await;
        until("the upstream has it", || value(&proxy.counters().connections) == at).await;
        if closes_in_order {
            drop(client);
        } else {
            client.reset();
        }
        until("the upstream hears of it", || gone.load(Ordering::Relaxed) == at as usize).await;
        proxy.is_quiet().await;
        assert_eq!(value(&proxy.running.counters.abandoned), at);
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test]
async fn g17_thousands_of_disconnects_leave_nothing() {
    // An upstream that answers, breaks off in every way, or is slow.
    let address = upstream(|mut client: Client| async move {
        while let Some(head) = client.head().await {
            let kind = head.split(['/', ' ']).nth(2).and_then(|kind| kind.parse::<u64>().ok()).unwrap_or(0);
            match kind {
                0 => client.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await,
                1 => return client.reset(),
                2 => client.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await,
                3 => {
                    client.say("HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n").await;
                    client.say(vec![b'x'; 300_000]).await;
                }
                4 => return client.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok").await,
                _ => {
                    client.rest().await;
                }
            }
        }
    })
    .await;
    let mut bounds = Bounds::default();
    bounds.half_closed = Duration::from_millis(20);
    let forward = comity_guard::proxy::Forward::new(format!("http://{address}").parse().unwrap(), Settings::default());
    let forward = forward.unwrap();
    let held = Arc::new(());
    let given = Arc::downgrade(&held);
    let through = forward.clone();
    let service = service_fn(move |mut request: Request<RequestBody>| {
        let token = given.upgrade();
        request.extensions_mut().insert(Inflight::new(token));
        through.clone().call(request)
    });
    let proxy = Proxy { running: serve(service, bounds).await, forward };
    let mut leaving = tokio::task::JoinSet::new();
    for at in 0..DISCONNECTS {
        let address = proxy.running.address;
        leaving.spawn(async move {
            let mut dice = Dice(at);
            let mut client = Client::to(address).await;
            let kind = dice.below(6);
            let body = dice.below(3);
            let request = match body {
                0 => format!("GET /{kind} HTTP/1.1\r\nHost: a\r\n\r\n"),
                1 => format!("POST /{kind} HTTP/1.1\r\nHost: a\r\nContent-Length: 200\r\n\r\n{}", "x".repeat(100)),
                _ => format!("POST /{kind} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"),
            };
            let most = dice.below(request.len() as u64 + 1) as usize;
            let part = if dice.below(4) == 0 { most } else { request.len() };
            client.say(&request[..part]).await;
            match dice.below(4) {
                0 => client.reset(),
                1 => drop(client),
                2 => {
                    let _ = tokio::time::timeout(Duration::from_millis(dice.below(20)), client.head()).await;
                    drop(client);
                }
                _ => {
                    let _ = tokio::time::timeout(Duration::from_millis(dice.below(20)), client.bytes(1)).await;
                    client.reset();
                }
            }
        });
        if leaving.len() >= 64 {
            leaving.join_next().await;
        }
    }
    while leaving.join_next().await.is_some() {}
    proxy.is_quiet().await;
    until("every token is back", || Arc::strong_count(&held) == 1).await;
    let (head, _) = proxy.client().await.ask("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(status(&head), 200);
}

/// A few seconds' worth.
const DISCONNECTS: u64 = 2_000;

#[tokio::test]
async fn g17_a_panic_is_500_and_ends_nothing_else() {
    let service = service_fn(|request: Request<RequestBody>| async move {
        assert_ne!(request.uri(), "/panic", "as asked");
        if request.uri() == "/error" { Err("as asked") } else { Ok(Response::new(Full::new(Bytes::from("ok")))) }
    });
    let server = serve(service, Bounds::default()).await;
    let mut client = Client::to(server.address).await;
    for (target, code) in [("/panic", 500), ("/", 200), ("/error", 500), ("/", 200)] {
        let (head, _) = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert_eq!(status(&head), code);
    }
    assert_eq!((value(&server.counters.faults), value(&server.counters.connections)), (2, 1));
    assert_eq!(value(&server.counters.active_requests), 0);
}

#[tokio::test]
async fn an_ending_server_finishes_what_is_in_flight() {
    let (go, wait) = tokio::sync::watch::channel(false);
    let address = upstream(move |mut client: Client| {
        let mut wait = wait.clone();
        async move {
            client.head().await;
            let _ = wait.wait_for(|go| *go).await;
            client.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate").await;
        }
    })
    .await;
    let proxy = Proxy::to(address).await;
    let (mut busy, mut idle) = (proxy.client().await, proxy.client().await);
    busy.say(GET).await;
    until("both are in", || {
        value(&proxy.counters().connections) == 1 && value(&proxy.running.counters.connections) == 2
    })
    .await;
    proxy.running.end.send(()).unwrap();
    assert_eq!(idle.rest().await, "");
    assert!(!proxy.running.ended.is_finished());
    go.send(true).unwrap();
    assert!(busy.rest_unharmed().await.ends_with("late"));
    proxy.running.ended.await.unwrap();
    let refused = tokio::net::TcpStream::connect(proxy.running.address).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn an_ending_server_waits_for_nobody_without_end() {
    let address = upstream(|mut client: Client| async move {
        client.rest().await;
    })
    .await;
    let mut bounds = Bounds::default();
    bounds.ending = Duration::from_millis(50);
    let proxy = Proxy::with(address, Settings::default(), bounds).await;
    let mut client = proxy.client().await;
    client.say(GET).await;
    until("it is in", || value(&proxy.counters().connections) == 1).await;
    let counters = Arc::clone(&proxy.running.counters);
    proxy.running.end.send(()).unwrap();
    proxy.running.ended.await.unwrap();
    assert_eq!((value(&counters.active_requests), value(&counters.active_connections)), (0, 0));
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn connections_to_the_upstream_are_kept_and_shared() {
    let (address, _heads) = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let proxy = Proxy::to(address).await;
    for _ in 0..5 {
        proxy.client().await.ask(GET).await;
    }
    assert_eq!((value(&proxy.counters().connections), value(&proxy.counters().reused)), (1, 4));
}
