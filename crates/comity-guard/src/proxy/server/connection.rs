//! One connection from its acceptance to its end, with one timer for all its bounds.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tower_service::Service;

use super::counters::count;
use super::life::Life;
use super::request::RequestBody;
use super::serve::Serve;
use super::stream::{Stream, Wire};
use super::tls::Certificates;
use super::{Peer, WRITE_BUFFER};
use crate::proxy::{BoxError, clock};

/// Serves one accepted connection until it ends, or soon after `ending` says so.
pub(super) async fn serve<S, B>(
    tcp: TcpStream,
    certificates: Option<Certificates>,
    peer: Peer,
    service: S,
    life: Arc<Life>,
    mut ending: watch::Receiver<bool>,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let within = life.bounds.head_within;
    let begun = tokio::select! {
        begun = tokio::time::timeout(within, begin(tcp, certificates, &life)) => begun,
        _ = ending.wait_for(|ending| *ending) => return,
    };
    let (wire, first, is_http2) = match begun {
        Ok(Some(begun)) => begun,
        Ok(None) => return,
        Err(_) => return count(&life.counters.slow_heads),
    };
    let io = TokioIo::new(Stream::new(wire, first, Arc::clone(&life)));
    life.http1.store(!is_http2, Ordering::Relaxed);
    let serve = Serve { service, life: Arc::clone(&life), peer };
    let bounds = &life.bounds;
    let timer = Box::pin(tokio::time::sleep(bounds.head_within));
    let ending = Box::pin(async move {
        // An error means that the server is gone, which is an end as well.
        let _ = ending.wait_for(|ending| *ending).await;
    });
    if is_http2 {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .max_concurrent_streams(bounds.streams)
            .max_header_list_size(u32::try_from(bounds.head_bytes()).unwrap_or(u32::MAX))
            .max_send_buf_size(WRITE_BUFFER)
            .keep_alive_interval(bounds.idle / 2)
            .keep_alive_timeout(bounds.head_within);
        let connection = Http2(Box::pin(http.serve_connection(io, serve)));
        Drive { connection, life, timer, ending: Some(ending), telling: false }.await;
    } else {
        let mut http = http1::Builder::new();
        http.max_header_size(bounds.head_bytes())
            .max_buf_size(WRITE_BUFFER.max(bounds.head_bytes()))
            .header_read_timeout(None);
        // hyper has a faster way for the number that is its own default.
        if bounds.head_fields != HYPERS_FIELDS {
            http.max_headers(bounds.head_fields);
        }
        let connection = Http1(Box::pin(http.serve_connection(io, serve).with_upgrades()));
        Drive { connection, life, timer, ending: Some(ending), telling: false }.await;
    }
}

/// Shakes hands where there are certificates, and finds out which HTTP is spoken. None when the client has gone.
async fn begin(mut tcp: TcpStream, certificates: Option<Certificates>, life: &Life) -> Option<(Wire, Bytes, bool)> {
    if let Some(certificates) = certificates {
        return match certificates.acceptor().accept(tcp).await {
            Ok(tls) => {
                let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                Some((Wire::Tls(Box::new(tls)), Bytes::new(), is_http2))
            }
            Err(error) => {
                count(&life.counters.handshake_errors);
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
        };
    }
    let mut first = BytesMut::with_capacity(FIRST_READ);
    loop {
        if tcp.read_buf(&mut first).await.ok()? == 0 {
            let _ = tcp.shutdown().await;
            return None;
        }
        let known = first.len().min(PREFACE.len());
        if first[..known] != PREFACE[..known] {
            break;
        }
        if known == PREFACE.len() {
            break;
        }
    }
    life.counters.bytes_in.fetch_add(first.len() as u64, Ordering::Relaxed);
    life.reading_head.store(true, Ordering::Relaxed);
    let is_http2 = first.starts_with(PREFACE);
    Some((Wire::Plain(tcp), first.freeze(), is_http2))
}

/// What of hyper's two connections is needed here.
trait Http: Unpin {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>>;
    fn end_gracefully(&mut self);
}

type Io = TokioIo<Stream>;
struct Http1<S: hyper::service::HttpService<hyper::body::Incoming>>(Pin<Box<http1::UpgradeableConnection<Io, S>>>);
struct Http2<S: hyper::service::HttpService<hyper::body::Incoming>>(Pin<Box<http2::Connection<Io, S, TokioExecutor>>>);

impl<S, B> Http for Http1<Serve<S>>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + 'static,
    S::Error: Into<BoxError>,
    B: Body + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.as_mut().poll(cx)
    }

    fn end_gracefully(&mut self) {
        self.0.as_mut().graceful_shutdown();
    }
}

impl<S, B> Http for Http2<Serve<S>>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.as_mut().poll(cx)
    }

    fn end_gracefully(&mut self) {
        self.0.as_mut().graceful_shutdown();
    }
}

/// Drives a connection and holds it to its bounds.
struct Drive<C, E> {
    connection: C,
    life: Arc<Life>,
    timer: Pin<Box<Sleep>>,
    ending: Option<Pin<Box<E>>>,
    /// It was asked to end after the request it is at.
    telling: bool,
}

