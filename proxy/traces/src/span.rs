//! Spans in the encoding in which they are sent: `opentelemetry.proto.trace.v1`, whose field
//! numbers stand here.

use crate::context::{SpanId, TraceContext};
use crate::protobuf;

/// The most bytes of a text in a span; a longer one is cut.
const MAX_TEXT: usize = 1024;

/// The flags of spans about their parent: whether it is known where it is, and whether it is in
/// another process.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The status of a span that failed (`Status.StatusCode`).
const STATUS_ERROR: u64 = 2;

/// The part that a span has in a trace (`Span.SpanKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work within the process.
    Internal,
    /// A request that Sprat served.
    Server,
    /// A request that Sprat made.
    Client,
}

impl Kind {
    fn number(self) -> u64 {
        match self {
            Self::Internal => 1,
            Self::Server => 2,
            Self::Client => 3,
        }
    }
}

/// A span of a trace, without its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The identifier of the span.
    pub id: SpanId,
    /// The span that this one is within, if there is one.
    pub parent: Option<SpanId>,
    /// Whether the parent is a span of another process.
    pub is_parent_remote: bool,
    /// The span's name, which is one of a few.
    pub name: &'a str,
    /// The part that the span has in the trace.
    pub kind: Kind,
    /// The span's begin, in nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// The span's end, in nanoseconds since 1970.
    pub ended_unix_ns: u64,
    /// The `tracestate` of other systems.
    pub state: Option<&'a str>,
    /// Whether the span's work failed.
    pub is_error: bool,
}

/// The encoded spans of one request.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    encoded: Vec<u8>,
    count: usize,
}

impl Spans {
    /// Adds a span of the trace in `context`, with the attributes that `tell` writes.
    pub fn add(
        &mut self,
        context: &TraceContext,
        span: &Span<'_>,
        tell: impl FnOnce(&mut Attributes<'_>),
    ) {
        self.count += 1;
        // ScopeSpans.spans
        protobuf::message(2, &mut self.encoded, |out| {
            protobuf::bytes(1, &context.trace.bytes(), out);
            protobuf::bytes(2, &span.id.bytes(), out);
            if let Some(state) = span.state {
                protobuf::bytes(3, state.as_bytes(), out);
            }
            if let Some(parent) = span.parent {
                protobuf::bytes(4, &parent.bytes(), out);
            }
            protobuf::bytes(5, bounded(span.name).as_bytes(), out);
            protobuf::number(6, span.kind.number(), out);
            protobuf::fixed64(7, span.began_unix_ns, out);
            protobuf::fixed64(8, span.ended_unix_ns.max(span.began_unix_ns), out);
            tell(&mut Attributes { field: 9, out });
            if span.is_error {
                protobuf::message(15, out, |out| protobuf::number(3, STATUS_ERROR, out));
            }
            let remote = if span.is_parent_remote { IS_REMOTE } else { 0 };
            let of_trace = u32::from(context.is_sampled) | (u32::from(context.is_random) << 1);
            protobuf::fixed32(16, of_trace | HAS_IS_REMOTE | remote, out);
        });
    }

    /// Returns the number of spans.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

/// The writer of the attributes of a span or a resource.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// The number of the field that holds the attributes.
    field: u64,
    out: &'a mut Vec<u8>,
}

impl<'a> Attributes<'a> {
    pub(crate) fn of_resource(out: &'a mut Vec<u8>) -> Self {
        Self { field: 1, out }
    }

    /// Writes an attribute that is text.
    pub fn text(&mut self, key: &str, value: &str) {
        let value = bounded(value);
        self.put(key, |out| protobuf::bytes(1, value.as_bytes(), out));
    }

    /// Writes an attribute that is text, with each sequence that is not UTF-8 replaced.
    pub fn bytes(&mut self, key: &str, value: &[u8]) {
        // What is cut off has no say in it.
        let value = &value[..value.len().min(MAX_TEXT + 4)];
        self.text(key, &String::from_utf8_lossy(value));
    }

    /// Writes an attribute that is a whole number.
    pub fn number(&mut self, key: &str, value: u64) {
        self.put(key, |out| {
            protobuf::number(3, value.min(i64::MAX as u64), out);
        });
    }

