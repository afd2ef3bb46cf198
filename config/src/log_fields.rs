//! The fields of a line of the access log: a closed set, in one table that the decoder, the
//! documentation and the writer of lines share.
//!
//! A field that header templates have, too, has the same name here and means the same.

use crate::template::{Named, Variable};

/// A field of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogField {
    /// A field that header templates can tell, too.
    Shared(Variable),
    /// The time when Sprat had read the head of the request.
    StartTime,
    /// The start time as the common log format has it.
    StartTimeClf,
    /// The start time in seconds since 1970.
    StartTimeUnix,
    /// The time from the start time to the end of the response.
    Duration,
    /// The duration in seconds.
    DurationSeconds,
    /// The time from the start time until the client had acknowledged all of the response.
    Acknowledged,
    /// The time that the response's bytes waited for the uplink.
    Wait,
    /// The time that the request waited for an endpoint.
    QueueWait,
    /// The time that the response took, over the time that it would take on the uplink alone.
    Slowdown,
    /// Bytes of the response's body that were sent.
    BytesSent,
    /// The size that was known when the response began.
    Size,
    /// The certainty of the size: exact, estimated or unknown.
    SizeSource,
    /// The layer of the catalogue that knew the size.
    SizeLayer,
    /// The client's address with its port.
    RemoteAddressWithPort,
    /// The name of the listener.
    Listener,
    /// The version of TLS that the client speaks.
    TlsVersion,
    /// The cipher suite of the client's connection.
    TlsCipher,
    /// The identifier of the request.
    RequestId,
    /// The trace that the request is part of.
    TraceId,
    /// The request's own span in its trace.
    SpanId,
    /// The request line as the client sent it.
    RequestLine,
    /// The path that the client asked for, without its query.
    PathWithoutQuery,
    /// The path that rules were matched with, if it is another.
    MatchedPath,
    /// The priority class of the request.
    Class,
    /// The user that was found for the request.
    User,
    /// The outcome for the request's session: kept, new, moved or refused.
    Session,
    /// The reason why the request failed.
    Details,
    /// Whether the response was cut before its end.
    Aborted,
}

/// The type of a field's value in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogValue {
    /// A string of text.
    Text,
    /// A number without a unit beside it.
    Number,
    /// A value that is true or false.
    Flag,
}

impl LogValue {
    /// Returns the word for the type in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::Flag => "true or false",
        }
    }
}

/// A row of the table of fields: a field's name, type, unit and meaning.
#[derive(Debug)]
pub struct LogFieldFacts {
    /// The name, as the operator writes it between percent signs.
    pub name: &'static str,
    /// The type of its value in JSON.
    pub value: LogValue,
    /// The unit of a number; empty if there is none.
    pub unit: &'static str,
    /// The meaning of the field: what it tells of a request.
    pub meaning: &'static str,
    /// An example of the field's value.
    pub example: &'static str,
    /// The field; none for a row that stands for many fields, one for each name of a header.
    field: Option<LogField>,
}

const fn row(
    name: &'static str,
    value: LogValue,
    unit: &'static str,
    meaning: &'static str,
    example: &'static str,
    field: LogField,
) -> LogFieldFacts {
    LogFieldFacts {
        name,
        value,
        unit,
        meaning,
        example,
        field: Some(field),
    }
}

const fn text(
    name: &'static str,
    meaning: &'static str,
    example: &'static str,
    field: LogField,
) -> LogFieldFacts {
    row(name, LogValue::Text, "", meaning, example, field)
}

const fn shared(
    name: &'static str,
    meaning: &'static str,
    example: &'static str,
    variable: Variable,
) -> LogFieldFacts {
    text(name, meaning, example, LogField::Shared(variable))
}

/// Returns a row that stands for the header fields of a message, each by its name.
const fn headers(
    name: &'static str,
    meaning: &'static str,
    example: &'static str,
) -> LogFieldFacts {
    LogFieldFacts {
        name,
        value: LogValue::Text,
        unit: "",
        meaning,
        example,
        field: None,
    }
}

