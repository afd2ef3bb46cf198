//! Access logs of any bytes: none makes a reader panic, no line is lost, and what comes
//! out is in order.

use std::path::PathBuf;

use sprat_whatif::log::{self, Format, ReadError, Reading};
use sprat_whatif::traffic::Gathering;

/// Requests that are read at most.
const REQUESTS_MAX: usize = 1000;

/// Reads a log, plain or compressed, and each of its lines as every format.
pub(crate) fn read(data: &[u8]) {
    for format in [None].into_iter().chain(Format::ALL.map(Some)) {
        whole(data, format);
    }
    for line in data.split(|byte| *byte == b'\n').take(50) {
        let found = Format::of(line);
        for format in Format::ALL {
            let read = format.read(line);
            assert!(found != Some(format) || read.is_ok(), "{format}: {read:?}");
        }
    }
}

fn whole(mut data: &[u8], format: Option<Format>) {
    let lines = data.split(|byte| *byte == b'\n').count() as u64;
    let is_plain = std::str::from_utf8(data).is_ok();
    let mut gathering = Gathering::default();
    let mut entries = 0;
    let reading = Reading {
        files: &[PathBuf::from("-")],
        format,
        max_requests: REQUESTS_MAX,
    };
    let log = log::read(&reading, &mut data, &mut |format, entry| {
        entries += 1;
        gathering.take(format, entry);
    });
    match log {
        Ok(log) => {
            assert_eq!(log.requests, entries);
            if is_plain && !log.is_cut {
                // The text after the last end of a line is one, unless there is none.
                let read = log.requests as u64 + log.unreadable_lines;
                assert!(read == lines || read + 1 == lines, "{read} of {lines}");
            }
            let traffic = gathering.finish().expect("there are requests");
            assert!(traffic.requests.is_sorted_by_key(|request| request.at));
            assert_eq!(traffic.requests.len(), entries);
        }
        Err(ReadError::Io { .. }) => assert!(!is_plain, "plain text cannot be read"),
        Err(_) => assert_eq!(entries, 0),
    }
}
