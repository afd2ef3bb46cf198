//! W3C Trace Context: a request's `traceparent` and `tracestate`, read as the standard's level 1
//! demands.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::state;

/// The field that names the trace and the span that a request came from.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The field in which each system passes on its own data about the trace.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// The flag of a trace whose identifier was drawn at random (level 2).
const RANDOM: u8 = 2;

/// The bytes of a `traceparent` of version 00: `00-32HEX-16HEX-2HEX`.
const LENGTH: usize = 55;

/// A trace's identifier: 128 bits, never zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId(u128);

/// A span's identifier: 64 bits, never zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpanId(u64);

impl TraceId {
    /// Draws an identifier at random.
    pub fn random() -> Self {
        Self(fastrand::u128(1..))
    }

    /// Returns the identifier's bytes, the most significant first, as in its text.
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Returns the identifier's text, as hexadecimal digits in ASCII.
    pub fn digits(self) -> [u8; 32] {
        let mut text = [0; 32];
        let (first, last) = text.split_at_mut(16);
        first.copy_from_slice(&digits((self.0 >> 64) as u64));
        last.copy_from_slice(&digits(self.0 as u64));
        text
    }
}

impl SpanId {
    /// Draws an identifier at random.
    pub fn random() -> Self {
        Self(fastrand::u64(1..))
    }

    /// Returns the identifier's bytes, the most significant first, as in its text.
    pub fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Returns the identifier's text, as hexadecimal digits in ASCII.
    pub fn digits(self) -> [u8; 16] {
        digits(self.0)
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

/// A span and its trace, as they are passed on to other systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace that the span belongs to.
    pub trace: TraceId,
    /// The span's own identifier.
    pub span: SpanId,
    /// Whether spans of the trace are recorded.
    pub is_sampled: bool,
    /// Whether the trace's identifier is known to be drawn at random.
    pub is_random: bool,
}

impl TraceContext {
    /// Returns the value of `traceparent` for a request that is made under `span`.
    pub fn traceparent(&self, span: SpanId) -> HeaderValue {
        let flags = u8::from(self.is_sampled) | (u8::from(self.is_random) * RANDOM);
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        text[3..35].copy_from_slice(&self.trace.digits());
        text[36..52].copy_from_slice(&span.digits());
        text[54] |= flags;
        HeaderValue::from_bytes(&text).expect("hexadecimal digits and hyphens")
    }
}

/// The trace context that a request came with.
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
    /// Reads the trace context that a request came with. Returns none if its `traceparent` is
    /// absent, there twice, or malformed; `tracestate` is not looked at then.
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

    /// Reads the value of a `traceparent`. A later version is read as far as version 00 defines it
    /// (3.2.3 "Versioning of traceparent").
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

/// Returns the hexadecimal digits of a value, the highest first. Eight digits are made at a time:
/// each four bits become a byte, and a byte above nine becomes a letter.
fn digits(value: u64) -> [u8; 16] {
    const ONES: u64 = u64::MAX / 255;
    let half = |value: u64| {
        let pairs = (value | (value << 16)) & 0x0000_ffff_0000_ffff;
        let bytes = (pairs | (pairs << 8)) & 0x00ff_00ff_00ff_00ff;
        let nibbles = (bytes | (bytes << 4)) & (ONES * 0x0f);
        let letters = ((nibbles + ONES * 6) >> 4) & ONES;
        nibbles + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)
    };
    let both = (u128::from(half(value >> 32)) << 64) | u128::from(half(value & 0xffff_ffff));
    both.to_be_bytes()
}

/// Reads hexadecimal digits; letters must be in lower case.
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
    fn digits_are_those_that_are_shown() {
        for value in [0, 1, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX] {
            assert_eq!(digits(value), *format!("{value:016x}").as_bytes());
            let trace = TraceId(u128::from(value) << 64 | u128::from(!value));
            assert_eq!(trace.digits(), *trace.to_string().as_bytes());
        }
        for shift in 0..64 {
            let value = 0x9ac3_f5a0_1b2d_4e68_u64.rotate_left(shift);
            assert_eq!(digits(value), *format!("{value:016x}").as_bytes());
        }
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
