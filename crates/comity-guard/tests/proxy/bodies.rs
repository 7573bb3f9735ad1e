//! Bodies in both directions, at the pace of whoever makes them.

use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use comity_guard::proxy::server::RequestBody;
use comity_guard::proxy::{Bounds, Inflight};
use http::{Request, Response};
use tower::{Service as _, service_fn};

use crate::town::{Client, Never, Proxy, field, serve, status, until, upstream, value};

#[tokio::test]
async fn i05_events_arrive_one_by_one() {
    let (events, next) = tokio::sync::mpsc::unbounded_channel::<&str>();
    let next = Arc::new(tokio::sync::Mutex::new(next));
    let address = upstream(move |mut client: Client| {
        let next = Arc::clone(&next);
        async move {
            client.head().await;
            client.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await;
            while let Some(event) = next.lock().await.recv().await {
                client.say(event).await;
            }
        }
    })
    .await;
    let mut client = Proxy::to(address).await.client().await;
    client.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    // The head is here before there is any event, and each event before the next one is made.
    assert_eq!(status(&client.head().await.unwrap()), 200);
    for event in ["data: first\n\n", "data: second\n\n", "data: third\n\n"] {
        events.send(event).unwrap();
        assert!(client.through(format!("{event}\r\n").as_bytes()).await.unwrap().ends_with(&format!("{event}\r\n")));
    }
    drop(events);
    assert!(client.through(b"0\r\n\r\n").await.is_some());
}

#[tokio::test]
async fn a_body_goes_up_while_its_answer_comes_down() {
    let echo = service_fn(|request: Request<RequestBody>| async { Ok::<_, Never>(Response::new(request.into_body())) });
    let echo = serve(echo, Bounds::default()).await;
    let proxy = Proxy::to(echo.address).await;
    let mut client = proxy.client().await;
    client.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").await;
    assert!(client.head().await.unwrap().contains("chunked"));
    assert_eq!(client.bytes(8).await, "3\r\none\r\n");
    client.say("3\r\ntwo\r\n").await;
    assert_eq!(client.bytes(8).await, "3\r\ntwo\r\n");
    client.say("0\r\n\r\n").await;
    assert_eq!(client.bytes(5).await, "0\r\n\r\n");
    let (head, _) = client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").await;
    assert_eq!(field(&head, "content-length"), Some("3"));
    assert_eq!(value(&proxy.counters().reused), 1);
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let address = upstream(|mut client: Client| async move {
        let head = client.head().await.unwrap();
        let body = client.through(b"\r\n\r\n").await.unwrap();
        let told = if field(&head, "trailer") == Some("X-Sum") && body.contains("x-sum: 7") { "8" } else { "0" };
        let answer = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: ";
        client.say(format!("{answer}{told}\r\n\r\n")).await;
    })
    .await;
    let mut client = Proxy::to(address).await.client().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\nTrailer: X-Sum\r\n";
    client.say(format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n")).await;
    client.head().await.unwrap();
    assert_eq!(client.through(b"\r\n\r\n").await.unwrap(), "2\r\nok\r\n0\r\nx-sum: 8\r\n\r\n");
}

#[tokio::test]
async fn a_client_that_asks_is_told_to_send_its_body() {
    let echo = service_fn(|request: Request<RequestBody>| async { Ok::<_, Never>(Response::new(request.into_body())) });
    let echo = serve(echo, Bounds::default()).await;
    let mut client = Proxy::to(echo.address).await.client().await;
    client.say("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").await;
    assert_eq!(client.head().await.unwrap(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.say("abc").await;
    assert_eq!(status(&client.head().await.unwrap()), 200);
    assert_eq!(client.bytes(3).await, "abc");
}

#[tokio::test]
async fn an_answer_cut_off_is_cut_off_for_the_client_too() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let address = upstream(move |mut client: Client| async move {
            client.head().await;
            client.say(answer).await;
        })
        .await;
        let proxy = Proxy::to(address).await;
        let mut client = proxy.client().await;
        client.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let got = client.rest().await;
        assert!(got.contains("abc") && !got.ends_with("0\r\n\r\n"), "{got}");
        assert_eq!(value(&proxy.counters().broken_answers), 1);
        proxy.is_quiet().await;
    }
}

#[tokio::test]
async fn large_bodies_pass_unchanged() {
    let echo = service_fn(|request: Request<RequestBody>| async { Ok::<_, Never>(Response::new(request.into_body())) });
    let echo = serve(echo, Bounds::default()).await;
    let proxy = Proxy::to(echo.address).await;
    let Client { stream, .. } = proxy.client().await;
    let (mut read, mut write) = stream.into_split();
    let body: Vec<u8> = (0..4_000_000u32).map(|at| (at % 251) as u8).collect();
    let sending = body.clone();
    let sent = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let head =
            format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", sending.len());
        write.write_all(head.as_bytes()).await.unwrap();
        write.write_all(&sending).await.unwrap();
        write
    });
    let mut got = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut read, &mut got).await.unwrap();
    assert!(got.ends_with(&body));
    sent.await.unwrap();
}

