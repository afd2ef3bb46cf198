//! What `/metrics` says of connections and tunnels.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use sprat_net::encoding::{count, gauge};
use sprat_net::proxy_protocol::HEADER_RESULTS;

use super::View;
use crate::observe::access_log;
use crate::observe::standard_error;

impl View {
    /// Writes the metrics of clients' connections.
    pub(super) fn connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Client connections accepted";
        self.counter(encoder, "connections", help, |w| &w.connections)?;
        let help = "Client connections open";
        let open = self.sum(|worker| &worker.open_connections);
        gauge(encoder, "open_connections", help, open)?;
        self.tunnels(encoder)?;
        let help = "Client connections closed at once because of the listener's bound";
        self.counter(encoder, "refused_connections", help, |w| {
            &w.refused_connections
        })?;
        let help = "Client connections closed at once because of the bound on each client";
        self.counter(encoder, "client_refused_connections", help, |w| {
            &w.client_connections
        })?;
        let help = "Client connections closed at once because memory was short";
        self.counter(encoder, "overload_refused_connections", help, |w| {
            &w.overload_connections
        })?;
        let help = "Client connections that could not be accepted";
        self.counter(encoder, "accept_errors", help, |w| &w.accept_errors)?;
        if self.announced {
            self.proxy_headers(encoder)?;
        }
        let help = "Lines of the access log that found no room";
        self.counter(encoder, "access_log_dropped_lines", help, |w| {
            &w.log_lines_dropped
        })?;
        let help = "Lines of the access log that could not be written";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("access_log_lost_lines", help, None, kind)?;
        count(&mut metric, access_log::lines_lost())?;
        let help = "Lines of the log on standard error that were lost";
        let mut metric = encoder.encode_descriptor("log_lost_lines", help, None, kind)?;
        count(&mut metric, standard_error::lines_lost())
    }

    /// How connections told whose they are.
    fn proxy_headers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Headers of the PROXY protocol, by result";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("proxy_headers", help, None, kind)?;
        for (index, result) in HEADER_RESULTS.into_iter().enumerate() {
            let value = self.sum(|worker| worker.proxy_headers.of(index));
            count(&mut metric.encode_family(&[("result", result)])?, value)?;
        }
        Ok(())
    }

    /// Connections that have switched to another protocol.
    fn tunnels(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Connections that have switched to another protocol";
        self.counter(encoder, "tunnels", help, |w| &w.tunnels)?;
        let help = "Connections open that have switched to another protocol";
        let open = self.sum(|worker| &worker.open_tunnels);
        gauge(encoder, "open_tunnels", help, open)?;
        let help = "Bytes passed on after a switch to another protocol, by direction";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("tunnel_bytes", help, None, kind)?;
        let down = self.sum(|worker| &worker.tunnel_bytes_down);
        let up = self.sum(|worker| &worker.tunnel_bytes_up);
        for (direction, bytes) in [("downstream", down), ("upstream", up)] {
            count(
                &mut metric.encode_family(&[("direction", direction)])?,
                bytes,
            )?;
        }
        Ok(())
    }
}
