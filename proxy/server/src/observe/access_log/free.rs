//! Lines of the operator's own format: an object of JSON, or text, with fields of the
//! request.

use std::io::{self, Write};

use http::{HeaderName, HeaderValue};
use sprat_config::resolved::{LogField, LogTemplate, LogValue, Variable};
use sprat_net::error::Reason;
use sprat_sizes::Layer;
use sprat_upstream::SessionOutcome;

use super::line::{Line, escape, escaped, millis, source_of};
use super::values;

/// Writes a line that is an object of JSON with these keys.
pub(super) fn write_object(
    line: &Line,
    keys: &[(String, LogTemplate)],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let mut value = Vec::new();
    for (at, (key, template)) in keys.iter().enumerate() {
        out.push(if at == 0 { b'{' } else { b',' });
        values::string(key, out)?;
        out.push(b':');
        value.clear();
        match template.sole() {
            Some(field) if !put(line, field, &mut value)? => out.extend_from_slice(b"null"),
            Some(field) if field.value() != LogValue::Text => out.extend_from_slice(&value),
            Some(_) => write_string(&value, out)?,
            None => {
                let mut outcome = Ok(());
                template.write(&mut value, &mut |field, out| match put(line, field, out) {
                    Ok(true) => {}
                    Ok(false) => out.push(b'-'),
                    Err(error) => outcome = Err(error),
                });
                outcome?;
                write_string(&value, out)?;
            }
        }
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Writes a string of JSON; a value that is not UTF-8 with `\xHH` in it, as [`escape`] does.
fn write_string(value: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    match str::from_utf8(value) {
        Ok(text) => values::string(text, out),
        Err(_) => values::string(&escaped(value)?, out),
    }
}

/// Writes a line of text; the value of a field can end neither the line nor a quotation.
pub(super) fn write_text(line: &Line, text: &LogTemplate, out: &mut Vec<u8>) -> io::Result<()> {
    let mut outcome = Ok(());
    let mut value = Vec::new();
    text.write(out, &mut |field, out| {
        value.clear();
        let written = match put(line, field, &mut value) {
            // An empty value would leave out a column.
            Ok(true) if !value.is_empty() => escape(&value, out),
            Ok(_) => out.write_all(b"-"),
            Err(error) => Err(error),
        };
        if written.is_err() {
            outcome = written;
        }
    });
    out.push(b'\n');
    outcome
}

/// Writes the value of a field as it is; returns false if it has none.
fn put(line: &Line, field: &LogField, out: &mut Vec<u8>) -> io::Result<bool> {
    let request = line.request.as_deref();
    let client = line.client();
    match field {
        LogField::Shared(variable) => return put_shared(line, variable, out),
        LogField::StartTime => write!(out, "{:.3}", line.started())?,
        LogField::StartTimeClf => values::clf_time(line.started(), out),
        LogField::StartTimeUnix => {
            let ms = line.started().as_millisecond();
            write!(out, "{}.{:03}", ms.div_euclid(1_000), ms.rem_euclid(1_000))?;
        }
        LogField::DurationSeconds => write!(out, "{:.3}", line.duration.as_secs_f64())?,
        LogField::Duration => write!(out, "{}", millis(line.duration))?,
        LogField::Acknowledged => return number(line.acknowledged.map(millis), out),
        LogField::Wait => write!(out, "{}", millis(line.wait))?,
        LogField::QueueWait => write!(out, "{}", millis(line.queue_wait))?,
        LogField::Slowdown => return number(line.rounded_slowdown(), out),
        LogField::BytesSent => write!(out, "{}", line.bytes)?,
        LogField::Size => return number(line.size.bytes(), out),
        LogField::SizeSource => out.extend_from_slice(source_of(line.size).as_bytes()),
        LogField::SizeLayer => return text(line.size_layer.map(Layer::name), out),
        LogField::RemoteAddressWithPort => write!(out, "{client}")?,
        LogField::Listener => out.extend_from_slice(line.listener.as_bytes()),
        LogField::TlsVersion => return text(line.tls.map(|tls| tls.version), out),
        LogField::TlsCipher => return text(line.tls.map(|tls| tls.cipher), out),
        LogField::RequestId => return bytes(line.request_id.as_ref(), out),
        LogField::TraceId => return number(line.trace.map(|own| own.trace), out),
        LogField::SpanId => return number(line.trace.map(|own| own.span), out),
        LogField::RequestLine => match request {
            Some(own) => write!(out, "{} {} {}", own.method(), own.path(), own.version())?,
            None => {
                let unread = line.unread_line.as_deref();
                out.extend_from_slice(unread.unwrap_or_default());
                return Ok(unread.is_some());
            }
        },
        LogField::PathWithoutQuery => return text(request.map(|own| own.target().path()), out),
        LogField::MatchedPath => return text(request.and_then(|own| own.matched_path()), out),
        LogField::Class => out.extend_from_slice(line.class.as_bytes()),
        LogField::User => return text(line.user.as_deref(), out),
        LogField::Session => return text(line.session.map(SessionOutcome::name), out),
        LogField::Details => return text(line.reason.map(Reason::name), out),
        LogField::Aborted => write!(out, "{}", line.aborted)?,
    }
    Ok(true)
}

/// Writes the value of a field that header templates have, too; returns false if it has none.
fn put_shared(line: &Line, variable: &Variable, out: &mut Vec<u8>) -> io::Result<bool> {
    let request = line.request.as_deref();
    let client = line.client();
    let peer = |at: usize| line.peer.as_deref().map(|names| names[at].as_str());
    match variable {
        Variable::RemoteAddress => write!(out, "{}", client.ip())?,
        Variable::RemotePort => write!(out, "{}", client.port())?,
        Variable::LocalPort => write!(out, "{}", line.local_port)?,
        Variable::Protocol => return text(request.map(|own| own.version()), out),
        Variable::RequestHeader(name) => {
            return list(request.map_or(&[], |own| own.kept()), name, out);
        }
        Variable::ResponseHeader(name) => return list(&line.response, name, out),
        Variable::Method => return text(request.map(|own| own.method().as_str()), out),
        Variable::Path => return text(request.map(|own| own.path()).as_deref(), out),
        Variable::Authority => return bytes(request.and_then(|own| own.host()), out),
        Variable::Scheme => {
            let scheme = |is_secure| if is_secure { "https" } else { "http" };
            return text(request.map(|own| scheme(own.is_secure())), out);
        }
        Variable::PeerDns => return text(peer(0), out),
        Variable::PeerUris => return text(peer(1), out),
        Variable::PeerCommonName => return text(peer(2), out),
        Variable::Cluster => return text(line.cluster.as_deref().map(|own| &*own.name), out),
        Variable::Endpoint => return text(line.endpoint.as_deref().map(|own| &*own.label), out),
        Variable::ResponseCode => return number(line.status.map(|own| own.as_u16()), out),
    }
    Ok(true)
}

fn text(value: Option<&str>, out: &mut Vec<u8>) -> io::Result<bool> {
    out.extend_from_slice(value.unwrap_or_default().as_bytes());
    Ok(value.is_some())
}

fn bytes(value: Option<&HeaderValue>, out: &mut Vec<u8>) -> io::Result<bool> {
    out.extend_from_slice(value.map_or(&[], HeaderValue::as_bytes));
    Ok(value.is_some())
}

fn number(value: Option<impl std::fmt::Display>, out: &mut Vec<u8>) -> io::Result<bool> {
    let Some(value) = value else { return Ok(false) };
    write!(out, "{value}")?;
    Ok(true)
}

/// Writes the values of a header field as one (RFC 9110 5.3).
fn list(fields: &[(HeaderName, HeaderValue)], name: &str, out: &mut Vec<u8>) -> io::Result<bool> {
    let mut is_there = false;
    for (_, value) in fields.iter().filter(|(own, _)| own.as_str() == name) {
        if is_there {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value.as_bytes());
        is_there = true;
    }
    Ok(is_there)
}

#[cfg(test)]
mod tests {
    use sprat_config::resolved::{LOG_FIELDS, LogFormat};

    use super::super::line::tests::{line, text};

    /// Returns a format of an access log, as a configuration has it written.
    fn format(written: &str) -> LogFormat {
        let text = format!(
            "version: 1\nlisteners: [{{address: '127.0.0.1:8080'}}]\nclusters: {{a: {{endpoints: \
             ['127.0.0.1:1']}}}}\nroutes: [{{cluster: a}}]\naccess_log: {{format: {written}}}\n"
        );
        let loaded = sprat_config::parse(&text, "test.yaml", &|_| None).unwrap();
        loaded.config.access_log[0].format.clone()
    }

    /// Returns a line whose client has chosen all that it can to forge another.
    fn forged() -> super::Line {
        let mut line = line();
        line.user = Some("a\" \\\n2026 forged\u{1b}[2J \u{e9}\0".into());
        line.request_id = Some(http::HeaderValue::from_bytes(b"a\"b\\c\xff").unwrap());
        line
    }

    #[test]
    fn values_have_their_types() {
        let keys = "{json: {status: '%RESPONSE_CODE%', ms: '%DURATION%', cut: '%ABORTED%', \
                    ua: '%REQ(USER-AGENT)%', who: '%USER%', port: '%DOWNSTREAM_LOCAL_PORT%', \
                    both: '%REQ(:METHOD)% %PATH(NQ)%, 100%%, %USER%'}}";
        assert_eq!(
            text(&line(), &format(keys)),
            "{\"status\":200,\"ms\":250,\"cut\":false,\"ua\":null,\"who\":null,\
             \"port\":8080,\"both\":\"GET /a, 100%, -\"}\n"
        );
    }

    #[test]
    fn times_are_told_as_other_logs_have_them() {
        let fields = "%START_TIME(CLF)% %START_TIME(UNIX)% %DURATION(S)%";
        let told = "14/Nov/2023:22:13:20 +0000 1700000000.000 0.250\n";
        assert_eq!(
            text(&line(), &format(&format!("{{text: '{fields}'}}"))),
            told
        );
    }

    #[test]
    fn nobody_ends_a_line_or_a_quotation() {
        let fields = "%USER% \"%USER%\" %REQUEST_ID%";
        let written = text(&forged(), &format(&format!("{{text: '{fields}'}}")));
        let user = "a\\x22 \\x5C\\x0A2026 forged\\x1B[2J \\xC3\\xA9\\x00";
        assert_eq!(written, format!("{user} \"{user}\" a\\x22b\\x5Cc\\xFF\n"));
        let written = text(
            &forged(),
            &format("{json: {user: '%USER%', id: '%REQUEST_ID%', all: '<%USER%>'}}"),
        );
        assert_eq!(written.matches('\n').count(), 1, "{written}");
        assert!(written.bytes().all(|byte| byte >= b' ' || byte == b'\n'));
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(read["user"], *forged().user.unwrap());
        assert_eq!(read["id"], "a\\x22b\\x5Cc\\xFF");
    }

    #[test]
    fn every_field_is_written_in_both() {
        for row in &LOG_FIELDS {
            let name = row.name.replace("(NAME)", "(X-A)");
            let json = text(&line(), &format(&format!("{{json: {{a: '%{name}%'}}}}")));
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            let value = &read["a"];
            let fits = match row.value.name() {
                "number" => value.is_number() || value.is_null(),
                "text" => value.is_string() || value.is_null(),
                _ => value.is_boolean(),
            };
            assert!(fits, "{name}: {json}");
            let plain = text(&line(), &format(&format!("{{text: '%{name}%'}}")));
            let told = match value {
                serde_json::Value::Null => "-".to_owned(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            // Digits that are zero may be written.
            let same = |other: &str| other.parse::<f64>().ok() == value.as_f64();
            let is_same = value.is_number() && same(plain.trim_end());
            assert!(
                is_same || plain.trim_end() == told,
                "{name}: {plain} {told}"
            );
        }
    }
}
