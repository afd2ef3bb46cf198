//! Traces of requests, and the collector that gets them.

use std::time::Duration;

use super::{FileAt, Span};

/// The traces that requests have.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// The share of the traces that begin here that is sampled, in millionths.
    pub sampling_ppm: u32,
    /// Whether the sampled flag of a request's own `traceparent` decides.
    pub parent_based: bool,
    /// The collector of spans.
    pub otlp: Otlp,
}

/// A collector that gets spans by OTLP over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Otlp {
    /// The place that spans are posted to.
    pub endpoint: CollectorEndpoint,
    /// Header fields of each request, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The authorities that are believed; none for the system's.
    pub ca_file: Option<FileAt>,
    /// The attributes of the resource, `service.name` first.
    pub resource: Vec<(String, String)>,
    /// The longest time that a request to the collector and its answer may take.
    pub timeout: Duration,
    /// Spans that may wait to be sent.
    pub max_queue_size: usize,
    /// The most spans of one request to the collector.
    pub max_export_batch_size: usize,
    /// The longest time that spans wait for others.
    pub schedule_delay: Duration,
}

/// A collector's URL in its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorEndpoint {
    /// Whether it is asked over TLS.
    pub is_secure: bool,
    /// The host, without brackets.
    pub host: String,
    /// The port that it listens on.
    pub port: u16,
    /// The host and port for the `Host` field.
    pub authority: String,
    /// The path, with a query if there is one.
    pub path: String,
    /// The place in the configuration where it is written.
    pub span: Span,
}
