//! The cost of a response on the wire, and the time that it takes alone.

use serde::{Deserialize, Serialize};
use sprat_scheduler::WireCost;

/// The bytes of a response's head, as common servers send it.
pub const RESPONSE_HEAD_BYTES: u64 = 220;

/// The bytes that a server sends in a full handshake of TLS 1.3 with one ECDSA certificate, before
/// the client is through with it: what `openssl s_client` reads from Sprat with the certificate of
/// `scripts/compare.sh` (720 or 721).
pub const TLS_FLIGHT_BYTES: u64 = 720;

/// The bytes that TLS 1.3 adds to each record (RFC 8446 5.2).
pub const TLS_RECORD_BYTES: u32 = 22;

/// Whether each request opens a connection of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// A new connection for each request, closed after the response.
    #[default]
    New,
    /// Connections are kept and reused.
    Keep,
    /// Like `new`, under TLS with a handshake for each connection; without tickets, which such
    /// clients would not use.
    NewTls,
}

impl Connection {
    /// Returns whether each request has a connection of its own.
    pub fn is_new(self) -> bool {
        self != Self::Keep
    }
}

/// Returns what the bytes of a response cost: under TLS each grant is a record, or
/// several full ones.
pub fn exchange_cost(connection: Connection) -> WireCost {
    WireCost {
        record_overhead: match connection {
            Connection::New | Connection::Keep => 0,
            Connection::NewTls => TLS_RECORD_BYTES,
        },
        ..WireCost::ETHERNET_IPV4
    }
}

/// Returns the bytes on the link of a connection that is one response's own: its packets without
/// payload and, under TLS, the handshake; 0 if connections are kept.
pub fn set_up_bytes(connection: Connection) -> u64 {
    let cost = WireCost::ETHERNET_IPV4;
    match connection {
        Connection::Keep => 0,
        Connection::New => cost.connection_overhead.into(),
        Connection::NewTls => {
            u64::from(cost.connection_overhead).saturating_add(cost.bytes(TLS_FLIGHT_BYTES))
        }
    }
}

/// Returns the bytes on the link for a response with a body of `payload` bytes: head, body, the
/// headers of each segment, and the packets of the connection if it has one of its own. Under TLS,
/// the handshake and full records are added; a response that is served a grant at a time needs a
/// record for each grant.
pub fn response_bytes(payload: u64, connection: Connection) -> u64 {
    let exchange = payload.saturating_add(RESPONSE_HEAD_BYTES);
    let cost = exchange_cost(connection);
    (cost.bytes(exchange)).saturating_add(set_up_bytes(connection))
}

/// Returns the milliseconds that a response needs on a link of `uplink_bits_per_s` that it has to
/// itself. Slowdown is the response time over this.
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
        let set_up = 330 + TLS_FLIGHT_BYTES + 66;
        assert_eq!(
            response_bytes(100, Connection::NewTls),
            set_up + 320 + 22 + 66
        );
    }
}
