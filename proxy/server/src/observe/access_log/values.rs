//! The writing of values in the lines of a log. It is done by hand: a line costs what it
//! takes to write its numbers and strings, and most strings have nothing to escape. Those
//! that have are left to serde_json.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Writes a string of JSON, with its quotes.
pub(super) fn string(text: &str, out: &mut Vec<u8>) -> io::Result<()> {
    if has_escapes(text.as_bytes()) {
        return Ok(serde_json::to_writer(out, text)?);
    }
    word(text.as_bytes(), out);
    Ok(())
}

/// Writes a text of UTF-8 that has nothing to escape, with its quotes.
pub(super) fn word(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Returns whether a string of JSON has another spelling for any of these bytes: control
/// characters, `"` and `\` (RFC 8259 section 7). Eight bytes are looked at in one step:
/// where a byte is less than a space, taking away a space borrows from above it; where a
/// difference is zero, taking away one does.
fn has_escapes(text: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    let within = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let (quote, backslash) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
        (word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
    };
    // The last eight may be looked at twice.
    let Some(last) = text.last_chunk() else {
        let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else {
            let is_escaped = |byte: &u8| matches!(byte, 0..=0x1f | b'"' | b'\\');
            return text.iter().any(is_escaped);
        };
        let halves = [u32::from_le_bytes(*first), u32::from_le_bytes(*last)].map(u64::from);
        let both = halves[0] | halves[1] << 32;
        return within(&both.to_le_bytes()) & TOPS != 0;
    };
    let words = text.as_chunks().0.iter();
    words.fold(within(last), |found, word| found | within(word)) & TOPS != 0
}

/// Writes a whole number.
pub(super) fn number(value: u64, out: &mut Vec<u8>) {
    // Most are small, and pieces of a known width are no call.
    match value {
        0..10 => out.push(b'0' + value as u8),
        10..100 => out.extend_from_slice(&decimal(value)[1..]),
        100..1_000 => out.extend_from_slice(&decimal(value)),
        _ => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
    }
}

/// Writes `true` or `false`.
pub(super) fn flag(is_so: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if is_so { b"true" } else { b"false" });
}

/// Writes a time in milliseconds, to the microsecond.
pub(super) fn millis(duration: Duration, out: &mut Vec<u8>) {
    thousandths(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), out);
}

/// Writes a count of thousandths as a number with a fraction: `1.5`, `2.0`.
pub(super) fn thousandths(count: u64, out: &mut Vec<u8>) {
    number(count / 1_000, out);
    let [a, b, c] = decimal(count % 1_000);
    match (b, c) {
        (b'0', b'0') => out.extend_from_slice(&[b'.', a]),
        (_, b'0') => out.extend_from_slice(&[b'.', a, b]),
        _ => out.extend_from_slice(&[b'.', a, b, c]),
    }
}

/// Writes an address with its port, within quotes.
pub(super) fn address(address: SocketAddr, out: &mut Vec<u8>) {
    out.push(b'"');
    match address {
        SocketAddr::V4(own) => {
            let [a, b, c, d] = own.ip().octets();
            for (octet, after) in [(a, b'.'), (b, b'.'), (c, b'.'), (d, b':')] {
                number(octet.into(), out);
                out.push(after);
            }
            number(own.port().into(), out);
        }
        SocketAddr::V6(own) => out.extend_from_slice(own.to_string().as_bytes()),
    }
    out.push(b'"');
}

/// The last second that a worker wrote, always in one form: most lines are of the same second.
struct LastSecond {
    /// The seconds since 1970.
    at: i64,
    text: String,
}

impl LastSecond {
    const fn none() -> RefCell<Self> {
        RefCell::new(Self {
            at: i64::MIN,
            text: String::new(),
        })
    }

