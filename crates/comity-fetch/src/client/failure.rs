//! What went wrong on the way to an answer.

use std::error::Error;
use std::fmt;
use std::io;

use bytes::Bytes;
use http_body_util::Full;

/// A request as this client sends it: the body is whole, so it can be sent again.
pub type Request = http::Request<Full<Bytes>>;

/// Why there is no answer, or no rest of one.
///
/// `Display` is one whole line: what happened, to which host and port, for which reason. The reason is said there, so a
/// printer of error chains need not print [`source`](Error::source) again; it is there for whoever looks closer.
pub struct Failure(Box<Facts>);

struct Facts {
    kind: FailureKind,
    text: String,
    source: Option<BoxError>,
    not_sent: bool,
    request: Option<Request>,
}

/// At which step it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The name has no address, or the resolver did not answer.
    Resolve,
    /// No address took the connection, or the proxy refused the tunnel.
    Connect,
    /// The TLS handshake or a TLS record failed: certificate, name, version, a peer that speaks something else.
    Tls,
    /// No connection was ready within the connect time-out.
    TimedOut,
    /// The far end broke off before the head of an answer: closed, reset, GOAWAY, a reset stream.
    Reset,
    /// What came is not HTTP, or exceeds the bounds on a response head; or the request cannot be sent as HTTP.
    Protocol,
    /// The head came, but the body broke off or is broken.
    Body,
}

impl Failure {
    /// At which step it failed.
    pub fn kind(&self) -> FailureKind {
        self.0.kind
    }

    /// Whether the far end received nothing of the request.
    ///
    /// So it is after every failure of [`Client::ready`](super::Client::ready), and after a reused connection turned
    /// out dead at the moment of sending. In that last case another connection may be taken within the same start, once.
    /// A far end that refuses connections by GOAWAY has spoken, so that is never `not_sent`.
    pub fn not_sent(&self) -> bool {
        self.0.not_sent
    }

    /// The request, where it was not sent and could be given back; it may be sent again as it is.
    pub fn take_request(&mut self) -> Option<Request> {
        self.0.request.take()
    }

    /// The time that the caller gave the attempt ran out; the far end may have received it.
    pub(crate) fn timed_out(text: String) -> Self {
        Self::new(FailureKind::TimedOut, text)
    }

    pub(super) fn new(kind: FailureKind, text: String) -> Self {
        Self(Box::new(Facts { kind, text, source: None, not_sent: false, request: None }))
    }

    /// A failure before anything of the request was written.
    pub(super) fn before_sending(kind: FailureKind, text: String) -> Self {
        let mut failure = Self::new(kind, text);
        failure.0.not_sent = true;
        failure
    }

    /// The same failure, known to be from before anything of a request was written.
    pub(super) fn never_sent(mut self) -> Self {
        self.0.not_sent = true;
        self
    }

    pub(super) fn caused_by(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// An exchange with `place` that ended in `error` before the head of the answer was there.
    pub(super) fn of_exchange(place: &str, error: hyper::Error, unsent: Option<Request>) -> Self {
        let kind = kind_of(&error);
        let mut failure = Self::new(kind, format!("{place} {}: {}", verb(kind), reason(&error)));
        failure.0.not_sent = unsent.is_some() && !asked_to_stay_away(&error);
        failure.0.request = unsent.filter(|_| failure.0.not_sent);
        failure.caused_by(error)
    }

    /// A body of an answer of `place` that ended in `error`.
    pub(super) fn of_body(place: &str, error: hyper::Error) -> Self {
        Self::new(FailureKind::Body, format!("{place} broke off within the body: {}", reason(&error))).caused_by(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("kind", &self.0.kind)
            .field("text", &self.0.text)
            .field("not_sent", &self.0.not_sent)
            .finish_non_exhaustive()
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

fn kind_of(error: &hyper::Error) -> FailureKind {
    if let Some(io) = cause::<io::Error>(error) {
        // tokio-rustls wraps what rustls found wrong in an io::Error.
        let tls = io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
        return if tls { FailureKind::Tls } else { FailureKind::Reset };
    }
    if let Some(h2) = cause::<h2::Error>(error) {
        let theirs = h2.is_remote() || h2.is_io() || h2.reason() == Some(h2::Reason::NO_ERROR);
        return if theirs { FailureKind::Reset } else { FailureKind::Protocol };
    }
    let broke_off = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    if broke_off { FailureKind::Reset } else { FailureKind::Protocol }
}

fn verb(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Reset => "broke off before it answered",
        FailureKind::Tls => "broke TLS before it answered",
        _ => "gave no answer this client can read",
    }
}

fn asked_to_stay_away(error: &hyper::Error) -> bool {
    cause::<h2::Error>(error).is_some_and(|h2| h2.is_remote() && h2.reason() != Some(h2::Reason::NO_ERROR))
}

/// With the name of an HTTP/2 error code beside h2's description of it: that name is what people search for.
fn reason(error: &hyper::Error) -> String {
    match cause::<h2::Error>(error).and_then(h2::Error::reason) {
        Some(code) => format!("{} ({code:?})", chain(error)),
        None => chain(error),
    }
}

/// An error and its causes in one line, each said once.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !line.ends_with(&words) {
            line.push_str(": ");
            line.push_str(&words);
        }
        next = cause.source();
    }
    line
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

/// Bounds on the head of a response: far above what honest servers send (browsers allow about 256 KiB, servers seldom
/// exceed 16), and little enough that a thousand connections at once stay below 100 MB.
pub(super) const HEAD_BYTES: usize = 64 * 1024;
/// Number of header fields in a head.
pub(super) const HEAD_FIELDS: usize = 200;
