//! The version in a request line, corrected as its bytes come: RFC 9110 2.5 has a
//! message of a later minor version read as one of the latest known, and hyper knows
//! no more than 1.0 and 1.1.

use memchr::memmem;

/// The text before the digits of a version, in a request line.
const BEFORE: &[u8] = b" HTTP/";

/// The end of most request lines, which hold no other version.
const USUAL: &[u8] = b" HTTP/1.1\r";

/// The beginning of HTTP/2's preface, up to its version. It is no request, and is left as it is.
const PREFACE: &[u8] = b"PRI * HTTP/";

/// The state of reading a request line for its version.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VersionWatch {
    /// The number of bytes matched so far, of [`BEFORE`], the major digit and the dot.
    matched: usize,
    /// The number of bytes of [`PREFACE`] that the line so far consists of; `None` if it is
    /// another line.
    preface: Option<usize>,
}

impl VersionWatch {
    /// Begins a line, with its first byte.
    pub(super) fn begin(byte: u8) -> Self {
        Self {
            matched: 0,
            preface: (byte == PREFACE[0]).then_some(1),
        }
    }

    /// Writes 1.1 over a later minor version, and 1 over another major one. Returns whether the
    /// major version was another.
    pub(super) fn correct(&mut self, line: &mut [u8]) -> bool {
        const MAJOR: usize = BEFORE.len();
        const DOT: usize = MAJOR + 1;
        const MINOR: usize = MAJOR + 2;
        // Most lines come whole, and need no look at each byte.
        if self.matched == 0 && ends_as_usual(line) {
            self.preface = None;
            return false;
        }
        let mut other_major = false;
        for byte in line {
            let is_preface = self.preface == Some(PREFACE.len());
            self.preface = self
                .preface
                .filter(|&at| PREFACE.get(at) == Some(byte))
                .map(|at| at + 1);
            let goes_on = match self.matched {
                MAJOR => byte.is_ascii_digit(),
                DOT => *byte == b'.',
                MINOR => false,
                at => BEFORE[at] == *byte,
            };
            if self.matched == MAJOR && goes_on && *byte != b'1' && !is_preface {
                *byte = b'1';
                other_major = true;
            }
            if self.matched == MINOR && matches!(*byte, b'2'..=b'9') {
                *byte = b'1';
            }
            self.matched = match goes_on {
                true => self.matched + 1,
                false => usize::from(*byte == BEFORE[0]),
            };
        }
        other_major
    }
}

/// Returns whether the one version in the line is [`USUAL`], at its end.
fn ends_as_usual(line: &[u8]) -> bool {
    line.ends_with(USUAL) && memmem::find(line, BEFORE) == Some(line.len() - USUAL.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line, corrected, and whether its major version is another.
    fn corrected(line: &str, part: usize) -> (String, bool) {
        let mut bytes = line.as_bytes().to_vec();
        let mut watch = VersionWatch::begin(bytes[0]);
        let mut other = false;
        for part in bytes[1..].chunks_mut(part) {
            other |= watch.correct(part);
        }
        (String::from_utf8(bytes).unwrap(), other)
    }

    #[test]
    fn later_minor_versions_are_the_latest_known() {
        for part in 1..40 {
            for (line, expected, other) in [
                ("GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n", false),
                ("GET / HTTP/1.0\r\n", "GET / HTTP/1.0\r\n", false),
                ("GET / HTTP/1.7\r\n", "GET / HTTP/1.1\r\n", false),
                ("GET / HTTP/1.2\n", "GET / HTTP/1.1\n", false),
                ("GET / HTTP/2.0\r\n", "GET / HTTP/1.0\r\n", true),
                ("GET / HTTP/0.9\r\n", "GET / HTTP/1.1\r\n", true),
                // What is no version stays none.
                ("GET / HTTP/1.10\r\n", "GET / HTTP/1.10\r\n", false),
                ("GET / HTTP/1.20\r\n", "GET / HTTP/1.10\r\n", false),
                ("GET / HTTP/01.1\r\n", "GET / HTTP/11.1\r\n", true),
                ("GET / HTTP/2\r\n", "GET / HTTP/1\r\n", true),
                // Nor is it one with a second behind it, however they come.
                (
                    "GET / HTTP/0.n HTTP/1.1\r\n",
                    "GET / HTTP/1.n HTTP/1.1\r\n",
                    true,
                ),
                ("GET / http/1.7\r\n", "GET / http/1.7\r\n", false),
                (
                    "GET /HTTP/1.7 HTTP/1.1\r\n",
                    "GET /HTTP/1.7 HTTP/1.1\r\n",
                    false,
                ),
                ("PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n", false),
                ("PRI  * HTTP/2.0\r\n", "PRI  * HTTP/1.0\r\n", true),
            ] {
                assert_eq!(corrected(line, part), (expected.to_owned(), other));
            }
        }
    }
}
