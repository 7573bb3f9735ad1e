//! What reaches the other side of a message's head.

use crate::town::{Client, Proxy, answering, field, status, upstream};
use comity_guard::proxy::{Bounds, Settings};

#[tokio::test]
async fn i08_hop_by_hop_fields_stay_here() {
    let (address, mut heads) = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let proxy = Proxy::to(address).await;
    let request = "GET /a?b=%20c HTTP/1.1\r\nHost: example.org\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\n\
                   Connection: x-other\r\nX-Other: 2\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\n\
                   Keep-Alive: timeout=5\r\nAccept: */*\r\n\r\n";
    let (head, body) = proxy.client().await.ask(request).await;
    assert_eq!((status(&head), body.as_str()), (200, "ok"));
    let sent = heads.recv().await.unwrap();
    assert!(sent.starts_with("GET /a?b=%20c HTTP/1.1\r\n"), "{sent}");
    for name in ["connection", "x-secret", "x-other", "proxy-authorization", "te", "keep-alive"] {
        assert_eq!(field(&sent, name), None, "{sent}");
    }
    assert_eq!(field(&sent, "host"), Some("example.org"));
    assert_eq!(field(&sent, "via"), Some("1.1 comity-guard"));
    assert_eq!(field(&sent, "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(field(&sent, "x-forwarded-proto"), Some("http"));
    assert_eq!(field(&sent, "forwarded"), Some("for=127.0.0.1;host=example.org;proto=http"));
}

#[tokio::test]
async fn i08_hop_by_hop_fields_of_an_answer_stay_there() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hidden\r\nX-Hidden: 1\r\nKeep-Alive: timeout=5\r\n\
                  Proxy-Authenticate: Basic\r\nX-Seen: 1\r\nContent-Length: 0\r\n\r\n";
    let (address, _heads) = answering(answer).await;
    let (head, _) = Proxy::to(address).await.client().await.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    for name in ["connection", "x-hidden", "keep-alive", "proxy-authenticate"] {
        assert_eq!(field(&head, name), None, "{head}");
    }
    assert_eq!(field(&head, "x-seen"), Some("1"));
}

#[tokio::test]
async fn te_trailers_go_on_when_connection_names_te() {
    let (address, mut heads) = answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let proxy = Proxy::to(address).await;
    proxy.client().await.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: gzip, trailers\r\n\r\n").await;
    let sent = heads.recv().await.unwrap();
    assert_eq!((field(&sent, "te"), field(&sent, "connection")), (Some("trailers"), Some("te")));
}

#[tokio::test]
async fn the_target_is_made_origin_form() {
    let (address, mut heads) = answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let proxy = Proxy::to(address).await;
    proxy.client().await.ask("GET http://one.example/x HTTP/1.1\r\nHost: two.example\r\n\r\n").await;
    let sent = heads.recv().await.unwrap();
    assert!(sent.starts_with("GET /x HTTP/1.1\r\n"), "{sent}");
    assert_eq!(field(&sent, "host"), Some("one.example"));
    proxy.client().await.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(heads.recv().await.unwrap().starts_with("OPTIONS * HTTP/1.1\r\n"));
}

#[tokio::test]
async fn the_upstreams_own_host_is_told_where_so_set() {
    let (address, mut heads) = answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut settings = Settings::default();
    settings.keep_host = false;
    let proxy = Proxy::with(address, settings, Bounds::default()).await;
    proxy.client().await.ask("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").await;
    let sent = heads.recv().await.unwrap();
    assert_eq!(field(&sent, "host"), Some(address.to_string().as_str()));
    assert_eq!(field(&sent, "x-forwarded-host"), Some("example.org"));
}

#[tokio::test]
async fn an_http_1_0_client_is_served_and_closed() {
    let (address, mut heads) =
        answering("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").await;
    let mut client = Proxy::to(address).await.client().await;
    client.say("GET / HTTP/1.0\r\n\r\n").await;
    let answer = client.rest_unharmed().await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    assert_eq!(field(&heads.recv().await.unwrap(), "host"), Some(address.to_string().as_str()));
}

#[tokio::test]
async fn heads_without_bodies_keep_their_lengths() {
    let address = upstream(|mut client: Client| async move {
        while let Some(head) = client.head().await {
            let answer = if head.starts_with("HEAD") {
                "HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n"
            } else {
                "HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n"
            };
            client.say(answer).await;
        }
    })
    .await;
    let proxy = Proxy::to(address).await;
    let mut client = proxy.client().await;
    client.say("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(field(&client.head().await.unwrap(), "content-length"), Some("1234"));
    client.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(status(&client.head().await.unwrap()), 304);
    let abandoned = &proxy.running.counters.abandoned;
    drop(client);
    proxy.is_quiet().await;
    assert_eq!(crate::town::value(abandoned), 0);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (address, mut heads) = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let mut client = Proxy::to(address).await.client().await;
    client.say("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!(client.rest_unharmed().await.matches("HTTP/1.1 200 OK").count(), 2);
    assert!(heads.recv().await.unwrap().starts_with("GET /1 "));
    assert!(heads.recv().await.unwrap().starts_with("GET /2 "));
}
