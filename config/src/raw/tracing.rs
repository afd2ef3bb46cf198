//! Traces of requests, as they are written.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Timeout;
use crate::addresses::CollectorUrl;
use crate::containers::ByName;
use crate::decode::TextClass;
use crate::names::FilePath;
use crate::numbers::RequestsPercent;
use crate::record::record;
use crate::scalars::{Count, Fault, Flag, Leaf};
use crate::texts::texts;

record! {
    /// Traces of requests. A request is part of the trace in its `traceparent` (W3C Trace Context),
    /// or begins a new one.
    closed struct Tracing {
        /// A collector that gets the spans of sampled traces by OTLP over HTTP.
        required otlp: Otlp,
    }

    /// A collector that Sprat sends spans to by the OpenTelemetry protocol (OTLP), as protobuf over
    /// HTTP.
    closed struct Otlp {
        /// URL that Sprat posts spans to. Without a path in it, the path is `/v1/traces`.
        required endpoint: CollectorUrl,
        /// Header fields of each request to the collector, such as an API key. The admin listener
        /// does not show them.
        optional headers: ByName<SecretValue>,
        /// File with the certificate authorities that Sprat trusts for a collector with `https`, in
        /// PEM. Those that the system trusts if absent.
        optional ca_file: FilePath,
        /// Value of `service.name` in the resource.
        default("sprat") service_name: AttributeText,
        /// More attributes of the resource, beside `service.name`, such as
        /// `deployment.environment.name`.
        optional resource_attributes: ByName<AttributeText>,
        /// Share of the traces to sample, of those that begin at Sprat.
        default("1%") sampling: RequestsPercent,
        /// If a request has a `traceparent`, let the sampled flag in it decide. With `false`,
        /// `sampling` decides for those requests, too, so that clients cannot have all of their
        /// requests traced.
        default("true") parent_based: Flag,
        /// Time for a request to the collector and its answer.
        default("10s") timeout: Timeout,
        /// Spans that wait to be sent. Spans over it are dropped, and counted.
        default("2048") max_queue_size: Count<1, 1_000_000>,
        /// Spans in one request to the collector. When so many wait, Sprat sends them.
        default("512") max_export_batch_size: Count<1, 100_000>,
        /// Longest time that spans wait for others. Then Sprat sends them.
        default("5s") schedule_delay: Timeout,
    }
}

/// The value of a header field that may be a secret.
#[derive(Clone, Debug)]
pub(crate) struct SecretValue(pub(crate) String);

impl Leaf for SecretValue {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        "the value of a header field".into()
    }

    fn accepts() -> Value {
        json!({"anyOf": [{"type": "string", "pattern": "^[!-~]([ -~]{0,4094}[!-~])?$"}, {"type": "number"}]})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let plain = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        let trimmed = text.trim() == text;
        match (1..=4096).contains(&text.len()) && plain && trimmed {
            true => Ok(Self(text.to_owned())),
            // Without the value: it may be a secret.
            false => Err(Fault::new(
                "this is no value of a header field",
                "use 1 to 4096 visible characters of ASCII, and spaces between them",
            )),
        }
    }
}

texts! {
    /// The value of an attribute of the resource.
    AttributeText: "text of 1 to 256 characters",
        {"pattern": r"^[^\u0000-\u001f]{1,256}$"},
        |text| {
            let fits = (1..=256).contains(&text.chars().count());
            fits && !text.chars().any(|c| c < ' ')
        };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_a_line_of_text() {
        let read = |text: &str| AttributeText::parse(text, TextClass::String).ok();
        let longest = "\u{e9}".repeat(256);
        for good in ["a", "the web ~", "\u{e9}", &longest] {
            assert_eq!(read(good).map(|own| own.0).as_deref(), Some(good));
        }
        for bad in ["", "a\tb", "a\u{1f}", "\n", &format!("{longest}a")] {
            assert!(read(bad).is_none(), "{bad:?}");
        }
    }
}
