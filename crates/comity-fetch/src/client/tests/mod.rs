//! Real servers on loopback, well and ill behaved.

mod failures;
mod reuse;
mod routes;
mod tls;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::{Client, Failure, Options, Request, ResponseBody};

/// A server on loopback that counts the connections it accepts.
struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// `serve` is called for each connection, with its number from 1 on.
    async fn start<F, Fut>(serve: F) -> Self
    where
        F: Fn(TcpStream, usize) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::start_on("127.0.0.1:0", serve).await
    }

    async fn start_on<F, Fut>(address: &str, serve: F) -> Self
    where
        F: Fn(TcpStream, usize) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(serve(stream, number));
            }
        });
        Self { address, accepted }
    }

    /// A server that behaves, see [`answer`].
    async fn http1() -> Self {
        Self::start(|stream, _| serve_http1(stream)).await
    }

    /// Answers each connection's first request with `bytes`, then closes.
    async fn saying(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::start(move |mut stream, _| {
            let bytes = bytes.clone();
            async move {
                read_head(&mut stream).await;
                let _ = stream.write_all(&bytes).await;
            }
        })
        .await
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    fn port(&self) -> u16 {
        self.address.port()
    }
}

async fn serve_http1<S: AsyncRead + AsyncWrite + Unpin>(stream: S) {
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

async fn serve_http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) {
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

/// `/chunked` comes in three chunks, `/large` is 1 MB, `/empty` is 204; all else tells how it was asked.
async fn answer(request: http::Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let asked = format!("{} {:?} {:?}", request.method(), request.uri(), request.headers());
    let body = request.into_body().collect().await.unwrap_or_default().to_bytes();
    let mut response = Response::new(match path.as_str() {
        "/chunked" => {
            let frames = ["one ", "two ", "three"].map(|chunk| Ok(Frame::data(Bytes::from_static(chunk.as_bytes()))));
            StreamBody::new(futures_util::stream::iter(frames)).boxed()
        }
        "/large" => Full::new(Bytes::from(vec![b'x'; 1_000_000])).boxed(),
        "/empty" => Full::default().boxed(),
        _ => Full::new(Bytes::from(format!("{asked} {}", String::from_utf8_lossy(&body)))).boxed(),
    });
    if path == "/empty" {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}

/// Reads up to the blank line after a request head.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

fn client() -> Client {
    Client::new(Options::default()).unwrap()
}

fn request(url: &Url) -> Request {
    http::Request::get(url.as_str()).body(Full::default()).unwrap()
}

async fn send(client: &Client, url: &Url) -> Result<Response<ResponseBody>, Failure> {
    client.ready(url).await?.send(request(url)).await
}

async fn get(client: &Client, url: &Url) -> Result<String, Failure> {
    let body = send(client, url).await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

/// Lets other tasks run until `done`; a test that waits in vain fails instead of hanging.
async fn until(mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it never happened");
}
