//! The reading of a log, from its first line to its last.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use super::entry::{Entry, Fault};
use super::format::Format;
use super::input;
use super::lines::{Line, Lines};

/// The most lines by which the format is found; `SAMPLE_BYTES` bounds their bytes.
const SAMPLE_LINES: usize = 1000;
const SAMPLE_BYTES: usize = 4 << 20;

/// The most unreadable lines that are kept.
const SHOWN_MAX: usize = 5;

/// The most bytes of an unreadable line that are kept.
const EXCERPT_BYTES: usize = 160;

/// The files to be read, and how much of them.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The files; `-` is standard input.
    pub files: &'a [PathBuf],
    /// The format, if it is not to be found by the first lines.
    pub format: Option<Format>,
    /// The most requests; lines beyond them are not read.
    pub max_requests: usize,
}

/// The lines of a log that were read, and those that were not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The format of the lines.
    pub format: Format,
    /// The number of lines with a request.
    pub requests: usize,
    /// The number of lines that could not be read.
    pub unreadable_lines: u64,
    /// The first of the unreadable lines.
    pub unreadable: Vec<Unreadable>,
    /// Whether the bound on requests left lines unread.
    pub is_cut: bool,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line's number, from 1.
    pub line: u64,
    /// The fault in the line.
    pub fault: Fault,
    /// The line's beginning, without control characters.
    pub excerpt: String,
}

/// The reason for which nothing can be made of a log.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("cannot read {}{}: {error}", .file.display(), after(*.line))]
    Io {
        /// The file, as it was named.
        file: PathBuf,
        /// The last line that was read, 0 if none was.
        line: u64,
        /// The error of the system or of the decompressor.
        error: io::Error,
    },
    /// The log has no line at all.
    #[error("{} has no lines; name a log with requests, or `-` for standard input", .0.display())]
    Empty(PathBuf),
    /// The log has no line of a known format.
    #[error("{}", unknown(.0))]
    Unknown(Box<Unreadable>),
    /// The log has no line of the format that was asked for.
    #[error("{}", other(.0, *.1))]
    NotOf(Box<Unreadable>, Format),
}

fn after(line: u64) -> String {
    match line {
        0 => String::new(),
        line => format!(" after line {line}"),
    }
}

fn unknown(first: &Unreadable) -> String {
    let formats = Format::ALL.map(Format::name).join(", ");
    format!(
        "no line of {} can be read; tried the formats {formats}.\nLine {} is: {}\n\
         Write the log in one of them (docs/whatif.md has a line of each)",
        first.file.display(),
        first.line,
        first.excerpt
    )
}

fn other(first: &Unreadable, format: Format) -> String {
    format!(
        "no line of {} is of the format {format}: {}.\nLine {} is: {}\n\
         Leave --format out, and the format is found by the lines",
        first.file.display(),
        first.fault,
        first.line,
        first.excerpt
    )
}

/// Reads a log, and hands each request to `take`.
///
/// # Errors
/// A file cannot be read, or no line of the log can.
pub fn read(
    reading: &Reading<'_>,
    stdin: &mut dyn Read,
    take: &mut dyn FnMut(Format, Entry),
) -> Result<Log, ReadError> {
    let mut reader = Reader {
        format: reading.format,
        max_requests: reading.max_requests,
        log: None,
        unknown_lines: 0,
        unknown: Vec::new(),
        sample: Vec::new(),
        take,
    };
    let mut last = Path::new("");
    for file in reading.files {
        let opened = input::open(file, &mut *stdin).map_err(|error| ReadError::Io {
            file: file.clone(),
            line: 0,
            error,
        })?;
        reader.read_file(file, opened)?;
        last = file;
        if reader.log.as_ref().is_some_and(|log| log.is_cut) {
            break;
        }
    }
    reader.finish(last)
}

/// A line that waits for the format to be known.
struct Sampled {
    file: PathBuf,
    number: u64,
    text: Vec<u8>,
    is_cut: bool,
}

/// A log that is being read.
struct Reader<'a> {
    format: Option<Format>,
    max_requests: usize,
    /// The log so far; `None` until the format is known.
    log: Option<Log>,
    /// The number of lines before the format was known; `unknown` has the first of them.
    unknown_lines: u64,
    unknown: Vec<Unreadable>,
    /// The lines that wait for the format to be known.
    sample: Vec<Sampled>,
    take: &'a mut dyn FnMut(Format, Entry),
}

