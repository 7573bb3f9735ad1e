//! From an upstream to a byte stream: look-up, connection, TLS.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::{Failure, Kind};
use super::settings::{Place, Protocol, Settings, Upstream};

/// How to reach an upstream.
pub(super) struct Dial {
    place: Place,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    protocol: Protocol,
}

impl Dial {
    /// Reads the certificates to trust where TLS is spoken.
    pub(super) fn new(upstream: &Upstream, settings: &Settings) -> Result<Self, ForwardError> {
        let tls = match (&upstream.place, upstream.tls) {
            (Place::Tcp { host, .. }, true) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| ForwardError(format!("{host:?} is no name a certificate can be for")))?;
                Some((TlsConnector::from(Arc::new(client_config(settings)?)), name))
            }
            _ => None,
        };
        Ok(Self { place: upstream.place.clone(), tls, protocol: settings.protocol })
    }

    /// Whether it takes a connection to know which HTTP is spoken.
    pub(super) fn may_agree_on_http2(&self) -> bool {
        self.tls.is_some() && self.protocol == Protocol::Auto
    }

    /// Whether HTTP/2 is spoken whatever the upstream says.
    pub(super) fn is_http2(&self) -> bool {
        self.protocol == Protocol::Http2
    }

    /// A new stream, and whether HTTP/2 is to be spoken on it.
    pub(super) async fn dial(&self) -> Result<(Stream, bool), Failure> {
        let prior = self.protocol == Protocol::Http2;
        let tcp = match &self.place {
            Place::Tcp { host, port } => connect(host, *port).await?,
            #[cfg(unix)]
            Place::Unix(path) => {
                return Ok((Stream::Unix(UnixStream::connect(path).await.map_err(Failure::of_connect)?), prior));
            }
        };
        let Some((connector, name)) = &self.tls else { return Ok((Stream::Tcp(tcp), prior)) };
        let tls = connector.connect(name.clone(), tcp).await.map_err(Failure::of_tls)?;
        let agreed = tls.get_ref().1.alpn_protocol() == Some(HTTP2);
        if prior && !agreed {
            return Err(Failure::new(Kind::ProtocolError, "the upstream does not speak HTTP/2"));
        }
        Ok((Stream::Tls(Box::new(tls)), agreed))
    }
}

/// Settings that no proxy can be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ForwardError(pub(super) String);

/// The first of the host's addresses that takes the connection.
async fn connect(host: &str, port: u16) -> Result<TcpStream, Failure> {
    let mut outcome = match host.parse::<IpAddr>() {
        Ok(ip) => TcpStream::connect((ip, port)).await,
        Err(_) => {
            let found = tokio::net::lookup_host((host, port)).await;
            let addresses = found.map_err(|error| Failure::new(Kind::DnsError, error))?;
            let mut last = Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address"));
            for address in addresses {
                last = TcpStream::connect(address).await;
                if last.is_ok() {
                    break;
                }
            }
            last
        }
    };
    if let Ok(stream) = &mut outcome
        && let Err(error) = stream.set_nodelay(true)
    {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    outcome.map_err(Failure::of_connect)
}

fn client_config(settings: &Settings) -> Result<ClientConfig, ForwardError> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = &settings.ca_file {
        for certificate in own_roots(path)? {
            let unusable = |error| ForwardError(format!("{}: the certificate cannot be used: {error}", path.display()));
            roots.add(certificate).map_err(unusable)?;
        }
    }
    if roots.is_empty() {
        let reason = system.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(ForwardError(format!("the system has no trusted certificates{reason} and no file names any")));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ForwardError(error.to_string()))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = match settings.protocol {
        Protocol::Auto => vec![HTTP2.to_vec(), HTTP1.to_vec()],
        Protocol::Http1 => vec![HTTP1.to_vec()],
        Protocol::Http2 => vec![HTTP2.to_vec()],
    };
    Ok(config)
}

fn own_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, ForwardError> {
    let wrong = |reason: String| ForwardError(format!("{}: {reason}", path.display()));
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() {
        return Err(wrong("there is no PEM certificate in it".to_owned()));
    }
    Ok(found)
}

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The bytes of a connection to an upstream.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(unix)]
    Unix(UnixStream),
}

macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($inner) => $call,
            Stream::Tls($inner) => $call,
            #[cfg(unix)]
            Stream::Unix($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), inner => Pin::new(inner).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), inner => Pin::new(inner).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head alone is the most common write, and a plain one is the cheaper call.
        if let [only] = slices {
            return self.poll_write(cx, only);
        }
        each!(self.get_mut(), inner => Pin::new(inner).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        each!(self, inner => inner.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), inner => Pin::new(inner).poll_shutdown(cx))
    }
}
