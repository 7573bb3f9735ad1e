//! Hosts that are reached without a proxy.

use std::convert::Infallible;
use std::net::IpAddr;
use std::str::FromStr;

use url::Host;

/// A `--noproxy` list: names, addresses and networks separated by commas or spaces, or `*` for all hosts.
///
/// A name stands for itself and every host below it, with or without a leading dot: `example.org` and `.example.org`
/// both cover `www.example.org`, neither covers `badexample.org`. An address stands for itself; `192.0.2.0/24` and
/// `2001:db8::/32` stand for a network. What is neither matches nothing, as in curl.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy {
    all: bool,
    names: Vec<String>,
    networks: Vec<(IpAddr, u8)>,
}

impl NoProxy {
    /// Whether `host` is to be reached without a proxy.
    pub fn covers(&self, host: &Host<&str>) -> bool {
        self.all
            || match host {
                Host::Domain(name) => {
                    let name = name.trim_end_matches('.');
                    self.names.iter().any(|listed| is_or_is_below(name, listed))
                }
                Host::Ipv4(ip) => self.covers_ip((*ip).into()),
                Host::Ipv6(ip) => self.covers_ip((*ip).into()),
            }
    }

    fn covers_ip(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|(network, bits)| same_prefix(ip, *network, *bits))
    }
}

impl FromStr for NoProxy {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let mut list = Self::default();
        for entry in text.split([',', ' ', '\t']).filter(|entry| !entry.is_empty()) {
            if entry == "*" {
                list.all = true;
            } else if let Some(network) = network(entry) {
                list.networks.push(network);
            } else {
                list.names.push(entry.trim_matches('.').to_ascii_lowercase());
            }
        }
        Ok(list)
    }
}

fn network(entry: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = entry.split_once('/').map_or((entry, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(width), |bits| bits.parse().ok())?;
    (bits <= width).then_some((address, bits))
}

fn is_or_is_below(name: &str, listed: &str) -> bool {
    !listed.is_empty() && name.strip_suffix(listed).is_some_and(|labels| labels.is_empty() || labels.ends_with('.'))
}

fn same_prefix(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(list: &str, host: &str) -> bool {
        let host = Host::parse(host).unwrap();
        let host = match &host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(ip) => Host::Ipv4(*ip),
            Host::Ipv6(ip) => Host::Ipv6(*ip),
        };
        list.parse::<NoProxy>().unwrap().covers(&host)
    }

    #[test]
    fn names_cover_themselves_and_what_is_below() {
        for list in ["example.org", ".Example.org", "a.test, example.org", "a.test example.org."] {
            assert!(covers(list, "example.org") && covers(list, "www.example.org."), "{list}");
            assert!(!covers(list, "badexample.org"), "{list}");
        }
        assert!(!covers("", "example.org") && !covers(".", "example.org"));
        assert!(covers("*", "example.org") && covers("*", "127.0.0.1"));
    }

    #[test]
    fn addresses_and_networks_cover_addresses() {
        assert!(covers("127.0.0.1", "127.0.0.1") && !covers("127.0.0.1", "127.0.0.2"));
        assert!(covers("192.0.2.0/24", "192.0.2.77") && !covers("192.0.2.0/24", "192.0.3.1"));
        assert!(covers("[::1]", "[::1]") && covers("2001:db8::/32", "[2001:db8:1::1]"));
        assert!(covers("0.0.0.0/0", "10.0.0.1") && !covers("0.0.0.0/0", "[::1]"));
        assert!(!covers("192.0.2.0/33", "192.0.2.0"));
    }
}
