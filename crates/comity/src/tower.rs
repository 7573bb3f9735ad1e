//! A tower [`Layer`] that paces any client of `http` requests.
//!
//! ```
//! use comity::{Pacer, Profile, tower::PacerLayer};
//! # use std::convert::Infallible;
//! # let client = tower::service_fn(|_: http::Request<String>| async { Ok::<_, Infallible>(http::Response::new(())) });
//! let client = tower::ServiceBuilder::new()
//!     .layer(PacerLayer::new(Pacer::local(Profile::Api)).replay_bodies())
//!     .service(client); // hyper-util's, say
//! # drop(client);
//! ```
//!
//! A request waits for its host's turn, is sent, and gives its place back as soon as the response's headers are there:
//! the body is read outside the queue (T1). A refused one goes back into the queue and is sent again (T10), so nothing
//! outside may retry it too. Dropping the future gives the place back (T11).
//!
//! A waiting request holds nothing of the client below: [`Paced`] is always ready, and the client is asked for
//! readiness only when the request's turn has come. So one slow host never keeps a concurrency limit, a buffer or a
//! connection from the others.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use comity_core::signal::NoAnswer;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request, Response, Uri};
use tower_layer::Layer;
use tower_service::Service;
use url::Url;

use crate::answer::Answer;
pub use crate::door::{Attempts, Options};
use crate::error::AcquireError;
use crate::pacer::Pacer;
use crate::permit::{Begin, Settled};

/// Paces the requests of a client: wraps it in [`Paced`].
///
/// What a caller says of one request goes into its extensions as [`Options`]; the response's extensions tell how it went
/// as [`Attempts`].
#[derive(Clone, Debug)]
pub struct PacerLayer<R = SentOnce> {
    pacer: Pacer,
    bodies: R,
    classify: Classify,
}

/// A client whose requests wait for their host's turn.
#[derive(Clone, Debug)]
pub struct Paced<S, R = SentOnce> {
    service: S,
    layer: PacerLayer<R>,
}

/// Makes the copy of a body that a retry sends.
pub trait CopyBody<B> {
    /// A copy; `None` where the body is a stream that is sent once.
    fn copy(&self, body: &B) -> Option<B>;
}

/// Bodies are sent once: a refused request ends with its refusal.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentOnce;

/// Bodies are cloned for each retry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed;

/// Why a paced request has no response.
#[derive(Debug, thiserror::Error)]
pub enum PacedError {
    /// Its URI is not absolute and it has no usable Host header, so nobody knows whom it would visit.
    #[error("`{uri}` names no host, and there is no Host header that does")]
    NoTarget {
        /// The URI.
        uri: Uri,
    },
    /// It never started: its queue time-out ran out, say.
    #[error(transparent)]
    NotStarted(#[from] AcquireError),
    /// The client below failed.
    #[error(transparent)]
    Service(BoxError),
}

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The response to come.
pub type ResponseFuture<B> = Pin<Box<dyn Future<Output = Result<Response<B>, PacedError>> + Send>>;

impl PacerLayer {
    /// Paces requests with bodies of any kind. Each is sent once; see [`PacerLayer::replay_bodies`].
    pub fn new(pacer: Pacer) -> Self {
        Self { pacer, bodies: SentOnce, classify: Classify(Arc::new(kind_of_failure)) }
    }
}

impl<R> PacerLayer<R> {
    /// Sends a refused request again, with a clone of its body. For bodies that are `Clone`, such as `Full` and `Empty`.
    #[must_use]
    pub fn replay_bodies(self) -> PacerLayer<Replayed> {
        self.copy_bodies(Replayed)
    }

    /// The same with a copy that a closure makes, or refuses to make where the body is a stream.
    #[must_use]
    pub fn copy_bodies<T>(self, bodies: T) -> PacerLayer<T> {
        PacerLayer { pacer: self.pacer, bodies, classify: self.classify }
    }

    /// How an error of the client is told apart; without it, by the I/O errors in its chain of sources.
    #[must_use]
    pub fn classify(mut self, classify: impl Fn(&BoxError) -> NoAnswer + Send + Sync + 'static) -> Self {
        self.classify = Classify(Arc::new(classify));
        self
    }
}

impl<S, R: Clone> Layer<S> for PacerLayer<R> {
    type Service = Paced<S, R>;

    fn layer(&self, service: S) -> Self::Service {
        Paced { service, layer: self.clone() }
    }
}

impl<S, R, B, T> Service<Request<B>> for Paced<S, R>
where
    S: Service<Request<B>, Response = Response<T>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    R: CopyBody<B> + Clone + Send + Sync + 'static,
    B: Send + 'static,
    T: Send + 'static,
{
    type Response = Response<T>;
    type Error = PacedError;
    type Future = ResponseFuture<T>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PacedError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(visit(self.service.clone(), self.layer.clone(), request))
    }
}

