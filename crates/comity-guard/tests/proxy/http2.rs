//! HTTP/2 from the client, and to the upstream.

use std::time::Duration;

use bytes::Bytes;
use comity_guard::proxy::server::RequestBody;
use comity_guard::proxy::{Bounds, Protocol, Settings};
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tower::service_fn;

use crate::town::{Client, Never, Proxy, Running, answering, field, serve, until, upstream, value};

type Body = http_body_util::combinators::BoxBody<Bytes, Never>;

async fn client(address: std::net::SocketAddr) -> SendRequest<Body> {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn get(target: &str) -> Request<Body> {
    Request::get(target).body(Empty::new().boxed()).unwrap()
}

/// Answers with what it got, over whatever HTTP it is spoken to.
async fn mirror() -> Running {
    let mirror = service_fn(|request: Request<RequestBody>| async move {
        let line = format!("{:?} {} {:?}", request.version(), request.uri(), request.headers().get("host"));
        let (head, body) = request.into_parts();
        let body = body.map_err(|error| error.to_string()).boxed();
        let mut response = Response::new(body);
        response.headers_mut().insert("x-line", line.parse().unwrap());
        for name in ["x-forwarded-host", "via", "te", "connection"] {
            if let Some(value) = head.headers.get(name) {
                response.headers_mut().insert(http::HeaderName::try_from(format!("x-{name}")).unwrap(), value.clone());
            }
        }
        Ok::<_, Never>(response)
    });
    serve(mirror, Bounds::default()).await
}

#[tokio::test]
async fn a_client_may_speak_http2() {
    let (address, mut heads) =
        answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: x\r\nx: 1\r\n\r\nok").await;
    let proxy = Proxy::to(address).await;
    let mut sender = client(proxy.running.address).await;
    let response = sender.send_request(get("http://example.org/a")).await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
    assert!(!response.headers().contains_key("x"));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    let head = heads.recv().await.unwrap();
    assert_eq!(field(&head, "host"), Some("example.org"));
    assert_eq!(field(&head, "via"), Some("2 comity-guard"));
    drop(sender);
    proxy.is_quiet().await;
    assert_eq!(value(&proxy.running.counters.abandoned), 0);
}

#[tokio::test]
async fn an_upstream_may_speak_http2() {
    let mirror = mirror().await;
    let mut settings = Settings::default();
    settings.protocol = Protocol::Http2;
    let proxy = Proxy::with(mirror.address, settings, Bounds::default()).await;
    for _ in 0..3 {
        let request = "POST /a?b HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\nabc";
        let (head, body) = proxy.client().await.ask(request).await;
        assert_eq!(field(&head, "x-line"), Some("HTTP/2.0 http://example.org/a?b None"));
        assert_eq!(body, "abc");
    }
    assert_eq!(value(&proxy.counters().connections), 1);
}

#[tokio::test]
async fn many_streams_share_one_connection_with_trailers() {
    let mirror = mirror().await;
    let mut settings = Settings::default();
    settings.protocol = Protocol::Http2;
    let proxy = Proxy::with(mirror.address, settings, Bounds::default()).await;
    let sender = client(proxy.running.address).await;
    let mut asking = tokio::task::JoinSet::new();
    for at in 0..50 {
        let mut sender = sender.clone();
        asking.spawn(async move {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", at.into());
            let body = Full::new(Bytes::from(vec![b'x'; 10_000])).with_trailers(async move { Some(Ok(trailers)) });
            let request = Request::post("http://a/").header("te", "trailers").body(body.boxed()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.headers()["x-te"], "trailers");
            let body = response.into_body().collect().await.unwrap();
            assert_eq!(body.trailers().unwrap()["x-sum"], at.to_string());
            assert_eq!(body.to_bytes().len(), 10_000);
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    assert_eq!((value(&proxy.running.counters.connections), value(&proxy.counters().connections)), (1, 1));
}

#[tokio::test]
async fn i09_a_stream_given_up_cancels_its_request() {
    let (gone, mut told) = tokio::sync::mpsc::unbounded_channel();
    let address = upstream(move |mut client: Client| {
        let gone = gone.clone();
        async move {
            client.head().await;
            client.rest().await;
            let _ = gone.send(());
        }
    })
    .await;
    let proxy = Proxy::to(address).await;
    let mut sender = client(proxy.running.address).await;
    let asked = tokio::spawn(sender.send_request(get("http://a/")));
    until("the upstream has it", || value(&proxy.counters().connections) == 1).await;
    asked.abort();
    told.recv().await.unwrap();
    until("nothing is held", || value(&proxy.running.counters.active_requests) == 0).await;
    assert_eq!(value(&proxy.running.counters.abandoned), 1);
}

#[tokio::test]
async fn i10_a_stream_nobody_reads_ends_its_connection() {
    let big = service_fn(|_: Request<RequestBody>| async {
        Ok::<_, Never>(Response::new(Full::new(Bytes::from(vec![b'x'; 10_000_000]))))
    });
    let big = serve(big, Bounds::default()).await;
    let mut bounds = Bounds::default();
    bounds.write_idle = Duration::from_millis(200);
    let proxy = Proxy::with(big.address, Settings::default(), bounds).await;
    let mut sender = client(proxy.running.address).await;
    let response = sender.send_request(get("http://a/")).await.unwrap();
    assert_eq!(response.status(), 200);
    until("it is noticed", || value(&proxy.running.counters.stalled_readers) == 1).await;
    proxy.is_quiet().await;
    drop(response);
}

#[tokio::test]
async fn an_upstream_without_http2_is_502() {
    let (address, _heads) = answering("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let mut settings = Settings::default();
    settings.protocol = Protocol::Http2;
    let proxy = Proxy::with(address, settings, Bounds::default()).await;
    let (head, _) = proxy.client().await.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(crate::town::status(&head), 502, "{head}");
}

#[tokio::test]
async fn an_ending_server_says_so_over_http2() {
    let mirror = mirror().await;
    let mut sender = client(mirror.address).await;
    sender.send_request(get("http://a/")).await.unwrap();
    mirror.end.send(()).unwrap();
    mirror.ended.await.unwrap();
    until("the client knows", || sender.is_closed()).await;
}
