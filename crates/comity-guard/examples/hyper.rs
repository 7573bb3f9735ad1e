//! A guard under hyper alone: one service a connection, which knows its peer; all share the guard's limits.
//!
//! `cargo run -p comity-guard --example hyper`, then `curl -i http://127.0.0.1:3000/`

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use comity_guard::{Guard, InFlight, Rule, Settings, TokenBucket};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::{Layer, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello\n"))))
}

fn guard() -> Result<Guard, Box<dyn Error>> {
    let each = Rule::new("each", TokenBucket::rate(10, Duration::from_secs(1), 20)?)?;
    Ok(Guard::new(Settings { in_flight: InFlight::at_most(64)?, ..Settings::with([each]) })?)
}

/// Serves connections until the listener fails.
async fn serve(listener: TcpListener, guard: Guard) -> Result<(), Box<dyn Error>> {
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = guard.layer().peer_is(peer.ip()).layer(service_fn(hello));
        tokio::spawn(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            if let Err(error) = served.await {
                println!("a connection ended: {error}");
            }
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (listener, guard) = (TcpListener::bind("127.0.0.1:3000").await?, guard()?);
    guard.describe().iter().for_each(|line| println!("{line}"));
    println!("listening on http://{}", listener.local_addr()?);
    serve(listener, guard).await
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    use super::*;

    #[tokio::test]
    async fn it_guards() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guard = guard().unwrap();
        let counting = guard.clone();
        tokio::spawn(async move { serve(listener, guard).await.map_err(|error| error.to_string()) });
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let answer = client.get(format!("http://{address}/").parse().unwrap()).await.unwrap();
        assert_eq!(answer.headers()["ratelimit-policy"], "\"each\";q=20;w=2");
        assert_eq!((counting.counted().admitted, counting.counted().unknown), (1, 0));
    }
}
