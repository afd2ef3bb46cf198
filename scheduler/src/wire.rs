//! The cost of a byte of payload on the wire.

/// The cost of payload once TCP/IP and the link have wrapped it.
///
/// The pacer debits these bytes, the load generator states load in them, and
/// the ideal bounds are computed from them, so that all three mean the same
/// link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireCost {
    /// The payload bytes in a full segment.
    pub mss: u32,
    /// The bytes of headers on each segment.
    pub segment_overhead: u32,
    /// The bytes that a connection costs beside its data, in the sender's
    /// direction: SYN-ACK, ACKs and FIN.
    pub connection_overhead: u32,
    /// The bytes that TLS adds to each record; 0 without TLS. What is granted
    /// at once is written as one record, or as several full ones.
    pub record_overhead: u32,
}

/// The most payload bytes of a TLS record (RFC 8446 5.1).
const RECORD_MAX: u64 = 1 << 14;

impl WireCost {
    /// The cost of TCP with timestamps over IPv4 over Ethernet with an MTU of
    /// 1500: 14 + 20 + 32 bytes of headers, 1448 of payload. A connection with
    /// one short exchange costs a SYN-ACK of 74 bytes and four bare packets of
    /// 66: the ACK of the request, the FIN, the ACK of the client's FIN, and
    /// one more ACK at times.
    pub const ETHERNET_IPV4: Self = Self {
        mss: 1448,
        segment_overhead: 66,
        connection_overhead: 330,
        record_overhead: 0,
    };

    /// Returns the bytes on the wire for `payload` bytes written at once.
    pub fn bytes(&self, payload: u64) -> u64 {
        self.segment_bytes(self.stream_bytes(payload))
    }

    /// Returns the bytes that TCP is given for `payload` bytes written at once.
    pub fn stream_bytes(&self, payload: u64) -> u64 {
        match u64::from(self.record_overhead) {
            0 => payload,
            each => payload.saturating_add(payload.div_ceil(RECORD_MAX).saturating_mul(each)),
        }
    }

    /// Returns the bytes on the wire for `stream` bytes that TCP is given at once.
    pub fn segment_bytes(&self, stream: u64) -> u64 {
        let segments = stream.div_ceil(u64::from(self.mss.max(1)));
        stream.saturating_add(segments.saturating_mul(u64::from(self.segment_overhead)))
    }

    /// Returns the most payload that fits into `segments` segments, at least 1.
    pub fn payload_in(&self, segments: u64) -> u64 {
        let stream = u64::from(self.mss.max(1)).saturating_mul(segments);
        let each = u64::from(self.record_overhead);
        if each == 0 {
            return stream;
        }
        let (full, rest) = (stream / (RECORD_MAX + each), stream % (RECORD_MAX + each));
        (full * RECORD_MAX + rest.saturating_sub(each)).max(1)
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
        assert_eq!((cost.payload_in(1), cost.payload_in(3)), (1448, 3 * 1448));
    }

    #[test]
    fn counts_records() {
        let cost = WireCost {
            record_overhead: 22,
            ..WireCost::ETHERNET_IPV4
        };
        assert_eq!(cost.bytes(0), 0);
        assert_eq!(cost.bytes(1), 1 + 22 + 66);
        // A segment holds 22 bytes less; one more byte takes a second one.
        assert_eq!(cost.payload_in(1), 1426);
        // 144,800 bytes: eight records of 16,406 and one of 13,552.
        assert_eq!(cost.payload_in(100), 8 * 16_384 + 13_530);
        assert_eq!(cost.bytes(1426), 1514);
        assert_eq!(cost.bytes(1427), 1427 + 22 + 2 * 66);
        assert_eq!(cost.stream_bytes(16_384), 16_406);
        assert_eq!(cost.stream_bytes(16_385), 16_385 + 44);
        for segments in 1..100 {
            let payload = cost.payload_in(segments);
            let whole = segments * (1448 + 66);
            assert!(cost.bytes(payload) <= whole, "{segments}");
            assert!(cost.bytes(payload + 1) > whole, "{segments}");
        }
        // All of a segment that holds no more than a record does is one record.
        let long = WireCost {
            mss: 16_400,
            ..cost
        };
        assert_eq!(long.payload_in(1), 16_378);
        // What is not quite a record and its overhead is none.
        let odd = WireCost { mss: 1637, ..cost };
        assert_eq!(odd.payload_in(10), 16_370 - 22);
        let absurd = WireCost { mss: 10, ..cost };
        assert_eq!(absurd.payload_in(1), 1);
    }
}
