//! Which connections are used again, counted by the server.

use std::future::poll_fn;
use std::io::Read as _;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;

use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use super::super::{FailureKind, PoolBounds};
use super::*;

#[tokio::test]
async fn a_connection_is_used_again_once_the_body_was_read_to_its_end() {
    let server = Server::http1().await;
    let client = client();
    assert!(!client.ready(&server.url("/")).await.unwrap().reused());
    for path in ["/", "/chunked", "/large", "/empty", "/"] {
        get(&client, &server.url(path)).await.unwrap();
        assert_eq!(server.accepted(), 1, "{path}");
    }
    assert!(client.ready(&server.url("/")).await.unwrap().reused());
    assert_eq!(get(&client, &server.url("/chunked")).await.unwrap(), "one two three");
    assert_eq!(get(&client, &server.url("/large")).await.unwrap().len(), 1_000_000);
}

#[tokio::test]
async fn a_body_dropped_early_closes_the_connection() {
    let server = Server::http1().await;
    let client = client();
    drop(send(&client, &server.url("/large")).await.unwrap());
    get(&client, &server.url("/")).await.unwrap();
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_connection_made_ready_and_not_used_is_kept() {
    let server = Server::http1().await;
    let client = client();
    drop(client.ready(&server.url("/")).await.unwrap());
    get(&client, &server.url("/")).await.unwrap();
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn sixty_four_at_once_use_sixty_four_connections_again_and_again() {
    let server = Server::http1().await;
    let client = client();
    let url = server.url("/");
    for _ in 0..3 {
        for outcome in join_all((0..64).map(|_| get(&client, &url))).await {
            outcome.unwrap();
        }
    }
    assert_eq!(server.accepted(), 64);
}

#[tokio::test]
async fn no_more_are_kept_than_the_bounds_say() {
    let server = Server::http1().await;
    let pool = PoolBounds { idle_per_host: 1, ..PoolBounds::default() };
    let client = Client::new(Options { pool, ..Options::default() }).unwrap();
    let url = server.url("/");
    for _ in 0..2 {
        let (one, two) = tokio::join!(client.ready(&url), client.ready(&url));
        one.unwrap().send(request(&url)).await.unwrap().into_body().collect().await.unwrap();
        two.unwrap().send(request(&url)).await.unwrap().into_body().collect().await.unwrap();
    }
    assert_eq!(server.accepted(), 3);
}

/// Answers one request on each connection, says that it may be used again, and closes it when told to.
async fn closing_when_told(told: Arc<Notify>) -> Server {
    Server::start(move |mut stream, _| {
        let told = Arc::clone(&told);
        async move {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await.unwrap();
            told.notified().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_not_taken() {
    let told = Arc::new(Notify::new());
    let server = closing_when_told(Arc::clone(&told)).await;
    let (client, url) = (client(), server.url("/"));
    get(&client, &url).await.unwrap();
    let mut ready = client.ready(&url).await.unwrap();
    assert!(ready.reused() && ready.is_alive());
    told.notify_one();
    until(|| !ready.is_alive()).await;
    drop(ready);
    assert_eq!(get(&client, &url).await.unwrap(), "hi");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_request_for_a_connection_that_died_is_given_back_unsent() {
    let told = Arc::new(Notify::new());
    let server = closing_when_told(Arc::clone(&told)).await;
    let (client, url) = (client(), server.url("/a?b"));
    get(&client, &url).await.unwrap();
    let mut ready = client.ready(&url).await.unwrap();
    assert!(ready.reused());
    told.notify_one();
    until(|| !ready.is_alive()).await;

    let mut failure = ready.send(request(&url)).await.unwrap_err();
    assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Reset, true), "{failure}");
    let request = failure.take_request().unwrap();
    let again = client.ready(&url).await.unwrap();
    assert!(!again.reused());
    assert_eq!(again.send(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_is_believed() {
    let server = Server::saying("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end").await;
    let (client, url) = (client(), server.url("/"));
    for _ in 0..3 {
        assert_eq!(get(&client, &url).await.unwrap(), "to the end");
    }
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn the_first_poll_writes_the_whole_request() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/a", listener.local_addr().unwrap())).unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 10];
        stream.read_exact(&mut head).unwrap();
        tell.send(head).unwrap();
    });
    let mut sending = pin!(client().ready(&url).await.unwrap().send(request(&url)));
    assert!(poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_pending())).await);
    // The one worker is blocked here, so nothing but that poll can have written.
    assert_eq!(&told.recv_timeout(Duration::from_secs(10)).unwrap(), b"GET /a HTT");
}

#[tokio::test]
async fn an_answer_no_longer_waited_for_closes_the_connection() {
    let server = Server::start(|stream, number| async move {
        match number {
            1 => std::future::pending::<()>().await,
            _ => serve_http1(stream).await,
        }
    })
    .await;
    let (client, url) = (client(), server.url("/"));
    tokio::time::timeout(Duration::ZERO, client.ready(&url).await.unwrap().send(request(&url))).await.unwrap_err();
    assert!(!client.ready(&url).await.unwrap().reused());
}
