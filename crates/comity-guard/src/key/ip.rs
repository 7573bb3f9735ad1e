//! Addresses as numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 address that an IPv4-mapped IPv6 address stands for (RFC 4291 section 2.5.5.2); any other as it is.
///
/// A socket that listens on `[::]` reports IPv4 peers so; without this all of IPv4 would be one /64.
pub(super) fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The address with all bits after the first `prefix` cleared.
pub(super) fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() & mask))
        }
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(masked_bits(six, prefix))),
    }
}

/// The same of an IPv6 address, as a number.
pub(super) fn masked_bits(six: Ipv6Addr, prefix: u8) -> u128 {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
    six.to_bits() & mask
}

/// How many bits an address of this family has.
pub(super) fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
