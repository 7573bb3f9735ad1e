//! The last steps before a request is sent, and the wait for its answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, Uri, Version};
use http_body::Body;

use super::Answered;
use super::failure::{Failure, Kind};
use super::http1::Unanswered;
use super::settings::Upstream;
use super::upload::{Progress, Upload};
use crate::proxy::{BoxError, clock};

/// What only HTTP/1.1 needs to hear.
pub(super) fn for_http1<B>(request: &mut Request<Upload<B>>)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    *request.version_mut() = Version::HTTP_11;
    let body = request.body();
    let unknown_length = !body.is_end_stream() && body.size_hint().exact().is_none();
    let headers = request.headers_mut();
    if headers.contains_key(header::TE) && !headers.contains_key(header::CONNECTION) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
    // Said here because hyper says it for no GET, whose body would be lost.
    if unknown_length && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// HTTP/2 says in the target what HTTP/1.1 says in `Host` (RFC 9113, 8.3.1).
pub(super) fn for_http2<B>(request: &mut Request<Upload<B>>, upstream: &Upstream) {
    *request.version_mut() = Version::HTTP_2;
    let host = request.headers_mut().remove(header::HOST);
    let authority = host.as_ref().unwrap_or(&upstream.authority);
    let scheme = if upstream.tls { "https" } else { "http" };
    let path = request.uri().path_and_query().cloned();
    let mut target = Uri::builder().scheme(scheme).authority(authority.as_bytes());
    if let Some(path) = path {
        target = target.path_and_query(path);
    }
    if let Ok(target) = target.build() {
        *request.uri_mut() = target;
    }
    let headers = request.headers_mut();
    for name in [header::CONNECTION, header::UPGRADE, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
}

/// Waits for the head of an answer, and no longer than `within` while it is the upstream's turn.
pub(super) async fn in_time<B>(
    answer: impl Future<Output = Result<Answered<B>, Unanswered<B>>>,
    progress: Option<&Progress>,
    within: Duration,
) -> Result<Answered<B>, Unanswered<B>>
where
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let mut answer = pin!(answer);
    let mut timer = pin!(None);
    let mut seen = 0;
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        if timer.is_none() {
            timer.set(Some(tokio::time::sleep_until(clock::now() + within)));
        }
        while let Some(mut sleep) = timer.as_mut().as_pin_mut() {
            if sleep.as_mut().poll(cx).is_pending() {
                break;
            }
            if progress.is_none_or(|progress| progress.is_upstreams_turn(&mut seen)) {
                let failure = Failure::new(Kind::ReadTimeout, "no answer in time");
                return Poll::Ready(Err(Unanswered { failure, unsent: None }));
            }
            sleep.reset(clock::now() + within);
        }
        Poll::Pending
    })
    .await
}
