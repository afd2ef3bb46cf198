//! Metrics of TLS with clients: handshakes, and the validity of certificates.

use std::sync::Arc;

use super::listener::ListenerTls;
use super::outcome::{HandshakeStats, Outcome};
use crate::metrics::{Labels, Per, Row, Topic};

/// The values that metrics of TLS are read from.
#[derive(Clone, Debug)]
pub struct TlsView {
    /// The handshake counters of each worker.
    handshakes: Vec<Arc<HandshakeStats>>,
    listeners: Vec<Arc<ListenerTls>>,
}

impl TlsView {
    /// Returns the view of these workers and listeners; none without a listener.
    pub fn new(
        handshakes: Vec<Arc<HandshakeStats>>,
        listeners: Vec<Arc<ListenerTls>>,
    ) -> Option<Self> {
        (!listeners.is_empty()).then_some(Self {
            handshakes,
            listeners,
        })
    }
}

/// The metrics of TLS with clients; no sample where no listener speaks it.
#[rustfmt::skip]
pub static TLS: Topic<TlsView> = Topic { title: "TLS with clients", rows: &[
    // A version has a result of its own for each.
    Row::counter("sprat_tls_handshakes_total", Labels::NONE.and("version", 1).and("result", Outcome::ALL.len()),
        "Handshakes, by version (empty if none was agreed on) and result",
        |view, out| for outcome in Outcome::ALL {
            let (version, result) = outcome.labels();
            let parts = view.handshakes.iter().map(|worker| worker.of(outcome));
            out.put(&[version, result], parts.sum::<u64>());
        }),
    Row::gauge("sprat_tls_certificate_not_after_timestamp_seconds", Labels::NONE.and("listener", 1).per("file", Per::Certificate),
        "When a certificate expires, in seconds since 1970-01-01 UTC",
        |view, out| for listener in &view.listeners {
            for (certificate, not_after_s) in listener.expiries() {
                let file = certificate.chain().path.display().to_string();
                out.put(&[listener.name(), &file], not_after_s as f64);
            }
        }),
] };