/// One request's way, from its turn to its response. The service is a clone nobody else uses, made ready before each call.
async fn visit<S, R, B, T>(mut service: S, layer: PacerLayer<R>, request: Request<B>) -> Result<Response<T>, PacedError>
where
    S: Service<Request<B>, Response = Response<T>>,
    S::Error: Into<BoxError>,
    R: CopyBody<B>,
{
    let PacerLayer { pacer, bodies, classify } = layer;
    let (parts, mut body) = request.into_parts();
    let url = target(&parts).ok_or_else(|| PacedError::NoTarget { uri: parts.uri.clone() })?;
    let options = parts.extensions.get::<Options>().cloned().unwrap_or_default();
    let mut spare = bodies.copy(&body);
    let mut permit = pacer.acquire(options.ask(&url, &parts.method, spare.is_some())).await?;
    loop {
        poll_fn(|cx| service.poll_ready(cx)).await.map_err(|error| PacedError::Service(error.into()))?;
        while permit.begin() == Begin::TooLate {
            permit = permit.again().await?;
        }
        let attempts = Attempts::of(&permit);
        let answer = service.call(Request::from_parts(parts.clone(), body)).await.map_err(Into::into);
        let settled = match &answer {
            Ok(response) => permit.settle(&Answer::response(response.status().as_u16(), response.headers())),
            Err(error) => permit.settle(&Answer::none((classify.0)(error))),
        };
        match (settled, spare.take()) {
            (Settled::Retry(waiting), Some(copy)) => {
                drop(answer);
                spare = bodies.copy(&copy);
                body = copy;
                permit = waiting.await?;
            }
            (settled, _) => {
                let mut response = answer.map_err(PacedError::Service)?;
                response.extensions_mut().insert(attempts.ended(&settled));
                return Ok(response);
            }
        }
    }
}

/// The URL a request goes to: its own where it is absolute, else the Host header's (RFC 9112 section 3.3).
fn target(parts: &Parts) -> Option<Url> {
    let uri = &parts.uri;
    let text = match (uri.scheme_str(), uri.authority()) {
        (Some(_), Some(_)) => uri.to_string(),
        // CONNECT names an authority alone.
        (None, Some(authority)) => format!("https://{authority}/"),
        _ => {
            let host = parts.headers.get(HOST).map(HeaderValue::to_str)?.ok()?;
            format!("http://{host}{}", uri.path_and_query().map_or("/", |path| path.as_str()))
        }
    };
    Url::parse(&text).ok().filter(Url::has_host)
}

impl<B> CopyBody<B> for SentOnce {
    fn copy(&self, _: &B) -> Option<B> {
        None
    }
}

impl<B: Clone> CopyBody<B> for Replayed {
    fn copy(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

impl<B, F: Fn(&B) -> Option<B>> CopyBody<B> for F {
    fn copy(&self, body: &B) -> Option<B> {
        self(body)
    }
}

impl PacedError {
    /// Whether the request waited as long as its caller wanted to, and was never sent (D23).
    pub fn is_queue_timeout(&self) -> bool {
        matches!(self, Self::NotStarted(error) if error.is_queue_timeout())
    }
}

#[derive(Clone)]
struct Classify(Arc<dyn Fn(&BoxError) -> NoAnswer + Send + Sync>);

impl fmt::Debug for Classify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classify")
    }
}

/// What an error's sources tell; where they tell nothing, the request may have reached the server.
fn kind_of_failure(error: &BoxError) -> NoAnswer {
    use std::io::ErrorKind;
    let mut next: Option<&(dyn Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(ErrorKind::TimedOut) => return NoAnswer::TimedOut,
            Some(ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => {
                return NoAnswer::Connect;
            }
            _ => next = error.source(),
        }
    }
    NoAnswer::Reset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target_of(uri: &str, host: Option<&str>) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        target(&request.body(()).unwrap().into_parts().0).map(|url| url.to_string())
    }

    #[test]
    fn the_host_is_the_uris_or_else_the_host_headers() {
        assert_eq!(target_of("https://a.example/x?y", Some("b.example")).as_deref(), Some("https://a.example/x?y"));
        assert_eq!(target_of("/x?y", Some("b.example:81")).as_deref(), Some("http://b.example:81/x?y"));
        assert_eq!(target_of("a.example:443", None).as_deref(), Some("https://a.example/"));
        assert_eq!(target_of("/x", None), None);
        assert_eq!(target_of("/x", Some("no host")), None);
    }

    #[test]
    fn a_failure_is_told_by_the_io_errors_behind_it() {
        use std::io::{Error as Io, ErrorKind};
        for (kind, expected) in [
            (ErrorKind::TimedOut, NoAnswer::TimedOut),
            (ErrorKind::ConnectionRefused, NoAnswer::Connect),
            (ErrorKind::ConnectionReset, NoAnswer::Reset),
        ] {
            assert_eq!(kind_of_failure(&Io::from(kind).into()), expected);
        }
    }
}
