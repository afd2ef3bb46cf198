//! Networks in the form that Sprat takes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns a network as Sprat writes it: its first address, and the length of its prefix. None if
/// the text is no network.
pub(crate) fn normal_network(text: &str) -> Option<String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(bits);
    if length > bits {
        return None;
    }
    let first: IpAddr = match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    };
    Some(match length == bits {
        true => first.to_string(),
        false => format!("{first}/{length}"),
    })
}
