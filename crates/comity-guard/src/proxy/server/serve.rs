//! From hyper's request to the service's answer: what is counted, caught and settled around one call.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use tower_service::Service;

use super::Peer;
use super::counters::count;
use super::life::Life;
use super::request::RequestBody;
use super::response::{Open, ResponseBody};
use crate::proxy::BoxError;

/// The service of one connection.
pub(super) struct Serve<S> {
    pub(super) service: S,
    pub(super) life: Arc<Life>,
    pub(super) peer: Peer,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Serve<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body,
{
    type Response = Response<ResponseBody<B>>;
    type Error = std::convert::Infallible;
    type Future = Answering<S>;

    fn call(&self, request: Request<Incoming>) -> Answering<S> {
        let open = Open::new(Arc::clone(&self.life));
        let (mut head, body) = request.into_parts();
        self.life.expects.store(head.headers.contains_key(header::EXPECT), Ordering::Relaxed);
        head.extensions.insert(self.peer);
        let head_only = head.method == Method::HEAD;
        let body = RequestBody::new(body, Arc::clone(&self.life));
        let request = Request::from_parts(head, body);
        let service = self.service.clone();
        let state = catch_unwind(AssertUnwindSafe(|| State::begin(service, request))).unwrap_or(State::Over);
        Answering { state, open: Some(open), head_only }
    }
}

/// One call of the service.
pub(super) struct Answering<S: Service<Request<RequestBody>>> {
    state: State<S>,
    open: Option<Open>,
    head_only: bool,
}

enum State<S: Service<Request<RequestBody>>> {
    /// Until the service is ready.
    Waiting(Box<(S, Request<RequestBody>)>),
    Called(Pin<Box<S::Future>>),
    /// It panicked, failed or has answered.
    Over,
}

impl<S> State<S>
where
    S: Service<Request<RequestBody>>,
    S::Error: Into<BoxError>,
{
    /// Calls a service that is ready, as most always are. Nobody has to be woken: the future is polled next.
    fn begin(mut service: S, request: Request<RequestBody>) -> Self {
        match service.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Self::Called(Box::pin(service.call(request))),
            Poll::Ready(Err(error)) => Self::failed(error),
            Poll::Pending => Self::Waiting(Box::new((service, request))),
        }
    }

    fn failed(error: S::Error) -> Self {
        tracing::warn!(error = &*error.into(), "the service failed");
        Self::Over
    }
}

// The service's future is pinned in its box; nothing else is.
impl<S: Service<Request<RequestBody>>> Unpin for Answering<S> {}

impl<S, B> Answering<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    /// The answer; none where the service gives none.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response<B>>> {
        loop {
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Waiting(mut waiting) => match waiting.0.poll_ready(cx) {
                    Poll::Pending => {
                        self.state = State::Waiting(waiting);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(())) => {
                        let (mut service, request) = *waiting;
                        State::Called(Box::pin(service.call(request)))
                    }
                    Poll::Ready(Err(error)) => State::failed(error),
                },
                State::Called(mut future) => match future.as_mut().poll(cx) {
                    Poll::Pending => {
                        self.state = State::Called(future);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(answer)) => return Poll::Ready(Some(answer)),
                    Poll::Ready(Err(error)) => State::failed(error),
                },
                State::Over => return Poll::Ready(None),
            };
        }
    }
}

impl<S, B> Future for Answering<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body,
{
    type Output = Result<Response<ResponseBody<B>>, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = match catch_unwind(AssertUnwindSafe(|| this.poll_answer(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => answer,
            Err(_) => None,
        };
        // What the call held of the request's body is given up by now, so that it can be looked at.
        let Some(open) = this.open.take() else { return Poll::Pending };
        let mut response = match answer {
            Some(answer) => answer.map(Some),
            None => {
                count(&open.life().counters.faults);
                let mut fault = Response::new(None);
                *fault.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                fault
            }
        };
        if settle_early(open.life()) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let unwritten =
            this.head_only || matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        Poll::Ready(Ok(response.map(|body| ResponseBody::new(body, open, unwritten))))
    }
}

/// Decides what becomes of a body that the service dropped before its end (field case G19). True when the connection is
/// to be closed after the answer: the rest is too much, of unknown length, or will perhaps not be sent at all by a
/// client that asked first (RFC 9110, 10.1.1).
fn settle_early(life: &Life) -> bool {
    if !life.has_rest.load(Ordering::Relaxed) {
        return false;
    }
    count(&life.counters.early_answers);
    let mut rest = life.rest.lock();
    let left = rest.as_ref().and_then(|body| body.size_hint().exact());
    let worth_reading = left.is_some_and(|left| left <= life.bounds.rest_bytes);
    if worth_reading && !life.expects.load(Ordering::Relaxed) {
        life.draining.set(life);
        return false;
    }
    *rest = None;
    life.has_rest.store(false, Ordering::Relaxed);
    life.unread.store(true, Ordering::Relaxed);
    true
}
