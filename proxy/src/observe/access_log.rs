//! The access log: one line for each request, written by a thread of its own.
//!
//! Workers never wait for the disk: a line that finds the queue full is
//! dropped and counted. So is one that cannot be written.

use anyhow::Context as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::header::{HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Uri, Version};
use serde::Serialize;
use sprat_config::resolved::{AccessLog, Cluster, LogFormat, LogTarget};
use sprat_net::error::Reason;
use sprat_net::problem::Problem;
use sprat_net::screen::Malformed;
use sprat_net::writable;
use sprat_scheduler::Size;
use sprat_sizes::Layer;
use sprat_upstream::{Member, SessionOutcome};

use crate::observe::draining::{self, Receiver, Unwritten, Writing};

/// Lines that may wait for the writer.
const QUEUE_LINES: usize = 16_384;

/// Lines that could not be written, of all logs that the process has had: what a
/// log has lost stays counted when a reload closes it.
static LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// Lines that could not be written.
pub(crate) fn lines_lost() -> u64 {
    LINES_LOST.load(Ordering::Relaxed)
}

/// One request, as the worker saw it.
pub(crate) struct Line {
    /// When the exchange ended.
    pub(crate) ended: SystemTime,
    /// From the end of the head to the end of the response.
    pub(crate) duration: Duration,
    /// From the end of the head until the client had acknowledged all of the response,
    /// if that is known.
    pub(crate) acknowledged: Option<Duration>,
    /// The other end of the connection.
    pub(crate) client: SocketAddr,
    /// None if the head could not be read.
    pub(crate) request: Option<Box<Asked>>,
    /// Then, the beginning of its request line, as far as it was read.
    pub(crate) unread_line: Option<Box<[u8]>>,
    /// The client's status, or the one it would have got.
    pub(crate) status: Option<StatusCode>,
    /// The bytes of the body that were sent.
    pub(crate) bytes: u64,
    /// The size known when the response started.
    pub(crate) known: Size,
    /// Who in the catalogue knew it before the response did.
    pub(crate) layer: Option<Layer>,
    /// How long its bytes waited for the uplink.
    pub(crate) wait: Duration,
    /// How long it waited for an endpoint.
    pub(crate) queue_wait: Duration,
    /// From the response's head to its end, over the time that the uplink alone
    /// needs; none without a body, or without a rate.
    pub(crate) slowdown: Option<f64>,
    /// The priority class of the request.
    pub(crate) class: Arc<str>,
    /// The user who asked, if that is known.
    pub(crate) user: Option<Box<str>>,
    /// Where it went, once routed.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// And once an endpoint was chosen.
    pub(crate) endpoint: Option<Arc<Member>>,
    /// What became of its session, where its cluster keeps any.
    pub(crate) session: Option<SessionOutcome>,
    /// What went wrong, if anything did.
    pub(crate) reason: Option<Reason>,
    /// Whether the response ended before its end.
    pub(crate) aborted: bool,
}

/// What a line tells of a request's head.
pub(crate) struct Asked {
    method: Method,
    target: Uri,
    /// The path that rules were matched with, if the target has another.
    matched: Option<Box<str>>,
    version: Version,
    host: Option<HeaderValue>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
}

impl Asked {
    /// What there is to tell of a head that has just been read.
    pub(crate) fn of(head: &Parts) -> Self {
        let field = |name| head.headers.get(name).cloned();
        Self {
            method: head.method.clone(),
            target: head.uri.clone(),
            matched: None,
            version: head.version,
            host: field(HOST).or_else(|| authority(&head.uri)),
            referer: field(REFERER),
            user_agent: field(USER_AGENT),
        }
    }

    /// What there is to tell of a request of HTTP/2 that was malformed, if that is enough
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
        })
    }

    /// Rules were matched with this path, which is not the target's.
    pub(crate) fn matched(&mut self, path: String) {
        self.matched = Some(path.into());
    }

    fn path(&self) -> String {
        match self.target.path_and_query() {
            Some(path) => path.as_str().to_owned(),
            None => self.target.to_string(),
        }
    }

    fn version(&self) -> &'static str {
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