    /// Writes a second, counted since 1970, in this form.
    fn write(&mut self, at: i64, form: &str, out: &mut Vec<u8>) {
        if self.at != at {
            let second = jiff::Timestamp::from_second(at).unwrap_or_default();
            self.at = at;
            self.text = second.strftime(form).to_string();
        }
        out.extend_from_slice(self.text.as_bytes());
    }
}

/// Writes a time as RFC 3339 has it, to the millisecond, within quotes.
pub(super) fn time(at: jiff::Timestamp, out: &mut Vec<u8>) {
    thread_local!(static LAST: RefCell<LastSecond> = const { LastSecond::none() });
    // Before 1970 as well, the fraction counts from the second before.
    let ms = at.as_millisecond();
    out.push(b'"');
    LAST.with_borrow_mut(|last| last.write(ms.div_euclid(1_000), "%Y-%m-%dT%H:%M:%S", out));
    let [a, b, c] = decimal(ms.rem_euclid(1_000).unsigned_abs());
    out.extend_from_slice(&[b'.', a, b, c, b'Z', b'"']);
}

/// Writes a time as the common log format has it.
pub(super) fn clf_time(at: jiff::Timestamp, out: &mut Vec<u8>) {
    thread_local!(static LAST: RefCell<LastSecond> = const { LastSecond::none() });
    let at = at.as_millisecond().div_euclid(1_000);
    LAST.with_borrow_mut(|last| last.write(at, "%d/%b/%Y:%H:%M:%S +0000", out));
}

/// Returns the last three digits of a number.
fn decimal(number: u64) -> [u8; 3] {
    [100, 10, 1].map(|unit| b'0' + (number / unit % 10) as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        /// Checks that serde_json writes the same string.
        #[test]
        fn strings_are_those_of_json(text in "[ -~\\x00-\\x20\"\\\\\\x7f-\\xff\u{2028}é]{0,40}") {
            let own = written(|out| string(&text, out).unwrap());
            prop_assert_eq!(own, serde_json::to_string(&text).unwrap());
        }

        #[test]
        fn milliseconds_are_numbers_of_json(us in 0_u64..10_000_000_000_000, scale in 0_u32..13) {
            let us = us / 10_u64.pow(scale);
            let own = written(|out| millis(Duration::from_micros(us), out));
            prop_assert_eq!(own, serde_json::to_string(&(us as f64 / 1e3)).unwrap());
        }

        #[test]
        fn times_are_those_of_jiff(ms in -10_000_000_000_i64..4_000_000_000_000, after in 0_i64..2_000) {
            for ms in [ms, ms + after] {
                let at = jiff::Timestamp::from_millisecond(ms).unwrap();
                prop_assert_eq!(written(|out| time(at, out)), format!("\"{at:.3}\""));
                let clf = at.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
                prop_assert_eq!(written(|out| clf_time(at, out)), clf);
            }
        }
    }

    /// Checks each byte that has another spelling, at each place of texts below and above a word.
    #[test]
    fn every_escape_is_found() {
        let places = (1..12).flat_map(|length| (0..length).map(move |at| (length, at)));
        for (length, at) in places {
            for byte in 0_u8..=127 {
                let mut text = vec![b'a'; length];
                text[at] = byte;
                let text = str::from_utf8(&text).unwrap();
                let own = written(|out| string(text, out).unwrap());
                assert_eq!(own, serde_json::to_string(text).unwrap());
                let is_longer = own.len() > length + 2;
                assert_eq!(has_escapes(text.as_bytes()), is_longer, "{own}");
            }
        }
    }

    #[test]
    fn numbers_have_their_digits() {
        for value in (0..2_000).chain([9_999, 10_000, u64::MAX]) {
            assert_eq!(written(|out| number(value, out)), value.to_string());
        }
    }

    #[test]
    fn addresses_are_written_as_they_are_shown() {
        for text in ["192.0.2.7:4711", "0.0.0.0:0", "[2001:db8::7]:443"] {
            let own = text.parse().unwrap();
            assert_eq!(written(|out| address(own, out)), format!("\"{text}\""));
        }
    }
}
