//! Access logs: one line for each request that a log's filters take, each log written by
//! a thread of its own.
//!
//! A worker makes the text, and never waits for the disk: a line that finds the queue full
//! is dropped and counted. So is one that cannot be written.

mod free;
mod line;
mod needs;
mod object;
mod queue;
mod values;

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context as _;
use sprat_config::resolved::{AccessLog, LogFilter, LogFormat, LogTarget, Syslog, SyslogAddress};
use sprat_net::problem::Problem;
use sprat_net::writable;

pub(crate) use self::line::{Line, LoggedRequest};
pub(crate) use self::needs::{Kept, Needs};
use self::queue::LineReceiver;
use crate::observe::draining::{Unwritten, Writing};
use crate::observe::syslog::Messages;

/// The lines that could not be written, of all logs that the process has had: what a log
/// has lost stays counted when a reload closes it.
static LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// Returns how many lines could not be written.
pub(crate) fn lines_lost() -> u64 {
    LINES_LOST.load(Ordering::Relaxed)
}

/// The logs of one configuration, as workers see them.
#[derive(Clone)]
pub(crate) struct Logs(Arc<Queues>);

struct Queues {
    queues: Vec<LogQueue>,
    needs: Needs,
}

/// A log's queue, and which requests have a line in it.
struct LogQueue {
    filters: Vec<LogFilter>,
    format: LogFormat,
    lines: queue::LineSender,
}

impl LogQueue {
    fn takes(&self, line: &Line) -> bool {
        let status = line.status.map(|status| status.as_u16());
        let takes = |filter: &LogFilter| filter.takes(status, line.duration, &line.class);
        self.filters.is_empty() || self.filters.iter().any(takes)
    }

    /// Queues a line; returns false if it found no room.
    fn send(&self, line: &Line, text: &mut Vec<u8>) -> bool {
        text.clear();
        if let Err(error) = line.write(&self.format, text) {
            tracing::error!(%error, "a line of the access log makes no text");
            return true;
        }
        self.lines.send(text)
    }
}

impl Logs {
    /// Opens the logs of a configuration, and starts their writers; none if it has no logs.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be opened.
    pub(crate) fn start(configs: &[AccessLog]) -> anyhow::Result<(Option<Self>, Vec<LogWriter>)> {
        let (mut queues, mut writers) = (Vec::new(), Vec::new());
        for config in configs {
            let (lines, writer) = start(config)?;
            writers.push(writer);
            queues.push(LogQueue {
                filters: config.filters.clone(),
                format: config.format.clone(),
                lines,
            });
        }
        let needs = Needs::of(configs);
        let own = Self(Arc::new(Queues { queues, needs }));
        Ok(((!configs.is_empty()).then_some(own), writers))
    }

    /// Returns the parts of requests and responses that lines need.
    pub(crate) fn needs(&self) -> &Needs {
        &self.0.needs
    }

