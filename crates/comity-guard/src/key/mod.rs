//! Who a request counts as (G7).
//!
//! Its peer's address, unless a person says otherwise: an IPv6 peer by its /64, behind a trusted proxy the address the
//! proxy names, or the value of a header field, or what a closure says. By default nobody is trusted: whoever could write
//! the field that decides could choose a new key for each request.

mod client;
mod forwarded;
mod ip;
mod network;

pub use client::{ClientKey, Ipv6Prefix, PrefixError};
pub use forwarded::ForwardedField;
pub use network::{Network, NetworkError};

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU8;
use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Uri};

/// How requests are told apart.
#[derive(Clone, Debug, Default)]
pub struct KeyBy {
    /// What makes the key.
    pub by: By,
    /// How many leading bits of an IPv6 address are one client's.
    pub ipv6_prefix: Ipv6Prefix,
    /// Which proxies are believed.
    pub trust: Trust,
    /// Which field they write.
    pub forwarded: ForwardedField,
}

/// What makes the key of a request.
#[derive(Clone, Default)]
pub enum By {
    /// The client's address.
    #[default]
    Address,
    /// The value of a header field, an API key say. Where it is missing, empty, sent twice or longer than 512 bytes, the
    /// address.
    Header(HeaderName),
    /// What a closure says; where it says nothing, the address.
    Closure(AskForKey),
}

/// A closure that says whom a request counts as.
pub type AskForKey = Arc<dyn Fn(&Head<'_>) -> Option<ClientKey> + Send + Sync>;

/// Which proxies are believed to say whom they forward for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// None: the peer is the client.
    #[default]
    Nobody,
    /// Those in these networks. The field is read from right to left, and the first address that is not in them is the
    /// client.
    Networks(Vec<Network>),
    /// So many proxies stand before this server, whatever their addresses: the entry so far from the right is the client,
    /// or the leftmost where there are fewer. Only where nobody can reach the server past them.
    Hops(NonZeroU8),
}

/// What a request says before its body.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its target.
    pub uri: &'a Uri,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// What the layers outside left for us.
    pub extensions: &'a Extensions,
    /// The address at the other end of the connection.
    pub peer: Option<IpAddr>,
}

impl KeyBy {
    /// Whose request it is.
    ///
    /// Costs no more than [`MOST_ENTRIES`] entries of a forwarded field and one short digest, whatever was sent.
    #[inline]
    pub fn key(&self, head: &Head<'_>) -> ClientKey {
        let other = match &self.by {
            By::Address => None,
            By::Header(name) => name_in(head.headers, name),
            By::Closure(ask) => ask(head),
        };
        match (other, &self.trust) {
            (Some(other), _) => other,
            // The common way: its peer's address as it stands.
            (None, Trust::Nobody) => self.of_address(head.peer.as_ref()),
            (None, _) => self.of_address(self.client(head).as_ref()),
        }
    }

    #[inline]
    fn of_address(&self, address: Option<&IpAddr>) -> ClientKey {
        address.map_or(ClientKey::UNKNOWN, |address| ClientKey::address(*address, self.ipv6_prefix))
    }

    /// The client's address: the peer's, or the one that trusted proxies name.
    ///
    /// An entry that cannot be read ends the walk at the last address that was judged; no peer, no trust.
    pub fn client(&self, head: &Head<'_>) -> Option<IpAddr> {
        let peer = head.peer?;
        let mut client = peer;
        let entries = || forwarded::addresses(self.forwarded, head.headers).take(MOST_ENTRIES);
        match &self.trust {
            Trust::Nobody => {}
            Trust::Networks(trusted) => {
                let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
                if is_trusted(peer) {
                    for address in entries() {
                        client = address;
                        if !is_trusted(address) {
                            break;
                        }
                    }
                }
            }
            Trust::Hops(hops) => client = entries().take(usize::from(hops.get())).last().unwrap_or(peer),
        }
        Some(ip::unmapped(client))
    }
}

impl<'a> Head<'a> {
    /// What a request says, and who is at the other end of its connection.
    #[inline]
    pub fn of<B>(request: &'a Request<B>, peer: Option<IpAddr>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
            peer,
        }
    }
}

impl fmt::Debug for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("Address"),
            Self::Header(name) => f.debug_tuple("Header").field(name).finish(),
            Self::Closure(_) => f.write_str("Closure"),
        }
    }
}

/// The name in a header field. Two values of one field are no name: which of them a server believes is not known.
fn name_in(headers: &HeaderMap, name: &HeaderName) -> Option<ClientKey> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else { return None };
    (1..=LONGEST_NAME).contains(&value.len()).then(|| ClientKey::named(value))
}

/// Entries of a forwarded field that are read at most: more proxies than stand in any chain.
pub const MOST_ENTRIES: usize = 32;

/// Bytes a name may have: a digest of more would let a client make its request cost what it likes.
const LONGEST_NAME: usize = 512;

#[cfg(test)]
mod tests;
