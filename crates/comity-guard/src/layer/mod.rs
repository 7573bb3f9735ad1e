//! The guard as a tower [`Layer`]: in axum, under hyper, in front of a proxy.
//!
//! Requests that are let in hold their place in flight until their answer's body was written or abandoned, whatever ends
//! them: the end of the body, an error, a panic of the handler, a client that went away (G3).

mod body;
mod future;
mod peer;

pub use body::GuardBody;
pub use future::GuardFuture;
pub use peer::PeerAddress;

use std::fmt;
use std::net::IpAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use self::peer::PeerFrom;
use crate::key::Head;
use crate::state::{Begun, Guard, Known};

/// Wraps services in a guard. All of them share its limits.
#[derive(Clone, Debug)]
pub struct GuardLayer {
    guard: Guard,
    peer: PeerFrom,
}

/// A service behind a guard.
///
/// It is always ready: whether a request is let in is decided first, and only then is the service inside made ready for
/// it. So a service that is busy never keeps a refusal waiting, and a request that waits holds nothing of it.
pub struct GuardService<S> {
    inner: S,
    /// Whether `inner` has been found ready and not been called since.
    ready: bool,
    guard: Guard,
    known: Known,
    peer: PeerFrom,
}

impl GuardLayer {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard, peer: PeerFrom::default() }
    }

    /// Reads the peer's address from a request's extensions, where the server puts it in a way of its own: axum's
    /// `ConnectInfo`, say. Without it, [`PeerAddress`] is looked for.
    #[must_use]
    pub fn peer(mut self, peer: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        self.peer = PeerFrom::told(peer);
        self
    }

    /// For a service that serves one connection: all its requests come from this address.
    #[must_use]
    pub fn peer_is(mut self, peer: IpAddr) -> Self {
        self.peer = PeerFrom::Fixed(peer);
        self
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, inner: S) -> GuardService<S> {
        let (guard, known, peer) = (self.guard.clone(), self.guard.known(), self.peer.clone());
        GuardService { inner, ready: false, guard, known, peer }
    }
}

impl<S, B, R> Service<Request<B>> for GuardService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Body<Data = Bytes>,
{
    type Response = Response<GuardBody<R>>;
    type Error = S::Error;
    type Future = GuardFuture<S::Future, Response<R>, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if !self.ready {
            self.ready = self.inner.poll_ready(cx)?.is_ready();
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let peer = self.peer.of(request.extensions());
        let live = self.guard.latest(&mut self.known);
        match self.guard.begin(live, &Head::of(&request, peer)) {
            Begun::Refused(answer) => GuardFuture::refused(answer),
            Begun::Admitted(admitted) if std::mem::take(&mut self.ready) => {
                admitted.mark(request.extensions_mut());
                GuardFuture::called(self.inner.call(request), admitted)
            }
            Begun::Admitted(admitted) => {
                let inner = self.inner.clone();
                GuardFuture::later(async move { Ok(admitted) }, inner, request)
            }
            Begun::Later(admission) => GuardFuture::later(admission, self.inner.clone(), request),
        }
    }
}

impl<S: Clone> Clone for GuardService<S> {
    fn clone(&self) -> Self {
        // Readiness is one service's own and no clone's.
        Self {
            inner: self.inner.clone(),
            ready: false,
            guard: self.guard.clone(),
            known: self.known.clone(),
            peer: self.peer.clone(),
        }
    }
}

impl<S> fmt::Debug for GuardService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardService").field("guard", &self.guard).finish_non_exhaustive()
    }
}
