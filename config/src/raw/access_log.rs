//! Access logs, as they are written.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::Timeout;
use crate::actions::template_fault;
use crate::containers::{ByName, List, Or};
use crate::decode::{Context, Decode, Field, Of, TextClass};
use crate::log_fields::{LOG_FIELDS, LogField};
use crate::names::{FilePath, Name, Pseudonym};
use crate::record::{choices, record};
use crate::resolved::{FACILITIES, FixedFormat, SyslogAddress};
use crate::scalars::{Count, Fault, Leaf};
use crate::template::Template;
use crate::tree::{Kind, Node};
use crate::words::words;

/// Logs that one configuration may have.
pub(crate) const LOGS_MAX: usize = 8;

record! {
    /// A log with a line for each request.
    closed struct AccessLog {
        /// Where the log goes: to standard output, or to a file. Sprat appends to the file, and
        /// reopens it on SIGUSR1.
        default("stdout") path: Or<Stdout, FilePath>,
        /// Syslog server that gets the log, in place of a `path`.
        optional syslog: Syslog,
        /// Format of each line.
        default("json") format: AccessLogFormat,
        /// Filters on requests. A request has a line if one of them matches it. If absent, every
        /// request has a line.
        optional filters: List<LogFilter, 1>,
    }

    /// A syslog server, which gets a datagram for each line.
    closed struct Syslog {
        /// Address of the server: a local socket, or an IP address with a port, for UDP.
        default("/dev/log") address: SyslogPlace,
        /// Facility of the messages, by which the server can sort them.
        default("local7") facility: Facility,
        /// Name of the program in the messages.
        default("sprat") app_name: Pseudonym,
    }

    /// A format of the operator's own. It has one of the two keys.
    closed struct FreeFormat {
        /// A JSON object: each key has text with fields, `%FIELD%`. If the text is a single field,
        /// the value has that field's type, and is `null` if the field has no value.
        optional json: ByName<LogTemplate>,
        /// Text with fields, `%FIELD%`. Characters that would end a line or a quotation are written
        /// as `\xHH`. A field without a value is `-`.
        optional text: LogTemplate,
    }

    /// A filter. It matches a request if all conditions that are given hold.
    closed struct LogFilter {
        /// The status is this or higher.
        optional min_status: Count<100, 599>,
        /// The time from the request's head to the end of the response is this or longer.
        optional min_duration: Timeout,
        /// The request's class is one of these.
        optional classes: List<Name, 1>,
    }
}

choices! {
    FixedFormat as "FixedFormat": "a format" {
        /// One JSON object per line.
        "json" => Self::Json,
        /// The combined log format, followed by size, wait, slowdown, class, duration and endpoint.
        "combined" => Self::Combined,
    }
}

words! {
    /// The standard output of the process.
    Stdout = "stdout",
}

/// The format of a line: one of Sprat's, or the operator's own.
#[derive(Clone, Debug)]
pub(crate) enum AccessLogFormat {
    Fixed(FixedFormat),
    Free(FreeFormat),
}

impl Decode for AccessLogFormat {
    fn expected() -> Cow<'static, str> {
        format!("{} or {}", FixedFormat::expected(), FreeFormat::expected()).into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let fixed = generator.subschema_for::<Of<FixedFormat>>();
        let free = generator.subschema_for::<Of<FreeFormat>>();
        json_schema!({"anyOf": [fixed, free]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Mapping(_) => FreeFormat::decode(node, cx).map(Self::Free),
            Kind::Sequence(_) | Kind::Scalar(_) => FixedFormat::decode(node, cx).map(Self::Fixed),
        }
    }
}

/// One log, or a list of them.
#[derive(Clone, Debug)]
pub(crate) struct AccessLogs(pub(crate) Vec<Field<AccessLog>>);

impl Decode for AccessLogs {
    fn expected() -> Cow<'static, str> {
        format!("{}, or a list of these", AccessLog::expected()).into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Of<AccessLog>>();
        let mut list = generator.subschema_for::<Of<List<AccessLog, 1>>>();
        list.insert("maxItems".to_owned(), LOGS_MAX.into());
        json_schema!({"anyOf": [one, list]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Sequence(_) => List::<_, 1>::decode(node, cx).map(|list| Self(list.0)),
            Kind::Mapping(_) => Some(Self(vec![Field::decode(node, cx)])),
            Kind::Scalar(_) => {
                let text = cx.scalar(node, &Self::expected)?;
                let found = crate::decode::Found::Text(&text.text);
                cx.mismatch(&text.span, &Self::expected(), &found);
                None
            }
        }
    }
}

/// The address that a syslog server listens at.
#[derive(Clone, Debug)]
pub(crate) struct SyslogPlace(pub(crate) SyslogAddress);

impl Leaf for SyslogPlace {
    fn expected() -> Cow<'static, str> {
        "a local socket's path, such as /dev/log, or an IP address with a port".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^/.|^[0-9.]+:[0-9]{1,5}$|^\\[[0-9A-Fa-f:.]+\\]:[0-9]{1,5}$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let parsed = text.parse().ok().filter(|_| text != "/");
        parsed.map(Self).ok_or(Fault::PLAIN)
    }
}

/// A facility of syslog, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facility(pub(crate) u8);

impl Leaf for Facility {
    fn expected() -> Cow<'static, str> {
        "a facility of syslog, such as daemon or local0".into()
    }

    fn accepts() -> Value {
        json!({"enum": FACILITIES})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let number = (0..).zip(FACILITIES).find(|(_, name)| *name == text);
        number.map(|(number, _)| Self(number)).ok_or(Fault::PLAIN)
    }
}

/// Bytes of a template.
const TEMPLATE_MAX: usize = 4096;

/// Text with fields of a request.
#[derive(Clone, Debug)]
pub(crate) struct LogTemplate(pub(crate) Template<LogField>);

impl Leaf for LogTemplate {
    fn expected() -> Cow<'static, str> {
        "text with fields, such as %REQ(:PATH)%".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[\\t -~]{1,4096}$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let is_plain = |b: u8| b == b'\t' || (b' '..=b'~').contains(&b);
        if !(1..=TEMPLATE_MAX).contains(&text.len()) || !text.bytes().all(is_plain) {
            return Err(Fault::PLAIN);
        }
        let template = Template::<LogField>::parse(text).map_err(|fault| {
            let names: Vec<_> = LOG_FIELDS.iter().map(|row| row.name).collect();
            template_fault(fault, &names, "docs/access-log.md")
        })?;
        if let Some(name) = template.variables().find_map(LogField::secret) {
            let message = format!("`{name}` holds a secret, which no log may have");
            return Err(Fault::new(message, "remove it; `%USER%` tells who asked"));
        }
        Ok(Self(template))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_ascii_with_tabs() {
        let is = |text: &str| LogTemplate::parse(text, TextClass::String).is_ok();
        let longest = "a".repeat(TEMPLATE_MAX);
        for good in ["a", "a\tb ~", "%REQ(:PATH)%\t%USER%", &longest] {
            assert!(is(good), "{good:?}");
        }
        for bad in [
            "",
            "a\nb",
            "\u{1f}",
            "\u{7f}",
            "\u{e9}",
            &format!("{longest}a"),
        ] {
            assert!(!is(bad), "{bad:?}");
        }
    }
}
