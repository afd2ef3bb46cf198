//! What a response costs on the wire, and how long it takes alone.

use serde::{Deserialize, Serialize};
use sprat_scheduler::WireCost;

/// Bytes of a response's head, as common servers send it.
pub const RESPONSE_HEAD_BYTES: u64 = 220;

/// Whether each request opens a connection of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// A new connection for each request, closed after the response.
    #[default]
    New,
    /// Connections are kept and used again.
    Keep,
}

/// Bytes on the link for a response with a body of `payload` bytes: head,
/// body, the headers of each segment, and the packets of the connection if it
/// has one of its own.
pub fn response_bytes(payload: u64, connection: Connection) -> u64 {
    let cost = WireCost::ETHERNET_IPV4;
    let exchange = cost.bytes(payload.saturating_add(RESPONSE_HEAD_BYTES));
    match connection {
        Connection::New => exchange.saturating_add(cost.connection_overhead.into()),
        Connection::Keep => exchange,
    }
}

/// Milliseconds that a response needs on a link of `uplink_bits_per_s` that
/// it has to itself. Slowdown is the response time over this.
pub fn alone_ms(payload: u64, connection: Connection, uplink_bits_per_s: u64) -> f64 {
    response_bytes(payload, connection) as f64 * 8_000.0 / uplink_bits_per_s as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_response_is_mostly_overhead() {
        assert_eq!(response_bytes(100, Connection::New), 100 + 220 + 66 + 330);
        assert_eq!(response_bytes(100, Connection::Keep), 100 + 220 + 66);
        assert_eq!(alone_ms(100, Connection::New, 10_000_000), 0.5728);
    }
}
