//! TLS: what is trusted, and the handshake. Certificates are read when the first `https` URL is met.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use super::failure::{BoxError, Failure, FailureKind, chain};
use super::options::{ClientError, HttpVersions, Options};

/// The TLS side of a client.
pub(super) struct Tls {
    own_roots: Vec<CertificateDer<'static>>,
    verify: bool,
    versions: HttpVersions,
    connector: OnceCell<TlsConnector>,
}

impl Tls {
    /// Reads the file of own roots, so that a wrong path is told at once; nothing else yet.
    pub(super) fn new(options: &Options) -> Result<Self, ClientError> {
        let own_roots = options.ca_file.as_deref().map(certificates).transpose()?.unwrap_or_default();
        Ok(Self {
            own_roots,
            verify: !options.danger_accept_invalid_certs,
            versions: options.http_versions,
            connector: OnceCell::new(),
        })
    }

    /// Shakes hands with `host` over `tcp`; `place` is for the message. True when HTTP/2 was agreed on.
    pub(super) async fn handshake(
        &self,
        tcp: TcpStream,
        host: &Host<String>,
        place: &str,
    ) -> Result<(TlsStream<TcpStream>, bool), Failure> {
        let failed = |error: BoxError| {
            let text = format!("TLS with {place} failed: {}", chain(&*error));
            Failure::before_sending(FailureKind::Tls, text).caused_by(error)
        };
        let connector = self.connector.get_or_try_init(|| self.load()).await.map_err(failed)?;
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|error| failed(error.into()))?,
            Host::Ipv4(ip) => ServerName::from(std::net::IpAddr::V4(*ip)),
            Host::Ipv6(ip) => ServerName::from(std::net::IpAddr::V6(*ip)),
        };
        let stream = connector.connect(name, tcp).await.map_err(|error| failed(error.into()))?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok((stream, http2))
    }

    async fn load(&self) -> Result<TlsConnector, BoxError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let mut config = if self.verify {
            builder.with_root_certificates(self.roots().await?).with_no_client_auth()
        } else {
            let verifier = Arc::new(AcceptAny(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        };
        config.alpn_protocols = match self.versions {
            HttpVersions::Auto => vec![HTTP2.to_vec(), HTTP1.to_vec()],
            HttpVersions::Http1 => vec![HTTP1.to_vec()],
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    async fn roots(&self) -> Result<RootCertStore, BoxError> {
        let system = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await?;
        for error in &system.errors {
            tracing::debug!(%error, "a certificate of the system cannot be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system.certs.into_iter().chain(self.own_roots.iter().cloned()));
        if roots.is_empty() {
            let reason = system.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(
                format!("the system has no trusted certificates{reason} and no file of own ones was given").into()
            );
        }
        Ok(roots)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let wrong = |reason: String| ClientError { path: path.to_owned(), reason };
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(chain(&error)))?;
    if found.is_empty() {
        return Err(wrong("there is no PEM certificate in it".to_owned()));
    }
    // What rustls cannot use as a root it would skip in silence.
    let mut usable = RootCertStore::empty();
    for certificate in &found {
        usable.add(certificate.clone()).map_err(|error| wrong(chain(&error)))?;
    }
    Ok(found)
}

/// For `danger_accept_invalid_certs`: whoever answers is taken at their word.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
