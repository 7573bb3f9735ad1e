//! Between the guard and the upstream: whether the peer's word on whom it forwards for is passed on.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use comity_guard::key::Trust;
use comity_guard::proxy::server::{Peer, RequestBody};
use comity_guard::proxy::{Forward, Judged};
use http::Request;
use tower_service::Service;

/// Which peers are believed now. Clones are of one mind.
#[derive(Clone, Debug)]
pub(super) struct Believed(Arc<RwLock<Trust>>);

impl Believed {
    pub(super) fn new(trust: &Trust) -> Self {
        Self(Arc::new(RwLock::new(trust.clone())))
    }

    /// Others from now on.
    pub(super) fn set(&self, trust: Trust) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = trust;
    }

    fn is(&self, peer: IpAddr) -> bool {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Trust::Nobody => false,
            Trust::Networks(networks) => networks.iter().any(|network| network.contains(peer)),
            Trust::Hops(_) => true,
        }
    }
}

/// Passes requests on, with what is to be believed of them.
#[derive(Clone, Debug)]
pub(super) struct Judging {
    pub(super) believed: Believed,
    pub(super) forward: Forward,
}

impl Service<Request<RequestBody>> for Judging {
    type Response = <Forward as Service<Request<RequestBody>>>::Response;
    type Error = <Forward as Service<Request<RequestBody>>>::Error;
    type Future = <Forward as Service<Request<RequestBody>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.forward.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address.ip());
        if peer.is_some_and(|peer| self.believed.is(peer)) {
            request.extensions_mut().insert(Judged { peer_trusted: true });
        }
        self.forward.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g10_by_default_nobody_is_believed_and_a_reload_reaches_all() {
        let believed = Believed::new(&Trust::default());
        let (clone, peer) = (believed.clone(), "::ffff:10.1.2.3".parse().unwrap());
        assert!(!clone.is(peer));
        believed.set(Trust::Networks(vec!["10.0.0.0/8".parse().unwrap()]));
        assert!(clone.is(peer) && !clone.is("11.0.0.1".parse().unwrap()));
        believed.set(Trust::Hops(std::num::NonZeroU8::MIN));
        assert!(clone.is("11.0.0.1".parse().unwrap()));
    }
}
