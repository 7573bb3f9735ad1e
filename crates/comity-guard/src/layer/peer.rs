//! Where a request's peer is told.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Extensions;

/// The address at the other end of a request's connection, as an extension that a server adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

type FindPeer = Arc<dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync>;

/// How a layer learns of it.
#[derive(Clone, Default)]
pub(super) enum PeerFrom {
    /// A [`PeerAddress`] among the request's extensions.
    #[default]
    Extension,
    /// It is always this one.
    Fixed(IpAddr),
    /// What a closure finds among the request's extensions.
    Told(FindPeer),
}

impl PeerFrom {
    pub(super) fn told(find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::Told(Arc::new(find))
    }

    #[inline]
    pub(super) fn of(&self, extensions: &Extensions) -> Option<IpAddr> {
        match self {
            Self::Extension => extensions.get().map(|PeerAddress(peer)| *peer),
            Self::Fixed(peer) => Some(*peer),
            Self::Told(find) => find(extensions),
        }
    }
}

impl fmt::Debug for PeerFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extension => f.write_str("Extension"),
            Self::Fixed(peer) => f.debug_tuple("Fixed").field(peer).finish(),
            Self::Told(_) => f.write_str("Told"),
        }
    }
}
