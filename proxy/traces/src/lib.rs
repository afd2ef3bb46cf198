//! Traces of requests: their context (W3C Trace Context), their spans, and the way of the spans to
//! a collector (OTLP over HTTP).
//!
//! A worker encodes the spans of a sampled request when the request is over, and leaves them in a
//! bounded queue. A thread sends them: no request waits for the collector.

#![forbid(unsafe_code)]

mod collector;
mod context;
mod export;
mod metrics;
mod protobuf;
mod retry;
mod span;
mod state;

use std::sync::Arc;

use http::HeaderMap;
use sprat_config::resolved::{Config, Tracing, TrustedCa};
use sprat_net::problem::Problem;
use sprat_net::tls::client_config;

pub use context::{SpanId, TRACEPARENT, TRACESTATE, TraceContext, TraceId};
pub use export::{Exporter, Queue};
pub use metrics::{TRACES, TraceStats};
pub use span::{Attributes, Kind, Span, Spans, bounded};

use context::Parent;

/// The means to give requests their place in traces, under one configuration.
#[derive(Clone, Debug)]
pub struct Tracer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sampling_ppm: u32,
    parent_based: bool,
    queue: Queue,
}

/// A request's place in a trace.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The trace, and the span of the request.
    pub context: TraceContext,
    /// The span that the request came from, if it came with one.
    pub parent: Option<SpanId>,
    /// The `tracestate` of other systems, if the request came with one.
    pub state: Option<String>,
}

/// The number of millionths in a whole.
const MILLION: u32 = 1_000_000;

impl Tracer {
    /// Starts a tracer, and the thread that sends sampled spans to the configured collector.
    ///
    /// # Errors
    ///
    /// The trusted authorities cannot be read, or no thread can be had.
    pub fn start(config: &Tracing, stats: &Arc<TraceStats>) -> anyhow::Result<(Self, Exporter)> {
        let (queue, exporter) = Exporter::start(&config.otlp, stats)?;
        let own = Shared {
            sampling_ppm: config.sampling_ppm,
            parent_based: config.parent_based,
            queue,
        };
        Ok((Self(Arc::new(own)), exporter))
    }

    /// Gives a request with these header fields its place: in the trace that it came with, or at
    /// the beginning of a new one.
    pub fn begin(&self, headers: &HeaderMap) -> Begun {
        let parent = Parent::of(headers);
        let sampled = match &parent {
            Some(parent) if self.0.parent_based => parent.is_sampled,
            _ => fastrand::u32(..MILLION) < self.0.sampling_ppm,
        };
        let span = SpanId::random();
        match parent {
            Some(parent) => Begun {
                context: TraceContext {
                    trace: parent.trace,
                    span,
                    is_sampled: sampled,
                    is_random: parent.is_random,
                },
                parent: Some(parent.span),
                state: parent.state,
            },
            None => Begun {
                context: TraceContext {
                    trace: TraceId::random(),
                    span,
                    is_sampled: sampled,
                    is_random: false,
                },
                parent: None,
                state: None,
            },
        }
    }

    /// Queues a request's spans to be sent. Drops and counts them if there is no room.
    pub fn send(&self, spans: Spans) {
        self.0.queue.send(spans);
    }
}

/// Returns whether the trace context of a request with these header fields has it sampled; none if
/// chance decides.
pub fn is_sampled_by_parent(config: &Tracing, headers: &HeaderMap) -> Option<bool> {
    let parent = Parent::of(headers).filter(|_| config.parent_based);
    parent.map(|own| own.is_sampled)
}

/// Returns the trace that a request with these header fields came with.
pub fn parent_trace(headers: &HeaderMap) -> Option<TraceId> {
    Parent::of(headers).map(|own| own.trace)
}

/// Returns the problems of a configuration's `tracing`: a file of authorities that cannot be read.
pub fn inspect(config: &Config) -> Vec<Problem> {
    let file = config
        .tracing
        .as_ref()
        .and_then(|own| own.otlp.ca_file.as_ref());
    let read =
        |file: &sprat_config::resolved::FileAt| client_config(TrustedCa::File(file.clone())).err();
    file.and_then(read).into_iter().collect()
}