    /// Writes an attribute that is a number with a fraction.
    pub fn real(&mut self, key: &str, value: f64) {
        self.put(key, |out| protobuf::fixed64(4, value.to_bits(), out));
    }

    fn put(&mut self, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
        protobuf::message(self.field, self.out, |out| {
            protobuf::bytes(1, key.as_bytes(), out);
            protobuf::message(2, out, value);
        });
    }
}

/// Returns a text, cut between characters to the 1024 bytes that a span's text may have.
pub fn bounded(text: &str) -> &str {
    if text.len() <= MAX_TEXT {
        return text;
    }
    let is_end = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=MAX_TEXT).rev().find(is_end).unwrap_or_default();
    &text[..end]
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span as Decoded};
    use prost::Message as _;

    use super::*;
    use crate::context::TraceId;

    fn span(name: &str) -> Span<'_> {
        Span {
            id: SpanId::random(),
            parent: None,
            is_parent_remote: false,
            name,
            kind: Kind::Internal,
            began_unix_ns: 20,
            ended_unix_ns: 10,
            state: None,
            is_error: false,
        }
    }

    /// Returns the spans as OpenTelemetry's own decoder reads them.
    fn decoded(spans: &Spans) -> Vec<Decoded> {
        ScopeSpans::decode(spans.encoded()).unwrap().spans
    }

    fn context() -> TraceContext {
        TraceContext {
            trace: TraceId::random(),
            span: SpanId::random(),
            is_sampled: true,
            is_random: false,
        }
    }

    #[test]
    fn spans_are_read_as_they_were_told() {
        let (context, mut spans) = (context(), Spans::default());
        let parent = SpanId::random();
        let first = Span {
            parent: Some(parent),
            is_parent_remote: true,
            kind: Kind::Server,
            state: Some("a=b"),
            is_error: true,
            ended_unix_ns: 30,
            ..span("GET")
        };
        spans.add(&context, &first, |out| {
            out.text("text", "value");
            out.bytes("bytes", b"a\xff");
            out.number("number", 300);
            out.number("most", u64::MAX);
            out.real("real", 0.5);
        });
        spans.add(&context, &span("wait"), |_| {});
        assert_eq!(spans.count(), 2);
        let read = decoded(&spans);
        let own = &read[0];
        assert_eq!(own.trace_id, context.trace.bytes());
        assert_eq!(own.span_id, first.id.bytes());
        assert_eq!(own.parent_span_id, parent.bytes());
        assert_eq!((own.name.as_str(), own.kind), ("GET", 2));
        assert_eq!((own.start_time_unix_nano, own.end_time_unix_nano), (20, 30));
        assert_eq!((own.trace_state.as_str(), own.flags), ("a=b", 0x301));
        assert_eq!(own.status.as_ref().map(|own| own.code), Some(2));
        let told: Vec<_> = own.attributes.iter().collect();
        let value = |at: usize| told[at].value.as_ref()?.value.clone();
        assert_eq!(value(0), Some(Value::StringValue("value".to_owned())));
        assert_eq!(value(1), Some(Value::StringValue("a\u{fffd}".to_owned())));
        assert_eq!(value(2), Some(Value::IntValue(300)));
        assert_eq!(value(3), Some(Value::IntValue(i64::MAX)));
        assert_eq!(value(4), Some(Value::DoubleValue(0.5)));
        let other = &read[1];
        assert!(other.parent_span_id.is_empty() && other.status.is_none());
        assert_eq!((other.kind, other.flags), (1, 0x101));
        // No span ends before it has begun.
        assert_eq!(other.end_time_unix_nano, 20);
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let mut spans = Spans::default();
        let long = "\u{e9}".repeat(MAX_TEXT);
        spans.add(&context(), &span(&format!("a{long}")), |out| {
            out.bytes("long", format!("a{long}").as_bytes());
        });
        let read = &decoded(&spans)[0];
        assert_eq!(read.name.len(), MAX_TEXT - 1);
        let told = read.attributes[0].value.clone().and_then(|own| own.value);
        let Some(Value::StringValue(text)) = told else {
            panic!("{read:?}");
        };
        assert_eq!(text, read.name);
    }
}