    /// Queues a line for each log that has one of the request; returns how many of them
    /// found no room.
    pub(crate) fn send(&self, line: &Line) -> u64 {
        thread_local! {
            // A worker's, for one line after the other.
            static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let wanting = self.0.queues.iter().filter(|queue| queue.takes(line));
        TEXT.with_borrow_mut(|text| wanting.filter(|queue| !queue.send(line, text)).count() as u64)
    }
}

/// Returns the problem with a log's target, if there is one; nothing is created there.
pub(crate) fn inspect(config: &AccessLog) -> Option<Problem> {
    match &config.target {
        LogTarget::Stdout => None,
        LogTarget::File(path) => {
            let wrong = writable::appendable(path).err()?;
            let message = format!("cannot write the access log {}: {wrong}", path.display());
            let help = "make the directory, and let the user that Sprat runs as write there";
            Some(Problem::at(&config.span, message).help(help))
        }
        LogTarget::Syslog(target) => {
            let wrong = Messages::open(target, false).err()?;
            let message = format!("{}: {wrong}", not_sent(target));
            // A log that is open waits for a server that is being started anew: a reload that
            // leaves it alone is good. A start, which opens it, fails.
            Some(Problem::missing(&config.span, message))
        }
    }
}

fn start(config: &AccessLog) -> anyhow::Result<(queue::LineSender, LogWriter)> {
    let opened = LogWriter::start(config);
    opened.with_context(|| match &config.target {
        LogTarget::Stdout => "cannot write the access log to standard output".to_owned(),
        LogTarget::File(path) => format!("cannot open the access log {}", path.display()),
        LogTarget::Syslog(target) => not_sent(target),
    })
}

fn not_sent(target: &Syslog) -> String {
    match &target.address {
        SyslogAddress::Local(path) => {
            format!("cannot send the access log to syslog {}", path.display())
        }
        SyslogAddress::Udp(address) => format!("cannot send the access log to syslog {address}"),
    }
}

/// A log's writing thread, which ends when all [`Logs`] are gone and the last line is
/// written.
pub(crate) struct LogWriter {
    writing: Writing,
    reopen: Arc<AtomicBool>,
    bell: queue::Bell,
}

impl LogWriter {
    /// Opens the log and starts the thread.
    fn start(config: &AccessLog) -> io::Result<(queue::LineSender, Self)> {
        let out = LogOutput::new(open(&config.target)?);
        let (sender, lines) = queue::queue();
        let reopen = Arc::new(AtomicBool::new(false));
        let (target, flag) = (config.target.clone(), Arc::clone(&reopen));
        let write = move || write_all(&lines, out, &target, &flag);
        let own = Self {
            writing: Writing::start("access-log", sender.unwritten(), write)?,
            reopen,
            bell: sender.bell(),
        };
        Ok((sender, own))
    }

    /// Makes the writer open the file anew, at once and before the next line, for it has been
    /// rotated away.
    pub(crate) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
        // It may be long until a line comes.
        self.bell.ring();
    }

    /// Returns whether every sender is gone, and the last line written.
    pub(crate) fn is_over(&self) -> bool {
        self.writing.is_over()
    }

    /// Waits until the last line is written, as long as the log takes lines: a reader that
    /// has stalled keeps no process from its end.
    pub(crate) fn join(self) {
        match self.writing.join() {
            // No line waits, but something holds the log: a reload that has not come to its end.
            Ok(()) | Err(Unwritten::Stalled(0)) => {}
            Err(Unwritten::Stalled(bytes)) => {
                let why = "the access log is not read any more: the lines that wait are lost";
                tracing::warn!(bytes, "{why}");
            }
            Err(Unwritten::Panicked) => tracing::error!("the access log's writer panicked"),
        }
    }
}

/// The most bytes that are written at a time, and that are kept while they cannot be written.
const CHUNK: usize = 64 << 10;

type Sink = Box<dyn Write + Send>;

/// An open log, and the lines that it has not taken.
struct LogOutput {
    sink: Sink,
    /// The lines that the log has not taken, to be tried again.
    kept: Vec<u8>,
    /// The most bytes that are kept; one line may have more.
    room: usize,
    /// Lines lost since the log could last be written; none if it can.
    failing: Option<u64>,
    /// The counter of lost lines.
    lost: &'static AtomicU64,
}

impl LogOutput {
    fn new(sink: Sink) -> Self {
        Self {
            sink,
            kept: Vec::new(),
            room: CHUNK,
            failing: None,
            lost: &LINES_LOST,
        }
    }

    /// Writes lines to the log. What does not go out is kept as far as there is room, or
    /// counted as lost.
    fn write(&mut self, lines: &[u8]) {
        let written = if self.flush() { self.put(lines) } else { 0 };
        for line in lines[written..].split_inclusive(|&byte| byte == b'\n') {
            // The first may be the rest of a line that has begun in the log: without it, the next
            // line would go on where that one breaks off.
            if self.kept.is_empty() || self.kept.len() + line.len() <= self.room {
                self.kept.extend_from_slice(line);
            } else {
                self.lose(1);
            }
        }
    }

