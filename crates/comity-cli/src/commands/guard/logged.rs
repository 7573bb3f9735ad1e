//! A service whose requests are logged, each when its answer has been handed over or given up.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use comity_guard::proxy::server::{Peer, RequestBody};
use comity_guard::{Decision, Guard};
use http::{HeaderMap, HeaderName, Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use tower_service::Service;

use super::access_log::{AccessLog, Decided, Line};
use super::clock;

/// What was decided of one request: written by the guard, on whatever thread decides, while the request is looked after.
type Note = Arc<Mutex<Option<Decided>>>;

tokio::task_local! {
    static NOTE: Note;
}

/// Has a guard note what it decides of logged requests.
pub(super) fn note_decisions(guard: &Guard) {
    guard.on_decision(|decision: &Decision<'_>| {
        // Other requests have no note.
        let _ = NOTE.try_with(|note| {
            // In a dry run the first is the one that would have been final.
            note.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| decision.into());
        });
    });
}

/// Logs the requests of a service.
#[derive(Clone)]
pub(super) struct Logged<S> {
    pub(super) inner: S,
    pub(super) log: Arc<AccessLog>,
}

impl<S, R> Service<Request<RequestBody>> for Logged<S>
where
    S: Service<Request<RequestBody>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    R: Body<Data = Bytes>,
{
    type Response = Response<LoggedBody<R>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // The one that was found ready is the one to call.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let mut entry = Entry::new(&request, Arc::clone(&self.log));
        let note = Arc::clone(&entry.note);
        Box::pin(NOTE.scope(note, async move {
            let response = inner.call(request).await?;
            entry.line.status = Some(response.status().as_u16());
            entry.line.head_ms = Some(entry.since());
            entry.line.complete = response.body().is_end_stream();
            Ok(response.map(|body| LoggedBody { body, entry }))
        }))
    }
}

/// One request's line in the making; dropped, it is written.
struct Entry {
    line: Line,
    note: Note,
    began: Instant,
    log: Arc<AccessLog>,
}

impl Entry {
    fn new(request: &Request<RequestBody>, log: Arc<AccessLog>) -> Self {
        let peer = request.extensions().get::<Peer>();
        let (uri, headers) = (request.uri(), request.headers());
        let line = Line {
            time: format!("{:.6}", clock::wall()),
            // One who came by IPv4 to a listener of both families is shown as IPv4.
            peer: peer.map(|peer| SocketAddr::new(peer.address.ip().to_canonical(), peer.address.port()).to_string()),
            protocol: format!("{:?}", request.version()),
            tls: peer.is_some_and(|peer| peer.tls),
            method: request.method().as_str().chars().take(LONGEST).collect(),
            host: uri.host().map(str::to_owned).or_else(|| text(headers, &header::HOST)),
            path: uri.path().chars().take(LONGEST_PATH).collect(),
            query: uri.query().filter(|_| log.with_query).map(|query| query.chars().take(LONGEST_PATH).collect()),
            user_agent: text(headers, &header::USER_AGENT),
            ..Line::default()
        };
        Self { line, note: Note::default(), began: clock::now(), log }
    }

    /// In milliseconds.
    fn since(&self) -> f64 {
        clock::now().saturating_duration_since(self.began).as_secs_f64() * 1000.0
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        line.total_ms = self.since();
        let decided = self.note.lock().unwrap_or_else(PoisonError::into_inner).take();
        line.outcome = match (&decided, line.status) {
            (Some(decided), _) => decided.outcome,
            (None, Some(_)) => "exempt",
            (None, None) => "abandoned",
        };
        if let Some(decided) = decided {
            (line.key, line.rule, line.wait_ms) = (decided.key, decided.rule, decided.wait_ms);
        }
        self.log.write(line);
    }
}

/// The body of an answer that is logged.
pub(super) struct LoggedBody<R> {
    body: R,
    entry: Entry,
}

impl<R: Body<Data = Bytes> + Unpin> Body for LoggedBody<R> {
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        let line = &mut this.entry.line;
        match &polled {
            Poll::Ready(None) => line.complete = true,
            Poll::Ready(Some(Ok(frame))) => {
                line.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                line.complete |= this.body.is_end_stream();
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The first value of a field, as far as it is of interest.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).chars().take(LONGEST).collect())
}

/// Characters of a client's own text that are logged …
const LONGEST: usize = 256;
/// … and of a path or a query: with the bound on lines that wait, the log takes some 20 MB of memory at most.
const LONGEST_PATH: usize = 2048;
