//! The common log format and what grew out of it: combined, nginx's with the request's
//! time, and Sprat's own.

use super::clock;
use super::entry::{Entry, Fault};
use super::format::Format;
use super::scan::{Scan, Word, number, seconds_ns};

/// The stamp that a line must have, as errors show it.
const STAMP: &str = "[10/Oct/2000:13:55:36 -0700]";

/// The bytes of a stamp between its brackets.
const STAMP_LEN: usize = 26;

/// Reads a line, and returns its entry and which of the formats it is. The entry has what would be
/// nginx's request time, whichever of the formats the line looks like.
pub(super) fn read(line: &[u8]) -> Result<(Entry, Format), Fault> {
    let (stamp, rest) = find_stamp(line)?;
    let stamp = clock::common(stamp)
        .ok_or_else(|| Fault::BadStamp(String::from_utf8_lossy(stamp).into_owned()))?;
    let mut scan = Scan::new(rest);
    let Some(Word::Quoted(_)) = scan.word() else {
        return Err(Fault::NoRequest);
    };
    scan.status("the request")?;
    let entry = Entry {
        stamp_ns: stamp.ns,
        grain_ns: stamp.grain_ns,
        before_ns: 0,
        bytes: scan.bytes()?,
    };
    let more = More::of(scan);
    let before_ns = more.request_time_ns.unwrap_or(0);
    Ok((Entry { before_ns, ..entry }, more.format))
}

/// Finds the stamp by the shape of what is in brackets, for a user's name may have brackets.
/// Returns the stamp and the rest of the line.
fn find_stamp(line: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    for open in memchr::memchr_iter(b'[', line) {
        let inside = &line[open + 1..];
        let (Some(stamp), Some(b']')) = (inside.get(..STAMP_LEN), inside.get(STAMP_LEN)) else {
            continue;
        };
        if stamp[2] == b'/' && stamp[6] == b'/' && stamp[11] == b':' && stamp[20] == b' ' {
            return Ok((stamp, &inside[STAMP_LEN + 1..]));
        }
    }
    Err(Fault::NoStamp(STAMP))
}

/// The nanoseconds from which on a number is no span, but a point in time such as nginx's `$msec`:
/// three years, or 1973.
const SPAN_NS_MAX: u64 = 100_000_000 * 1_000_000_000;

/// The part of a line after the number of bytes.
struct More {
    format: Format,
    request_time_ns: Option<u64>,
}

impl More {
    /// Reads what stands after the number of bytes. Referer and user agent make the line combined;
    /// Sprat's own goes on with size, wait, slowdown, class, duration and endpoint. In other lines,
    /// the first number of seconds with at least three digits after the point is nginx's
    /// `$request_time`, by itself, in quotation marks or after an equals sign.
    fn of(mut scan: Scan<'_>) -> Self {
        let mut words = 0;
        let mut quoted = 0;
        let mut own = Own::default();
        let mut request_time_ns = None;
        while let Some(word) = scan.word() {
            words += 1;
            let is_leading = words <= 2 && matches!(word, Word::Quoted(_));
            if is_leading {
                quoted += 1;
            } else if quoted == 2 {
                own.take(word);
            }
            request_time_ns = request_time_ns.or_else(|| match is_leading {
                // A referer may end with a number after an equals sign.
                true => seconds_ns(word.text()),
                false => span_ns(word.text()),
            });
        }
        let format = match (quoted, request_time_ns) {
            (2, _) if own.is_whole() => Format::SpratCombined,
            (_, Some(_)) => Format::NginxTimed,
            (2, None) => Format::Combined,
            _ => Format::Clf,
        };
        Self {
            format,
            request_time_ns,
        }
    }
}

/// Reads a span such as `0.005`, or the same after `rt=`, also in quotation marks, in nanoseconds.
fn span_ns(word: &[u8]) -> Option<u64> {
    let value = match memchr::memrchr(b'=', word) {
        Some(equals) => &word[equals + 1..],
        None => word,
    };
    let quoted = value.strip_prefix(b"\"");
    let value = quoted
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value);
    seconds_ns(value).filter(|span_ns| *span_ns < SPAN_NS_MAX)
}

/// The words seen so far of what Sprat's combined format ends with.
#[derive(Default)]
struct Own {
    words: usize,
    is_other: bool,
}

impl Own {
    fn take(&mut self, word: Word<'_>) {
        let is_ms = |text: &[u8]| {
            let point = text.iter().rev().position(|byte| *byte == b'.');
            point == Some(3) && seconds_ns(text).is_some()
        };
        let fits = match (self.words, word) {
            (0, Word::Bare(text)) => text == b"-" || number(text).is_some(),
            (1, Word::Bare(text)) => is_ms(text),
            (2, Word::Bare(text)) => text == b"-" || is_ms(text),
            // What follows the class came later: the duration and the endpoint.
            (3, Word::Bare(_)) | (4 | 6, Word::Quoted(_)) => true,
            (4, Word::Bare(text)) => is_ms(text),
            (5, Word::Bare(_)) => true,
            _ => false,
        };
        self.words += 1;
        self.is_other |= !fits;
    }

    fn is_whole(&self) -> bool {
        !self.is_other && (4..=7).contains(&self.words)
    }
}
