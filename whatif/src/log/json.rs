//! Logs with an object of JSON in each line: Sprat's, Caddy's, Envoy's.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use sprat_config::units::parse_duration;

use super::clock::{self, Stamp};
use super::entry::{Entry, Fault};

/// Sprat's own access log; the time is that of the request.
#[derive(Deserialize)]
struct Sprat<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    bytes: Amount,
    /// The field that no other log has.
    #[serde(rename = "size_source", borrow)]
    _size_source: Cow<'a, str>,
}

/// Caddy's access log; the time is that of the response's end.
#[derive(Deserialize)]
struct Caddy<'a> {
    #[serde(borrow)]
    ts: Moment<'a>,
    #[serde(borrow)]
    duration: Span<'a>,
    size: Amount,
    #[serde(rename = "status")]
    _status: Amount,
}

/// Envoy's access log with the names of its fields as keys; the time is that of the
/// request.
#[derive(Deserialize)]
struct Envoy<'a> {
    #[serde(borrow)]
    start_time: Cow<'a, str>,
    bytes_sent: Amount,
    #[serde(rename = "response_code")]
    _response_code: Amount,
}

pub(super) fn read_sprat(line: &[u8]) -> Result<Entry, Fault> {
    let line: Sprat<'_> = parse(line)?;
    let stamp = clock::rfc3339(&line.time);
    entry(stamp, &line.time, 0, line.bytes)
}

pub(super) fn read_caddy(line: &[u8]) -> Result<Entry, Fault> {
    let line: Caddy<'_> = parse(line)?;
    let (stamp, text) = match &line.ts {
        Moment::Number(value) => (clock::unix(*value), Cow::Owned(value.to_string())),
        Moment::Text(text) => (clock::rfc3339(text), Cow::Borrowed(&**text)),
    };
    let duration_s = match &line.duration {
        Span::Number(value) if value.fract() == 0.0 && *value >= NANOS_FROM => Some(value / 1e9),
        Span::Number(seconds) => Some(*seconds),
        Span::Text(text) => parts_s(text),
    };
    let before_ns = match duration_s.filter(|seconds| (0.0..1e9).contains(seconds)) {
        Some(seconds) => (seconds * 1e9).round() as u64,
        None => return Err(Fault::Json("`duration` is no span of time".to_owned())),
    };
    entry(stamp, &text, before_ns, line.size)
}

/// The number from which on a whole number is a span in nanoseconds: one microsecond. A response
/// that took as many seconds, and no part of one more, would be a marvel. Of milliseconds a number
/// cannot be told from either, and is read wrongly.
const NANOS_FROM: f64 = 1000.0;

/// Reads a span of time as Go writes it, in seconds: numbers with their units, one after the other,
/// such as `1.5ms` or `1m2.5s`.
fn parts_s(text: &str) -> Option<f64> {
    let text = text.replace('µ', "u");
    let mut rest = text.as_str();
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let unit = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
        let unit_len = rest[unit..].find(|letter: char| letter.is_ascii_digit());
        let (part, more) = rest.split_at(unit_len.map_or(rest.len(), |len| unit + len));
        sum = sum.checked_add(parse_duration(part).ok()?)?;
        rest = more;
    }
    (!text.is_empty()).then_some(sum.as_secs_f64())
}

pub(super) fn read_envoy(line: &[u8]) -> Result<Entry, Fault> {
    let line: Envoy<'_> = parse(line)?;
    let stamp = clock::rfc3339(&line.start_time);
    entry(stamp, &line.start_time, 0, line.bytes_sent)
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // The line is known; the column helps where the line is no JSON.
        Fault::Json(match error.is_data() {
            true => text.split(" at line ").next().unwrap_or(&text).to_owned(),
            false => format!("no JSON: {}", text.replace("line 1 ", "")),
        })
    })
}

fn entry(
    stamp: Option<Stamp>,
    text: &str,
    before_ns: u64,
    Amount(bytes): Amount,
) -> Result<Entry, Fault> {
    let stamp = stamp.ok_or_else(|| Fault::BadStamp(text.to_owned()))?;
    Ok(Entry {
        stamp_ns: stamp.ns,
        grain_ns: stamp.grain_ns,
        before_ns,
        bytes,
    })
}

/// A number of JSON, or the same as a string; `-` and null are 0.
struct Amount(u64);

/// A time as a number since 1970, or as a text of RFC 3339.
#[derive(Deserialize)]
#[serde(untagged)]
enum Moment<'a> {
    Number(f64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

/// A span of time as a number, or as a text with its unit. `duration_format` has Caddy write
/// seconds or nanoseconds as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Span<'a> {
    Number(f64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not negative")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Amount, E> {
        Ok(Amount(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Amount, E> {
        match (0.0..1e18).contains(&value) && value.fract() == 0.0 {
            true => Ok(Amount(value as u64)),
            false => Err(E::invalid_value(de::Unexpected::Float(value), &self)),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Amount, E> {
        Ok(Amount(0))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        let value = if text == "-" {
            Some(0)
        } else {
            text.parse().ok()
        };
        let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
        value.map(Amount).ok_or_else(wrong)
    }
}
