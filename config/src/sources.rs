//! The texts of a configuration's files, and the places in them.

use std::fmt;
use std::ops::Range;

/// A place in a file, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The bytes of the place, in the texts of all files together, in the order in which they were
    /// read.
    pub span: Range<usize>,
}

/// A line of a file, as messages tell it to people.
#[derive(Clone, Debug)]
pub struct WrittenAt {
    /// The line, counted from 1.
    pub line: usize,
    /// The name of the file; none if the configuration has one file.
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

/// Lines are equal, whatever their numbers: the place of a value does not change its meaning.
impl PartialEq for WrittenAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The beginnings of all lines, for use without the texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// The first byte of each line, in the texts of all files together.
    starts: Vec<u32>,
    /// The first byte of each file, and its name.
    files: Vec<(usize, String)>,
}

impl Lines {
    /// Returns the file and line of a byte, as `sprat.yaml:12`.
    pub(crate) fn at(&self, byte: usize) -> String {
        let line_of = |byte: usize| self.starts.partition_point(|start| *start as usize <= byte);
        let after = self.files.partition_point(|(start, _)| *start <= byte);
        match self.files.get(after.saturating_sub(1)) {
            Some((start, name)) => format!("{name}:{}", 1 + line_of(byte) - line_of(*start)),
            None => String::new(),
        }
    }
}

/// The texts of all files, one after the other, so that a place in any of them is a
/// number of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Each file's text with a line break after it.
    text: String,
    /// The files in the order of the text; never empty.
    files: Vec<SourceFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SourceFile {
    name: String,
    start: usize,
}

impl Sources {
    /// Creates the texts with the file that includes the others.
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let mut own = Self {
            text: String::with_capacity(text.len() + 1),
            files: Vec::new(),
        };
        own.add(name, text);
        own
    }

    /// Adds a file; returns the byte at which it starts.
    pub(crate) fn add(&mut self, name: &str, text: &str) -> usize {
        let start = self.text.len();
        self.text.push_str(text);
        self.text.push('\n');
        self.files.push(SourceFile {
            name: name.to_owned(),
            start,
        });
        start
    }

    /// Returns the beginnings of the lines of all files.
    pub(crate) fn lines(&self) -> Lines {
        let breaks = self.text.bytes().enumerate();
        let breaks = breaks.filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1));
        let files = self.files.iter();
        Lines {
            starts: starts
                .filter_map(|start| u32::try_from(start).ok())
                .collect(),
            files: files.map(|file| (file.start, file.name.clone())).collect(),
        }
    }

    /// Returns the texts of all files, one after the other.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of the file that includes the others.
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

    /// Returns the line of a byte for a message, with its file's name if there are several files.
    pub(crate) fn written_at(&self, byte: usize) -> WrittenAt {
        let (line, file) = self.line_at(byte);
        WrittenAt {
            line,
            file: (self.files.len() > 1).then(|| file.to_owned()),
        }
    }

    /// Returns the bytes of the line around a byte, without its line break.
    pub(crate) fn line_around(&self, byte: usize) -> Range<usize> {
        line_range(&self.text, byte)
    }
}

/// Returns the last character boundary at or before a byte.
fn char_boundary(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the bytes of the line around a byte, without its line break.
fn line_range(text: &str, byte: usize) -> Range<usize> {
    let start = text[..byte].rfind('\n').map_or(0, |at| at + 1);
    let end = text[byte..].find('\n').map_or(text.len(), |at| byte + at);
    let line = &text[start..end];
    start..start + line.strip_suffix('\r').unwrap_or(line).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_cut_to_whole_characters_of_one_line() {
        // Lines begin at bytes 0, 7 and 14; the letters of two bytes are at 0 and 10.
        let sources = Sources::of("a.yaml", "ä: 1\r\nb: ü\r\nc: 2");
        for (span, line, column, cut) in [
            (0..2, 1, 1, 0..2),
            // The second byte of a letter is the letter's.
            (1..3, 1, 1, 0..3),
            (10..11, 2, 4, 10..10),
            (11..12, 2, 4, 10..12),
            // A line ends before what breaks it.
            (3..9, 1, 3, 3..5),
            (5..7, 1, 5, 5..5),
            (6..7, 1, 5, 5..5),
            (7..14, 2, 1, 7..12),
            (17..99, 3, 4, 17..18),
        ] {
            let place = sources.place(&span);
            let told = (place.line, place.column, place.span);
            assert_eq!(told, (line, column, cut), "{span:?}");
            assert_eq!(place.file, "a.yaml");
        }
    }

    #[test]
    fn lines_are_counted_in_each_file() {
        let mut sources = Sources::of("a.yaml", "\na: 1\n\nb: 2");
        let second = sources.add("b.yaml", "c: 3\nd: 4");
        let lines = sources.lines();
        for byte in 0..sources.text().len() {
            let (number, file) = sources.line_at(byte);
            assert_eq!(lines.at(byte), format!("{file}:{number}"), "{byte}");
        }
        assert_eq!(lines.at(second), "b.yaml:1");
        assert_eq!(lines.at(second + 5), "b.yaml:2");
        assert_eq!(Lines::default().at(0), "");
    }

    #[test]
    fn a_line_is_without_its_break() {
        let sources = Sources::of("a.yaml", "a: 1\r\n\r\n\nb: 2\n");
        let line = |byte| &sources.text()[sources.line_around(byte)];
        assert_eq!([0, 3, 5].map(line), ["a: 1"; 3]);
        assert_eq!([6, 8].map(line), [""; 2]);
        assert_eq!([9, 12].map(line), ["b: 2"; 2]);
        assert_eq!(sources.line_around(6), 6..6);
        assert_eq!(sources.line_around(8), 8..8);
    }
}
