//! Upstreams, proxies and clients made of plain sockets.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use comity_guard::proxy::forward::Counters as ForwardCounters;
use comity_guard::proxy::server::{Counters, RequestBody};
use comity_guard::proxy::{Bounds, BoxError, Forward, Listen, Server, Settings};
use http::{Request, Response};
use http_body::Body;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower::Service;

/// A server that runs until it is told to end, or the test is over.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
    pub(crate) end: oneshot::Sender<()>,
    pub(crate) ended: JoinHandle<()>,
}

/// Serves `service` on loopback.
pub(crate) async fn serve<S, B>(service: S, bounds: Bounds) -> Running
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    serve_on(Listen::plain(loopback()), service, bounds).await
}

pub(crate) async fn serve_on<S, B>(listen: Listen, service: S, bounds: Bounds) -> Running
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let server = Server::bind(vec![listen], bounds).await.unwrap();
    let (address, counters) = (server.addresses().unwrap()[0], server.counters());
    let (end, told) = oneshot::channel();
    let ended = tokio::spawn(server.run(service, async {
        // A test that does not keep the sender ends its servers with its runtime.
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    Running { address, counters, end, ended }
}

/// A proxy in front of an upstream on loopback.
pub(crate) struct Proxy {
    pub(crate) running: Running,
    pub(crate) forward: Forward,
}

impl Proxy {
    pub(crate) async fn to(upstream: SocketAddr) -> Self {
        Self::with(upstream, Settings::default(), Bounds::default()).await
    }

    pub(crate) async fn with(upstream: SocketAddr, settings: Settings, bounds: Bounds) -> Self {
        let forward = Forward::new(format!("http://{upstream}").parse().unwrap(), settings).unwrap();
        Self { running: serve(forward.clone(), bounds).await, forward }
    }

    pub(crate) fn counters(&self) -> Arc<ForwardCounters> {
        self.forward.counters()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::to(self.running.address).await
    }

    /// Waits until no request and no connection is left.
    pub(crate) async fn is_quiet(&self) {
        let counters = &self.running.counters;
        until("nothing is left", || value(&counters.active_requests) == 0 && value(&counters.active_connections) == 0)
            .await;
    }
}

/// An upstream made of a script for each connection.
pub(crate) async fn upstream<F, R>(script: F) -> SocketAddr
where
    F: Fn(Client) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(script(Client { stream, read: Vec::new() }));
        }
    });
    address
}

/// An upstream that answers every request with `answer`, and tells what heads it got.
pub(crate) async fn answering(answer: &'static str) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (heads, got) = mpsc::unbounded_channel();
    let address = upstream(move |mut client| {
        let heads = heads.clone();
        async move {
            while let Some(head) = client.head().await {
                let chunked = field(&head, "transfer-encoding").is_some();
                let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
                let _ = heads.send(head);
                while client.read.len() < length && client.more().await {}
                client.read.drain(..length.min(client.read.len()));
                if chunked && client.through(b"0\r\n\r\n").await.is_none() {
                    return;
                }
                client.say(answer).await;
            }
        }
    })
    .await;
    (address, got)
}

/// One end of a connection, as bytes.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) read: Vec<u8>,
}

impl Client {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() }
    }

    pub(crate) async fn say(&mut self, text: impl AsRef<[u8]>) {
        // Whoever has gone will be noticed when something is read.
        let _ = self.stream.write_all(text.as_ref()).await;
    }

    /// A message's head with its blank line; none when the connection ends before one is complete.
    pub(crate) async fn head(&mut self) -> Option<String> {
        self.through(b"\r\n\r\n").await
    }

    /// What arrives up to and with `end`.
    pub(crate) async fn through(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end) {
                let rest = self.read.split_off(at + end.len());
                let text = std::mem::replace(&mut self.read, rest);
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    pub(crate) async fn bytes(&mut self, count: usize) -> String {
        while self.read.len() < count {
            assert!(self.more().await, "ended after {:?}", String::from_utf8_lossy(&self.read));
        }
        let rest = self.read.split_off(count);
        String::from_utf8_lossy(&std::mem::replace(&mut self.read, rest)).into_owned()
    }

    /// All until the other side closes, also if by a reset.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// All until the other side closes in good order.
    pub(crate) async fn rest_unharmed(&mut self) -> String {
        self.stream.read_to_end(&mut self.read).await.unwrap();
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// A request, and the head and body (of a known length) of its answer.
    pub(crate) async fn ask(&mut self, request: &str) -> (String, String) {
        self.say(request).await;
        let head = self.head().await.expect("an answer");
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let body = self.bytes(length).await;
        (head, body)
    }

    pub(crate) fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    async fn more(&mut self) -> bool {
        self.stream.read_buf(&mut self.read).await.is_ok_and(|read| read > 0)
    }
}

/// The value of a field in a head.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

pub(crate) fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line")
}

pub(crate) fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Waits for something that happens in other tasks.
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain until {what}");
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The names of failures that were counted.
pub(crate) fn failures(counters: &ForwardCounters) -> Vec<&'static str> {
    counters.failures().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect()
}

pub(crate) type Never = Infallible;
