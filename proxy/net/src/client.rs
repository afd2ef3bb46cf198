//! The key of a client: the first bits of its address, or the value of a header field.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderMap, HeaderName};
use sprat_config::resolved::{ClientBy, PerClient};
use sprat_scheduler::counterfactual::Network;

/// The most bits of an IPv4 and of an IPv6 address that name a network. The operator's pages and
/// metrics show networks, from which no single client can be identified.
const NETWORK_PREFIXES: (u8, u8) = (24, 48);

/// A client: the first bits of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey {
    is_ipv4: bool,
    /// The address's bits that count; the others are zero.
    bits: u128,
}

/// The number of an address's first bits that make a client, for each version of IP.
#[derive(Clone, Copy, Debug)]
pub struct Prefixes {
    ipv4: u8,
    ipv6: u8,
}

impl Prefixes {
    /// Returns the prefixes as configured.
    pub fn new(config: &PerClient) -> Self {
        Self {
            ipv4: config.ipv4_prefix,
            ipv6: config.ipv6_prefix,
        }
    }

    /// Returns the client that an address belongs to. An IPv4-mapped IPv6 address counts as
    /// IPv4.
    pub fn key(self, ip: IpAddr) -> ClientKey {
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

/// Returns the network of a client's address: its configured prefix, shortened where that would
/// identify single clients.
pub fn network(config: &PerClient, ip: IpAddr) -> Network {
    let (ipv4, ipv6) = NETWORK_PREFIXES;
    let (prefix, address, beyond) = match ip.to_canonical() {
        IpAddr::V4(v4) => (config.ipv4_prefix.min(ipv4), v4.to_ipv6_mapped(), 32),
        IpAddr::V6(v6) => (config.ipv6_prefix.min(ipv6), v6, 128),
    };
    let mask = u128::MAX.checked_shl(beyond - u32::from(prefix));
    let bits = address.to_bits() & mask.unwrap_or_default();
    let mut bytes = [prefix; 17];
    bytes[..16].copy_from_slice(&bits.to_be_bytes());
    Network(bytes)
}

/// Returns a network as people write it, such as `192.0.2.0/24`.
pub fn network_name(Network(bytes): Network) -> String {
    let [address @ .., prefix] = bytes;
    format!("{}/{prefix}", Ipv6Addr::from(address).to_canonical())
}

/// The rule that gives each client a number, by its address or by a header field.
#[derive(Debug)]
pub struct ClientNumbers {
    /// The header field that tells clients apart; if `None`, their address does.
    header: Option<HeaderName>,
    /// The hasher of clients. Its secret keeps them from aiming at each other's numbers.
    hasher: RandomState,
}

impl ClientNumbers {
    /// Creates the rule as configured. Rules with the same hasher give a client the same number.
    pub fn new(by: &ClientBy, hasher: RandomState) -> Self {
        let header = match by {
            ClientBy::Client => None,
            // Checked with the configuration.
            ClientBy::Header(name) => HeaderName::try_from(name).ok(),
        };
        Self { header, hasher }
    }

    /// Returns the number of the client that sent a request: of the header field's value, if it
    /// is there, else of `client`.
    pub fn number(&self, client: impl FnOnce() -> ClientKey, headers: &HeaderMap) -> u64 {
        let value = self.header.as_ref().and_then(|name| headers.get(name));
        match value {
            Some(value) => self.hasher.hash_one(value.as_bytes()),
            None => self.hasher.hash_one(client()),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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
    fn clients_are_told_apart_by_a_field_and_by_address_without_it() {
        let hasher = RandomState::new();
        let by_user = ClientBy::Header("x-user".to_owned());
        let [by_address, by_user] =
            [ClientBy::Client, by_user].map(|by| ClientNumbers::new(&by, hasher.clone()));
        let of = |user: &'static str| {
            HeaderMap::from_iter([(
                HeaderName::from_static("x-user"),
                HeaderValue::from_static(user),
            )])
        };
        let (one, other) = (|| key("192.0.2.1"), || key("192.0.2.2"));
        let (anna, ben, none) = (of("anna"), of("ben"), HeaderMap::new());
        assert_eq!(by_user.number(one, &anna), by_user.number(other, &anna));
        assert_ne!(by_user.number(one, &anna), by_user.number(one, &ben));
        assert_ne!(by_user.number(one, &anna), by_user.number(one, &none));
        assert_ne!(by_user.number(one, &none), by_user.number(other, &none));
        // A client is the same by whichever of the two it is told apart.
        assert_eq!(by_user.number(one, &none), by_address.number(one, &anna));
        // Who knows the code does not know the number.
        let elsewhere = ClientNumbers::new(&ClientBy::Client, RandomState::new());
        assert_ne!(by_address.number(one, &none), elsewhere.number(one, &none));
    }

    #[test]
    fn a_network_is_no_single_client() {
        let told =
            |config: &PerClient, ip: &str| network_name(network(config, ip.parse().unwrap()));
        let config = PerClient::default();
        assert_eq!(told(&config, "192.0.2.77"), "192.0.2.0/24");
        assert_eq!(told(&config, "::ffff:192.0.2.77"), "192.0.2.0/24");
        assert_eq!(told(&config, "2001:db8:1:2::7"), "2001:db8:1::/48");
        let config = PerClient {
            ipv4_prefix: 16,
            ipv6_prefix: 32,
            ..PerClient::default()
        };
        assert_eq!(told(&config, "192.0.2.77"), "192.0.0.0/16");
        assert_eq!(told(&config, "2001:db8:1:2::7"), "2001:db8::/32");
    }

    #[test]
    fn no_bits_are_everybody() {
        let prefixes = Prefixes { ipv4: 0, ipv6: 0 };
        let key = |ip: &str| prefixes.key(ip.parse().unwrap());
        assert_eq!(key("192.0.2.1"), key("198.51.100.9"));
        assert_ne!(key("192.0.2.1"), key("::1"));
    }
}
