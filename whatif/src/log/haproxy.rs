//! HAProxy's default format for HTTP (`option httplog`), with or without syslog's words
//! before it.

use super::clock;
use super::entry::{Entry, Fault};
use super::scan::{Scan, number};

const STAMP: &str = "[06/Feb/2009:12:14:14.655]";

/// The bytes of a stamp between its brackets.
const STAMP_LEN: usize = 24;

/// Reads a line: `client [accept date] frontend backend/server TR/Tw/Tc/Tr/Ta status
/// bytes ...`. The date is that of the request's first byte.
pub(super) fn read(line: &[u8]) -> Result<Entry, Fault> {
    let (stamp, rest) = find_stamp(line)?;
    let stamp = clock::haproxy(stamp)
        .ok_or_else(|| Fault::BadStamp(String::from_utf8_lossy(stamp).into_owned()))?;
    let mut scan = Scan::new(rest);
    scan.word()
        .ok_or(Fault::Missing("frontend after the time stamp"))?;
    scan.word()
        .ok_or(Fault::Missing("backend after the frontend"))?;
    let timers = scan.word().map(|word| word.text());
    timers
        .filter(|text| text.iter().filter(|byte| **byte == b'/').count() == 4)
        .ok_or(Fault::Missing(
            "five timers such as 10/0/30/69/109 after the backend",
        ))?;
    scan.status("the timers")?;
    let bytes = scan.word().ok_or(Fault::NoBytes)?.text();
    // A plus says that more was to come (`option logasap`).
    let bytes = bytes.strip_prefix(b"+").unwrap_or(bytes);
    Ok(Entry {
        stamp_ns: stamp.ns,
        grain_ns: stamp.grain_ns,
        before_ns: 0,
        bytes: number(bytes).ok_or(Fault::NoBytes)?,
    })
}

/// Finds the stamp by the shape of what is in brackets, for syslog has the process's number in
/// brackets. Returns the stamp and the rest of the line.
fn find_stamp(line: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    for open in memchr::memchr_iter(b'[', line) {
        let inside = &line[open + 1..];
        let (Some(stamp), Some(b']')) = (inside.get(..STAMP_LEN), inside.get(STAMP_LEN)) else {
            continue;
        };
        if stamp[2] == b'/' && stamp[6] == b'/' && stamp[11] == b':' && stamp[20] == b'.' {
            return Ok((stamp, &inside[STAMP_LEN + 1..]));
        }
    }
    Err(Fault::NoStamp(STAMP))
}
