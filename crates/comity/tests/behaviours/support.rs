//! What the tests share.

use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use comity::tower::{Attempts, Options, Paced, PacedError, PacerLayer, Replayed};
use comity::{AcquireError, Answer, Pacer, Partial, Permit, Policy, Settled};
use comity_audit::far_end::FarEnd;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tower::{Layer, ServiceExt};
use url::Url;

pub(crate) fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// This interval between starts, and nothing learned.
pub(crate) fn fixed(interval_ms: u64) -> Partial {
    Partial { interval: Some(ms(interval_ms)), policy: Some(Policy::Fixed), ..Partial::default() }
}

/// Refusals alone teach: a host that did not refuse is spaced by nothing.
pub(crate) fn taught_by_refusals() -> Partial {
    Partial { policy: Some(Policy::refusal()), ..Partial::default() }
}

/// So many in flight, and no other limit.
pub(crate) fn places(in_flight: u32) -> Partial {
    Partial { in_flight: NonZeroU32::new(in_flight), policy: Some(Policy::Off), ..Partial::default() }
}

pub(crate) fn served(permit: Permit) -> Settled {
    permit.settle(&Answer::response(200, &HeaderMap::new()))
}

pub(crate) fn refused(permit: Permit, status: u16, retry_after: Option<&'static str>) -> Settled {
    let mut headers = HeaderMap::new();
    if let Some(value) = retry_after {
        headers.insert("retry-after", HeaderValue::from_static(value));
    }
    permit.settle(&Answer::response(status, &headers))
}

/// Waits for a start in a task of its own, which has its place when this returns.
pub(crate) async fn waiter(pacer: &Pacer, page: &str) -> JoinHandle<Result<Permit, AcquireError>> {
    let (pacer, url) = (pacer.clone(), url(page));
    let task = tokio::spawn(async move { pacer.acquire(&url).await });
    tokio::task::yield_now().await;
    task
}

/// When each of so many requests for a page starts, asked for all at once and answered at once.
pub(crate) async fn starts(pacer: &Pacer, page: &str, count: usize) -> Vec<Duration> {
    let mut tasks = Vec::new();
    for _ in 0..count {
        let (pacer, url) = (pacer.clone(), url(page));
        tasks.push(tokio::spawn(async move {
            let permit = pacer.acquire(&url).await.unwrap();
            let started = permit.started();
            served(permit);
            started
        }));
        tokio::task::yield_now().await;
    }
    let mut starts = Vec::new();
    for task in tasks {
        starts.push(task.await.unwrap());
    }
    starts
}

pub(crate) fn gaps(starts: &[Duration]) -> Vec<Duration> {
    let mut starts = starts.to_vec();
    starts.sort_unstable();
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Whether a time is as expected, but for the millisecond tokio's timers may be late.
pub(crate) fn about(time: Duration, expected: Duration) -> bool {
    time.abs_diff(expected) <= ms(3)
}

pub(crate) type Body = Full<Bytes>;

/// A connector for which every name is at the far end.
#[derive(Clone, Copy)]
pub(crate) struct ToFarEnd(SocketAddr);

impl tower::Service<Uri> for ToFarEnd {
    type Response = TokioIo<TcpStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let addr = self.0;
        Box::pin(async move {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}

pub(crate) type Hyper<B = Body> = Client<ToFarEnd, B>;
pub(crate) type PacedHyper = Paced<Hyper, Replayed>;

/// hyper's client.
pub(crate) fn hyper<B: http_body::Body<Data: Send> + Send>(far_end: &FarEnd) -> Hyper<B> {
    Client::builder(TokioExecutor::new()).build(ToFarEnd(far_end.addr()))
}

/// The same, paced.
pub(crate) fn paced(far_end: &FarEnd, pacer: &Pacer) -> PacedHyper {
    PacerLayer::new(pacer.clone()).replay_bodies().layer(hyper(far_end))
}

/// Sends a request and reads the answer's body.
pub(crate) fn send(
    client: &PacedHyper,
    method: Method,
    uri: String,
    options: Options,
) -> impl Future<Output = Result<(StatusCode, Attempts), PacedError>> + Send + 'static {
    let client = client.clone();
    async move {
        let request = Request::builder().method(method).uri(uri).extension(options).body(Full::from("body")).unwrap();
        let response = client.oneshot(request).await?;
        let told = (response.status(), *response.extensions().get().unwrap());
        response.into_body().collect().await.unwrap();
        Ok(told)
    }
}

/// Gets pages all at once, and waits for all.
pub(crate) async fn get_all(client: &PacedHyper, pages: impl IntoIterator<Item = String>) -> Vec<StatusCode> {
    let tasks: Vec<_> =
        pages.into_iter().map(|page| tokio::spawn(send(client, Method::GET, page, Options::default()))).collect();
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap().unwrap().0);
    }
    statuses
}
