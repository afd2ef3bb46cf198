//! What a byte of payload costs on the wire.

/// The cost of payload once TCP/IP and the link have wrapped it.
///
/// The pacer debits these bytes, the load generator states load in them, and
/// the ideal bounds are computed from them, so that all three mean the same
/// link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireCost {
    /// Payload bytes in a full segment.
    pub mss: u32,
    /// Bytes of headers on each segment.
    pub segment_overhead: u32,
    /// Bytes that a connection costs beside its data, in the sender's
    /// direction: SYN-ACK, ACKs and FIN.
    pub connection_overhead: u32,
}

impl WireCost {
    /// TCP with timestamps over IPv4 over Ethernet with an MTU of 1500: 14 +
    /// 20 + 32 bytes of headers, 1448 of payload. A connection with one short
    /// exchange costs a SYN-ACK of 74 bytes and four bare packets of 66: the
    /// ACK of the request, the FIN, the ACK of the client's FIN, and one more
    /// ACK at times.
    pub const ETHERNET_IPV4: Self = Self {
        mss: 1448,
        segment_overhead: 66,
        connection_overhead: 330,
    };

    /// Bytes on the wire for `payload` bytes written at once.
    pub fn bytes(&self, payload: u64) -> u64 {
        let segments = payload.div_ceil(u64::from(self.mss.max(1)));
        payload.saturating_add(segments.saturating_mul(u64::from(self.segment_overhead)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_whole_and_partial_segments() {
        let cost = WireCost::ETHERNET_IPV4;
        assert_eq!(cost.bytes(0), 0);
        assert_eq!(cost.bytes(1), 67);
        assert_eq!(cost.bytes(1448), 1514);
        assert_eq!(cost.bytes(1449), 1449 + 2 * 66);
    }
}
