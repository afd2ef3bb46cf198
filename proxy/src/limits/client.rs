//! Which addresses are one client.

use std::net::IpAddr;

use sprat_config::resolved::PerClient;

/// A client: the first bits of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientKey {
    is_ipv4: bool,
    /// The bits that count, the rest zero.
    bits: u128,
}

/// How many bits of an address make a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixes {
    ipv4: u8,
    ipv6: u8,
}

impl Prefixes {
    /// As configured.
    pub(crate) fn new(config: &PerClient) -> Self {
        Self {
            ipv4: config.ipv4_prefix,
            ipv6: config.ipv6_prefix,
        }
    }

    /// The client that an address belongs to; an IPv4-mapped IPv6 address is
    /// the IPv4 one.
    pub(crate) fn key(self, ip: IpAddr) -> ClientKey {
        let (is_ipv4, bits, prefix) = match ip.to_canonical() {
            IpAddr::V4(v4) => (true, u128::from(v4.to_bits()) << 96, self.ipv4),
            IpAddr::V6(v6) => (false, v6.to_bits(), self.ipv6),
        };
        let mask = u128::MAX
            .checked_shl(128 - u32::from(prefix))
            .unwrap_or_default();
        ClientKey {
            is_ipv4,
            bits: bits & mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(ip: &str) -> ClientKey {
        Prefixes::new(&PerClient::default()).key(ip.parse().unwrap())
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_an_ipv4_address_is() {
        assert_eq!(key("2001:db8:1:2::7"), key("2001:db8:1:2:ffff::1"));
        assert_ne!(key("2001:db8:1:2::7"), key("2001:db8:1:3::7"));
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        // The bits of 192.0.2.1 at the front of an IPv6 address.
        assert_ne!(key("192.0.2.1"), key("c000:201::"));
    }

    #[test]
    fn no_bits_are_everybody() {
        let prefixes = Prefixes { ipv4: 0, ipv6: 0 };
        let key = |ip: &str| prefixes.key(ip.parse().unwrap());
        assert_eq!(key("192.0.2.1"), key("198.51.100.9"));
        assert_ne!(key("192.0.2.1"), key("::1"));
    }
}
