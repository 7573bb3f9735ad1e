//! The operator's port: `/metrics` and `/healthz`.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use comity_guard::proxy::server::RequestBody;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use tower_service::Service;

use super::metrics::Facts;

/// Answers the operator.
#[derive(Clone)]
pub(super) struct Admin {
    pub(super) facts: Arc<Facts>,
    /// Whether the guard lets its last requests end, so that nobody should send new ones.
    pub(super) ending: Arc<AtomicBool>,
}

impl Service<Request<RequestBody>> for Admin {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        ready(Ok(self.answer(request.method(), request.uri().path())))
    }
}

impl Admin {
    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match path {
            "/metrics" => {
                let mut response = text(StatusCode::OK, self.facts.text());
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROMETHEUS));
                response
            }
            "/healthz" if self.ending.load(Ordering::Relaxed) => {
                text(StatusCode::SERVICE_UNAVAILABLE, "ending\n".to_owned())
            }
            "/healthz" => text(StatusCode::OK, "well\n".to_owned()),
            _ => text(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n".to_owned()),
        }
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