#[tokio::test]
async fn i10_stalled_readers_hold_nothing_for_long() {
    let big = service_fn(|request: Request<RequestBody>| async move {
        let size = if request.uri() == "/big" { 10_000_000 } else { 2 };
        Ok::<_, Never>(Response::new(http_body_util::Full::new(Bytes::from(vec![b'x'; size]))))
    });
    let big = serve(big, Bounds::default()).await;
    let mut bounds = Bounds::default();
    bounds.write_idle = std::time::Duration::from_millis(300);
    let proxy = Proxy::with(big.address, comity_guard::proxy::Settings::default(), bounds).await;
    let mut stalled = Vec::new();
    for _ in 0..32 {
        let mut client = proxy.client().await;
        client.say("GET /big HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.head().await.unwrap();
        stalled.push(client);
    }
    let (head, body) = proxy.client().await.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!((status(&head), body.as_str()), (200, "xx"));
    let counters = &proxy.running.counters;
    until("the stalled readers are let go", || value(&counters.stalled_readers) == 32).await;
    until("nothing is held for them", || value(&counters.active_requests) == 0).await;
    assert_eq!(value(&counters.abandoned), 32);
    // What the upstream was still to send is no longer wanted.
    until("the upstream knows", || value(&big.counters.active_requests) == 0).await;
}

#[tokio::test]
async fn g3_an_inflight_token_lives_as_long_as_the_body() {
    let (go, wait) = tokio::sync::watch::channel(false);
    let address = upstream(move |mut client: Client| {
        let mut wait = wait.clone();
        async move {
            client.head().await;
            client.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab").await;
            let _ = wait.wait_for(|go| *go).await;
            client.say("cd").await;
        }
    })
    .await;
    let forward = comity_guard::proxy::Forward::new(
        format!("http://{address}").parse().unwrap(),
        comity_guard::proxy::Settings::default(),
    )
    .unwrap();
    let tokens = Arc::new(Mutex::new(Vec::<Weak<()>>::new()));
    let given = Arc::clone(&tokens);
    let held = move || tokens.lock().unwrap().iter().map(Weak::strong_count).sum::<usize>();
    let service = service_fn(move |mut request: Request<RequestBody>| {
        let token = Arc::new(());
        given.lock().unwrap().push(Arc::downgrade(&token));
        request.extensions_mut().insert(Inflight::new(token));
        forward.clone().call(request)
    });
    let server = serve(service, Bounds::default()).await;
    let mut client = Client::to(server.address).await;
    client.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.through(b"ab").await.unwrap();
    assert_eq!(held(), 1);
    go.send(true).unwrap();
    assert_eq!(client.bytes(2).await, "cd");
    until("the token is back", || held() == 0).await;
    let (head, _) = Client::to(server.address).await.ask("GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(status(&head), 400);
    until("also of what was refused", || held() == 0).await;
}
