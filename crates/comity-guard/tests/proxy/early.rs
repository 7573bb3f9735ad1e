//! Answers made before the request is whole.

use bytes::Bytes;
use comity_guard::proxy::Bounds;
use comity_guard::proxy::server::RequestBody;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::io::AsyncWriteExt as _;
use tower::service_fn;

use crate::town::{Client, Never, Proxy, Running, field, serve, status, until, upstream, value};

/// A server that is full.
async fn full(bounds: Bounds) -> Running {
    let refuse = service_fn(|_: Request<RequestBody>| async {
        let mut response = Response::new(Full::new(Bytes::from_static(b"full")));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Ok::<_, Never>(response)
    });
    serve(refuse, bounds).await
}

#[tokio::test]
async fn g19_a_large_body_is_refused_at_once_and_the_connection_ends() {
    let server = full(Bounds::default()).await;
    let mut client = Client::to(server.address).await;
    client.say("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\ntrickle").await;
    let head = client.head().await.unwrap();
    assert_eq!((status(&head), field(&head, "connection")), (503, Some("close")));
    assert_eq!(client.bytes(4).await, "full");
    // The end of the answer is seen although the client never stops sending.
    assert_eq!(client.rest_unharmed().await, "");
    until("the connection is closed", || value(&server.counters.active_connections) == 0).await;
    assert_eq!(value(&server.counters.early_answers), 1);
}

#[tokio::test]
async fn g19_what_is_being_sent_does_not_reset_the_answer() {
    let server = full(Bounds::default()).await;
    let mut client = Client::to(server.address).await;
    client.say("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n").await;
    client.say(vec![b'x'; 500_000]).await;
    let answer = client.rest_unharmed().await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("full"), "{answer}");
}

#[tokio::test]
async fn g19_a_small_body_is_read_away_and_the_connection_kept() {
    let server = full(Bounds::default()).await;
    let mut client = Client::to(server.address).await;
    let (head, body) = client.ask("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n").await;
    assert_eq!((status(&head), field(&head, "connection"), body.as_str()), (503, None, "full"));
    client.say([b'x'; 1000]).await;
    let (head, _) = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(status(&head), 503);
    assert_eq!(value(&server.counters.connections), 1);
}

#[tokio::test]
async fn g19_a_slow_small_body_is_not_waited_for_without_end() {
    let mut bounds = Bounds::default();
    bounds.rest_within = std::time::Duration::from_millis(50);
    let server = full(bounds).await;
    let mut client = Client::to(server.address).await;
    client.ask("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n").await;
    client.say("x").await;
    assert_eq!(client.rest().await, "");
    until("the connection is closed", || value(&server.counters.active_connections) == 0).await;
}

#[tokio::test]
async fn g19_a_client_that_asked_first_is_not_told_to_go_on() {
    let server = full(Bounds::default()).await;
    let mut client = Client::to(server.address).await;
    client.say("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n").await;
    let answer = client.rest_unharmed().await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && field(&answer, "connection") == Some("close"), "{answer}");
}

#[tokio::test]
async fn i11_a_half_closed_client_gets_its_answer() {
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "GET / HTTP/1.0\r\n\r\n",
    ] {
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
        let mut client = proxy.client().await;
        client.say(request).await;
        client.stream.shutdown().await.unwrap();
        until("the request is there", || value(&proxy.counters().connections) == 1).await;
        go.send(true).unwrap();
        let answer = client.rest_unharmed().await;
        assert!(answer.ends_with("\r\n\r\nlate"), "{request}: {answer}");
        proxy.is_quiet().await;
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let mut bounds = Bounds::default();
    bounds.head_within = std::time::Duration::from_millis(50);
    let server = full(bounds).await;
    for begun in ["", "GET / HT", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut client = Client::to(server.address).await;
        client.say(begun).await;
        assert_eq!(client.rest().await, "", "{begun}");
    }
    assert_eq!(value(&server.counters.slow_heads), 3);
    let mut client = Client::to(server.address).await;
    client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.say("GET /again").await;
    client.rest().await;
    assert_eq!(value(&server.counters.slow_heads), 4);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let mut bounds = Bounds::default();
    bounds.idle = std::time::Duration::from_millis(50);
    let server = full(bounds).await;
    let mut client = Client::to(server.address).await;
    client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(client.rest_unharmed().await, "");
    assert_eq!(value(&server.counters.slow_heads), 0);
}

#[tokio::test]
async fn heads_too_large_are_refused() {
    let server = full(Bounds::default()).await;
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(101));
    for request in [large, many] {
        let mut client = Client::to(server.address).await;
        client.say(request).await;
        assert_eq!(status(&client.rest_unharmed().await), 431);
    }
}

#[tokio::test]
async fn connections_beyond_the_bound_wait() {
    let mut bounds = Bounds::default();
    bounds.connections = 1;
    let server = full(bounds).await;
    let mut first = Client::to(server.address).await;
    first.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut second = Client::to(server.address).await;
    second.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    until("accepting waits", || value(&server.counters.accept_waits) > 0).await;
    assert_eq!(value(&server.counters.connections), 1);
    drop(first);
    assert_eq!(status(&second.head().await.unwrap()), 503);
}
