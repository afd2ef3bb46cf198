//! Traces of requests, and the collector that gets them.

use std::time::Duration;

use super::{FileAt, Span};

/// The settings of traces: the sampling, and the collector.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// The share of traces that begin at Sprat and are sampled, in millionths.
    pub sampling_ppm: u32,
    /// Whether the sampled flag of a request's own `traceparent` decides instead.
    pub parent_based: bool,
    /// The collector of spans.
    pub otlp: Otlp,
}

/// A collector that gets spans by OTLP over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Otlp {
    /// The URL that spans are posted to.
    pub endpoint: CollectorEndpoint,
    /// The header fields of each request to the collector, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The authorities that Sprat trusts for the collector; none for the system's.
    pub ca_file: Option<FileAt>,
    /// The attributes of the resource that spans belong to, `service.name` first.
    pub resource: Vec<(String, String)>,
    /// The longest time that a request to the collector and its answer may take.
    pub timeout: Duration,
    /// The most spans that may wait to be sent.
    pub max_queue_size: usize,
    /// The most spans of one request to the collector.
    pub max_export_batch_size: usize,
    /// The longest time that spans wait until a batch is sent.
    pub schedule_delay: Duration,
}

/// A collector's URL in its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorEndpoint {
    /// Whether Sprat speaks TLS with the collector.
    pub is_secure: bool,
    /// The host, without the brackets of an IPv6 address.
    pub host: String,
    /// The port that it listens on.
    pub port: u16,
    /// The host and port for the `Host` field.
    pub authority: String,
    /// The path, with a query if there is one.
    pub path: String,
    /// The place of the URL in the configuration.
    pub span: Span,
}
