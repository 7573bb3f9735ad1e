//! What can go wrong on the way to the upstream and back, and how the client is told.

use std::error::Error;
use std::fmt;
use std::io;

use http::StatusCode;

use crate::proxy::BoxError;

/// No answer from the upstream.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    source: BoxError,
}

/// The kinds of failure, by the names of RFC 9209, 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    DnsError,
    ConnectionRefused,
    DestinationUnroutable,
    ConnectionTimeout,
    TlsProtocolError,
    TlsCertificateError,
    ConnectionTerminated,
    ReadTimeout,
    ProtocolError,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::DnsError,
        Self::ConnectionRefused,
        Self::DestinationUnroutable,
        Self::ConnectionTimeout,
        Self::TlsProtocolError,
        Self::TlsCertificateError,
        Self::ConnectionTerminated,
        Self::ReadTimeout,
        Self::ProtocolError,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DnsError => "dns_error",
            Self::ConnectionRefused => "connection_refused",
            Self::DestinationUnroutable => "destination_ip_unroutable",
            Self::ConnectionTimeout => "connection_timeout",
            Self::TlsProtocolError => "tls_protocol_error",
            Self::TlsCertificateError => "tls_certificate_error",
            Self::ConnectionTerminated => "connection_terminated",
            Self::ReadTimeout => "connection_read_timeout",
            Self::ProtocolError => "http_protocol_error",
        }
    }

    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::ConnectionTimeout | Self::ReadTimeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

impl Failure {
    pub(super) fn new(kind: Kind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: source.into() }
    }

    /// Of an attempt to connect.
    pub(super) fn of_connect(error: io::Error) -> Self {
        let kind = match error.kind() {
            // A path without a socket is refused as a port without a listener is.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Kind::ConnectionRefused,
            io::ErrorKind::TimedOut => Kind::ConnectionTimeout,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Kind::ConnectionTerminated,
            _ => Kind::DestinationUnroutable,
        };
        Self::new(kind, error)
    }

    /// Of a TLS handshake. tokio-rustls wraps what rustls found wrong in an [`io::Error`].
    pub(super) fn of_tls(error: io::Error) -> Self {
        let kind = match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(_)) => Kind::TlsCertificateError,
            Some(_) => Kind::TlsProtocolError,
            None => Kind::ConnectionTerminated,
        };
        Self::new(kind, error)
    }

    /// Of an exchange of HTTP.
    pub(super) fn of_http(error: hyper::Error) -> Self {
        let kind = if cause::<io::Error>(&error).is_some() {
            Kind::ConnectionTerminated
        } else if let Some(h2) = cause::<h2::Error>(&error) {
            let ended = h2.is_io() || h2.is_go_away() || h2.is_remote();
            if ended { Kind::ConnectionTerminated } else { Kind::ProtocolError }
        } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            Kind::ConnectionTerminated
        } else {
            Kind::ProtocolError
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.source)?;
        let mut next = self.source.source();
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
