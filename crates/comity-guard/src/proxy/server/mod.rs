//! A server for any tower service, with bounds on everything a client can do to it.

mod bounds;
mod connection;
mod counters;
mod life;
mod request;
mod response;
mod serve;
mod stream;
mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service;

pub use bounds::Bounds;
pub use counters::Counters;
use counters::{count, uncount};
use life::Life;
pub use request::{RequestBody, RequestBodyError};
pub use tls::{CertificateError, Certificates};

use crate::proxy::BoxError;

/// Where to listen.
#[derive(Debug, Clone)]
pub struct Listen {
    address: SocketAddr,
    certificates: Option<Certificates>,
}

impl Listen {
    /// HTTP/1.1, and HTTP/2 for those who know beforehand. Port 0 is any free one.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, certificates: None }
    }

    /// HTTP/1.1 or HTTP/2, as agreed on within TLS (ALPN).
    pub fn tls(address: SocketAddr, certificates: Certificates) -> Self {
        Self { address, certificates: Some(certificates) }
    }
}

/// The connection that a request came by, as an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The other end.
    pub address: SocketAddr,
    /// Whether it came within TLS.
    pub tls: bool,
}

/// Listeners, ready to serve.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<(TcpListener, Option<Certificates>)>,
    bounds: Arc<Bounds>,
    counters: Arc<Counters>,
}

impl Server {
    /// Listens on every address. What arrives waits until [`run`](Self::run).
    ///
    /// # Errors
    /// When an address cannot be listened on; the error names it.
    pub async fn bind(listen: Vec<Listen>, bounds: Bounds) -> io::Result<Self> {
        let mut listeners = Vec::with_capacity(listen.len());
        for Listen { address, certificates } in listen {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
            listeners.push((TcpListener::bind(address).await.map_err(named)?, certificates));
        }
        Ok(Self { listeners, bounds: Arc::new(bounds), counters: Arc::default() })
    }

    /// The addresses listened on, in the order of [`bind`](Self::bind).
    ///
    /// # Errors
    /// When the system does not say.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(|(listener, _)| listener.local_addr()).collect()
    }

    /// What is counted; it can be read while the server runs.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves until `end` is ready; then accepts no more, lets what is in flight go on for at most [`Bounds::ending`],
    /// closes what is left, and returns.
    ///
    /// A panic or an error of the service is answered with 500 and counted; it ends nothing else.
    pub async fn run<S, B>(self, service: S, end: impl Future<Output = ()>)
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let Self { listeners, bounds, counters } = self;
        let places = Arc::new(Semaphore::new(bounds.connections.min(Semaphore::MAX_PERMITS)));
        let ending = watch::Sender::new(false);
        let mut accepting = JoinSet::new();
        for (listener, certificates) in listeners {
            let accept = Accept {
                listener,
                certificates,
                service: service.clone(),
                bounds: Arc::clone(&bounds),
                counters: Arc::clone(&counters),
                places: Arc::clone(&places),
                ending: ending.subscribe(),
            };
            accepting.spawn(accept.run());
        }
        drop(service);
        end.await;
        ending.send_replace(true);
        let all_ended = async { while accepting.join_next().await.is_some() {} };
        if tokio::time::timeout(bounds.ending, all_ended).await.is_err() {
            // With the set of each listener go its connections.
            accepting.shutdown().await;
        }
    }
}

/// One listener at work.
struct Accept<S> {
    listener: TcpListener,
    certificates: Option<Certificates>,
    service: S,
    bounds: Arc<Bounds>,
    counters: Arc<Counters>,
    places: Arc<Semaphore>,
    ending: watch::Receiver<bool>,
}

impl<S, B> Accept<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    async fn run(mut self) {
        let mut connections = JoinSet::new();
        let mut ending = self.ending.clone();
        loop {
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                Some((tcp, address, place)) = self.next() => {
                    connections.spawn(self.serve(tcp, address, place));
                }
            }
        }
        drop(self);
        while connections.join_next().await.is_some() {}
    }

    /// A connection, and its place among all. None after an error that it is no use to hurry after.
    async fn next(&mut self) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                count(&self.counters.accept_waits);
                Arc::clone(&self.places).acquire_owned().await.ok()?
            }
        };
        loop {
            match self.listener.accept().await {
                Ok((tcp, address)) => return Some((tcp, address, place)),
                Err(error) => {
                    count(&self.counters.accept_errors);
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    fn serve(
        &self,
        tcp: TcpStream,
        address: SocketAddr,
        place: OwnedSemaphorePermit,
    ) -> impl Future<Output = ()> + Send + 'static {
        let active = Active::new(&self.counters, place);
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set");
        }
        let peer = Peer { address, tls: self.certificates.is_some() };
        let life = Life::new(Arc::clone(&self.bounds), Arc::clone(&self.counters));
        let served =
            connection::serve(tcp, self.certificates.clone(), peer, self.service.clone(), life, self.ending.clone());
        async move {
            let _active = active;
            served.await;
        }
    }
}

/// Counts an open connection.
struct Active {
    counters: Arc<Counters>,
    _place: OwnedSemaphorePermit,
}

impl Active {
    fn new(counters: &Arc<Counters>, place: OwnedSemaphorePermit) -> Self {
        count(&counters.connections);
        count(&counters.active_connections);
        Self { counters: Arc::clone(counters), _place: place }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        uncount(&self.counters.active_connections);
    }
}

/// What of an answer waits in memory for one reader, beside the kernel's buffers.
const WRITE_BUFFER: usize = 64 * 1024;

/// After an error such as too many open files: time for some to be closed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
