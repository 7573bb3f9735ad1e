//! TLS, HTTP/2, websockets.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::town::{Guard, ask, far_end, head, until, upstream};

fn write_certificate(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("chain.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

/// So many requests over one connection of HTTP/2 within TLS, trusting the certificate in `folder` alone.
async fn ask_over_http2(at: SocketAddr, folder: &Path, requests: usize) -> std::io::Result<Vec<StatusCode>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("chain.pem")).unwrap()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(at).await?;
    let tls = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), tcp).await?;
    assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    let mut statuses = Vec::new();
    for _ in 0..requests {
        let request = Request::get("https://localhost/").body(Empty::<Bytes>::new()).unwrap();
        let answer = client.send_request(request).await.unwrap();
        statuses.push(answer.status());
        answer.into_body().collect().await.unwrap();
    }
    Ok(statuses)
}

#[tokio::test]
async fn http2_within_tls_is_limited_too_and_certificates_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let far_end = far_end();
    let words = ["--rate", "1/h", "--burst", "3", "--tls-cert", &file("chain.pem"), "--tls-key", &file("key.pem")];
    let guard = Guard::start_at(&["127.0.0.1:0", "http://127.0.0.1:0"], far_end.addr(), &words);
    let statuses = ask_over_http2(guard.at[0], folder.path(), 3).await.unwrap();
    assert_eq!(statuses, [200, 200, 200]);
    assert_eq!(crate::town::get(guard.at[1], "/", &[]).status, 429, "one limit over all listeners");
    let arrived = &far_end.arrivals()[0];
    assert_eq!(arrived.header("x-forwarded-proto"), Some("https"));

    write_certificate(folder.path());
    assert!(ask_over_http2(guard.at[0], folder.path(), 1).await.is_err(), "the new one is not served yet");
    guard.signal("-HUP");
    assert_eq!(guard.event()["event"], "reloaded");
    assert_eq!(ask_over_http2(guard.at[0], folder.path(), 1).await.unwrap(), [429]);

    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    guard.signal("-HUP");
    guard.hears("nothing is changed: --tls-cert");
    assert_eq!(ask_over_http2(guard.at[0], folder.path(), 1).await.unwrap(), [429], "the one before is kept");
}

#[test]
fn i07_a_websocket_goes_through_and_holds_no_place() {
    let echo = upstream(|mut stream| {
        let asked = head(&mut stream).to_ascii_lowercase();
        if !asked.contains("upgrade: websocket") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(switched.as_bytes()).unwrap();
        let mut bytes = [0; 64];
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            stream.write_all(&bytes[..read]).unwrap();
        }
    });
    let mut guard = Guard::start(echo, &["--max-in-flight", "1"]);
    let mut socket = std::net::TcpStream::connect(guard.at[0]).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    assert!(head(&mut socket).starts_with("HTTP/1.1 101"));
    let mut said = [0; 5];
    for word in [b"hello", b"again"] {
        socket.write_all(word).unwrap();
        socket.read_exact(&mut said).unwrap();
        assert_eq!(&said, word);
    }
    until("its place is free", || guard.metric("comity_guard_in_flight") == 0);
    assert_eq!(guard.metric("comity_guard_tunnels"), 1);
    assert_eq!(guard.get("/").status, 200);

    // A tunnel is let go on for the drain time; its client ends it.
    guard.signal("-TERM");
    guard.hears("ending");
    socket.write_all(b"still").unwrap();
    socket.read_exact(&mut said).unwrap();
    drop(socket);
    assert_eq!(guard.ended().code(), Some(0));
}

#[test]
fn i05_events_of_a_stream_arrive_as_they_are_sent() {
    let (send, sent) = std::sync::mpsc::channel::<()>();
    let sent = std::sync::Mutex::new(sent);
    let events = upstream(move |mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").unwrap();
        while sent.lock().unwrap().recv().is_ok() {
            stream.write_all(b"data: x\n\n").unwrap();
        }
    });
    let guard = Guard::start(events, &["--max-in-flight", "1"]);
    let mut stream = ask(guard.at[0], "/", &[]);
    assert!(head(&mut stream).starts_with("HTTP/1.1 200"), "the head comes before any event");
    for _ in 0..3 {
        send.send(()).unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"data: x\n\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            got.push(byte[0]);
        }
    }
}
