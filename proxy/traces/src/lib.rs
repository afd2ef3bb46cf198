//! Traces of requests: which one a request takes part in (W3C Trace Context), what its
//! spans tell, and how a collector gets them (OTLP over HTTP).
//!
//! A worker encodes the spans of a sampled request when that is over, and leaves them in a
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

/// Gives requests their place in traces, as one configuration says.
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
    /// Starts to send what is sampled to the collector of a configuration.
    ///
    /// # Errors
    ///
    /// The authorities that are to be believed cannot be read, or no thread can be had.
    pub fn start(config: &Tracing, stats: &Arc<TraceStats>) -> anyhow::Result<(Self, Exporter)> {
        let (queue, exporter) = Exporter::start(&config.otlp, stats)?;
        let own = Shared {
            sampling_ppm: config.sampling_ppm,
            parent_based: config.parent_based,
            queue,
        };
        Ok((Self(Arc::new(own)), exporter))
    }

    /// Gives a request with these fields its place: in the trace that it came with, or at
    /// the beginning of one.
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

    /// Queues a request's spans to be sent; they are dropped, and counted, if there is no
    /// room.
    pub fn send(&self, spans: Spans) {
        self.0.queue.send(spans);
    }
}

/// Returns whether a request with these fields would be sampled, and what of it decides:
/// none if chance does.
pub fn is_sampled_by_parent(config: &Tracing, headers: &HeaderMap) -> Option<bool> {
    let parent = Parent::of(headers).filter(|_| config.parent_based);
    parent.map(|own| own.is_sampled)
}

/// Returns the trace that a request with these fields came with.
pub fn parent_trace(headers: &HeaderMap) -> Option<TraceId> {
    Parent::of(headers).map(|own| own.trace)
}

/// Tells what is wrong with what a configuration says of traces.
pub fn inspect(config: &Config) -> Vec<Problem> {
    let file = config
        .tracing
        .as_ref()
        .and_then(|own| own.otlp.ca_file.as_ref());
    let read =
        |file: &sprat_config::resolved::FileAt| client_config(TrustedCa::File(file.clone())).err();
    file.and_then(read).into_iter().collect()
}
