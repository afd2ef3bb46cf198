//! W3C Trace Context: what a request's `traceparent` and `tracestate` say, read as the
//! standard's level 1 demands.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::state;

/// The field that names the trace and the span that a request came from.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The field in which systems pass on what they know of the trace.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// The flag of a trace whose identifier was drawn at random (level 2).
const RANDOM: u8 = 2;

/// Bytes of a `traceparent` of version 00: `00-32HEX-16HEX-2HEX`.
const LENGTH: usize = 55;

/// A trace's identifier, which is not zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId(u128);

/// A span's identifier, which is not zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpanId(u64);

impl TraceId {
    /// Draws an identifier at random.
    pub fn random() -> Self {
        Self(fastrand::u128(1..))
    }

    /// Returns its bytes, the first of the text first.
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl SpanId {
    /// Draws an identifier at random.
    pub fn random() -> Self {
        Self(fastrand::u64(1..))
    }

    /// Returns its bytes, the first of the text first.
    pub fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A span and its trace, as they are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace that the span is of.
    pub trace: TraceId,
    /// The span in it.
    pub span: SpanId,
    /// Whether spans of the trace are recorded.
    pub is_sampled: bool,
    /// Whether the trace's identifier is known to be drawn at random.
    pub is_random: bool,
}

impl TraceContext {
    /// Returns the value of `traceparent` for who is asked under a span.
    pub fn traceparent(&self, span: SpanId) -> HeaderValue {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let flags = u8::from(self.is_sampled) | (u8::from(self.is_random) * RANDOM);
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        let mut put = |at: usize, bytes: &[u8]| {
            for (pair, byte) in text[at..].chunks_exact_mut(2).zip(bytes) {
                pair[0] = HEX[usize::from(byte >> 4)];
                pair[1] = HEX[usize::from(byte & 15)];
            }
        };
        put(3, &self.trace.bytes());
        put(36, &span.bytes());
        put(53, &[flags]);
        HeaderValue::from_bytes(&text).expect("hexadecimal digits and hyphens")
    }
}

/// What a request came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) is_sampled: bool,
    pub(crate) is_random: bool,
    /// The value of `tracestate`, if there is one that can be read.
    pub(crate) state: Option<String>,
}

impl Parent {
    /// Returns the trace that a request came with; none if its `traceparent` is absent,
    /// there twice, or malformed: what `tracestate` says is not looked at then.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return None;
        };
        let mut own = Self::read(value.as_bytes())?;
        own.state = state::read(
            headers
                .get_all(TRACESTATE)
                .iter()
                .map(HeaderValue::as_bytes),
        );
        Some(own)
    }

    /// Reads a `traceparent`. Of a version that is not known yet, what is known of this
    /// one is read (3.2.3 "Versioning of traceparent").
    fn read(text: &[u8]) -> Option<Self> {
        let hyphens = |at: &usize| text.get(*at) == Some(&b'-');
        if text.len() < LENGTH || ![2, 35, 52].iter().all(hyphens) {
            return None;
        }
        let version = u8::try_from(hex(&text[..2])?).ok()?;
        let ends = match version {
            0 => text.len() == LENGTH,
            0xff => false,
            _ => text.len() == LENGTH || text[LENGTH] == b'-',
        };
        let (trace, span) = (hex(&text[3..35])?, hex(&text[36..52])?);
        let flags = u8::try_from(hex(&text[53..LENGTH])?).ok()?;
        let is_good = ends && trace != 0 && span != 0;
        is_good.then_some(Self {
            trace: TraceId(trace),
            span: SpanId(u64::try_from(span).ok()?),
            is_sampled: flags & SAMPLED != 0,
            is_random: flags & RANDOM != 0,
            state: None,
        })
    }
}

/// Reads digits, of which those above nine are lower case.
fn hex(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0_u128, |all, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some((all << 4) | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parent(values: &[&str]) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                TRACEPARENT,
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        headers.append(TRACESTATE, HeaderValue::from_static("a=b"));
        Parent::of(&headers)
    }

    #[test]
    fn a_parent_is_read() {
        let own = parent(&[GOOD]).unwrap();
        assert_eq!(own.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(own.span.to_string(), "b7ad6b7169203331");
        assert!(own.is_sampled && !own.is_random);
        assert_eq!(own.state.as_deref(), Some("a=b"));
        let context = TraceContext {
            trace: own.trace,
            span: own.span,
            is_sampled: true,
            is_random: false,
        };
        assert_eq!(context.traceparent(own.span), GOOD);
    }

    #[test]
    fn flags_are_bits() {
        for (flags, sampled, random) in [
            ("00", false, false),
            ("01", true, false),
            ("02", false, true),
            ("03", true, true),
            ("fd", true, false),
        ] {
            let own = parent(&[&format!("{}{flags}", &GOOD[..53])]).unwrap();
            assert_eq!(
                (own.is_sampled, own.is_random),
                (sampled, random),
                "{flags}"
            );
        }
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        let own = |text: &str| parent(&[text]).is_some();
        let rest = &GOOD[2..];
        assert!(own(&format!("01{rest}")));
        assert!(own(&format!("cc{rest}-what-the-future-brings")));
        assert!(!own(&format!("cc{rest}.what")));
        assert!(!own(&format!("ff{rest}")));
    }

    #[test]
    fn what_is_malformed_is_none() {
        let with = |at: usize, byte: u8| {
            let mut text = GOOD.as_bytes().to_vec();
            text[at] = byte;
            String::from_utf8(text).unwrap()
        };
        let zero_trace = format!("00-{}{}", "0".repeat(32), &GOOD[35..]);
        let zero_span = format!("{}{}-01", &GOOD[..36], "0".repeat(16));
        let long = format!("{GOOD}-");
        for text in [
            "",
            "00",
            &GOOD[..54],
            &long,
            &format!("{GOOD} "),
            &GOOD.to_uppercase(),
            &with(0, b'.'),
            &with(2, b'_'),
            &with(35, b'0'),
            &with(40, b'g'),
            &with(54, b'G'),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(parent(&[text]), None, "{text}");
        }
        assert_eq!(parent(&[]), None);
        assert_eq!(parent(&[GOOD, GOOD]), None);
    }
}
