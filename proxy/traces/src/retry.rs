//! The decision about spans that were sent: taken, sent again after a pause, or lost, as the OTLP
//! specification says (1.x, "OTLP/HTTP Response"). Pure.

use std::time::Duration;

use crate::protobuf::{Value, next};

/// The longest first pause before spans are sent again; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause of Sprat's own; the collector may ask for a longer one.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The sum of a batch's pauses beyond which it is given up; the OpenTelemetry Collector's default.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(300);

/// The meaning of a collector's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The spans are taken, except for those that the collector rejected.
    Taken {
        /// The number of spans that were not taken.
        rejected: u64,
        /// The collector's reason for the rejection, or its warning.
        message: String,
    },
    /// The spans may be sent again, after the pause that the collector asks for, if any.
    Later(Option<Duration>),
    /// The spans are refused, and would be again.
    Refused,
}

impl Outcome {
    /// Returns the outcome of a status, with the pause `after` from `Retry-After` and the body.
    pub(crate) fn of(status: u16, after: Option<Duration>, body: &[u8]) -> Self {
        match status {
            200..=299 => {
                let (rejected, message) = rejected(body).unwrap_or_default();
                Self::Taken { rejected, message }
            }
            429 | 502 | 503 | 504 => Self::Later(after),
            _ => Self::Refused,
        }
    }
}

/// Reads the rejected spans and the message of `ExportTraceServiceResponse.partial_success`.
fn rejected(mut body: &[u8]) -> Option<(u64, String)> {
    let mut told = (0, String::new());
    while let Some((field, value)) = next(&mut body) {
        let (1, Value::Bytes(mut partial)) = (field, value) else {
            continue;
        };
        while let Some(field) = next(&mut partial) {
            match field {
                (1, Value::Number(spans)) => told.0 = spans,
                (2, Value::Bytes(text)) => {
                    told.1 = crate::bounded(&String::from_utf8_lossy(text)).to_owned();
                }
                _ => {}
            }
        }
    }
    Some(told)
}

/// Reads the pause that `Retry-After` asks for, in seconds or until a date (RFC 9110 10.2.3).
pub(crate) fn retry_after(text: &str, now: jiff::Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

/// The pauses between the attempts to send one batch.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    count: u32,
    total: Duration,
}

impl Pauses {
    /// Returns the pause before the spans are sent again; none if they are given up. A `random`
    /// number spreads batches that failed together.
    pub(crate) fn next(&mut self, asked: Option<Duration>, random: u64) -> Option<Duration> {
        let bound = FIRST_PAUSE
            .saturating_mul(1 << self.count.min(5))
            .min(MAX_PAUSE);
        let half = bound / 2;
        let jitter = half.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64);
        let pause = (half + jitter).max(asked.unwrap_or_default());
        self.count += 1;
        // A collector may ask for more than there is.
        self.total = self.total.saturating_add(pause);
        (self.total <= GIVEN_UP_AFTER).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_status_says_what_becomes_of_spans() {
        let taken = Outcome::Taken {
            rejected: 0,
            message: String::new(),
        };
        let after = Some(Duration::from_secs(7));
        for (status, outcome) in [
            (200, taken.clone()),
            (202, taken),
            (429, Outcome::Later(after)),
            (502, Outcome::Later(after)),
            (503, Outcome::Later(after)),
            (504, Outcome::Later(after)),
            (301, Outcome::Refused),
            (400, Outcome::Refused),
            (401, Outcome::Refused),
            (404, Outcome::Refused),
            (413, Outcome::Refused),
            (500, Outcome::Refused),
            (501, Outcome::Refused),
        ] {
            assert_eq!(Outcome::of(status, after, b""), outcome, "{status}");
        }
    }

    #[test]
    fn a_part_may_be_rejected() {
        let answer = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: 3,
                error_message: "too old".to_owned(),
            }),
        };
        let outcome = Outcome::of(200, None, &answer.encode_to_vec());
        let message = "too old".to_owned();
        assert_eq!(
            outcome,
            Outcome::Taken {
                rejected: 3,
                message
            }
        );
        let outcome = Outcome::of(200, None, b"<html>");
        assert!(matches!(outcome, Outcome::Taken { rejected: 0, .. }));
    }

    #[test]
    fn collectors_say_when_to_come_again() {
        let now: jiff::Timestamp = "2026-11-25T12:00:00Z".parse().unwrap();
        let after = |text| retry_after(text, now);
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        let date = "Wed, 25 Nov 2026 12:00:30 GMT";
        assert_eq!(after(date), Some(Duration::from_secs(30)));
        let past = "Wed, 25 Nov 2026 11:00:00 GMT";
        assert_eq!(after(past), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn pauses_double_and_end() {
        let mut pauses = Pauses::default();
        let all = std::iter::from_fn(|| pauses.next(None, u64::MAX));
        let all: Vec<_> = all.map(|own| own.as_secs_f64().round()).collect();
        assert_eq!(all[..7], [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(all.len(), 13);
        let mut pauses = Pauses::default();
        assert_eq!(pauses.next(None, 0), Some(Duration::from_millis(500)));
        let asked = Some(Duration::from_secs(200));
        assert_eq!(pauses.next(asked, 0), asked);
        assert_eq!(pauses.next(asked, 0), None);
    }

    #[test]
    fn a_pause_without_measure_is_given_up() {
        let now: jiff::Timestamp = "2026-11-25T12:00:00Z".parse().unwrap();
        let asked = retry_after(&u64::MAX.to_string(), now);
        assert_eq!(asked, Some(Duration::from_secs(u64::MAX)));
        let mut pauses = Pauses::default();
        assert!(pauses.next(None, 0).is_some());
        for _ in 0..2 {
            assert_eq!(pauses.next(asked, 0), None);
        }
    }
}
