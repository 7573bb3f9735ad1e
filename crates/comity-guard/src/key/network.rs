//! Networks of addresses, as people write them: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.1`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::ip;

/// A network in CIDR notation (RFC 4632 section 3.1, RFC 4291 section 2.3); a single address is a network of one.
///
/// ```
/// let office: comity_guard::Network = "10.0.0.0/8".parse()?;
/// assert!(office.contains("10.1.2.3".parse()?) && !office.contains("11.0.0.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// Why a text names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no network: {allowed}")]
pub struct NetworkError {
    text: String,
    allowed: String,
}

impl Network {
    /// Whether an address lies in it. An IPv4-mapped IPv6 address is the IPv4 address it maps.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = ip::unmapped(address);
        address.is_ipv4() == self.first.is_ipv4() && ip::masked(address, self.prefix) == self.first
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = |allowed: String| NetworkError { text: text.chars().take(LONGEST_SHOWN).collect(), allowed };
        let (address, prefix) = match text.trim().split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text.trim(), None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| wrong("allowed are `10.0.0.0/8`, `2001:db8::/32` or one address".into()))?;
        let bits = ip::bits(address);
        let mut prefix = match prefix {
            None => bits,
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= bits)
                .ok_or_else(|| wrong(format!("allowed after the slash are whole numbers from 0 to {bits}")))?,
        };
        let first = ip::masked(address, prefix);
        if first != address {
            return Err(wrong(format!("it has bits beyond its prefix; write `{first}/{prefix}`")));
        }
        let unmapped = ip::unmapped(first);
        if unmapped.is_ipv4() && first.is_ipv6() && prefix >= MAPPED_PREFIX {
            prefix -= MAPPED_PREFIX;
            return Ok(Self { first: unmapped, prefix });
        }
        Ok(Self { first, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// `::ffff:0:0/96` holds the IPv4 addresses (RFC 4291 section 2.5.5.2).
const MAPPED_PREFIX: u8 = 96;
/// More of a text that is no network says nothing more.
const LONGEST_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_told_as_they_are_written() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.1/32"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("192.0.2.1".parse::<Network>().unwrap().to_string(), "192.0.2.1/32");
        assert_eq!("::1".parse::<Network>().unwrap().to_string(), "::1/128");
        assert_eq!("::ffff:10.0.0.0/104".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_is_allowed() {
        for (text, told) in [
            ("", "10.0.0.0/8"),
            ("example.org", "one address"),
            ("10.0.0.0/33", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.0.0.0/-1", "0 to 32"),
            ("10.0.0.0/8/8", "0 to 32"),
            ("10.0.0.1/8", "10.0.0.0/8"),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn the_edges_of_a_network_are_inside_it() {
        let network: Network = "192.0.2.64/26".parse().unwrap();
        let contains = |text: &str| network.contains(text.parse().unwrap());
        assert!(contains("192.0.2.64") && contains("192.0.2.127") && contains("::ffff:192.0.2.100"));
        assert!(!contains("192.0.2.63") && !contains("192.0.2.128") && !contains("::c000:264"));
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains("255.255.255.255".parse().unwrap()));
        assert!(!"0.0.0.0/0".parse::<Network>().unwrap().contains("::1".parse().unwrap()));
    }
}
