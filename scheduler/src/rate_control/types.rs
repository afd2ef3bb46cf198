//! What the driver says, and what it is told.

use std::time::Duration;

/// What is known before the first measurement.
#[derive(Clone, Debug)]
pub struct RateControlConfig {
    /// Where to start, in bits per second on the wire. Too high costs one
    /// queue in the kernel until the first measurement.
    pub initial_rate_bits_per_s: u64,
    /// The anchor never goes below, in bits per second; nor above the next, which counts
    /// where it is the lower one.
    pub min_rate_bits_per_s: u64,
    /// The anchor never goes above, in bits per second.
    pub max_rate_bits_per_s: u64,
    /// Sends no more than the anchor, and grows in small steps: for one who tells it of a
    /// faster link ([`RateControl::raise`](super::RateControl::raise)). It leaves no queue
    /// where a millisecond of one is long.
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

/// Bytes were written to a client's socket.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The socket, unique among the open ones and not used again soon.
    pub socket: u64,
    /// The client's network: a hash of its address, or of its /24 or /48 where
    /// all clients in it have about the same round trip.
    pub network: u64,
    /// Bytes written to the socket so far, this write included, as
    /// `tcpi_bytes_acked` counts them.
    pub written: u64,
    /// Bytes that the uplink was debited so far, this write included
    /// ([`EgressStats::wire_bytes`](crate::EgressStats::wire_bytes)).
    pub position: u64,
}

/// What the kernel says of a socket (`TCP_INFO`).
#[derive(Clone, Copy, Debug)]
pub struct SocketSample {
    /// The number of the socket, as in [`Write::socket`].
    pub socket: u64,
    /// The bytes acknowledged, the kernel's `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// `tcpi_min_rtt`; [`Duration::MAX`] if there is none.
    pub min_rtt: Duration,
}

/// What the pacer should do until the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Bits per second on the wire.
    pub rate_bits_per_s: u64,
}