/// A line in JSON; the order of the fields is that of the output.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
    client: String,
    method: Option<&'a str>,
    host: Option<&'a str>,
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_line: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matched_path: Option<&'a str>,
    status: Option<u16>,
    bytes: u64,
    size: Option<u64>,
    size_source: &'static str,
    size_layer: Option<&'static str>,
    duration_ms: f64,
    acknowledged_ms: Option<f64>,
    wait_ms: f64,
    queue_wait_ms: f64,
    slowdown: Option<f64>,
    class: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    cluster: Option<&'a str>,
    endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'static str>,
    reason: Option<&'static str>,
    aborted: bool,
}

impl Line {
    fn started(&self) -> jiff::Timestamp {
        let started = self.ended.checked_sub(self.duration).unwrap_or(self.ended);
        jiff::Timestamp::try_from(started).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// As `X-Forwarded-For` has it: a client of IPv4 is that on a socket of IPv6, too.
    fn client(&self) -> SocketAddr {
        SocketAddr::new(self.client.ip().to_canonical(), self.client.port())
    }

    fn write(&self, format: LogFormat, out: &mut Vec<u8>) -> io::Result<()> {
        match format {
            LogFormat::Json => self.write_json(out),
            LogFormat::Combined => self.write_combined(out),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let request = self.request.as_deref();
        let host = request.and_then(|request| request.host.as_ref());
        let line = JsonLine {
            time: format!("{:.3}", self.started()),
            client: self.client().to_string(),
            method: request.map(|request| request.method.as_str()),
            host: host.and_then(|host| host.to_str().ok()),
            path: request.map(Asked::path),
            request_line: self.unread_line.as_deref().map(escaped).transpose()?,
            matched_path: request.and_then(|request| request.matched.as_deref()),
            status: self.status.map(|status| status.as_u16()),
            bytes: self.bytes,
            size: self.known.bytes(),
            size_source: match self.known {
                Size::Exact(_) => "exact",
                Size::Estimate { .. } => "estimate",
                Size::Unknown => "unknown",
            },
            size_layer: self.layer.map(Layer::name),
            duration_ms: millis(self.duration),
            acknowledged_ms: self.acknowledged.map(millis),
            wait_ms: millis(self.wait),
            queue_wait_ms: millis(self.queue_wait),
            slowdown: self.slowdown.map(|slowdown| (slowdown * 1e3).round() / 1e3),
            class: &self.class,
            user: self.user.as_deref(),
            cluster: self.cluster.as_ref().map(|cluster| cluster.name.as_str()),
            endpoint: self.endpoint.as_ref().map(|member| member.label.as_str()),
            session: self.session.map(SessionOutcome::name),
            reason: self.reason.map(Reason::name),
            aborted: self.aborted,
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.push(b'\n');
        Ok(())
    }

    /// `%h - %u [%t] "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`, then size, wait in
    /// ms, slowdown and class; and the path that rules were matched with, if it is not
    /// the client's.
    fn write_combined(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let time = self.started().strftime("%d/%b/%Y:%H:%M:%S +0000");
        write!(out, "{} - ", self.client().ip())?;
        match self.user.as_deref() {
            // A space would begin the next field.
            Some(user) if !user.is_empty() => escape(user.replace(' ', "_").as_bytes(), out)?,
            _ => out.push(b'-'),
        }
        write!(out, " [{time}] \"")?;
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
        match self.known.bytes() {
            Some(size) => write!(out, "{size}")?,
            None => out.push(b'-'),
        }
        write!(out, " {:.3} ", millis(self.wait))?;
        match self.slowdown {
            Some(slowdown) => write!(out, "{slowdown:.3}")?,
            None => out.push(b'-'),
        }
        write!(out, " {}", self.class)?;
        if let Some(matched) = request.and_then(|asked| asked.matched.as_deref()) {
            out.extend_from_slice(b" \"");
            escape(matched.as_bytes(), out)?;
            out.push(b'"');
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Writes what stands between quotes: with `\xHH` for what would end it, begin such
/// a thing, or not be seen.
fn escape(text: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    for &byte in text {
        match byte {
            b'"' | b'\\' | ..=0x1f | 0x7f.. => write!(out, "\\x{byte:02X}")?,
            _ => out.push(byte),
        }
    }
    Ok(())
}

/// What [`escape`] writes, as text.
fn escaped(text: &[u8]) -> io::Result<String> {
    let mut out = Vec::with_capacity(text.len());
    escape(text, &mut out)?;
    String::from_utf8(out).map_err(io::Error::other)
}

/// Milliseconds, to the microsecond.
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

/// A worker's end of the queue.
#[derive(Clone)]
pub(crate) struct Sender(draining::Sender<Line>);

impl Sender {
    /// Queues a line; false if there was no room.
    pub(crate) fn send(&self, line: Line) -> bool {
        self.0.send(line, 1)
    }
}

/// What is wrong with where a log is to go; nothing is created there.
pub(crate) fn inspect(config: &AccessLog) -> Option<Problem> {
    let LogTarget::File(path) = &config.target else {
        return None;
    };
    let wrong = writable::appendable(path).err()?;
    let message = format!("cannot write the access log {}: {wrong}", path.display());
    let help = "make the directory, and let the user that Sprat runs as write there";
    Some(Problem::at(&config.span, message).help(help))
}

/// Opens a log.
///
/// # Errors
///
/// Its file cannot be opened.
pub(crate) fn start(config: &AccessLog) -> anyhow::Result<(Sender, Writer)> {
    let opened = Writer::start(config);
    opened.with_context(|| match &config.target {
        LogTarget::Stdout => "cannot write the access log to standard output".to_owned(),
        LogTarget::File(path) => format!("cannot open the access log {}", path.display()),
    })
}

/// The writer's thread. It ends when every [`Sender`] is gone and the last
/// line is written.
pub(crate) struct Writer {
    writing: Writing,
    reopen: Arc<AtomicBool>,
}

impl Writer {
    /// Opens the log and starts the thread.
    fn start(config: &AccessLog) -> io::Result<(Sender, Self)> {
        let out = Output::new(open(&config.target)?);
        let (sender, lines) = draining::queue(QUEUE_LINES);
        let reopen = Arc::new(AtomicBool::new(false));
        let (target, format, flag) = (config.target.clone(), config.format, Arc::clone(&reopen));
        let write = move || write_all(&lines, out, &target, format, &flag);
        let writing = Writing::start("access-log", &sender, write)?;
        Ok((Sender(sender), Self { writing, reopen }))
    }

    /// Has the file opened anew before the next line, for it has been rotated
    /// away.
    pub(crate) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// Whether every sender is gone, and the last line written.
    pub(crate) fn is_over(&self) -> bool {
        self.writing.is_over()
    }

    /// Waits until the last line is written, as long as lines are taken: a reader that
    /// has stalled keeps no process from its end.
    pub(crate) fn join(self) {
        match self.writing.join() {
            Ok(()) => {}
            Err(Unwritten::Stalled(lines)) => {
                let why = "the access log is not read any more: the lines that wait are lost";
                tracing::warn!(lines, "{why}");
            }
            Err(Unwritten::Panicked) => tracing::error!("the access log's writer panicked"),
        }
    }
}

type Buffer = BufWriter<Box<dyn Write + Send>>;

/// A log that is open, and how it fares.
struct Output {
    buffer: Buffer,
    /// Lines in the buffer that may not be in the file.
    unwritten: u64,
    /// Lines lost since the log could last be written; none if it can.
    failing: Option<u64>,
    /// Where lost lines are counted.
    lost: &'static AtomicU64,
}

impl Output {
    fn new(buffer: Buffer) -> Self {
        Self {
            buffer,
            unwritten: 0,
            failing: None,
            lost: &LINES_LOST,
        }
    }

    /// Writes a line, or counts it as lost.
    fn write(&mut self, line: &[u8]) {
        let room = self.buffer.capacity() - self.buffer.buffer().len();
        if line.len() > room {
            self.flush();
        }
        // Of what does not fit nothing is written while the buffer cannot be emptied.
        match self.buffer.write_all(line) {
            Ok(()) => self.unwritten += 1,
            Err(error) => {
                self.complain(&error);
                self.lose(1);
            }
        }
    }

    /// Empties the buffer; what does not go out is kept, and tried again.
    fn flush(&mut self) {
        match self.buffer.flush() {
            Ok(()) => {
                self.unwritten = 0;
                if let Some(lost) = self.failing.take() {
                    tracing::warn!(lost, "the access log can be written again");
                }
            }
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.failing.is_none() {
            self.failing = Some(0);
            tracing::error!(%error, "the access log cannot be written; lines are lost");
        }
    }

    fn lose(&mut self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        self.failing = Some(self.failing.unwrap_or(0) + lines);
    }

    /// Ends the log: what cannot be written by now is lost.
    fn close(mut self) {
        self.flush();
        if self.unwritten > 0 {
            self.lose(self.unwritten);
            let lost = self.failing;
            tracing::error!(lost, "an access log that cannot be written is closed");
        }
        // Dropped, the buffer would be tried once more.
        drop(self.buffer.into_parts());
    }
}

fn open(target: &LogTarget) -> io::Result<Buffer> {
    let out: Box<dyn Write + Send> = match target {
        LogTarget::Stdout => Box::new(io::stdout()),
        LogTarget::File(path) => Box::new(open_file(path)?),
    };
    Ok(BufWriter::with_capacity(64 << 10, out))
}

fn open_file(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_all(
    lines: &Receiver<Line>,
    mut out: Output,
    target: &LogTarget,
    format: LogFormat,
    reopen: &AtomicBool,
) {
    let mut text = Vec::with_capacity(1024);
    while let Ok(first) = lines.recv() {
        if reopen.swap(false, Ordering::Relaxed) {
            match open(target) {
                Ok(fresh) => std::mem::replace(&mut out, Output::new(fresh)).close(),
                Err(error) => tracing::error!(%error, "the access log cannot be reopened"),
            }
        }
        // What has queued up meanwhile goes out in one write.
        for line in std::iter::once(first).chain(lines.try_iter().take(QUEUE_LINES)) {
            text.clear();
            match line.write(format, &mut text) {
                Ok(()) => out.write(&text),
                Err(error) => tracing::error!(%error, "a line of the access log makes no text"),
            }
        }
        out.flush();
    }
    out.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(target: &str) -> Asked {
        let request = http::Request::get(target)
            .version(Version::HTTP_2)
            .header("host", "www.example")
            .header("user-agent", "say \"hi\"\\ \u{e9}");
        Asked::of(&request.body(()).unwrap().into_parts().0)
    }

    fn line() -> Line {
        Line {
            ended: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250),
            duration: Duration::from_millis(250),
            acknowledged: Some(Duration::from_millis(290)),
            client: "192.0.2.7:4711".parse().unwrap(),
            request: Some(Box::new(asked("/a?b=c"))),
            unread_line: None,
            status: Some(StatusCode::OK),
            bytes: 1234,
            known: Size::Exact(1234),
            layer: Some(Layer::Learnt),
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

    fn text(line: &Line, format: LogFormat) -> String {
        let mut out = Vec::new();
        line.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_has_every_field() {
        assert_eq!(
            text(&line(), LogFormat::Json),
            "{\"time\":\"2023-11-14T22:13:20.000Z\",\"client\":\"192.0.2.7:4711\",\
             \"method\":\"GET\",\"host\":\"www.example\",\"path\":\"/a?b=c\",\
             \"status\":200,\"bytes\":1234,\"size\":1234,\"size_source\":\"exact\",\"size_layer\":\"learnt\",\
             \"duration_ms\":250.0,\"acknowledged_ms\":290.0,\"wait_ms\":1.5,\"queue_wait_ms\":0.0,\"slowdown\":2.0,\"class\":\"gold\",\
             \"cluster\":null,\"endpoint\":null,\"reason\":null,\"aborted\":false}\n"
        );
    }

    #[test]
    fn a_request_line_that_is_none_is_shown_as_it_came() {
        let mut line = line();
        line.request = None;
        line.unread_line = Some(b"G\"T /\x01\xff HTTP/9"[..].into());
        let combined = text(&line, LogFormat::Combined);
        assert!(
            combined.contains(" \"G\\x22T /\\x01\\xFF HTTP/9\" 200 "),
            "{combined}"
        );
        let json: serde_json::Value = serde_json::from_str(&text(&line, LogFormat::Json)).unwrap();
        assert_eq!(json["request_line"], "G\\x22T /\\x01\\xFF HTTP/9");
        assert!(json["path"].is_null());
    }

    #[test]
    fn a_client_of_ipv4_is_that_on_a_socket_of_ipv6() {
        let mut line = line();
        line.client = "[::ffff:192.0.2.7]:4711".parse().unwrap();
        let json = text(&line, LogFormat::Json);
        assert!(json.contains("\"client\":\"192.0.2.7:4711\""), "{json}");
        assert!(text(&line, LogFormat::Combined).starts_with("192.0.2.7 - - "));
    }

    #[test]
    fn both_paths_are_told_where_they_differ() {
        let mut line = line();
        let mut request = asked("/x/../%61?b");
        request.matched("/a".to_owned());
        line.request = Some(Box::new(request));
        let json = text(&line, LogFormat::Json);
        let both = "\"path\":\"/x/../%61?b\",\"matched_path\":\"/a\",\"status\"";
        assert!(json.contains(both), "{json}");
        let combined = text(&line, LogFormat::Combined);
        assert!(
            combined.contains("\"GET /x/../%61?b HTTP/2.0\""),
            "{combined}"
        );
        assert!(combined.ends_with(" gold \"/a\"\n"), "{combined}");
    }

    #[test]
    fn combined_ends_with_size_wait_slowdown_and_class() {
        let mut line = line();
        line.request = Some(Box::new(asked("/a")));
        assert_eq!(
            text(&line, LogFormat::Combined),
            "192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] \"GET /a HTTP/2.0\" 200 1234 \
             \"-\" \"say \\x22hi\\x22\\x5C \\xC3\\xA9\" 1234 1.500 2.000 gold\n"
        );
        line.request = None;
        line.known = Size::Unknown;
        line.slowdown = None;
        assert!(
            text(&line, LogFormat::Combined)
                .ends_with("\"-\" 200 1234 \"-\" \"-\" - 1.500 - gold\n")
        );
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted() {
        let before = lines_lost();
        let config = AccessLog {
            format: LogFormat::Json,
            target: LogTarget::File("/dev/full".into()),
            span: sprat_config::resolved::Span::default(),
        };
        let (sender, writer) = Writer::start(&config).unwrap();
        for _ in 0..1_000 {
            assert!(sender.send(line()));
        }
        drop(sender);
        writer.join();
        assert_eq!(lines_lost() - before, 1_000);
    }

    #[test]
    fn what_a_disk_does_not_take_for_a_while_is_written_later() {
        #[derive(Clone, Default)]
        struct Disk(Arc<std::sync::Mutex<(bool, Vec<u8>)>>);
        impl Write for Disk {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let mut disk = self.0.lock().unwrap();
                match disk.0 {
                    true => Err(io::ErrorKind::StorageFull.into()),
                    false => disk.1.write(bytes),
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let disk = Disk::default();
        let full = |full| disk.0.lock().unwrap().0 = full;
        static LOST: AtomicU64 = AtomicU64::new(0);
        let mut out = Output::new(BufWriter::with_capacity(4, Box::new(disk.clone())));
        out.lost = &LOST;
        full(true);
        out.write(b"1\n");
        out.flush();
        assert_eq!((out.unwritten, out.failing), (1, Some(0)));
        out.write(b"2\n");
        out.write(b"3\n");
        assert_eq!((out.unwritten, out.failing), (2, Some(1)));
        full(false);
        out.write(b"4\n");
        out.flush();
        assert_eq!((out.unwritten, out.failing), (0, None));
        assert_eq!(disk.0.lock().unwrap().1, b"1\n2\n4\n");
        assert_eq!(LOST.load(Ordering::Relaxed), 1);
        out.close();
    }
}
