//! The bytes of packets and of whole responses on the wire.

use sprat_measure::wire::RESPONSE_HEAD_BYTES;
use sprat_scheduler::WireCost;

/// Payload bytes of a full segment.
pub(super) const MSS: u64 = WireCost::ETHERNET_IPV4.mss as u64;

/// The bytes that the wire carries of a SYN-ACK.
pub(super) const SYN_ACK_BYTES: u64 = 74;

/// The bytes that the wire carries of a packet without payload.
pub(super) const BARE_BYTES: u64 = WireCost::ETHERNET_IPV4.segment_overhead as u64;

/// Returns the wire bytes of a response on a connection of its own, or on one that is kept.
pub(super) fn wire_bytes(bytes: u64, keeps: bool) -> u64 {
    let response = WireCost::ETHERNET_IPV4.bytes(bytes + RESPONSE_HEAD_BYTES);
    let connection = SYN_ACK_BYTES + 3 * BARE_BYTES;
    response + if keeps { BARE_BYTES } else { connection }
}
