//! All that stands between a URL and a connection ready for its request.

use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::dial::dial;
use super::failure::{Failure, FailureKind, HEAD_BYTES};
use super::http1::Http1;
use super::options::Options;
use super::origin::{Hop, Way};
use super::pool::{Http2, Link};
use super::stream::Stream;
use super::tls::Tls;
use super::tunnel;

/// Opens a connection by `way`, within the connect time-out; `age` is how old the client is.
pub(super) async fn connect(options: &Options, tls: &Tls, way: Arc<Way>, age: Duration) -> Result<Link, Failure> {
    let within = options.connect_timeout;
    let place = way.clone();
    match tokio::time::timeout(within, open(options, tls, way, age)).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let text = format!("no connection to {} was ready within {within:?}", place.origin.place);
            Err(Failure::before_sending(FailureKind::TimedOut, text))
        }
    }
}

async fn open(options: &Options, tls: &Tls, way: Arc<Way>, age: Duration) -> Result<Link, Failure> {
    let tcp = reach(options, &way.hop, age).await?;
    if !way.origin.tls {
        return Ok(Link::Http1(Http1::over(TokioIo::new(Stream::Plain(tcp)), way).await?));
    }
    let (stream, http2) = tls.handshake(tcp, &way.origin.host, &way.origin.place).await?;
    let io = TokioIo::new(Stream::Tls(Box::new(stream)));
    if !http2 {
        return Ok(Link::Http1(Http1::over(io, way).await?));
    }
    let handshake = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(SILENCE)
        .keep_alive_timeout(PONG_WITHIN)
        .max_header_list_size(HEAD_LIST)
        .handshake(io)
        .await;
    let (sender, connection) =
        handshake.map_err(|error| Failure::of_exchange(&way.origin.place, error, None).never_sent())?;
    let place = Arc::clone(&way);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, place = place.origin.place, "a connection ended");
        }
    });
    Ok(Link::Http2(Http2 { way, sender }))
}

/// A byte stream to the far end or, for [`Hop::Forward`], to the proxy.
async fn reach(options: &Options, hop: &Hop, age: Duration) -> Result<TcpStream, Failure> {
    match hop {
        Hop::Direct { host, port } => dial(&options.resolve, host, *port, age).await,
        Hop::Forward(proxy) => dial(&options.resolve, &proxy.host, proxy.port, age).await,
        Hop::Tunnel(proxy, host, port) => {
            let tcp = dial(&options.resolve, &proxy.host, proxy.port, age).await?;
            tunnel::open(tcp, proxy, host, *port).await
        }
    }
}

/// A shared connection that died in silence would take every later request with it. So one with requests on it that has
/// been silent for this long is asked for a sign of life (RFC 9113, 6.7).
const SILENCE: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);

const HEAD_LIST: u32 = HEAD_BYTES as u32;
