//! TLS and HTTP/2.

use std::io::Write as _;

use futures_util::future::join_all;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::super::{FailureKind, HttpVersions};
use super::*;

/// A TLS server with a certificate of its own making.
pub(super) struct FarEnd {
    pub(super) server: Server,
    ca_file: NamedTempFile,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Speaks {
    Http1,
    Http2,
    /// HTTP/2 whose first word is "enhance your calm".
    EnhanceYourCalm,
}

impl FarEnd {
    pub(super) async fn start(name: &str, speaks: Speaks) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let mut ca_file = NamedTempFile::new().unwrap();
        ca_file.write_all(made.cert.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let certificates = vec![made.cert.der().clone()];
        let mut config = builder.unwrap().with_no_client_auth().with_single_cert(certificates, key).unwrap();
        config.alpn_protocols = match speaks {
            Speaks::Http1 => vec![b"http/1.1".to_vec()],
            Speaks::Http2 | Speaks::EnhanceYourCalm => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let server = Server::start(move |tcp, _| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(tcp).await else { return };
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                if speaks == Speaks::EnhanceYourCalm {
                    stream.write_all(SETTINGS).await.unwrap();
                    stream.write_all(GOAWAY_ENHANCE_YOUR_CALM).await.unwrap();
                    stream.flush().await.unwrap();
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                } else if http2 {
                    serve_http2(stream).await;
                } else {
                    serve_http1(stream).await;
                }
            }
        })
        .await;
        Self { server, ca_file }
    }

    /// Options that trust this far end, and find it under any name.
    pub(super) fn options(&self) -> Options {
        Options {
            connect_to: vec![format!("::127.0.0.1:{}", self.server.port()).parse().unwrap()],
            ca_file: Some(self.ca_file.path().to_owned()),
            ..Options::default()
        }
    }

    fn client(&self) -> Client {
        Client::new(self.options()).unwrap()
    }
}

/// RFC 9113, 6.5 and 6.8: an empty SETTINGS; a GOAWAY of no stream with error 11.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const GOAWAY_ENHANCE_YOUR_CALM: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];

fn far(path: &str) -> Url {
    Url::parse(&format!("https://far.example{path}")).unwrap()
}

#[tokio::test]
async fn a_trusted_certificate_lets_the_request_through() {
    let far_end = FarEnd::start("far.example", Speaks::Http1).await;
    let client = far_end.client();
    for _ in 0..2 {
        let asked = get(&client, &far("/a?b")).await.unwrap();
        assert!(asked.starts_with("GET /a?b {\"host\": \"far.example\"}"), "{asked}");
    }
    assert_eq!(far_end.server.accepted(), 1);
}

#[tokio::test]
async fn a_certificate_of_nobody_known_or_for_another_name_is_refused() {
    let far_end = FarEnd::start("far.example", Speaks::Http1).await;
    let other = FarEnd::start("far.example", Speaks::Http1).await;
    let unknown = Options { ca_file: other.options().ca_file, ..far_end.options() };
    let unknown = Client::new(unknown).unwrap().ready(&far("/")).await.unwrap_err();
    let misnamed = far_end.client().ready(&Url::parse("https://other.example/").unwrap()).await.unwrap_err();
    for failure in [unknown, misnamed] {
        assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Tls, true), "{failure}");
        assert!(failure.to_string().contains("certificate"), "{failure}");
    }
}

#[tokio::test]
async fn any_certificate_is_accepted_only_by_the_dangerous_option() {
    let far_end = FarEnd::start("another.example", Speaks::Http1).await;
    let options = Options { danger_accept_invalid_certs: true, ca_file: None, ..far_end.options() };
    get(&Client::new(options).unwrap(), &far("/")).await.unwrap();
}

#[tokio::test]
async fn what_speaks_no_tls_is_a_tls_failure() {
    let plain = Server::http1().await;
    let url = Url::parse(&format!("https://{}/", plain.address)).unwrap();
    let options = Options { danger_accept_invalid_certs: true, ..Options::default() };
    let failure = Client::new(options).unwrap().ready(&url).await.unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Tls, "{failure}");
}

#[test]
fn a_file_without_certificates_is_told_at_once() {
    let empty = NamedTempFile::new().unwrap();
    for path in [empty.path(), std::path::Path::new("/nowhere/ca.pem")] {
        let error = Client::new(Options { ca_file: Some(path.to_owned()), ..Options::default() }).unwrap_err();
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
}

#[tokio::test]
async fn requests_share_one_http2_connection_from_the_first_on() {
    let far_end = FarEnd::start("far.example", Speaks::Http2).await;
    let (client, url) = (far_end.client(), far("/a"));
    for _ in 0..2 {
        for outcome in join_all((0..20).map(|_| get(&client, &url))).await {
            let asked = outcome.unwrap();
            assert!(asked.starts_with("GET https://far.example/a "), "{asked}");
        }
    }
    drop(send(&client, &far("/large")).await.unwrap());
    assert_eq!(get(&client, &far("/large")).await.unwrap().len(), 1_000_000);
    assert!(client.ready(&far("/")).await.unwrap().reused());
    assert_eq!(far_end.server.accepted(), 1);
}

#[tokio::test]
async fn http1_only_is_offered_where_it_is_asked_for() {
    let far_end = FarEnd::start("far.example", Speaks::Http2).await;
    let client = Client::new(Options { http_versions: HttpVersions::Http1, ..far_end.options() }).unwrap();
    assert!(get(&client, &far("/a")).await.unwrap().starts_with("GET /a "));
}

#[tokio::test]
async fn d26_goaway_enhance_your_calm_is_a_failure_and_no_reconnect_loop() {
    let far_end = FarEnd::start("far.example", Speaks::EnhanceYourCalm).await;
    let client = far_end.client();
    for tries in 1..=3 {
        let failure = match client.ready(&far("/")).await {
            Ok(ready) => ready.send(request(&far("/"))).await.map(drop).unwrap_err(),
            Err(failure) => failure,
        };
        assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Reset, false), "{failure}");
        assert!(failure.to_string().contains("ENHANCE_YOUR_CALM"), "{failure}");
        assert_eq!(far_end.server.accepted(), tries);
    }
}
