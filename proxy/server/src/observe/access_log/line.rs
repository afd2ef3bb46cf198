//! A line of an access log: one request, as the worker saw it, in the formats that have a
//! name.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri, Version};
use sprat_config::resolved::{Cluster, LogFormat};
use sprat_net::error::Reason;
use sprat_net::screen::Malformed;
use sprat_scheduler::Size;
use sprat_sizes::Layer;
use sprat_traces::TraceContext;
use sprat_upstream::{Member, SessionOutcome};

use super::free;
use super::needs::{Kept, Needs};
use super::object::{Object, name};
use super::values;
use sprat_net::tls::TlsTerms;

/// The facts of a line: one request, as the worker saw it.
pub(crate) struct Line {
    /// The time when the exchange ended.
    pub(crate) ended: SystemTime,
    /// The time from the end of the request's head to the end of the response.
    pub(crate) duration: Duration,
    /// The time from the end of the head until the client had acknowledged all of the
    /// response, if that is known.
    pub(crate) acknowledged: Option<Duration>,
    /// The client's address and port.
    pub(crate) client: SocketAddr,
    /// The port that the client is connected to.
    pub(crate) local_port: u16,
    /// The name of the listener.
    pub(crate) listener: Arc<str>,
    /// The terms of TLS that were agreed on, if the client speaks it.
    pub(crate) tls: Option<TlsTerms>,
    /// The hosts, the URIs and the common name of the client's certificate, if a format
    /// tells of it.
    pub(crate) peer: Option<Box<[String; 3]>>,
    /// The request's identifier, if requests get one.
    pub(crate) request_id: Option<HeaderValue>,
    /// The request's trace and span, if requests have any.
    pub(crate) trace: Option<TraceContext>,
    /// Fields of the response's head that formats tell.
    pub(crate) response: Kept,
    /// The request's head; none if it could not be read.
    pub(crate) request: Option<Box<LoggedRequest>>,
    /// The beginning of the request line, as far as it was read, where the head could not be.
    pub(crate) unread_line: Option<Box<[u8]>>,
    /// The status that the client got, or would have got.
    pub(crate) status: Option<StatusCode>,
    /// The bytes of the body that were sent.
    pub(crate) bytes: u64,
    /// The size known when the response started.
    pub(crate) size: Size,
    /// The layer of the catalogue that knew the size before the response told it.
    pub(crate) size_layer: Option<Layer>,
    /// The time for which the response's bytes waited for the uplink.
    pub(crate) wait: Duration,
    /// The time for which the request waited for an endpoint.
    pub(crate) queue_wait: Duration,
    /// The time from the response's head to its end, over the time that the uplink
    /// alone needs; none without a body, or without a rate.
    pub(crate) slowdown: Option<f64>,
    /// The name of the request's class.
    pub(crate) class: Arc<str>,
    /// The user who asked, if that is known.
    pub(crate) user: Option<Box<str>>,
    /// The cluster that the request went to, once routed.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// The endpoint that the request went to, once one was chosen.
    pub(crate) endpoint: Option<Arc<Member>>,
    /// The outcome of the request's session, where its cluster keeps any.
    pub(crate) session: Option<SessionOutcome>,
    /// The first reason for which the request failed, if it did.
    pub(crate) reason: Option<Reason>,
    /// Whether the response was cut before its end.
    pub(crate) aborted: bool,
}

/// The parts of a request's head that a line tells.
pub(crate) struct LoggedRequest {
    method: Method,
    target: Uri,
    /// The path that rules were matched with, if the target has another.
    matched: Option<Box<str>>,
    version: Version,
    host: Option<HeaderValue>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    /// Fields of the head that formats tell.
    kept: Kept,
    /// Whether the request came over TLS, to Sprat or to a proxy before it, if a format tells.
    is_secure: bool,
}

