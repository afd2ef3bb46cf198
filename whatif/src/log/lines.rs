//! The lines of a stream, each within a bound.

use std::io::{self, BufRead};

/// The most bytes of a line that are read.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// A reader of lines, one at a time.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    /// The number of the last line, from 1.
    number: u64,
}

/// A line without its end.
pub(super) struct Line<'a> {
    pub(super) number: u64,
    /// The first [`LINE_BYTES_MAX`] bytes of the line.
    pub(super) text: &'a [u8],
    /// Whether the line has more bytes.
    pub(super) is_cut: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
        }
    }

    /// Returns the number of the last line that was read.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut is_cut = false;
        let mut has_any = false;
        loop {
            let buffer = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if buffer.is_empty() {
                break;
            }
            has_any = true;
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = LINE_BYTES_MAX - self.line.len();
            is_cut |= part.len() > room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !has_any {
            return Ok(None);
        }
        self.number += 1;
        let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(Some(Line {
            number: self.number,
            text,
            is_cut,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_they_should_and_are_bounded() {
        let long = vec![b'x'; LINE_BYTES_MAX + 5];
        let input = [b"one\r\n\n".as_slice(), &long, b"\nlast"].concat();
        let mut lines = Lines::new(io::BufReader::with_capacity(7, &input[..]));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, line.text.len(), line.is_cut));
        }
        let cut = (3, LINE_BYTES_MAX, true);
        assert_eq!(found, [(1, 3, false), (2, 0, false), cut, (4, 4, false)]);
    }
}
