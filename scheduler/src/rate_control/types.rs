//! The types that a driver and a rate control exchange.

use std::time::Duration;

/// The settings that a rate control begins with.
#[derive(Clone, Debug)]
pub struct RateControlConfig {
    /// The rate to start at, in bits per second on the wire. Too high costs one queue in
    /// the kernel until the first measurement.
    pub initial_rate_bits_per_s: u64,
    /// The rate that the anchor never goes below, in bits per second. If `max_rate_bits_per_s` is
    /// lower, that counts instead.
    pub min_rate_bits_per_s: u64,
    /// The rate that the anchor never goes above, in bits per second.
    pub max_rate_bits_per_s: u64,
    /// Whether the rate control sends a tenth more than the anchor at most, and grows in small
    /// steps, for a caller that raises the anchor on a faster link
    /// ([`RateControl::raise`](super::RateControl::raise)). It then also keeps a short queue, a
    /// part of the round trip.
    pub cautious: bool,
}

impl Default for RateControlConfig {
    fn default() -> Self {
        Self {
            initial_rate_bits_per_s: 1_000_000_000,
            min_rate_bits_per_s: 64_000,
            max_rate_bits_per_s: 400_000_000_000,
            cautious: false,
        }
    }
}

/// A write to a client's socket.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The socket, unique among the open ones and not used again soon.
    pub socket: u64,
    /// The client's network: a hash of its address, or of its /24 or /48 where
    /// all clients in it have about the same round trip.
    pub network: u64,
    /// The bytes written to the socket so far, this write included, as `tcpi_bytes_acked` counts
    /// them.
    pub written: u64,
    /// The bytes that the uplink was debited so far, this write included
    /// ([`EgressStats::wire_bytes`](crate::EgressStats::wire_bytes)).
    pub position: u64,
}

/// The kernel's figures of a socket (`TCP_INFO`).
#[derive(Clone, Copy, Debug)]
pub struct SocketSample {
    /// The number of the socket, as in [`Write::socket`].
    pub socket: u64,
    /// The bytes acknowledged, the kernel's `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// The least round trip, the kernel's `tcpi_min_rtt`; [`Duration::MAX`] if there is none.
    pub min_rtt: Duration,
}

/// The pacer's settings until the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The pacer's rate, in bits per second on the wire.
    pub rate_bits_per_s: u64,
}
