//! The one a request counts as.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest, Sha256};

use super::ip;

/// Who a request counts as: an address or a network of them, a name such as an API key, or everybody together.
///
/// Small and `Copy`, whatever it was made from. Of a name only 128 bits of its SHA-256 are kept: keys of APIs
/// are secrets, and neither a log nor a shared store should hold them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey {
    kind: Kind,
    /// A number rather than bytes: it moves in registers.
    bits: u128,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
enum Kind {
    All = 0,
    Unknown = 1,
    Four = 2,
    Six = 3,
    Named = 4,
}

impl ClientKey {
    /// Everybody together: the key of limits that all clients share.
    pub const ALL: Self = Self { kind: Kind::All, bits: 0 };

    /// Those of whom nothing is known, not even an address: they share what one client may do.
    pub const UNKNOWN: Self = Self { kind: Kind::Unknown, bits: 0 };

    /// An address: of IPv4 the address, of IPv6 the network of its first `ipv6_prefix` bits, since one client has a
    /// whole /64 or more to send from (G7). An IPv4-mapped address is the IPv4 address it maps.
    #[inline]
    pub fn address(address: IpAddr, ipv6_prefix: Ipv6Prefix) -> Self {
        match address {
            IpAddr::V4(four) => Self::four(four),
            IpAddr::V6(six) => match six.to_ipv4_mapped() {
                Some(four) => Self::four(four),
                None => Self { kind: Kind::Six, bits: ip::masked_bits(six, ipv6_prefix.0) },
            },
        }
    }

    fn four(four: Ipv4Addr) -> Self {
        Self { kind: Kind::Four, bits: u128::from(four.to_bits()) << FOUR_SHIFT }
    }

    /// A name: an API key, an account, a session.
    pub fn named(name: impl AsRef<[u8]>) -> Self {
        let digest = Sha256::digest(name.as_ref());
        let mut bits = [0; 16];
        bits.copy_from_slice(&digest[..16]);
        Self { kind: Kind::Named, bits: u128::from_be_bytes(bits) }
    }

    /// The key as bytes: equal for equal keys and for no others, the same in every process and on every machine.
    #[inline]
    pub fn to_bytes(self) -> [u8; 17] {
        let mut bytes = [0; 17];
        bytes[0] = self.kind as u8;
        bytes[1..].copy_from_slice(&self.bits.to_be_bytes());
        bytes
    }

    /// Whether nothing is known of whose key this is.
    pub fn is_unknown(self) -> bool {
        self.kind == Kind::Unknown
    }
}

/// How many leading bits of an IPv6 address are one client's: 64 unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Prefix(u8);

/// An IPv6 prefix is a whole number from 1 to 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an IPv6 prefix is a whole number from 1 to 128")]
pub struct PrefixError;

impl Ipv6Prefix {
    /// The prefix of so many bits.
    ///
    /// # Errors
    /// When it is 0 or above 128.
    pub fn new(bits: u8) -> Result<Self, PrefixError> {
        if (1..=128).contains(&bits) { Ok(Self(bits)) } else { Err(PrefixError) }
    }

    /// How many bits.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl Default for Ipv6Prefix {
    fn default() -> Self {
        Self(64)
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::All => f.write_str("all"),
            Kind::Unknown => f.write_str("unknown"),
            Kind::Four => Ipv4Addr::from_bits((self.bits >> FOUR_SHIFT) as u32).fmt(f),
            Kind::Six => Ipv6Addr::from_bits(self.bits).fmt(f),
            Kind::Named => {
                f.write_str("name-")?;
                self.bits.to_be_bytes().iter().take(SHOWN_OF_A_NAME).try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientKey({self})")
    }
}

/// An IPv4 address stands in the first of the sixteen bytes.
const FOUR_SHIFT: u32 = 96;
/// Bytes of a name's digest that are shown: enough to tell clients apart in a log.
const SHOWN_OF_A_NAME: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ClientKey {
        ClientKey::address(text.parse().unwrap(), Ipv6Prefix::default())
    }

    #[test]
    fn g7_ipv6_counts_by_64_bits_and_mapped_ipv4_by_its_address() {
        assert_eq!(key("2001:db8:1:2:3:4:5:6"), key("2001:db8:1:2::1"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("::ffff:192.0.2.1"), key("::ffff:192.0.2.2"));
        assert_ne!(key("192.0.2.1"), key("c000:201::"), "an IPv4 address is no IPv6 address of the same bits");
        let wide = |text: &str| ClientKey::address(text.parse().unwrap(), Ipv6Prefix::new(48).unwrap());
        assert_eq!(wide("2001:db8:1:2::1"), wide("2001:db8:1:3::1"));
        assert_eq!(wide("192.0.2.1"), key("192.0.2.1"));
        assert!(Ipv6Prefix::new(0).is_err() && Ipv6Prefix::new(129).is_err());
    }

    #[test]
    fn a_name_is_not_kept_and_never_shown() {
        let secret = ClientKey::named("sk-very-secret");
        assert_eq!(secret, ClientKey::named(b"sk-very-secret"));
        assert_ne!(secret, ClientKey::named("sk-very-secret2"));
        assert!(!format!("{secret:?} {secret}").contains("secret"));
        assert!(secret.to_string().starts_with("name-"), "{secret}");
        assert_eq!(key("2001:db8::1").to_string(), "2001:db8::");
    }

    #[test]
    fn keys_of_different_kinds_have_different_bytes() {
        let all = [ClientKey::ALL, ClientKey::UNKNOWN, key("0.0.0.0"), key("::"), ClientKey::named("")];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.to_bytes() != one.to_bytes()), "{one}");
        }
    }
}
