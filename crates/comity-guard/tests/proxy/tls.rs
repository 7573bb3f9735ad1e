//! TLS on either side.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use comity_guard::proxy::server::{Peer, RequestBody};
use comity_guard::proxy::{Bounds, Certificates, Forward, Listen, Settings};
use http::{Request, Response};
use http_body_util::Full;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::service_fn;

use crate::town::{Never, Proxy, Running, failures, field, loopback, serve, serve_on, status, value};

fn write_certificate(folder: &Path) -> Certificates {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    std::fs::write(folder.join("chain.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    Certificates::read(folder.join("chain.pem"), folder.join("key.pem")).unwrap()
}

async fn server(certificates: Certificates) -> Running {
    let service = service_fn(|request: Request<RequestBody>| async move {
        let tls = request.extensions().get::<Peer>().unwrap().tls;
        let text = format!("{:?} {tls} {:?}", request.version(), request.headers().get("x-forwarded-proto"));
        Ok::<_, Never>(Response::new(Full::new(Bytes::from(text))))
    });
    serve_on(Listen::tls(loopback(), certificates), service, Bounds::default()).await
}

/// Asks over TLS, trusting the certificate in `folder` alone.
async fn ask(server: &Running, folder: &Path) -> std::io::Result<String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("chain.pem")).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
    tls.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    tls.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn certificates_are_read_again() {
    let folder = TempDir::new().unwrap();
    let certificates = write_certificate(folder.path());
    let server = server(certificates.clone()).await;
    assert!(ask(&server, folder.path()).await.unwrap().ends_with("HTTP/1.1 true None"));

    write_certificate(folder.path());
    assert!(ask(&server, folder.path()).await.is_err(), "the new one is not served yet");
    certificates.reload().unwrap();
    assert!(ask(&server, folder.path()).await.is_ok());
    assert_eq!(value(&server.counters.handshake_errors), 1);

    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    certificates.reload().unwrap_err();
    assert!(ask(&server, folder.path()).await.is_ok(), "what was read before is kept");
}

#[test]
fn a_wrong_file_is_named_with_what_is_wrong() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write_certificate(one.path());
    write_certificate(other.path());
    std::fs::write(one.path().join("text"), "no PEM").unwrap();
    let (chain, key, text) = (one.path().join("chain.pem"), one.path().join("key.pem"), one.path().join("text"));
    let missing = one.path().join("missing");
    for (chain, key, named, reason) in [
        (&missing, &key, &missing, "it cannot be read"),
        (&text, &key, &text, "there is no PEM certificate in it"),
        (&chain, &missing, &missing, "it cannot be read"),
        (&chain, &text, &text, "there is no PEM private key in it"),
        (&chain, &chain, &chain, "there is no PEM private key in it"),
        (&chain, &other.path().join("key.pem"), &other.path().join("key.pem"), "does not belong to the certificate in"),
    ] {
        let error = Certificates::read(chain, key).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", named.display())) && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn an_https_upstream_is_spoken_to_over_http2_where_it_agrees() {
    let folder = TempDir::new().unwrap();
    let upstream = server(write_certificate(folder.path())).await;
    let mut settings = Settings::default();
    settings.ca_file = Some(folder.path().join("chain.pem"));
    let forward = Forward::new(format!("https://{}", upstream.address).parse().unwrap(), settings).unwrap();
    let proxy = Proxy { running: serve(forward.clone(), Bounds::default()).await, forward };
    for _ in 0..2 {
        let (_, body) = proxy.client().await.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(body, "HTTP/2.0 true Some(\"http\")");
    }
    assert_eq!(value(&proxy.counters().connections), 1);
}

#[tokio::test]
async fn an_upstream_with_a_certificate_of_its_own_is_502() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let upstream = server(write_certificate(folder.path())).await;
    write_certificate(other.path());
    let mut settings = Settings::default();
    settings.ca_file = Some(other.path().join("chain.pem"));
    let forward = Forward::new(format!("https://{}", upstream.address).parse().unwrap(), settings).unwrap();
    let proxy = Proxy { running: serve(forward.clone(), Bounds::default()).await, forward };
    let (head, _) = proxy.client().await.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!((status(&head), field(&head, "proxy-status").is_some()), (502, true));
    assert_eq!(failures(&proxy.counters()), ["tls_certificate_error"]);
}