    /// Writes what was kept; returns whether all of it went out.
    fn flush(&mut self) -> bool {
        if !self.kept.is_empty() {
            let mut kept = std::mem::take(&mut self.kept);
            kept.drain(..self.put(&kept));
            self.kept = kept;
        }
        self.kept.is_empty()
    }

    /// Writes text; returns how many bytes went out.
    fn put(&mut self, text: &[u8]) -> usize {
        let mut written = 0;
        while written < text.len() {
            match self.sink.write(&text[written..]) {
                Ok(0) => {
                    self.complain(&io::ErrorKind::WriteZero.into());
                    return written;
                }
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.complain(&error);
                    return written;
                }
            }
        }
        if let Some(lost) = self.failing.take() {
            tracing::warn!(lost, "the access log can be written again");
        }
        written
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
        if !self.flush() {
            self.lose(memchr::memchr_iter(b'\n', &self.kept).count() as u64);
            let lost = self.failing;
            tracing::error!(lost, "an access log that cannot be written is closed");
        }
    }
}

fn open(target: &LogTarget) -> io::Result<Sink> {
    Ok(match target {
        LogTarget::Stdout => Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        LogTarget::File(path) => Box::new(open_file(path)?),
        LogTarget::Syslog(target) => Box::new(Messages::open(target, false)?),
    })
}