/// The table of every field, in the order of the documentation.
#[rustfmt::skip]
pub static LOG_FIELDS: [LogFieldFacts; 44] = [
    text("START_TIME", "When Sprat had read the request's head, in UTC", "2026-03-01T12:00:00.250Z", LogField::StartTime),
    text("START_TIME(CLF)", "When Sprat had read the request's head, as the common log format writes it", "01/Mar/2026:12:00:00 +0000", LogField::StartTimeClf),
    row("START_TIME(UNIX)", LogValue::Number, "s", "When Sprat had read the request's head, in seconds since 1970-01-01", "1772366400.250", LogField::StartTimeUnix),
    row("DURATION", LogValue::Number, "ms", "From `START_TIME` to the end of the response", "12.5", LogField::Duration),
    row("DURATION(S)", LogValue::Number, "s", "From `START_TIME` to the end of the response, in seconds", "0.013", LogField::DurationSeconds),
    row("ACKNOWLEDGED_MS", LogValue::Number, "ms", "From `START_TIME` until the client had acknowledged all of the response, if that is known", "40.25", LogField::Acknowledged),
    row("WAIT_MS", LogValue::Number, "ms", "How long the response's bytes waited for the uplink", "1.5", LogField::Wait),
    row("QUEUE_WAIT_MS", LogValue::Number, "ms", "How long the request waited for an endpoint", "0", LogField::QueueWait),
    row("SLOWDOWN", LogValue::Number, "", "From the response's head to its end, over the time that the uplink alone needs", "1.25", LogField::Slowdown),
    text("REQUEST_LINE", "Method, target and protocol as the client sent them, or as much of a malformed line as Sprat could read", "GET /a?b HTTP/1.1", LogField::RequestLine),
    shared("REQ(:METHOD)", "The method", "GET", Variable::Method),
    shared("REQ(:PATH)", "The target that the client asked for, with its query", "/a?b", Variable::Path),
    text("PATH(NQ)", "The target that the client asked for, without its query", "/a", LogField::PathWithoutQuery),
    text("MATCHED_PATH", "The path that rules were matched with, if it is not the client's", "/a", LogField::MatchedPath),
    shared("REQ(:AUTHORITY)", "The host that the client asked for, with its port if it named one", "www.example.org", Variable::Authority),
    shared("REQ(:SCHEME)", "`https` over TLS, to Sprat or to a trusted proxy before it; else `http`", "https", Variable::Scheme),
    shared("PROTOCOL", "The version of HTTP that the client speaks", "HTTP/2.0", Variable::Protocol),
    headers("REQ(NAME)", "A header field of the request, by its name", "%REQ(USER-AGENT)%"),
    headers("RESP(NAME)", "A header field of the response, as the client gets it", "%RESP(CONTENT-TYPE)%"),
    text("REQUEST_ID", "The request's identifier (`request_id` of the listener)", "1f0c2d4e-7a3b-4c5d-8e9f-0a1b2c3d4e5f", LogField::RequestId),
    text("TRACE_ID", "The trace that the request is part of (`tracing`)", "0af7651916cd43dd8448eb211c80319c", LogField::TraceId),
    text("SPAN_ID", "The request's own span in its trace (`tracing`)", "b7ad6b7169203331", LogField::SpanId),
    row("RESPONSE_CODE", LogValue::Number, "", "The status that the client got, or 499 if the client left before the body began", "200", LogField::Shared(Variable::ResponseCode)),
    text("RESPONSE_CODE_DETAILS", "Why the request failed: the `reason` of metrics and of `Proxy-Status`", "client_closed", LogField::Details),
    row("ABORTED", LogValue::Flag, "", "Whether the response was cut before its end", "false", LogField::Aborted),
    row("BYTES_SENT", LogValue::Number, "bytes", "The response's body, as far as it was sent", "5120", LogField::BytesSent),
    row("SIZE", LogValue::Number, "bytes", "The size that was known when the response began", "5120", LogField::Size),
    text("SIZE_SOURCE", "How well the size was known when the response began: `exact`, `estimate` or `unknown`", "exact", LogField::SizeSource),
    text("SIZE_LAYER", "The layer of the catalogue that knew the size before the response's head", "learnt", LogField::SizeLayer),
    text("CLASS", "The priority class", "default", LogField::Class),
    text("USER", "The user that `basic_auth` or `ext_authz` has identified", "ann", LogField::User),
    text("LISTENER", "The name of the listener", "web", LogField::Listener),
    text("DOWNSTREAM_REMOTE_ADDRESS", "The client's address with its port", "192.0.2.7:4711", LogField::RemoteAddressWithPort),
    shared("DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "The client's address", "192.0.2.7", Variable::RemoteAddress),
    row("DOWNSTREAM_REMOTE_PORT", LogValue::Number, "", "The port that the client sends from", "4711", LogField::Shared(Variable::RemotePort)),
    row("DOWNSTREAM_LOCAL_PORT", LogValue::Number, "", "The port that the client has connected to", "443", LogField::Shared(Variable::LocalPort)),
    text("DOWNSTREAM_TLS_VERSION", "The version of TLS that the client speaks", "TLSv1.3", LogField::TlsVersion),
    text("DOWNSTREAM_TLS_CIPHER", "The cipher suite of the client's connection", "TLS13_AES_256_GCM_SHA384", LogField::TlsCipher),
    shared("DOWNSTREAM_PEER_DNS_SAN", "Hosts in the certificate that the client has shown", "client.example.org", Variable::PeerDns),
    shared("DOWNSTREAM_PEER_URI_SAN", "URIs in the certificate that the client has shown", "spiffe://example.org/a", Variable::PeerUris),
    shared("DOWNSTREAM_PEER_COMMON_NAME", "The common name of the certificate that the client has shown", "client", Variable::PeerCommonName),
    shared("UPSTREAM_CLUSTER", "The cluster that the request went to", "farm", Variable::Cluster),
    shared("UPSTREAM_HOST", "The endpoint that the response is from, or that was tried last", "10.0.0.1:8000", Variable::Endpoint),
    text("SESSION", "The outcome for the request's session, if the cluster keeps sessions: `kept`, `new`, `moved` or `refused`", "kept", LogField::Session),
];

/// The header fields that hold secrets, which no log may have.
pub(crate) const SECRET_HEADERS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];

