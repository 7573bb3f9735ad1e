//! What goes wrong is told apart.

use std::error::Error as _;

use http_body_util::BodyExt as _;

use super::super::FailureKind;
use super::*;

async fn ready_failure(client: &Client, url: &str) -> Failure {
    client.ready(&Url::parse(url).unwrap()).await.unwrap_err()
}

async fn send_failure(server: &Server) -> Failure {
    send(&client(), &server.url("/")).await.map(drop).unwrap_err()
}

#[tokio::test]
async fn d13_a_name_without_address_fails_at_resolving() {
    // A label of 64 bytes: the resolver refuses it without asking anybody (RFC 1035, 2.3.4).
    let name = format!("{}.invalid", "a".repeat(64));
    let failure = ready_failure(&client(), &format!("http://{name}/")).await;
    assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Resolve, true), "{failure}");
    assert!(failure.to_string().contains(&name) && failure.source().is_some(), "{failure}");
}

#[tokio::test]
async fn d13_a_closed_port_fails_at_connecting() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = ready_failure(&client(), &format!("http://{closed}/")).await;
    assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Connect, true), "{failure}");
    assert!(failure.to_string().contains(&closed.to_string()), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn d13_a_silent_handshake_ends_at_the_connect_time_out() {
    let silent = Server::start(|stream, _| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let options = Options { danger_accept_invalid_certs: true, ..Options::default() };
    let failure = ready_failure(&Client::new(options).unwrap(), &format!("https://{}/", silent.address)).await;
    assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::TimedOut, true), "{failure}");
    assert!(
        failure.to_string().contains("30s") && failure.to_string().contains(&silent.address.to_string()),
        "{failure}"
    );
}

#[tokio::test]
async fn d13_a_connection_reset_at_once_fails_at_writing() {
    let server = Server::start(|stream, _| async move {
        stream.set_zero_linger().unwrap();
    })
    .await;
    let failure = send_failure(&server).await;
    assert_eq!(failure.kind(), FailureKind::Reset, "{failure}");
    assert!(failure.to_string().contains(&server.address.to_string()), "{failure}");
}

#[tokio::test]
async fn d13_a_server_that_reads_and_closes_fails_at_the_head_and_it_was_sent() {
    for half in ["", "HTTP/1.1 200 OK\r\nContent-"] {
        let server = Server::saying(half).await;
        let failure = send_failure(&server).await;
        assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Reset, false), "{failure}");
        assert!(failure.to_string().contains("before it answered"), "{failure}");
    }
}

#[tokio::test]
async fn d13_a_body_that_breaks_off_fails_at_the_body() {
    let cut_short = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
    let bad_chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhixx";
    for answer in [cut_short, bad_chunk] {
        let server = Server::saying(answer).await;
        let client = client();
        let response = send(&client, &server.url("/")).await.unwrap();
        assert_eq!(response.status(), 200);
        let failure = response.into_body().collect().await.unwrap_err();
        assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Body, false), "{failure}");
        assert!(failure.to_string().contains(&server.address.to_string()), "{failure}");
        assert!(!client.ready(&server.url("/")).await.unwrap().reused());
    }
}

#[tokio::test]
async fn what_is_not_http_is_told_so() {
    for garbage in ["SSH-2.0-OpenSSH_9.6\r\n\r\n", "\0\0\0\x04\0\0\0\0\0", "HTTP/1.1 99999 x\r\n\r\n"] {
        let failure = send_failure(&Server::saying(garbage).await).await;
        assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Protocol, false), "{failure}");
    }
}

#[tokio::test]
async fn a_response_head_over_the_bounds_is_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(70_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Many: 1\r\n".repeat(201));
    let endless = format!("HTTP/1.1 200 OK\r\nX-Long: {}", "x".repeat(10_000_000));
    for head in [long, many, endless] {
        let failure = send_failure(&Server::saying(head).await).await;
        assert_eq!(failure.kind(), FailureKind::Protocol, "{failure}");
        assert!(failure.to_string().contains("too large"), "{failure}");
    }
    let within = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 2\r\n\r\nhi", "X-Many: 1\r\n".repeat(199));
    let server = Server::saying(within).await;
    assert_eq!(get(&client(), &server.url("/")).await.unwrap(), "hi");
}

#[tokio::test]
async fn bytes_nobody_asked_for_end_an_idle_connection() {
    let server =
        Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
            .await;
    let (client, url) = (client(), server.url("/"));
    for _ in 0..2 {
        assert_eq!(get(&client, &url).await.unwrap(), "hi");
    }
    assert_eq!(server.accepted(), 2);
}
