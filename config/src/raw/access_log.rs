//! Access logs, as they are written.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::Timeout;
use crate::actions::template_fault;
use crate::containers::{List, Named, Or, Word};
use crate::decode::{Class, Context, Decode, Field, Of};
use crate::log_fields::{LOG_FIELDS, LogField};
use crate::names::{FilePath, Name, Pseudonym};
use crate::record::{choices, record};
use crate::resolved::{FACILITIES, FixedFormat, SyslogAddress};
use crate::scalars::{Count, Fault, Leaf};
use crate::template::Template;
use crate::tree::{Kind, Node};

/// Logs that one configuration may have.
pub(crate) const LOGS_MAX: usize = 8;

record! {
    /// A log with a line for each request.
    closed struct AccessLog {
        /// Where it goes: standard output, or a file that is appended to and
        /// reopened on SIGUSR1.
        default("stdout") path: Or<Stdout, FilePath>,
        /// A syslog server that it goes to, in place of a `path`.
        optional syslog: Syslog,
        /// How a line looks.
        default("json") format: AccessLogFormat,
        /// Which requests have a line: those that one of these filters takes;
        /// all of them if there is none.
        optional filters: List<LogFilter, 1>,
    }

    /// A syslog server, which gets a datagram for each line.
    closed struct Syslog {
        /// Where it listens: a local socket, or an IP address with a port, for UDP.
        default("/dev/log") address: SyslogPlace,
        /// What kind of program the messages are from, for the server to sort by.
        default("local7") facility: Facility,
        /// What messages say that they are from.
        default("sprat") app_name: Pseudonym,
    }

    /// Fields of a line that the operator chooses. One of both keys.
    closed struct FreeFormat {
        /// An object of JSON: for each key text with fields, `%FIELD%`. A value that is
        /// one field alone has its type, and is `null` where the field has no value.
        optional json: Named<LogTemplate>,
        /// Text with fields, `%FIELD%`. What would end a line or a quotation is written
        /// as `\xHH`; a field without a value is `-`.
        optional text: LogTemplate,
    }

    /// Takes a request if all that is given here holds.
    closed struct LogFilter {
        /// The status is at least this.
        optional min_status: Count<100, 599>,
        /// From the request's head to the end of the response it took at least so
        /// long.
        optional min_duration: Timeout,
        /// The request's class is one of these.
        optional classes: List<Name, 1>,
    }
}

choices! {
    FixedFormat as "FixedFormat": "a format" {
        /// One JSON object a line.
        "json" => Self::Json,
        /// The combined log format, then size, wait, slowdown, class, duration and
        /// endpoint.
        "combined" => Self::Combined,
    }
}

/// The standard output of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stdout;

impl Word for Stdout {
    const WORD: &'static str = "stdout";
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

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
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

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
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

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
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
        let is = |text: &str| LogTemplate::parse(text, Class::String).is_ok();
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
