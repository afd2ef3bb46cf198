//! Standard error, where Sprat says what it has to say about itself.
//!
//! A command writes its lines at once. A server must not wait for a reader that has
//! stalled: its lines go to a thread that writes them. A line that finds the queue full is
//! lost, as is one that cannot be written; where lines are missing, the log says how many.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sprat_config::resolved::Syslog;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;

use crate::observe::draining::{Receiver, Sender, Writing, queue};
use crate::observe::log_level;
use crate::observe::log_lines::{Lines, Shape};
use crate::observe::syslog::Messages;

/// The most bytes of lines that wait for the writer.
const QUEUE_BYTES: usize = 1 << 20;

/// The number of this process's lines that were lost.
static LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// Returns how many lines could not be written to standard error.
pub(crate) fn lines_lost() -> u64 {
    LINES_LOST.load(Ordering::Relaxed)
}

/// The look of the log's lines, and the level up to which there are any.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    level: LevelFilter,
    shape: Shape,
    colour: bool,
}

impl Style {
    /// Returns the style of lines up to this level, in this shape; text is in colour if
    /// standard error shows it.
    pub fn of(level: LevelFilter, shape: Shape) -> Self {
        let colour = shape == Shape::Text && io::stderr().is_terminal();
        Self {
            level,
            shape,
            colour,
        }
    }

    /// Makes a log that is written to `writer`.
    pub fn log<W>(self, writer: W) -> impl Subscriber + Send + Sync
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let (filter, level) = reload::Layer::new(self.level);
        log_level::govern(move |wanted| level.reload(wanted).is_ok());
        tracing_subscriber::fmt()
            .with_writer(writer)
            .with_ansi(self.colour)
            // What is logged is the filter's to say.
            .with_max_level(LevelFilter::TRACE)
            // It would be told on standard error, and end the thread that logs.
            .log_internal_errors(false)
            .event_format(Lines(self.shape))
            .finish()
            .with(filter)
    }
}

/// The destination of the log's lines.
#[derive(Clone, Debug)]
pub enum StandardError {
    /// Lines go to standard error at once, however long that takes.
    Direct,
    /// Lines go to the thread that writes them.
    Queued(Arc<Queue>),
}

impl StandardError {
    /// Starts the thread that writes lines. All that were queued by the time that the
    /// [`Writer`] is dropped are written then, as long as a reader takes them.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be had.
    pub fn queued(style: Style) -> io::Result<(Self, Writer)> {
        Self::queued_to(io::stderr(), QUEUE_BYTES, style)
    }

    /// Starts the thread that sends lines to a syslog server, in place of standard error.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be had, or if there is no server.
    pub fn to_syslog(server: &Syslog, style: Style) -> io::Result<(Self, Writer)> {
        Self::queued_to(Messages::open(server, true)?, QUEUE_BYTES, style)
    }

    fn queued_to(
        out: impl Write + Send + 'static,
        most_bytes: usize,
        style: Style,
    ) -> io::Result<(Self, Writer)> {
        let (sender, lines) = queue(most_bytes);
        let mut output = Output {
            out,
            style,
            unsaid: 0,
            is_torn: false,
        };
        let writing = Writing::start("log", sender.waiting(), move || output.write_all(&lines))?;
        let unsaid = AtomicU64::new(0);
        let shape = style.shape;
        let queue = Arc::new(Queue {
            sender,
            unsaid,
            shape,
        });
        let writer = Writer {
            queue: Arc::clone(&queue),
            writing: Some(writing),
        };
        Ok((Self::Queued(queue), writer))
    }

    /// Tells people a text that is no event of the log, in the form that the log's lines
    /// have. An empty text is not told.
    pub fn complain(&self, level: Level, text: &str) {
        if !text.is_empty() {
            let shape = match self {
                Self::Direct => Shape::Text,
                Self::Queued(queue) => queue.shape,
            };
            let line = shape.of_complaint(level, text);
            // A server goes on without a reader.
            let _ = (&mut &*self).write_all(line.as_bytes());
        }
    }
}