fn open_file(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Returns the length of the lines that are written together: all that fit, or the first.
fn chunk(lines: &[u8]) -> usize {
    let end = match memchr::memrchr(b'\n', &lines[..lines.len().min(CHUNK)]) {
        Some(last) => last,
        None => memchr::memchr(b'\n', lines).unwrap_or(lines.len() - 1),
    };
    end + 1
}

fn write_all(queue: &LineReceiver, mut out: LogOutput, target: &LogTarget, reopen: &AtomicBool) {
    let mut text = Vec::new();
    while let Some(mut unwritten) = queue.receive(&mut text) {
        if reopen.swap(false, Ordering::Relaxed) {
            match open(target) {
                Ok(fresh) => std::mem::replace(&mut out, LogOutput::new(fresh)).close(),
                Err(error) => tracing::error!(%error, "the access log cannot be reopened"),
            }
        }
        // What has gathered goes out in few writes.
        let mut rest = &text[..];
        while !rest.is_empty() {
            let (lines, after) = rest.split_at(chunk(rest));
            out.write(lines);
            unwritten.shrink(lines.len());
            rest = after;
        }
    }
    out.close();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::line::tests::{asked, line};
    use super::*;

    #[test]
    fn each_log_has_the_requests_that_one_of_its_filters_takes() {
        let directory = tempfile::tempdir().unwrap();
        let log = |name: &str, filters: Vec<LogFilter>| AccessLog {
            format: LogFormat::Json,
            target: LogTarget::File(directory.path().join(name)),
            span: sprat_config::resolved::Span::default(),
            filters,
        };
        let none = LogFilter::default;
        let trouble = vec![
            LogFilter {
                min_status: Some(500),
                ..none()
            },
            LogFilter {
                min_duration: Some(Duration::from_secs(1)),
                ..none()
            },
        ];
        let gold = LogFilter {
            classes: vec!["gold".to_owned()],
            ..none()
        };
        let slow_gold = LogFilter {
            min_duration: Some(Duration::from_secs(1)),
            ..gold.clone()
        };
        let configs = [
            log("all", Vec::new()),
            log("trouble", trouble),
            log("gold", vec![gold]),
            log("slow_gold", vec![slow_gold]),
        ];
        let (logs, writers) = Logs::start(&configs).unwrap();
        let logs = logs.unwrap();
        for (path, status, seconds, class) in [
            ("/1", 200, 0, "gold"),
            ("/2", 500, 0, "default"),
            ("/3", 499, 1, "default"),
            ("/4", 404, 2, "gold"),
        ] {
            let mut line = line();
            line.request = Some(Box::new(asked(path)));
            line.status = http::StatusCode::from_u16(status).ok();
            line.duration = Duration::from_secs(seconds);
            line.class = class.into();
            assert_eq!(logs.send(&line), 0);
        }
        drop(logs);
        writers.into_iter().for_each(LogWriter::join);
        let paths = |name: &str| {
            let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
            let lines = text.lines().map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                line["path"].as_str().unwrap().to_owned()
            });
            lines.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(paths("all"), "/1 /2 /3 /4");
        assert_eq!(paths("trouble"), "/2 /3 /4");
        assert_eq!(paths("gold"), "/1 /4");
        assert_eq!(paths("slow_gold"), "/4");
    }

    #[test]
    fn a_log_is_opened_anew_though_no_line_comes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let config = AccessLog {
            format: LogFormat::Json,
            target: LogTarget::File(path.clone()),
            span: sprat_config::resolved::Span::default(),
            filters: Vec::new(),
        };
        let (logs, writers) = Logs::start(&[config]).unwrap();
        std::fs::rename(&path, directory.path().join("rotated")).unwrap();
        writers.iter().for_each(LogWriter::reopen);
        drop(logs);
        writers.into_iter().for_each(LogWriter::join);
        assert!(path.exists());
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted() {
        let before = lines_lost();
        let config = AccessLog {
            format: LogFormat::Json,
            target: LogTarget::File("/dev/full".into()),
            span: sprat_config::resolved::Span::default(),
            filters: Vec::new(),
        };
        let (logs, writers) = Logs::start(&[config]).unwrap();
        let logs = logs.unwrap();
        for _ in 0..1_000 {
            assert_eq!(logs.send(&line()), 0);
        }
        drop(logs);
        writers.into_iter().for_each(LogWriter::join);
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
        let mut out = LogOutput::new(Box::new(disk.clone()));
        (out.lost, out.room) = (&LOST, 4);
        full(true);
        out.write(b"1\n");
        assert_eq!((&*out.kept, out.failing), (&b"1\n"[..], Some(0)));
        out.write(b"2\n3\n");
        assert_eq!((&*out.kept, out.failing), (&b"1\n2\n"[..], Some(1)));
        full(false);
        out.write(b"4\n");
        assert_eq!((&*out.kept, out.failing), (&b""[..], None));
        assert_eq!(disk.0.lock().unwrap().1, b"1\n2\n4\n");
        assert_eq!(LOST.load(Ordering::Relaxed), 1);
        out.close();
    }

    #[test]
    fn a_long_line_of_which_a_part_is_written_is_written_to_its_end() {
        /// A disk with room for so many bytes, and what is on it.
        #[derive(Clone, Default)]
        struct SmallDisk(Arc<std::sync::Mutex<(usize, Vec<u8>)>>);
        impl Write for SmallDisk {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let mut disk = self.0.lock().unwrap();
                let count = bytes.len().min(disk.0);
                if count == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                disk.0 -= count;
                disk.1.write(&bytes[..count])
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        static LOST: AtomicU64 = AtomicU64::new(0);
        let disk = SmallDisk::default();
        let room = |room| disk.0.lock().unwrap().0 = room;
        let mut out = LogOutput::new(Box::new(disk.clone()));
        (out.lost, out.room) = (&LOST, 4);
        room(3);
        out.write(b"a long line\n2\n");
        assert_eq!((&*out.kept, out.failing), (&b"ong line\n"[..], Some(1)));
        room(100);
        out.write(b"3\n");
        assert_eq!(disk.0.lock().unwrap().1, b"a long line\n3\n");
        assert_eq!(LOST.load(Ordering::Relaxed), 1);
        out.close();
    }

    #[test]
    fn lines_that_do_not_fit_are_written_after_those_that_do() {
        let lines = [vec![b'a'; CHUNK - 2], b"\n".to_vec(), b"bc\n".to_vec()].concat();
        assert_eq!(chunk(&lines), CHUNK - 1);
        assert_eq!(chunk(&lines[CHUNK - 1..]), 3);
        let long = [vec![b'a'; 2 * CHUNK], b"\nb\n".to_vec()].concat();
        assert_eq!(chunk(&long), 2 * CHUNK + 1);
        assert_eq!(chunk(b"\n"), 1);
    }
}
