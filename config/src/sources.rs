//! The texts of a configuration's files.

use std::fmt;
use std::ops::Range;

/// A place in a file, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// In bytes of the file, after those of the files that were read before it.
    pub span: Range<usize>,
}

/// Where something is written, for people.
#[derive(Clone, Debug)]
pub struct WrittenAt {
    /// The line, counted from 1.
    pub line: usize,
    /// The file, where the configuration has several.
    pub file: Option<String>,
}

impl fmt::Display for WrittenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{} of {file}", self.line),
            None => self.line.fmt(f),
        }
    }
}

/// Where something stands does not change what it means.
impl PartialEq for WrittenAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The texts of all files, one after the other, so that a place in any of them is a
/// number of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Each file's text with a line break after it.
    text: String,
    /// In the order of the text; never empty.
    files: Vec<Source>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    name: String,
    start: usize,
}

impl Sources {
    /// Holds the file that the others are included by.
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let mut own = Self {
            text: String::with_capacity(text.len() + 1),
            files: Vec::new(),
        };
        own.add(name, text);
        own
    }

    /// Adds a file; returns where it starts.
    pub(crate) fn add(&mut self, name: &str, text: &str) -> usize {
        let start = self.text.len();
        self.text.push_str(text);
        self.text.push('\n');
        self.files.push(Source {
            name: name.to_owned(),
            start,
        });
        start
    }

    /// The texts of all files.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The name of the file that includes the others.
    pub(crate) fn name(&self) -> &str {
        &self.files[0].name
    }

    /// Returns the place of a span, cut to its first line and to whole characters.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        let start = char_boundary(&self.text, span.start);
        let line = line_range(&self.text, start);
        let start = start.min(line.end);
        let end = char_boundary(&self.text, span.end).clamp(start, line.end.max(start));
        let (number, file) = self.line_at(start);
        Place {
            file: file.to_owned(),
            line: number,
            column: 1 + self.text[line.start..start].chars().count(),
            span: start..end,
        }
    }

    /// Returns the line of a byte, counted from 1, and the name of its file.
    pub(crate) fn line_at(&self, byte: usize) -> (usize, &str) {
        let byte = byte.min(self.text.len());
        let after = self.files.partition_point(|file| file.start <= byte);
        let file = &self.files[after.saturating_sub(1)];
        let before = &self.text.as_bytes()[file.start..byte];
        let breaks = before.iter().filter(|byte| **byte == b'\n').count();
        (1 + breaks, &file.name)
    }

    /// Returns where a byte is, for people: its file is named if there are several.
    pub(crate) fn written_at(&self, byte: usize) -> WrittenAt {
        let (line, file) = self.line_at(byte);
        WrittenAt {
            line,
            file: (self.files.len() > 1).then(|| file.to_owned()),
        }
    }

    /// Returns the line around a byte, without its line break.
    pub(crate) fn line_around(&self, byte: usize) -> Range<usize> {
        line_range(&self.text, byte)
    }
}

/// The last character boundary at or before a byte.
fn char_boundary(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The line around a byte, without its line break.
fn line_range(text: &str, byte: usize) -> Range<usize> {
    let start = text[..byte].rfind('\n').map_or(0, |at| at + 1);
    let end = text[byte..].find('\n').map_or(text.len(), |at| byte + at);
    let end = if text[start..end].ends_with('\r') && end > start {
        end - 1
    } else {
        end
    };
    start..end
}