impl Write for &StandardError {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self {
            StandardError::Direct => io::stderr().write(line),
            StandardError::Queued(queue) => {
                queue.send(line);
                Ok(line.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for StandardError {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

/// Lines that wait for the writer.
#[derive(Debug)]
pub struct Queue {
    sender: Sender<Entry>,
    /// The number of lines that were lost since one was last queued.
    unsaid: AtomicU64,
    shape: Shape,
}

#[derive(Debug)]
enum Entry {
    Line {
        text: Box<[u8]>,
        /// The number of lines that were lost just before this one.
        lost: u64,
    },
    End {
        /// The number of lines that were lost last.
        lost: u64,
    },
}

impl Queue {
    fn send(&self, text: &[u8]) {
        let lost = self.unsaid.swap(0, Ordering::Relaxed);
        let line = Entry::Line {
            text: text.into(),
            lost,
        };
        if !self.sender.send(line, text.len()) {
            self.unsaid.fetch_add(lost + 1, Ordering::Relaxed);
            LINES_LOST.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the queue: nothing is written that comes after this.
    fn end(&self) {
        let lost = self.unsaid.swap(0, Ordering::Relaxed);
        self.sender.send(Entry::End { lost }, 0);
    }
}

/// The thread that writes lines. Dropped, it writes what was queued before.
#[derive(Debug)]
pub struct Writer {
    queue: Arc<Queue>,
    writing: Option<Writing>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.end();
        // That lines were not taken cannot be told: it would be another line.
        let _ = self.writing.take().map(Writing::join);
    }
}

/// The output that lines are written to.
struct Output<W> {
    out: W,
    style: Style,
    /// The number of lost lines of which nothing is said yet.
    unsaid: u64,
    /// Whether the last line broke off before its end.
    is_torn: bool,
}

impl<W: Write> Output<W> {
    fn write_all(&mut self, lines: &Receiver<Entry>) {
        for entry in lines {
            match &*entry {
                Entry::Line { text, lost } => {
                    self.unsaid += lost;
                    self.say_lost();
                    if !self.put(text) {
                        self.unsaid += 1;
                        LINES_LOST.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Entry::End { lost } => {
                    self.unsaid += lost;
                    return self.say_lost();
                }
            }
        }
    }

    /// Writes how many lines are missing here, if any are.
    fn say_lost(&mut self) {
        if self.unsaid == 0 {
            return;
        }
        let lost = self.lost();
        if self.put(&lost) {
            self.unsaid = 0;
        }
    }

    /// Writes a line, below one that broke off; returns whether all of it went out.
    fn put(&mut self, line: &[u8]) -> bool {
        if self.is_torn && self.out.write_all(b"\n").is_err() {
            return false;
        }
        let mut written = 0;
        while written < line.len() {
            match self.out.write(&line[written..]) {
                Ok(0) => break,
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.is_torn = line[..written].last().is_some_and(|&byte| byte != b'\n');
        written == line.len()
    }

    /// Returns the line that tells of lost lines, as the log has its lines.
    fn lost(&self) -> Vec<u8> {
        let text = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&text);
        let log = self.style.log(move || Appended(Arc::clone(&writer)));
        tracing::subscriber::with_default(log, || {
            let lines = self.unsaid;
            tracing::error!(
                lines,
                "standard error was not read, or full: lines are lost here"
            );
        });
        std::mem::take(&mut *text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A writer that keeps the text of a line.
struct Appended(Arc<Mutex<Vec<u8>>>);

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes a line when it is told `true`, and refuses it when it is told
    /// `false`. Once it is told nothing any more, it takes all.
    struct Reader {
        told: mpsc::Receiver<bool>,
        taken: mpsc::Sender<String>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if !self.told.recv().unwrap_or(true) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let text = String::from_utf8(line.to_vec()).unwrap();
            // What is told of lost lines begins with the time.
            let lost = text
                .trim_end()
                .split_once("lost here ")
                .map(|lost| lost.1.to_owned());
            let _ = self.taken.send(lost.unwrap_or(text));
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Read {
        error: StandardError,
        writer: Writer,
        tell: mpsc::Sender<bool>,
        taken: mpsc::Receiver<String>,
    }

    /// Makes a standard error with room for `most_bytes` bytes, and its reader.
    fn read(most_bytes: usize) -> Read {
        let (tell, told) = mpsc::channel();
        let (taken, lines) = mpsc::channel();
        let style = Style {
            level: LevelFilter::ERROR,
            shape: Shape::Text,
            colour: false,
        };
        let reader = Reader { told, taken };
        let (error, writer) = StandardError::queued_to(reader, most_bytes, style).unwrap();
        Read {
            error,
            writer,
            tell,
            taken: lines,
        }
    }

    #[test]
    fn a_reader_that_stalls_holds_nobody_up_and_is_told_what_it_missed() {
        let before = lines_lost();
        let reader = read(10);
        for line in ["one", "two", "three", "four"] {
            reader.error.complain(Level::ERROR, line);
        }
        for line in ["one\n", "two\n"] {
            reader.tell.send(true).unwrap();
            assert_eq!(reader.taken.recv().unwrap(), line);
        }
        assert!(lines_lost() >= before + 2);
        reader.error.complain(Level::ERROR, "five");
        reader
            .error
            .complain(Level::ERROR, "much more than there is room for");
        drop((reader.tell, reader.writer));
        let taken: Vec<_> = reader.taken.iter().collect();
        assert_eq!(taken, ["lines=2", "five\n", "lines=1"]);
        // The writer has gone.
        reader.error.complain(Level::ERROR, "six");
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_told_of_when_it_does() {
        let reader = read(1_000);
        for line in ["one", "two", "three"] {
            reader.error.complain(Level::ERROR, line);
        }
        // The first; that one is missing; the second; that two are missing; the third.
        for taken in [false, false, false, true, true] {
            reader.tell.send(taken).unwrap();
        }
        drop((reader.tell, reader.writer));
        let taken: Vec<_> = reader.taken.iter().collect();
        assert_eq!(taken, ["lines=2", "three\n"]);
    }

    #[test]
    fn a_line_that_breaks_off_is_joined_to_no_other() {
        /// A disk with room for so many bytes, and what is on it.
        struct BriefDisk {
            room: usize,
            text: Vec<u8>,
        }
        impl Write for BriefDisk {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let count = bytes.len().min(self.room);
                if count == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                self.room -= count;
                self.text.write(&bytes[..count])
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let disk = BriefDisk {
            room: 3,
            text: Vec::new(),
        };
        let mut output = Output {
            out: disk,
            style: Style {
                level: LevelFilter::ERROR,
                shape: Shape::Text,
                colour: false,
            },
            unsaid: 0,
            is_torn: false,
        };
        assert!(!output.put(b"first\n"));
        assert!(!output.put(b"three\n"));
        output.out.room = 100;
        assert!(output.put(b"four\n") && output.put(b"five\n"));
        assert_eq!(output.out.text, b"fir\nfour\nfive\n");
    }

    #[test]
    fn all_is_written_at_the_end() {
        let reader = read(1 << 20);
        let lines: Vec<_> = (0..10_000).map(|line| format!("{line}\n")).collect();
        lines
            .iter()
            .for_each(|line| reader.error.complain(Level::ERROR, line));
        drop((reader.tell, reader.writer));
        assert!(reader.taken.iter().eq(lines));
    }
}