impl LoggedRequest {
    /// Keeps what lines tell of a head that has just been read.
    pub(crate) fn of(head: &Parts, needs: &Needs, is_secure: bool) -> Self {
        let field = |name| head.headers.get(name).cloned();
        Self {
            method: head.method.clone(),
            target: head.uri.clone(),
            matched: None,
            version: head.version,
            // What a target names counts above `Host` (RFC 9112 3.2.2).
            host: authority(&head.uri).or_else(|| field(HOST)),
            referer: field(REFERER),
            user_agent: field(USER_AGENT),
            kept: needs.of_request(&head.headers),
            is_secure,
        }
    }

    /// Keeps what lines tell of a malformed request of HTTP/2; none if that is not enough
    /// for a line.
    pub(crate) fn of_malformed(request: Malformed) -> Option<Self> {
        let host = request.authority.as_ref();
        Some(Self {
            method: request.method?,
            host: host.and_then(|host| HeaderValue::try_from(host.as_str()).ok()),
            target: request.path?.into(),
            matched: None,
            version: Version::HTTP_2,
            referer: None,
            user_agent: None,
            kept: Kept::default(),
            is_secure: false,
        })
    }

    /// Notes that rules were matched with this path, which is not the target's.
    pub(crate) fn matched(&mut self, path: String) {
        self.matched = Some(path.into());
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn target(&self) -> &Uri {
        &self.target
    }

    pub(super) fn matched_path(&self) -> Option<&str> {
        self.matched.as_deref()
    }

    pub(super) fn host(&self) -> Option<&HeaderValue> {
        self.host.as_ref()
    }

    pub(super) fn kept(&self) -> &[(HeaderName, HeaderValue)] {
        &self.kept
    }

    pub(super) fn is_secure(&self) -> bool {
        self.is_secure
    }

    pub(super) fn path(&self) -> Cow<'_, str> {
        match self.target.path_and_query() {
            Some(path) => path.as_str().into(),
            None => self.target.to_string().into(),
        }
    }

    pub(super) fn version(&self) -> &'static str {
        match self.version {
            Version::HTTP_10 => "HTTP/1.0",
            Version::HTTP_2 => "HTTP/2.0",
            _ => "HTTP/1.1",
        }
    }
}

/// Returns the authority of a target, HTTP/2's `Host`.
fn authority(target: &Uri) -> Option<HeaderValue> {
    HeaderValue::try_from(target.authority()?.as_str()).ok()
}

