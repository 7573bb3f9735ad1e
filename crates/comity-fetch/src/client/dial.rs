//! From a name to a TCP connection: look-up, and RFC 8305's race between addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::net::TcpStream;
use url::Host;

use super::failure::{Failure, FailureKind};
use super::resolve::{self, Resolve};

/// Connects to `host` and `port`; `age` is how old the client is, for entries that expire.
pub(super) async fn dial(
    overrides: &[Resolve],
    host: &Host<String>,
    port: u16,
    age: Duration,
) -> Result<TcpStream, Failure> {
    let addresses = match resolve::addresses(overrides, host, port, age) {
        Some(addresses) => addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
        None => look_up(host, port).await?,
    };
    let stream = race(alternating(addresses)).await.map_err(|error| {
        Failure::before_sending(FailureKind::Connect, format!("cannot connect to {host}:{port}: {error}"))
            .caused_by(error)
    })?;
    // A request is written whole, so there is nothing to gather and only a delay to lose.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    Ok(stream)
}

async fn look_up(host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let name = match host {
        Host::Ipv4(ip) => return Ok(vec![SocketAddr::new(IpAddr::V4(*ip), port)]),
        Host::Ipv6(ip) => return Ok(vec![SocketAddr::new(IpAddr::V6(*ip), port)]),
        Host::Domain(name) => name.as_str(),
    };
    let failed = |error: io::Error| {
        Failure::before_sending(FailureKind::Resolve, format!("cannot resolve {name}: {error}")).caused_by(error)
    };
    let found: Vec<SocketAddr> = tokio::net::lookup_host((name, port)).await.map_err(failed)?.collect();
    if found.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
    }
    Ok(found)
}

/// Families in turn, beginning with the family of the first (RFC 8305, 4), and not without end.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::with_capacity(first.len() + second.len());
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            ordered.truncate(MOST_ADDRESSES);
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten());
    }
}

/// The first connection that stands. The next address is tried when one has failed, or has been silent for a while.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "no address to connect to");
    let mut attempts = FuturesUnordered::new();
    loop {
        if attempts.is_empty() {
            match waiting.next() {
                Some(address) => attempts.push(connect(address)),
                None => return Err(last_error),
            }
        }
        tokio::select! {
            biased;
            Some(outcome) = attempts.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    last_error = error;
                    attempts.extend(waiting.next().map(connect));
                }
            },
            () = tokio::time::sleep(ATTEMPT_DELAY), if waiting.len() > 0 => {
                attempts.extend(waiting.next().map(connect));
            }
        }
    }
}

/// The address is named in the error: with several, the host alone does not tell which one refused.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await;
    stream.map_err(|error| io::Error::new(error.kind(), format!("{error} (at {address})")))
}

/// RFC 8305, 8: the recommended Connection Attempt Delay.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A name may list hundreds of addresses; one of sixteen answers, or the host is down.
const MOST_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_beginning_with_the_first() {
        let addresses = ["[::1]:1", "[::2]:1", "1.1.1.1:1", "[::3]:1", "2.2.2.2:1"];
        let ordered = alternating(addresses.iter().map(|a| a.parse().unwrap()).collect());
        let ordered: Vec<String> = ordered.iter().map(ToString::to_string).collect();
        assert_eq!(ordered, ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
    }

    #[tokio::test]
    async fn a_refusing_address_is_followed_by_the_next() {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = taken.local_addr().unwrap();
        let gone = {
            let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            closed.local_addr().unwrap()
        };
        assert_eq!(race(vec![gone, there]).await.unwrap().peer_addr().unwrap(), there);
        let error = race(vec![gone]).await.unwrap_err();
        assert!(error.to_string().contains(&gone.to_string()), "{error}");
    }
}
