//! The service that sends each request to one upstream and streams its answer back.

mod answer;
mod counters;
mod dial;
mod failure;
mod head;
mod http1;
mod pool;
mod send;
mod settings;
mod upload;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Extensions, HeaderMap, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tower_service::Service;

pub use answer::AnswerBody;
pub use counters::Counters;
use counters::count;
pub use dial::ForwardError;
use dial::{Dial, Stream};
use failure::{Failure, Kind};
pub use head::Judged;
use head::Marks;
use http1::Unanswered;
use pool::{Link, Pool};
use send::{for_http1, for_http2, in_time};
pub use settings::{Protocol, Settings, Upstream, UpstreamError};
use upload::{Progress, Upload};

use super::server::RequestBody;
use super::tunnel::{Place, Tunnels};
use super::{BoxError, Inflight, hop};

/// Passes requests on to one upstream. Clones share its connections and counters.
///
/// It always answers: an upstream that does not is a 502 or 504 with a reason in `Proxy-Status` (RFC 9209). Dropping the
/// future of a call, or the body of an answer, cancels the request at the upstream. Of a request's extensions it takes
/// [`Peer`](super::server::Peer), [`Judged`] and [`Inflight`].
pub struct Forward<B: Body<Data = Bytes> + Send + Unpin + 'static = RequestBody>(Arc<Inner<B>>)
where
    B::Error: Into<BoxError>;

struct Inner<B: Body<Data = Bytes> + Send + Unpin + 'static>
where
    B::Error: Into<BoxError>,
{
    pool: Arc<Pool<B>>,
    marks: Marks,
    upstream: Upstream,
    settings: Settings,
    tunnels: Tunnels,
    counters: Arc<Counters>,
}

impl<B> Forward<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    /// A proxy in front of `upstream`. Nothing is sent yet; for an `https` upstream, certificates are read.
    ///
    /// # Errors
    /// When there are no certificates to trust, or the settings' name is no token.
    pub fn new(upstream: Upstream, settings: Settings) -> Result<Self, ForwardError> {
        let counters = Arc::<Counters>::default();
        let marks = Marks::new(&upstream, &settings)
            .ok_or_else(|| ForwardError(format!("the name {:?} is no token", settings.name)))?;
        let pool = Arc::new(Pool::new(Dial::new(&upstream, &settings)?, &settings, Arc::clone(&counters)));
        let tunnels = Tunnels::new(settings.tunnels, settings.tunnel_idle);
        Ok(Self(Arc::new(Inner { pool, marks, upstream, settings, tunnels, counters })))
    }

    /// What is counted.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.0.counters)
    }

    /// The tunnels that upgrades led to. A server that ends does not end them: [`Tunnels::close`] does.
    pub fn tunnels(&self) -> &Tunnels {
        &self.0.tunnels
    }
}

impl<B> Service<Request<B>> for Forward<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<AnswerBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { Ok(inner.exchange(request).await) })
    }
}