impl Reader<'_> {
    fn read_file(&mut self, file: &Path, input: Box<dyn BufRead + '_>) -> Result<(), ReadError> {
        let mut lines = Lines::new(input);
        let mut sampled_bytes = 0;
        loop {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    return Err(ReadError::Io {
                        file: file.to_owned(),
                        line: lines.number(),
                        error,
                    });
                }
            };
            if self.log.is_some() {
                if !self.line(file, &line) {
                    break;
                }
                continue;
            }
            sampled_bytes += line.text.len();
            // Of what is too long its beginning is shown, and no more is needed.
            let kept = if line.is_cut {
                EXCERPT_BYTES
            } else {
                line.text.len()
            };
            self.sample.push(Sampled {
                file: file.to_owned(),
                number: line.number,
                text: line.text[..kept].to_owned(),
                is_cut: line.is_cut,
            });
            if self.sample.len() >= SAMPLE_LINES || sampled_bytes >= SAMPLE_BYTES {
                self.settle();
            }
        }
        Ok(())
    }

    /// Finds the format by the lines that wait, and reads them. If none of them is of any format,
    /// they are counted, and the lines that follow decide.
    fn settle(&mut self) {
        let sample = std::mem::take(&mut self.sample);
        let whole = sample.iter().filter(|line| !line.is_cut);
        let texts = whole.map(|line| line.text.as_slice());
        if let Some(format) = self.format.or_else(|| Format::of_most(texts)) {
            self.log = Some(Log {
                format,
                requests: 0,
                unreadable_lines: self.unknown_lines,
                unreadable: std::mem::take(&mut self.unknown),
                is_cut: false,
            });
        }
        for sampled in sample {
            let line = Line {
                number: sampled.number,
                text: &sampled.text,
                is_cut: sampled.is_cut,
            };
            if self.log.is_some() {
                if !self.line(&sampled.file, &line) {
                    break;
                }
                continue;
            }
            self.unknown_lines += 1;
            if self.unknown.len() < SHOWN_MAX {
                let fault = if line.is_cut {
                    Fault::TooLong
                } else {
                    Fault::Unknown
                };
                self.unknown.push(unreadable(&sampled.file, &line, fault));
            }
        }
    }

    /// Reads a line of a known format; returns false if no more are wanted.
    fn line(&mut self, file: &Path, line: &Line<'_>) -> bool {
        let Some(log) = &mut self.log else {
            return true;
        };
        let read = match line.is_cut {
            true => Err(Fault::TooLong),
            false => log.format.read(line.text),
        };
        match read {
            Ok(_) if log.requests == self.max_requests => {
                log.is_cut = true;
                return false;
            }
            Ok(entry) => {
                log.requests += 1;
                (self.take)(log.format, entry);
            }
            Err(fault) => {
                log.unreadable_lines += 1;
                if log.unreadable.len() < SHOWN_MAX {
                    log.unreadable.push(unreadable(file, line, fault));
                }
            }
        }
        true
    }

    fn finish(mut self, last: &Path) -> Result<Log, ReadError> {
        if self.log.is_none() {
            self.settle();
        }
        match (self.log, self.unknown.into_iter().next()) {
            (Some(log), _) if log.requests > 0 => Ok(log),
            (Some(log), _) => match log.unreadable.into_iter().next() {
                Some(first) => Err(ReadError::NotOf(Box::new(first), log.format)),
                None => Err(ReadError::Empty(last.to_owned())),
            },
            (None, Some(first)) => Err(ReadError::Unknown(Box::new(first))),
            (None, None) => Err(ReadError::Empty(last.to_owned())),
        }
    }
}

fn unreadable(file: &Path, line: &Line<'_>, fault: Fault) -> Unreadable {
    let end = line.text.len().min(EXCERPT_BYTES);
    let mut excerpt = String::from_utf8_lossy(&line.text[..end]).into_owned();
    excerpt = excerpt.replace(char::is_control, "\u{fffd}");
    if end < line.text.len() {
        excerpt.push_str("...");
    }
    Unreadable {
        file: file.to_owned(),
        line: line.number,
        fault,
        excerpt,
    }
}
