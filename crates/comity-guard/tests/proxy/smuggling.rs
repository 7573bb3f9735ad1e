//! Messages that two servers could take for different ones.

use crate::town::{Proxy, answering, field, status};

/// What the upstream got of `request`, and what the client.
async fn send(request: &str) -> (Vec<String>, String) {
    let (address, mut heads) = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let proxy = Proxy::to(address).await;
    let mut client = proxy.client().await;
    client.say(request).await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
    let answers = client.rest().await;
    let mut got = Vec::new();
    while let Ok(head) = heads.try_recv() {
        got.push(head);
    }
    (got, answers)
}

#[tokio::test]
async fn conflicting_lengths_are_never_passed_on() {
    for lines in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 4\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length : 3\r\n",
        " Content-Length: 3\r\n",
        "X: y\r\n Content-Length: 3\r\n",
        "X: a\rContent-Length: 3\r\n",
        "X: a\0b\r\n",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\nabcGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        let (got, answers) = send(&request).await;
        assert_eq!(got, [""; 0], "{lines:?} was passed on");
        let refused = answers.is_empty() || matches!(status(&answers), 400 | 501);
        assert!(refused, "{lines:?} was answered with {answers}");
        assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{lines:?} went on: {answers}");
    }
}

#[tokio::test]
async fn of_chunks_and_a_length_the_chunks_count_and_the_connection_ends() {
    for lines in ["Content-Length: 4\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 4"]
    {
        let request =
            format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        let (got, answers) = send(&request).await;
        assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{answers}");
        for head in got {
            assert!(head.starts_with("POST / "), "{head}");
            assert!(field(&head, "content-length").is_none() || field(&head, "transfer-encoding").is_none(), "{head}");
        }
    }
}

#[tokio::test]
async fn bad_chunks_break_the_request_off() {
    for body in
        ["3x\r\nabc\r\n0\r\n\r\n", "-1\r\n", "3\r\nabcd\r\n0\r\n\r\n", "fffffffffffffffff\r\n", "3;\nabc\r\n0\r\n\r\n"]
    {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let (_, answers) = send(&request).await;
        // The upstream answers a head at once, which may be before the proxy reads the bad chunk.
        assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{body:?} went on: {answers}");
    }
}

#[tokio::test]
async fn a_body_in_a_get_is_not_a_second_request() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = smuggled.len();
    for framing in [
        format!("Content-Length: {length}\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{smuggled}\r\n0\r\n\r\n"),
    ] {
        let (got, answers) = send(&format!("GET / HTTP/1.1\r\nHost: a\r\n{framing}")).await;
        assert_eq!(got.len(), 1, "{framing} got {answers}");
        let framed = field(&got[0], "content-length").is_some() != field(&got[0], "transfer-encoding").is_some();
        assert!(framed, "{}", got[0]);
    }
}

#[tokio::test]
async fn bad_hosts_and_an_h2c_upgrade_are_not_passed_on() {
    for head in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
    ] {
        let (got, answers) = send(head).await;
        assert_eq!(got, [""; 0], "{head}");
        assert!(matches!(status(&answers), 400 | 501), "{answers}");
    }
    let wish = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    let (got, _) = send(&format!("GET / HTTP/1.1\r\nHost: a\r\n{wish}\r\n")).await;
    for name in ["upgrade", "connection", "http2-settings"] {
        assert_eq!(field(&got[0], name), None, "{}", got[0]);
    }
}