impl<B> Inner<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    async fn exchange(&self, request: Request<B>) -> Response<AnswerBody<B>> {
        let (mut head, body) = request.into_parts();
        let hop = head::rewrite(&mut head, &self.marks);
        let mut extensions = std::mem::take(&mut head.extensions);
        let inflight = extensions.remove::<Inflight>();
        let asked = match hop {
            Ok(hop) => self.asks_for_upgrade(&mut head.headers, &hop, &mut extensions),
            Err(status) => Err(status),
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(status) => {
                count(&self.counters.refused);
                return own(status, "").map(|body| body.holding(inflight));
            }
        };
        match self.send(head, body).await {
            Ok((response, connection)) => {
                count(&self.counters.answered);
                self.answer(response, connection, asked, inflight)
            }
            Err(Unsent::Upstream(failure)) => self.failed(&failure).map(|body| body.holding(inflight)),
            Err(Unsent::Client(status)) => {
                count(&self.counters.broken_requests);
                let mut response = own(status, "").map(|body| body.holding(inflight));
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                response
            }
        }
    }

    /// Asks the upstream to switch protocols where the client does and can, and there is a place for one more tunnel.
    fn asks_for_upgrade(
        &self,
        headers: &mut HeaderMap,
        hop: &hop::Hop,
        extensions: &mut Extensions,
    ) -> Result<Option<(OnUpgrade, Place)>, StatusCode> {
        let (Some(upgrade), Some(client)) = (&hop.upgrade, extensions.remove::<OnUpgrade>()) else { return Ok(None) };
        let place = self.tunnels.enter().ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, upgrade.clone());
        Ok(Some((client, place)))
    }

    /// Sends a request; once more where a kept connection turns out to be closed and nothing can happen twice.
    async fn send(&self, head: Parts, body: B) -> Result<Answered<B>, Unsent> {
        let body = Upload::new(body, Arc::clone(&self.counters));
        let progress = body.progress();
        let repeatable = progress.is_none() && head.method.is_idempotent();
        let mut request = Request::from_parts(head, body);
        if let Some(link) = self.pool.kept() {
            count(&self.counters.reused);
            let copy = repeatable.then(|| self.copy(&request));
            match self.send_on(link, request, progress.as_deref()).await {
                Ok(answered) => return Ok(answered),
                Err(Unanswered { failure, unsent }) => {
                    if let Some(status) = progress.as_deref().and_then(Progress::fault) {
                        return Err(Unsent::Client(status));
                    }
                    let closed = failure.kind == Kind::ConnectionTerminated;
                    let again = unsent.or(copy).filter(|_| closed);
                    request = again.ok_or(Unsent::Upstream(failure))?;
                    count(&self.counters.retried);
                }
            }
        }
        // What is seldom gone through is kept out of the future that every request pays for.
        Box::pin(self.send_anew(request, progress.as_deref())).await
    }

    /// Sends a request on a new connection.
    async fn send_anew(&self, request: Request<Upload<B>>, progress: Option<&Progress>) -> Result<Answered<B>, Unsent> {
        let link = self.pool.open().await.map_err(Unsent::Upstream)?;
        let sent = self.send_on(link, request, progress).await;
        sent.map_err(|unanswered| match progress.and_then(Progress::fault) {
            Some(status) => Unsent::Client(status),
            None => Unsent::Upstream(unanswered.failure),
        })
    }

    fn copy(&self, request: &Request<Upload<B>>) -> Request<Upload<B>> {
        let mut copy = Request::new(Upload::none(Arc::clone(&self.counters)));
        copy.method_mut().clone_from(request.method());
        copy.uri_mut().clone_from(request.uri());
        copy.headers_mut().clone_from(request.headers());
        copy
    }

    async fn send_on(
        &self,
        link: Link<B>,
        mut request: Request<Upload<B>>,
        progress: Option<&Progress>,
    ) -> Result<Answered<B>, Unanswered<B>> {
        let within = self.settings.first_byte_within;
        match link {
            Link::Http1(connection) => {
                for_http1(&mut request);
                in_time(connection.send(request), progress, within).await
            }
            Link::Http2(mut sender) => {
                for_http2(&mut request, &self.upstream);
                let sent = async {
                    if let Err(error) = sender.ready().await {
                        return Err(Unanswered { failure: Failure::of_http(error), unsent: Some(request) });
                    }
                    match sender.try_send_request(request).await {
                        Ok(response) => Ok((response, None)),
                        Err(mut error) => {
                            let unsent = error.take_message();
                            Err(Unanswered { failure: Failure::of_http(error.into_error()), unsent })
                        }
                    }
                };
                in_time(Box::pin(sent), progress, within).await
            }
        }
    }

    /// The answer as the client gets it.
    fn answer(
        &self,
        response: Response<hyper::body::Incoming>,
        connection: Option<Box<http1::Http1<B>>>,
        asked: Option<(OnUpgrade, Place)>,
        inflight: Option<Inflight>,
    ) -> Response<AnswerBody<B>> {
        let (mut head, incoming) = response.into_parts();
        let hop = hop::strip(&mut head.headers);
        head.version = Version::HTTP_11;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let (Some((client, place)), Some(connection), Some(upgrade)) = (asked, connection, hop.upgrade) else {
                let unasked = Failure::new(Kind::ProtocolError, "it switched protocols and was not asked to");
                return self.failed(&unasked).map(|body| body.holding(inflight));
            };
            count(&self.counters.tunnels);
            let (stream, first) = connection.into_stream();
            tokio::spawn(tunnel(self.tunnels.clone(), place, client, stream, first));
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            head.headers.insert(header::UPGRADE, upgrade);
            return Response::from_parts(head, AnswerBody::text(""));
        }
        let idle = self.settings.answer_idle;
        let body = AnswerBody::new(incoming, connection, &self.pool, &self.counters, idle, inflight);
        Response::from_parts(head, body)
    }

    fn failed(&self, failure: &Failure) -> Response<AnswerBody<B>> {
        tracing::debug!(upstream = %self.upstream, %failure, "no answer from the upstream");
        self.counters.failed(failure.kind);
        let status = failure.kind.status();
        let text = if status == StatusCode::GATEWAY_TIMEOUT { "upstream timed out\n" } else { "upstream failed\n" };
        let mut response = own(status, text);
        let reason = format!("{}; error={}", self.settings.name, failure.kind.name());
        if let Ok(reason) = HeaderValue::try_from(reason) {
            response.headers_mut().insert(PROXY_STATUS, reason);
        }
        response
    }
}

impl<B> Clone for Forward<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> fmt::Debug for Forward<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").field("upstream", &self.0.upstream).finish_non_exhaustive()
    }
}

type Answered<B> = (Response<hyper::body::Incoming>, Option<Box<http1::Http1<B>>>);

/// Why a request got no answer.
enum Unsent {
    Upstream(Failure),
    Client(StatusCode),
}

/// An answer of the proxy's own.
fn own<B>(status: StatusCode, text: &'static str) -> Response<AnswerBody<B>>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let mut response = Response::new(AnswerBody::text(text));
    *response.status_mut() = status;
    if !text.is_empty() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    response
}

/// Runs a tunnel between a client and an upstream that switched protocols; `first` came right behind the 101.
async fn tunnel(tunnels: Tunnels, place: Place, client: OnUpgrade, mut upstream: Stream, first: Bytes) {
    let client = match client.await {
        Ok(client) => client,
        Err(error) => return tracing::debug!(%error, "the client did not stay for its upgrade"),
    };
    let mut client = TokioIo::new(client);
    if !first.is_empty() && client.write_all(&first).await.is_err() {
        let _ = upstream.shutdown().await;
        return;
    }
    if let Err(error) = tunnels.run(place, client, upstream).await {
        tracing::debug!(%error, "a tunnel ended");
    }
}

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
