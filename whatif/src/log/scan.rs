//! The parts of a line: words, quoted text, numbers.

use super::entry::Fault;

/// The part of a line that is left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'a> {
    rest: &'a [u8],
}

/// A word of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// Text up to a space.
    Bare(&'a [u8]),
    /// Text between quotation marks; one that belongs to the text has a backslash before it.
    Quoted(&'a [u8]),
}

impl<'a> Word<'a> {
    /// Returns the text, without the quotation marks.
    pub(super) fn text(self) -> &'a [u8] {
        match self {
            Self::Bare(text) | Self::Quoted(text) => text,
        }
    }
}

impl<'a> Scan<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Takes the next word; `None` at the end, or where a quotation does not end.
    pub(super) fn word(&mut self) -> Option<Word<'a>> {
        let rest = self.rest.trim_ascii_start();
        let (&first, inside) = rest.split_first()?;
        if first == b'"' {
            let end = closing_quote(inside)?;
            self.rest = &inside[end + 1..];
            return Some(Word::Quoted(&inside[..end]));
        }
        let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        self.rest = &rest[end..];
        Some(Word::Bare(&rest[..end]))
    }

    /// Takes a status; `after` names what stands before it, for the error.
    pub(super) fn status(&mut self, after: &'static str) -> Result<(), Fault> {
        let word = self.word().ok_or(Fault::NoStatus(after))?.text();
        // HAProxy has -1 where it got no answer.
        let is_status = word.len() == 3 && word.iter().all(u8::is_ascii_digit);
        match is_status || matches!(word, b"-" | b"-1" | b"0") {
            true => Ok(()),
            false => Err(Fault::NoStatus(after)),
        }
    }

    /// Takes a number of bytes; `-` is 0.
    pub(super) fn bytes(&mut self) -> Result<u64, Fault> {
        match self.word().ok_or(Fault::NoBytes)?.text() {
            b"-" => Ok(0),
            text => number(text).ok_or(Fault::NoBytes),
        }
    }
}

/// Returns the place where a quotation ends.
fn closing_quote(inside: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', inside.get(from..)?)?;
        if inside[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Reads a number of at most 19 digits.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text
        .iter()
        .fold(0, |value: u64, digit| value * 10 + u64::from(digit - b'0'));
    Some(value)
}

/// Reads seconds with three to nine digits after the point, as nginx writes spans of time, in
/// nanoseconds.
pub(super) fn seconds_ns(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', text)?;
    let (whole, fraction) = (&text[..point], &text[point + 1..]);
    if !(3..=9).contains(&fraction.len()) {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction_ns = number(fraction)? * scale;
    number(whole)?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bare_or_quoted() {
        let mut scan = Scan::new(br#"  ab "c \"d\\" e"#);
        assert_eq!(scan.word(), Some(Word::Bare(b"ab")));
        assert_eq!(scan.word(), Some(Word::Quoted(br#"c \"d\\"#)));
        assert_eq!(scan.word(), Some(Word::Bare(b"e")));
        assert_eq!(scan.word(), None);
        assert_eq!(Scan::new(b"\"open").word(), None);
        assert_eq!(Scan::new(b"\"open\\").word(), None);
    }

    #[test]
    fn numbers_and_spans() {
        assert_eq!(number(b"0042"), Some(42));
        assert_eq!(
            number(b"9999999999999999999"),
            Some(9_999_999_999_999_999_999)
        );
        for text in ["", "-1", "1e3", "12345678901234567890", "+1"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(seconds_ns(b"0.005"), Some(5_000_000));
        assert_eq!(seconds_ns(b"12.000250"), Some(12_000_250_000));
        for text in ["5", "0.05", "1.", ".005", "a.005", "99999999999.000"] {
            assert_eq!(seconds_ns(text.as_bytes()), None, "{text}");
        }
    }
}
