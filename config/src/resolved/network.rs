//! Blocks of IP addresses (CIDR).

use std::net::IpAddr;

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// The first address of the block.
    pub address: IpAddr,
    /// The number of leading bits that all addresses of the block share.
    pub prefix_len: u8,
}

impl Network {
    /// Returns whether `ip` lies in the block. An IPv4-mapped IPv6 address counts as the IPv4 one.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip.to_canonical() {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
            IpAddr::V6(v6) => (v6.to_bits(), false),
        };
        let ((own, own_v4), (other, other_v4)) = (bits(self.address), bits(ip));
        let shift = 128 - u32::from(self.prefix_len);
        own_v4 == other_v4 && (shift == 128 || own >> shift == other >> shift)
    }
}
