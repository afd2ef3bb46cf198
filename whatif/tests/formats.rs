//! A made-up log of each format, read exactly.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sprat_whatif::log::{self, Entry, Fault, Format, Log, ReadError, Reading};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// The time 2026-11-24 11:00:00 UTC, in nanoseconds.
const ELEVEN: u64 = 1_795_518_000 * S;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/logs")
        .join(name)
}

fn read(files: &[PathBuf], format: Option<Format>) -> Result<(Log, Vec<Entry>), ReadError> {
    read_from(files, format, &[], usize::MAX)
}

fn read_from(
    files: &[PathBuf],
    format: Option<Format>,
    mut stdin: &[u8],
    max_requests: usize,
) -> Result<(Log, Vec<Entry>), ReadError> {
    let mut entries = Vec::new();
    let reading = Reading {
        files,
        format,
        max_requests,
    };
    let log = log::read(&reading, &mut stdin, &mut |_, entry| entries.push(entry))?;
    Ok((log, entries))
}

/// An entry `at_ns` after eleven.
fn entry(at_ns: u64, grain_ns: u64, before_ns: u64, bytes: u64) -> Entry {
    Entry {
        stamp_ns: ELEVEN + at_ns,
        grain_ns,
        before_ns,
        bytes,
    }
}

/// A log is of the format, has these entries, and these lines that cannot be read.
#[track_caller]
fn holds(name: &str, format: Format, entries: &[Entry], unreadable: &[(u64, &str)]) {
    let (log, found) = read(&[path(name)], None).unwrap();
    assert_eq!(log.format, format);
    assert_eq!(found, entries);
    assert_eq!(log.requests, entries.len());
    let lines = log.unreadable.iter();
    let lines: Vec<_> = lines
        .map(|line| (line.line, line.fault.to_string()))
        .collect();
    let expected = unreadable
        .iter()
        .map(|(line, why)| (*line, (*why).to_owned()));
    assert_eq!(lines, expected.collect::<Vec<_>>());
    assert_eq!(log.unreadable_lines, unreadable.len() as u64);
    // Asked for by name it is read the same.
    assert_eq!(read(&[path(name)], Some(format)).unwrap(), (log, found));
}

#[test]
fn common() {
    let entries = [
        entry(0, S, 0, 5120),
        entry(S, S, 0, 0),
        entry(S, S, 0, 0),
        entry(3 * S, S, 0, 226),
    ];
    let stamp = "there is no time stamp such as [10/Oct/2000:13:55:36 -0700]";
    holds("clf.log", Format::Clf, &entries, &[(4, stamp)]);
}

#[test]
fn combined() {
    let entries = [
        entry(0, S, 0, 1043),
        entry(0, S, 0, 77),
        entry(2 * S, S, 0, 12),
        entry(2 * S, S, 0, 1_048_576),
    ];
    holds("combined.log", Format::Combined, &entries, &[]);
}

#[test]
fn nginx_with_request_times() {
    let entries = [
        entry(0, S, 5 * MS, 1043),
        entry(7 * S, S, 6250 * MS, 900_000),
        entry(7 * S, S, 0, 10),
    ];
    holds("nginx-timed.log", Format::NginxTimed, &entries, &[]);
}

/// A line of nginx's, eleven o'clock and seven seconds, with this after the bytes.
fn nginx_line(rest: &str) -> Vec<u8> {
    let line = r#"192.0.2.1 - - [24/Nov/2026:11:00:07 +0000] "GET / HTTP/1.1" 200 10 "#;
    [line, rest].concat().into_bytes()
}

#[test]
fn a_referers_number_is_no_request_time() {
    let referer = r#""https://example.org/?lat=48.137" "curl/8.5.0""#;
    let combined = nginx_line(referer);
    assert_eq!(Format::of(&combined), Some(Format::Combined));
    let expected = entry(7 * S, S, 250 * MS, 10);
    for time in ["rt=0.250", "rt=\"0.250\"", "\"0.250\""] {
        let timed = nginx_line(&format!("{referer} {time}"));
        assert_eq!(Format::NginxTimed.read(&timed), Ok(expected), "{time}");
    }
}