impl Line {
    pub(super) fn started(&self) -> jiff::Timestamp {
        let started = self.ended.checked_sub(self.duration).unwrap_or(self.ended);
        jiff::Timestamp::try_from(started).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// Returns the client's address as `X-Forwarded-For` has it: one of IPv4 as such, also
    /// on a socket of IPv6.
    pub(super) fn client(&self) -> SocketAddr {
        SocketAddr::new(self.client.ip().to_canonical(), self.client.port())
    }

    /// Returns the slowdown to the thousandth.
    pub(super) fn rounded_slowdown(&self) -> Option<f64> {
        self.slowdown.map(|slowdown| (slowdown * 1e3).round() / 1e3)
    }

    /// Writes the line in a format.
    ///
    /// # Errors
    ///
    /// Fails if a value makes no text.
    pub(super) fn write(&self, format: &LogFormat, out: &mut Vec<u8>) -> io::Result<()> {
        match format {
            LogFormat::Json => self.write_json(out),
            LogFormat::Combined => self.write_combined(out),
            LogFormat::Fields(keys) => free::write_object(self, keys, out),
            LogFormat::Text(text) => free::write_text(self, text, out),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let request = self.request.as_deref();
        let host = request.and_then(|request| request.host.as_ref());
        let mut line = Object::begin(out);
        line.member(name!("time"), Some(self.started()), values::time);
        line.member(name!("client"), Some(self.client()), values::address);
        line.text(
            name!("method"),
            request.map(|request| request.method.as_str()),
        )?;
        line.text(name!("host"), shown(host)?.as_deref())?;
        line.text(name!("path"), request.map(LoggedRequest::path).as_deref())?;
        if let Some(unread) = self.unread_line.as_deref() {
            line.text(name!("request_line"), Some(&escaped(unread)?))?;
        }
        if let Some(matched) = request.and_then(|request| request.matched.as_deref()) {
            line.text(name!("matched_path"), Some(matched))?;
        }
        let status = self.status.map(|status| status.as_u16());
        line.number(name!("status"), status.map(u64::from));
        line.number(name!("bytes"), Some(self.bytes));
        line.number(name!("size"), self.size.bytes());
        line.word(name!("size_source"), Some(source_of(self.size)));
        line.word(name!("size_layer"), self.size_layer.map(Layer::name));
        line.member(name!("duration_ms"), Some(self.duration), values::millis);
        line.member(name!("acknowledged_ms"), self.acknowledged, values::millis);
        line.member(name!("wait_ms"), Some(self.wait), values::millis);
        line.member(
            name!("queue_wait_ms"),
            Some(self.queue_wait),
            values::millis,
        );
        line.member(name!("slowdown"), self.slowdown, |slowdown, out| {
            values::thousandths((slowdown * 1e3).round() as u64, out);
        });
        line.text(name!("class"), Some(&self.class))?;
        if let Some(user) = self.user.as_deref() {
            line.text(name!("user"), Some(user))?;
        }
        let cluster = self.cluster.as_ref().map(|cluster| cluster.name.as_str());
        let endpoint = self.endpoint.as_ref().map(|member| member.label.as_str());
        line.text(name!("cluster"), cluster)?;
        line.text(name!("endpoint"), endpoint)?;
        if let Some(session) = self.session {
            line.word(name!("session"), Some(session.name()));
        }
        line.word(name!("reason"), self.reason.map(Reason::name));
        line.member(name!("aborted"), Some(self.aborted), values::flag);
        line.word(name!("protocol"), request.map(LoggedRequest::version));
        let user_agent = request.and_then(|own| own.user_agent.as_ref());
        let referer = request.and_then(|own| own.referer.as_ref());
        line.text(name!("user_agent"), shown(user_agent)?.as_deref())?;
        line.text(name!("referer"), shown(referer)?.as_deref())?;
        line.text(
            name!("request_id"),
            shown(self.request_id.as_ref())?.as_deref(),
        )?;
        if let Some(own) = &self.trace {
            line.member(
                name!("trace_id"),
                Some(&own.trace.digits()[..]),
                values::word,
            );
            line.member(name!("span_id"), Some(&own.span.digits()[..]), values::word);
        }
        line.text(name!("listener"), Some(&self.listener))?;
        line.word(name!("tls_version"), self.tls.map(|tls| tls.version));
        line.word(name!("tls_cipher"), self.tls.map(|tls| tls.cipher));
        line.end();
        Ok(())
    }

    /// Writes the line in the combined format: `%h - %u [%t] "%r" %>s %b "%{Referer}i"
    /// "%{User-Agent}i"`. Size, wait in ms, slowdown, class, duration in ms and endpoint
    /// follow; then the path that rules were matched with, if it is not the client's.
    fn write_combined(&self, out: &mut Vec<u8>) -> io::Result<()> {
        write!(out, "{} - ", self.client().ip())?;
        match self.user.as_deref() {
            // A space would begin the next field.
            Some(user) if !user.is_empty() => escape(user.replace(' ', "_").as_bytes(), out)?,
            _ => out.push(b'-'),
        }
        out.extend_from_slice(b" [");
        values::clf_time(self.started(), out);
        out.extend_from_slice(b"] \"");
        let request = self.request.as_deref();
        match request {
            // What was refused for it may have quotes.
            Some(asked) => {
                write!(out, "{} ", asked.method)?;
                escape(asked.path().as_bytes(), out)?;
                write!(out, " {}", asked.version())?;
            }
            None => escape(self.unread_line.as_deref().unwrap_or(b"-"), out)?,
        }
        let status = self.status.map_or(0, |status| status.as_u16());
        write!(out, "\" {status:03} {}", self.bytes)?;
        let referer = request.and_then(|asked| asked.referer.as_ref());
        let user_agent = request.and_then(|asked| asked.user_agent.as_ref());
        for value in [referer, user_agent] {
            out.extend_from_slice(b" \"");
            escape(value.map_or(b"-", HeaderValue::as_bytes), out)?;
            out.push(b'"');
        }
        out.push(b' ');
        match self.size.bytes() {
            Some(size) => write!(out, "{size}")?,
            None => out.push(b'-'),
        }
        write!(out, " {:.3} ", millis(self.wait))?;
        match self.slowdown {
            Some(slowdown) => write!(out, "{slowdown:.3}")?,
            None => out.push(b'-'),
        }
        let endpoint = self.endpoint.as_deref().map_or("-", |own| &*own.label);
        let duration_ms = millis(self.duration);
        write!(out, " {} {duration_ms:.3} {endpoint}", self.class)?;
        if let Some(matched) = request.and_then(|asked| asked.matched.as_deref()) {
            out.extend_from_slice(b" \"");
            escape(matched.as_bytes(), out)?;
            out.push(b'"');
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Writes text that stands between quotes, with `\xHH` for a byte that would end it, begin
/// such an escape, or not be seen.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    for &byte in text {
        match byte {
            b'"' | b'\\' | ..=0x1f | 0x7f.. => write!(out, "\\x{byte:02X}")?,
            _ => out.push(byte),
        }
    }
    Ok(())
}

/// Returns what [`escape`] writes, as text.
pub(super) fn escaped(text: &[u8]) -> io::Result<String> {
    let mut out = Vec::with_capacity(text.len());
    escape(text, &mut out)?;
    String::from_utf8(out).map_err(io::Error::other)
}

/// Returns the value of a header field as text; one that is not UTF-8 as [`escape`] writes it.
fn shown(value: Option<&HeaderValue>) -> io::Result<Option<Cow<'_, str>>> {
    let Some(value) = value.map(HeaderValue::as_bytes) else {
        return Ok(None);
    };
    match str::from_utf8(value) {
        Ok(value) => Ok(Some(Cow::Borrowed(value))),
        Err(_) => Ok(Some(Cow::Owned(escaped(value)?))),
    }
}

/// Returns the word for how well a size is known.
pub(super) fn source_of(size: Size) -> &'static str {
    match size {
        Size::Exact(_) => "exact",
        Size::Estimate { .. } => "estimate",
        Size::Unknown => "unknown",
    }
}

/// Returns a time in milliseconds, to the microsecond.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn asked(target: &str) -> LoggedRequest {
        let request = http::Request::get(target)
            .version(Version::HTTP_2)
            .header("host", "www.example")
            .header("user-agent", "say \"hi\"\\ \u{e9}");
        LoggedRequest::of(
            &request.body(()).unwrap().into_parts().0,
            &Needs::default(),
            false,
        )
    }

    pub(crate) fn line() -> Line {
        Line {
            ended: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250),
            duration: Duration::from_millis(250),
            acknowledged: Some(Duration::from_millis(290)),
            client: "192.0.2.7:4711".parse().unwrap(),
            local_port: 8080,
            listener: "web".into(),
            tls: None,
            peer: None,
            request_id: Some(HeaderValue::from_static("id-1")),
            trace: None,
            response: Kept::default(),
            request: Some(Box::new(asked("/a?b=c"))),
            unread_line: None,
            status: Some(StatusCode::OK),
            bytes: 1234,
            size: Size::Exact(1234),
            size_layer: Some(Layer::Learnt),
            queue_wait: Duration::ZERO,
            wait: Duration::from_micros(1500),
            slowdown: Some(2.0),
            class: "gold".into(),
            user: None,
            cluster: None,
            endpoint: None,
            session: None,
            reason: None,
            aborted: false,
        }
    }

    pub(crate) fn text(line: &Line, format: &LogFormat) -> String {
        let mut out = Vec::new();
        line.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_has_every_field() {
        assert_eq!(
            text(&line(), &LogFormat::Json),
            "{\"time\":\"2023-11-14T22:13:20.000Z\",\"client\":\"192.0.2.7:4711\",\
             \"method\":\"GET\",\"host\":\"www.example\",\"path\":\"/a?b=c\",\
             \"status\":200,\"bytes\":1234,\"size\":1234,\"size_source\":\"exact\",\"size_layer\":\"learnt\",\
             \"duration_ms\":250.0,\"acknowledged_ms\":290.0,\"wait_ms\":1.5,\"queue_wait_ms\":0.0,\"slowdown\":2.0,\"class\":\"gold\",\
             \"cluster\":null,\"endpoint\":null,\"reason\":null,\"aborted\":false,\
             \"protocol\":\"HTTP/2.0\",\"user_agent\":\"say \\\"hi\\\"\\\\ \u{e9}\",\"referer\":null,\
             \"request_id\":\"id-1\",\"listener\":\"web\",\"tls_version\":null,\"tls_cipher\":null}\n"
        );
    }

    #[test]
    fn a_request_line_that_is_none_is_shown_as_it_came() {
        let mut line = line();
        line.request = None;
        line.unread_line = Some(b"G\"T /\x01\xff HTTP/9"[..].into());
        let combined = text(&line, &LogFormat::Combined);
        assert!(
            combined.contains(" \"G\\x22T /\\x01\\xFF HTTP/9\" 200 "),
            "{combined}"
        );
        let json: serde_json::Value = serde_json::from_str(&text(&line, &LogFormat::Json)).unwrap();
        assert_eq!(json["request_line"], "G\\x22T /\\x01\\xFF HTTP/9");
        assert!(json["path"].is_null());
    }

    #[test]
    fn a_host_that_is_none_is_shown_as_it_came() {
        let mut line = line();
        for (host, told) in [
            (&b"b\xc3\xbccher.example"[..], "b\u{fc}cher.example"),
            (&b"a\xff\"b"[..], "a\\xFF\\x22b"),
        ] {
            let mut request = asked("/");
            request.host = Some(HeaderValue::from_bytes(host).unwrap());
            line.request = Some(Box::new(request));
            let text = text(&line, &LogFormat::Json);
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["host"], told);
        }
    }

    #[test]
    fn a_client_of_ipv4_is_that_on_a_socket_of_ipv6() {
        let mut line = line();
        line.client = "[::ffff:192.0.2.7]:4711".parse().unwrap();
        let json = text(&line, &LogFormat::Json);
        assert!(json.contains("\"client\":\"192.0.2.7:4711\""), "{json}");
        assert!(text(&line, &LogFormat::Combined).starts_with("192.0.2.7 - - "));
    }

    #[test]
    fn both_paths_are_told_where_they_differ() {
        let mut line = line();
        let mut request = asked("/x/../%61?b");
        request.matched("/a".to_owned());
        line.request = Some(Box::new(request));
        let json = text(&line, &LogFormat::Json);
        let both = "\"path\":\"/x/../%61?b\",\"matched_path\":\"/a\",\"status\"";
        assert!(json.contains(both), "{json}");
        let combined = text(&line, &LogFormat::Combined);
        assert!(
            combined.contains("\"GET /x/../%61?b HTTP/2.0\""),
            "{combined}"
        );
        assert!(combined.ends_with(" gold 250.000 - \"/a\"\n"), "{combined}");
    }

    #[test]
    fn combined_ends_with_what_scheduling_has_done() {
        let mut line = line();
        line.request = Some(Box::new(asked("/a")));
        assert_eq!(
            text(&line, &LogFormat::Combined),
            "192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] \"GET /a HTTP/2.0\" 200 1234 \
             \"-\" \"say \\x22hi\\x22\\x5C \\xC3\\xA9\" 1234 1.500 2.000 gold 250.000 -\n"
        );
        line.request = None;
        line.size = Size::Unknown;
        line.slowdown = None;
        assert!(
            text(&line, &LogFormat::Combined)
                .ends_with("\"-\" 200 1234 \"-\" \"-\" - 1.500 - gold 250.000 -\n")
        );
    }
}