impl LogField {
    /// Returns the type of the field's value in JSON.
    pub fn value(&self) -> LogValue {
        let row = LOG_FIELDS
            .iter()
            .find(|row| row.field.as_ref() == Some(self));
        row.map_or(LogValue::Text, |row| row.value)
    }

    /// Returns the header field whose value this field logs, if that is a secret.
    pub(crate) fn secret(&self) -> Option<&str> {
        match self {
            Self::Shared(Variable::RequestHeader(name) | Variable::ResponseHeader(name)) => {
                SECRET_HEADERS.contains(&name.as_str()).then_some(name)
            }
            _ => None,
        }
    }
}

impl Named for LogField {
    fn named(name: &str) -> Option<Self> {
        let row = LOG_FIELDS.iter().find(|row| row.name == name);
        let known = row.and_then(|row| row.field.clone());
        known.or_else(|| Variable::named(name).map(Self::Shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::NAMES;

    #[test]
    fn every_row_is_the_field_that_its_name_is_read_as() {
        for row in &LOG_FIELDS {
            let read = LogField::named(row.name);
            assert!(read.is_some(), "{}", row.name);
            if row.field.is_some() {
                assert_eq!(read, row.field, "{}", row.name);
            }
            let names = LOG_FIELDS.iter().filter(|other| other.name == row.name);
            assert_eq!(names.count(), 1, "{}", row.name);
            assert!(!row.meaning.contains('|') && !row.example.is_empty());
        }
    }

    #[test]
    fn what_header_templates_tell_is_the_same_here() {
        for name in NAMES {
            let row = LOG_FIELDS.iter().find(|row| row.name == name);
            let row = row.unwrap_or_else(|| panic!("{name} has no row"));
            if let Some(field) = &row.field {
                let shared = Variable::named(name).map(LogField::Shared);
                assert_eq!(Some(field), shared.as_ref(), "{name}");
            }
        }
    }

    #[test]
    fn a_field_has_the_value_that_its_row_says() {
        for row in &LOG_FIELDS {
            if let Some(field) = &row.field {
                assert_eq!(field.value(), row.value, "{}", row.name);
            }
        }
    }

    #[test]
    fn secrets_are_told_by_their_names() {
        let secret = |name: &str| LogField::named(name).unwrap().secret().map(str::to_owned);
        assert_eq!(secret("REQ(Cookie)").as_deref(), Some("cookie"));
        assert_eq!(secret("RESP(SET-COOKIE)").as_deref(), Some("set-cookie"));
        assert_eq!(secret("REQ(USER-AGENT)"), None);
        assert_eq!(secret("USER"), None);
    }
}