#[test]
fn a_point_in_time_is_no_request_time() {
    let line = nginx_line(r#""-" "curl/8.5.0" 1795518007.123 0.250"#);
    let expected = entry(7 * S, S, 250 * MS, 10);
    assert_eq!(Format::NginxTimed.read(&line), Ok(expected));
}

#[test]
fn sprats_own() {
    let entries = [entry(250 * MS, MS, 0, 5000), entry(125 * MS, MS, 0, 90)];
    let why = [(3, "missing field `time`")];
    holds("sprat.log", Format::Sprat, &entries, &why);
    // Neither its wait nor its slowdown is taken for a request's time.
    let entries = [entry(0, S, 0, 5000), entry(S, S, 0, 0)];
    holds("sprat-combined.log", Format::SpratCombined, &entries, &[]);
}

#[test]
fn the_logs_format_says_whether_a_line_has_a_request_time() {
    // nginx's request length, its time, upstream's and `$pipe` look like what Sprat adds.
    let line = br#"192.0.2.1 - - [24/Nov/2026:11:00:07 +0000] "GET / HTTP/1.1" 200 10 "-" "curl" 512 0.250 0.125 p"#;
    let timed = entry(7 * S, S, 250 * MS, 10);
    assert_eq!(Format::NginxTimed.read(line), Ok(timed));
    // Of Sprat's own log, also where its end is cut off, the stamp is the request's.
    let own = entry(7 * S, S, 0, 10);
    assert_eq!(Format::SpratCombined.read(line), Ok(own));
    let cut = line.strip_suffix(b" 0.125 p").unwrap();
    assert_eq!(Format::SpratCombined.read(cut), Ok(own));
}

#[test]
fn haproxy() {
    // Local time, taken as it is.
    let at = 3600 * S;
    let entries = [
        entry(at + 655 * MS, MS, 0, 2750),
        entry(at + 1007 * MS, MS, 0, 0),
    ];
    let why = [(
        3,
        "there is no time stamp such as [06/Feb/2009:12:14:14.655]",
    )];
    holds("haproxy.log", Format::Haproxy, &entries, &why);
}

#[test]
fn caddy() {
    let entries = [
        entry(500 * MS, 1000, 250 * MS, 10_900),
        entry(2 * S, MS, 1_500_000, 0),
    ];
    holds(
        "caddy.log",
        Format::Caddy,
        &entries,
        &[(3, "missing field `duration`")],
    );
}

#[test]
fn caddys_spans_may_have_several_units() {
    let of = |duration: &str| {
        let line = format!(r#"{{"ts":1795518000,"duration":"{duration}","size":1,"status":200}}"#);
        Format::Caddy.read(line.as_bytes()).map(|own| own.before_ns)
    };
    assert_eq!(of("929.675µs"), Ok(929_675));
    assert_eq!(of("1m2.5s"), Ok(62 * S + 500 * MS));
    assert_eq!(of("1h0m0.25s"), Ok(3600 * S + 250 * MS));
    for wrong in ["", "1m2", "s", "1m-2s", "1x"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn caddys_spans_may_be_in_nanoseconds() {
    let of = |duration: &str| {
        let line = format!(r#"{{"ts":1795518000,"duration":{duration},"size":1,"status":200}}"#);
        Format::Caddy.read(line.as_bytes()).map(|own| own.before_ns)
    };
    assert_eq!(of("929675"), Ok(929_675));
    assert_eq!(of("5000000000"), Ok(5 * S));
    assert_eq!(of("5"), Ok(5 * S), "seconds");
    assert_eq!(of("1000.5"), Ok(1000 * S + 500 * MS), "seconds");
}

#[test]
fn envoy() {
    let entries = [
        entry(310 * MS, MS, 0, 0),
        entry(1002 * MS, MS, 0, 135),
        entry(2 * S, MS, 0, 0),
    ];
    let why = [(
        4,
        "there is no time stamp such as [2016-04-15T20:17:00.310Z]",
    )];
    holds("envoy.log", Format::Envoy, &entries, &why);
    let entries = [entry(310 * MS, MS, 0, 4096), entry(500 * MS, MS, 0, 19)];
    let why = [(3, "missing field `bytes_sent`")];
    holds("envoy-json.log", Format::EnvoyJson, &entries, &why);
}

#[test]
fn compressed_logs_and_standard_input_are_the_same() {
    let plain = std::fs::read(path("combined.log")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    // Two members, as gzip(1) makes of two files, and two frames.
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    let (_, once) = read(&[path("combined.log")], None).unwrap();
    let twice = [once.clone(), once.clone()].concat();
    for (name, bytes) in [("a", &gzip), ("b.zst", &zstd)] {
        let file = directory.path().join(name);
        std::fs::write(&file, [&bytes[..], bytes].concat()).unwrap();
        assert_eq!(read(&[file], None).unwrap().1, twice, "{name}");
        let stdin = [PathBuf::from("-")];
        assert_eq!(read_from(&stdin, None, bytes, 9).unwrap().1, once, "{name}");
    }
    let files = [path("combined.log"), PathBuf::from("-")];
    assert_eq!(read_from(&files, None, &plain, 9).unwrap().1, twice);
    // What is cut off is an error, and no shorter log.
    let stdin = [PathBuf::from("-")];
    let error = read_from(&stdin, None, &gzip[..gzip.len() - 9], 9).unwrap_err();
    assert!(error.to_string().starts_with("cannot read -"), "{error}");
}

#[test]
fn a_bound_on_requests_is_kept_and_told() {
    let files = [path("combined.log")];
    let (log, entries) = read_from(&files, None, &[], 3).unwrap();
    assert!(log.is_cut && log.requests == 3 && entries.len() == 3);
    let (log, _) = read_from(&files, None, &[], 4).unwrap();
    assert!(!log.is_cut && log.requests == 4);
}

#[test]
fn most_lines_decide_and_others_are_counted() {
    let mut text = std::fs::read(path("haproxy.log")).unwrap();
    text.extend(std::fs::read(path("combined.log")).unwrap());
    let stdin = [PathBuf::from("-")];
    let (log, _) = read_from(&stdin, None, &text, 99).unwrap();
    assert_eq!(
        (log.format, log.requests, log.unreadable_lines),
        (Format::Combined, 4, 3)
    );
    assert_eq!(log.unreadable[0].fault, Fault::Other(Format::Haproxy));
    assert!(
        log.unreadable[0]
            .excerpt
            .starts_with("Nov 24 12:00:00 lb haproxy")
    );
}

#[test]
fn a_log_that_begins_late_is_found_and_what_is_before_is_counted() {
    let mut text = "# a comment\n".repeat(1500).into_bytes();
    text.extend(vec![b'x'; 2 << 20]);
    text.push(b'\n');
    text.extend(std::fs::read(path("envoy.log")).unwrap());
    let stdin = [PathBuf::from("-")];
    let (log, entries) = read_from(&stdin, None, &text, 99).unwrap();
    assert_eq!((log.format, entries.len()), (Format::Envoy, 3));
    assert_eq!(log.unreadable_lines, 1500 + 1 + 1);
    assert_eq!(log.unreadable.len(), 5);
}

#[test]
fn what_a_line_says_does_not_reach_a_terminal_raw() {
    let lines = [
        b"192.0.2.1 - - [24/Nov/2026:11:00:\x1b[ +0000] \"GET / HTTP/1.1\" 200 5".as_slice(),
        br#"{"time":"\u001b[2J","status":200,"bytes":5,"size_source":"exact"}"#,
    ];
    for (line, format) in lines.into_iter().zip([Format::Clf, Format::Sprat]) {
        let reason = format.read(line).unwrap_err().to_string();
        assert!(reason.ends_with("is no time"), "{reason}");
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
}

#[test]
fn a_log_that_cannot_be_read_says_what_was_tried() {
    let stdin = [PathBuf::from("-")];
    let of = |text: &[u8], format| read_from(&stdin, format, text, 9).unwrap_err().to_string();
    let error = of(b"hello\tworld\nmore\n", None);
    assert!(error.starts_with("no line of - can be read; tried the formats clf, combined,"));
    assert!(
        error.contains("haproxy") && error.contains("envoy-json"),
        "{error}"
    );
    assert!(error.contains("Line 1 is: hello\u{fffd}world\n"), "{error}");
    let error = of(b"hello\n", Some(Format::Caddy));
    assert!(error.contains("of the format caddy: no JSON: "), "{error}");
    assert!(error.contains("Leave --format out"), "{error}");
    assert!(of(b"", None).starts_with("- has no lines"));
    assert!(of(b"\n\n", None).contains("Line 1 is: \n"));
    let missing = read(&[PathBuf::from("gone.log")], None)
        .unwrap_err()
        .to_string();
    assert!(missing.starts_with("cannot read gone.log: "), "{missing}");
}

/// Lines that are nearly right.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let names = Format::ALL.map(|format| format!("{format}.log"));
    let lines: Vec<Vec<u8>> = names
        .iter()
        .flat_map(|name| {
            let text = std::fs::read(path(name)).unwrap();
            text.split(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        })
        .collect();
    let edit = (any::<prop::sample::Index>(), any::<u8>(), 0..3_u8);
    let edits = prop::collection::vec(edit, 0..6);
    (prop::sample::select(lines), edits).prop_map(|(mut line, edits)| {
        for (index, byte, kind) in edits {
            let at = index.index(line.len() + 1);
            match kind {
                0 => line.insert(at, byte),
                1 if at < line.len() => line[at] = byte,
                _ => line.truncate(at),
            }
        }
        line
    })
}

proptest! {
    #[test]
    fn no_line_makes_a_reader_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in Format::ALL {
            let _ = format.read(&line);
        }
    }

    /// What is found to be of a format is read by it.
    #[test]
    fn a_line_is_of_a_format_that_reads_it(line in nearly()) {
        if let Some(format) = Format::of(&line) {
            prop_assert!(format.read(&line).is_ok());
        }
        for format in Format::ALL {
            let _ = format.read(&line);
        }
    }
}
