//! An upstream that does not answer, or not as it should.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use comity_guard::proxy::{Bounds, Settings};
use tokio::net::TcpListener;

use crate::town::{Client, Proxy, answering, failures, field, loopback, status, upstream, value};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn quick() -> Settings {
    let mut settings = Settings::default();
    settings.first_byte_within = Duration::from_millis(100);
    settings.connect_within = Duration::from_millis(100);
    settings
}

async fn fails_with(proxy: &Proxy, request: &str, code: u16, error: &'static str) {
    let (head, body) = proxy.client().await.ask(request).await;
    assert_eq!(status(&head), code, "{head}");
    assert_eq!(field(&head, "proxy-status"), Some(format!("comity-guard; error={error}").as_str()));
    assert!(body.starts_with("upstream "), "{body}");
    assert_eq!(failures(&proxy.counters()), [error]);
}

#[tokio::test]
async fn refused_is_502() {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    fails_with(&Proxy::to(address).await, GET, 502, "connection_refused").await;
}

#[tokio::test]
async fn reset_and_closed_are_502() {
    let address = upstream(|mut client: Client| async move {
        client.head().await;
        client.reset();
    })
    .await;
    fails_with(&Proxy::to(address).await, GET, 502, "connection_terminated").await;
    let address = upstream(|mut client: Client| async move {
        client.head().await;
        client.say("HTTP/1.1 200").await;
    })
    .await;
    fails_with(&Proxy::to(address).await, GET, 502, "connection_terminated").await;
}

#[tokio::test]
async fn nonsense_is_502() {
    for answer in [
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad name: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        let (address, _heads) = answering(answer).await;
        fails_with(&Proxy::to(address).await, GET, 502, "http_protocol_error").await;
    }
}

#[tokio::test]
async fn silence_is_504() {
    let address = upstream(|mut client: Client| async move {
        client.rest().await;
    })
    .await;
    let proxy = Proxy::with(address, quick(), Bounds::default()).await;
    fails_with(&proxy, GET, 504, "connection_read_timeout").await;
    let body = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    fails_with(&proxy, body, 504, "connection_read_timeout").await;
}

#[tokio::test]
async fn a_connection_that_does_not_come_is_504() {
    // TLS with a server that never says a word.
    let address = upstream(|mut client: Client| async move {
        client.rest().await;
    })
    .await;
    let upstream = format!("https://{address}").parse().unwrap();
    let Ok(forward) = comity_guard::proxy::Forward::new(upstream, quick()) else {
        return; // This system has no certificates to trust.
    };
    let running = crate::town::serve(forward.clone(), Bounds::default()).await;
    fails_with(&Proxy { running, forward }, GET, 504, "connection_timeout").await;
}

#[tokio::test]
async fn a_slow_client_is_not_the_upstreams_fault() {
    let (address, _heads) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let proxy = Proxy::with(address, quick(), Bounds::default()).await;
    let mut client = proxy.client().await;
    client.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n").await;
    // Longer than the upstream may take.
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.say("abc").await;
    assert_eq!(status(&client.head().await.unwrap()), 200);
}

#[tokio::test]
async fn a_body_that_stands_still_is_408_and_one_cut_off_400() {
    let (address, _heads) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let mut bounds = Bounds::default();
    bounds.body_idle = Duration::from_millis(50);
    let proxy = Proxy::with(address, Settings::default(), bounds).await;
    let begun = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na";
    let mut client = proxy.client().await;
    client.say(begun).await;
    let answer = client.rest_unharmed().await;
    assert_eq!((status(&answer), field(&answer, "connection")), (408, Some("close")));
    assert_eq!(value(&proxy.running.counters.slow_bodies), 1);

    let mut client = proxy.client().await;
    client.say(begun).await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
    assert_eq!(status(&client.rest_unharmed().await), 400);
    assert_eq!(value(&proxy.counters().broken_requests), 2);
    assert!(failures(&proxy.counters()).is_empty());
    proxy.is_quiet().await;
}

/// An upstream that answers one request on each connection, and closes when it gets a second.
async fn tires_after_one(seen: Arc<AtomicUsize>) -> std::net::SocketAddr {
    upstream(move |mut client: Client| {
        let seen = Arc::clone(&seen);
        async move {
            client.head().await;
            seen.fetch_add(1, Ordering::Relaxed);
            client.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            if client.head().await.is_some() {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_kept_connection_that_closes_is_tried_once_more() {
    let seen = Arc::default();
    let proxy = Proxy::to(tires_after_one(Arc::clone(&seen)).await).await;
    let mut client = proxy.client().await;
    for _ in 0..2 {
        let (head, body) = client.ask(GET).await;
        assert_eq!((status(&head), body.as_str()), (200, "ok"));
    }
    assert_eq!((value(&proxy.counters().retried), value(&proxy.counters().connections)), (1, 2));
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn what_could_happen_twice_is_not_tried_again() {
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
    ] {
        let seen = Arc::default();
        let proxy = Proxy::to(tires_after_one(Arc::clone(&seen)).await).await;
        proxy.client().await.ask(GET).await;
        fails_with(&proxy, request, 502, "connection_terminated").await;
        assert_eq!(seen.load(Ordering::Relaxed), 2);
    }
}