impl<C: Http, E: Future<Output = ()>> Future for Drive<C, E> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Some(ending) = &mut this.ending
            && ending.as_mut().poll(cx).is_ready()
        {
            this.ending = None;
            this.end_gracefully();
        }
        loop {
            if let Poll::Ready(outcome) = this.connection.poll(cx) {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "a client's connection ended");
                }
                return Poll::Ready(());
            }
            if this.drain(cx) {
                continue;
            }
            if this.life.half_closed.get().is_some() && !this.telling {
                this.end_gracefully();
                continue;
            }
            match this.bounds(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Held::Over) => return Poll::Ready(()),
                Poll::Ready(Held::Changed) => {}
            }
        }
    }
}

/// What a bound that ran out led to.
enum Held {
    Over,
    Changed,
}

impl<C: Http, E> Drive<C, E> {
    fn end_gracefully(&mut self) {
        self.telling = true;
        self.connection.end_gracefully();
    }

    /// Reads away what nobody wants of a body. True when that is over, one way or the other.
    fn drain(&mut self, cx: &mut Context<'_>) -> bool {
        let life = &self.life;
        if !life.has_rest.load(Ordering::Relaxed) {
            return false;
        }
        life.draining.set(life);
        let mut rest = life.rest.lock();
        while let Some(body) = rest.as_mut() {
            let over = match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending if life.half_closed.get().is_some() => true,
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(frame))) => {
                    let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                    let enough = life.drained.fetch_add(bytes, Ordering::Relaxed) + bytes > life.bounds.rest_bytes;
                    life.unread.fetch_or(enough, Ordering::Relaxed);
                    enough
                }
                Poll::Ready(None) => {
                    life.body_ends();
                    true
                }
                Poll::Ready(Some(Err(_))) => true,
            };
            if over {
                *rest = None;
            }
        }
        life.drained.store(0, Ordering::Relaxed);
        life.has_rest.store(false, Ordering::Relaxed);
        life.draining.clear();
        true
    }

    /// Waits for the next bound to run out, and acts on it.
    fn bounds(&mut self, cx: &mut Context<'_>) -> Poll<Held> {
        let life = &self.life;
        if life.http1.load(Ordering::Relaxed) && life.open() == 0 && life.reading_head.load(Ordering::Relaxed) {
            life.head.set(life);
        }
        let Some((due, bound)) = next(life) else { return Poll::Pending };
        // Put forward at once, back only when it has run out.
        if due < self.timer.deadline() {
            self.timer.as_mut().reset(due);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if clock::now() >= due {
                return Poll::Ready(self.ran_out(bound));
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }

    fn ran_out(&mut self, bound: Bound) -> Held {
        let life = &self.life;
        match bound {
            Bound::Head => count(&life.counters.slow_heads),
            Bound::Write => count(&life.counters.stalled_readers),
            Bound::HalfClosed | Bound::Closing => {}
            Bound::Look => return Held::Changed,
            Bound::Rest => {
                *life.rest.lock() = None;
                life.has_rest.store(false, Ordering::Relaxed);
                life.unread.store(true, Ordering::Relaxed);
                life.draining.clear();
                return Held::Changed;
            }
            Bound::Idle => {
                life.closing.set(life);
                life.idle.clear();
                self.end_gracefully();
                return Held::Changed;
            }
        }
        Held::Over
    }
}

/// The bounds that a connection can run into.
#[derive(Debug, Clone, Copy)]
enum Bound {
    Head,
    Idle,
    Write,
    HalfClosed,
    Rest,
    Closing,
    /// Nothing yet, but what other tasks noted is to be looked at.
    Look,
}

/// The bound that runs out next, and when.
fn next(life: &Life) -> Option<(Instant, Bound)> {
    let bounds = &life.bounds;
    let quiet = life.open() == 0;
    let stamped = [
        (life.head.get().filter(|_| quiet), bounds.head_within, Bound::Head),
        (life.idle.get().filter(|_| quiet), bounds.idle, Bound::Idle),
        (life.write.get(), bounds.write_idle, Bound::Write),
        (life.half_closed.get(), bounds.half_closed, Bound::HalfClosed),
        (life.draining.get(), bounds.rest_within, Bound::Rest),
        (life.closing.get().filter(|_| quiet), bounds.rest_within, Bound::Closing),
    ];
    let stamped = stamped.into_iter().filter_map(|(since, within, bound)| Some((life.instant(since?, within), bound)));
    let earliest = stamped.min_by_key(|(due, _)| *due);
    if quiet || life.http1.load(Ordering::Relaxed) {
        return earliest;
    }
    let streams = life.streams.lock();
    let handed = streams.iter().map(|handed| handed.load(Ordering::Relaxed)).filter(|since| *since > 0).min();
    let stream = match handed {
        Some(since) => (life.instant(since, bounds.write_idle), Bound::Write),
        // Answers are written by tasks of their own, which do not wake this one.
        None => (life.instant(life.age(), bounds.write_idle / 4), Bound::Look),
    };
    earliest.into_iter().chain([stream]).min_by_key(|(due, _)| *due)
}

/// How an HTTP/2 connection begins (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Most requests come whole within this.
const FIRST_READ: usize = 4 * 1024;

/// How many fields hyper takes in a head.
const HYPERS_FIELDS: usize = 100;
