//! Envoy's default text format, and Istio's, which has more words in the middle.

use super::clock;
use super::entry::{Entry, Fault};
use super::scan::{Scan, Word, number};

const STAMP: &str = "[2016-04-15T20:17:00.310Z]";

/// Reads a line: `[start] "request" status flags received sent duration ...`. The time is
/// that of the request.
pub(super) fn read(line: &[u8]) -> Result<Entry, Fault> {
    let inside = line.trim_ascii_start().strip_prefix(b"[");
    let inside = inside.ok_or(Fault::NoStamp(STAMP))?;
    let end = memchr::memchr(b']', inside).ok_or(Fault::NoStamp(STAMP))?;
    let text = String::from_utf8_lossy(&inside[..end]);
    let stamp = match clock::rfc3339(&text) {
        Some(stamp) => stamp,
        None if text.contains('T') => return Err(Fault::BadStamp(text.into_owned())),
        None => return Err(Fault::NoStamp(STAMP)),
    };
    let mut scan = Scan::new(&inside[end + 1..]);
    let Some(Word::Quoted(_)) = scan.word() else {
        return Err(Fault::NoRequest);
    };
    scan.status("the request")?;
    scan.word()
        .ok_or(Fault::Missing("response flags after the status"))?;
    Ok(Entry {
        stamp_ns: stamp.ns,
        grain_ns: stamp.grain_ns,
        before_ns: 0,
        bytes: bytes_sent(&mut scan).ok_or(Fault::NoBytes)?,
    })
}

/// Returns the second of the first three numbers that follow each other: bytes received, bytes
/// sent, duration.
fn bytes_sent(scan: &mut Scan<'_>) -> Option<u64> {
    let mut run = [None; 2];
    loop {
        let value = match scan.word()? {
            Word::Bare(text) => number(text),
            Word::Quoted(_) => None,
        };
        if let (Some(_), Some(sent), Some(_)) = (run[0], run[1], value) {
            return Some(sent);
        }
        run = [run[1].filter(|_| value.is_some()), value];
    }
}
