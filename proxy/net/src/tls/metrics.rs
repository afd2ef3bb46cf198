//! What is counted of TLS, in Prometheus' text format.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::listener::ListenerTls;
use super::outcome::HandshakeStats;
use crate::encoding::count;

/// Handshakes, and until when certificates are valid.
#[derive(Debug)]
pub struct TlsView {
    /// The counters of each worker.
    handshakes: Vec<Arc<HandshakeStats>>,
    listeners: Vec<Arc<ListenerTls>>,
}

impl TlsView {
    /// Of these workers and listeners.
    pub fn new(handshakes: Vec<Arc<HandshakeStats>>, listeners: Vec<Arc<ListenerTls>>) -> Self {
        Self {
            handshakes,
            listeners,
        }
    }
}

impl Collector for TlsView {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "TLS handshakes with clients, by version (empty if none was agreed on) and \
                    result";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("tls_handshakes", help, None, kind)?;
        let mut sums: Vec<((&str, &str), u64)> = Vec::new();
        for worker in &self.handshakes {
            for (index, (labels, value)) in worker.each().enumerate() {
                match sums.get_mut(index) {
                    Some(sum) => sum.1 += value,
                    None => sums.push((labels, value)),
                }
            }
        }
        for ((version, result), value) in sums {
            let labels = [("version", version), ("result", result)];
            count(&mut metric.encode_family(&labels)?, value)?;
        }
        let help = "Until when a certificate is valid, in seconds since 1970";
        let name = "tls_certificate_not_after_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for listener in &self.listeners {
            for (certificate, not_after_s) in listener.expiries() {
                let file = certificate.chain.path.display().to_string();
                let labels = [("listener", listener.name()), ("file", file.as_str())];
                metric.encode_family(&labels)?.encode_gauge(&not_after_s)?;
            }
        }
        Ok(())
    }
}
