//! Tests with messages that servers disagree about. They go to Sprat in front of an origin that is
//! as strict as RFC 9112 allows. No message may reach it that can be read in two ways, or that the
//! client did not mean as a request.
//!
//! With `UPDATE=1` they write docs/hostile-requests.md, with the answers of nginx and HAProxy if
//! these are installed.

mod cases;
mod peers;
mod strict;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::common::*;
use cases::Case;
use strict::{Reached, StrictOrigin};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/hostile-requests.md");

/// A time longer than any answer takes.
const ANSWER: Duration = Duration::from_secs(5);

/// The outcome of a message: the answers to it, and what reached the origin.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The status of each answer.
    answers: Vec<u16>,
    reached: Vec<Reached>,
}

/// Sends a message, with a harmless request behind it unless it is truncated. Reads until the
/// connection is closed.
fn send(server: SocketAddr, origin: &StrictOrigin, case: &Case) -> Outcome {
    origin.forget();
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(ANSWER)).unwrap();
    let after = b"GET /after HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    // Refused in the middle, the rest need not be taken.
    let whole = match case.group {
        "truncated" => case.bytes.clone(),
        _ => [&case.bytes[..], after].concat(),
    };
    let _ = stream.write_all(&whole);
    if case.group == "truncated" {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut text = Vec::new();
    let mut part = [0; 4096];
    // A reset after a refusal ends it as well.
    while let Ok(read @ 1..) = stream.read(&mut part) {
        text.extend_from_slice(&part[..read]);
    }
    Outcome {
        answers: statuses(&text),
        reached: origin.reached(),
    }
}

/// Returns the statuses in a server's answers. No body that is sent here looks like a status line.
fn statuses(text: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(text);
    let lines = text.split("HTTP/1.").skip(1);
    let status = |line: &str| line.get(2..5)?.parse().ok();
    lines
        .filter_map(status)
        .filter(|&status: &u16| status != 100)
        .collect()
}

/// Returns the fault in what reached the origin, if there is one.
fn fault(case: &Case, reached: &[Reached]) -> Option<String> {
    for message in reached {
        match message {
            Reached::Violation(why) => return Some(why.clone()),
            Reached::Request { target, .. } if target.contains("smuggled") => {
                return Some(format!("{target} was taken for a request"));
            }
            Reached::Request { .. } => {}
        }
    }
    let served = case.answers.iter().filter(|&&status| status == 200).count();
    (reached.len() > served).then(|| format!("{} requests instead of {served}", reached.len()))
}

#[test]
fn nothing_ambiguous_is_forwarded() {
    let cases = cases::all();
    assert!(cases.len() >= 150, "{}", cases.len());
    let origin = StrictOrigin::start();
    let proxy = Proxy::start(&config(&[origin.address]));
    let mut wrong = String::new();
    for case in &cases {
        let outcome = send(proxy.address, &origin, case);
        if let Some(fault) = fault(case, &outcome.reached) {
            let _ = writeln!(wrong, "{}: {}: {fault}", case.group, case.name);
        }
        if outcome.answers != case.answers {
            let _ = writeln!(
                wrong,
                "{}: {}: answered {:?} instead of {:?}",
                case.group, case.name, outcome.answers, case.answers
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn names_are_unique_and_the_document_has_every_row() {
    let cases = cases::all();
    let mut names: Vec<_> = cases.iter().map(|case| (case.group, case.name)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(DOCUMENT, peers::document(&cases)).unwrap();
    }
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    for case in &cases {
        let row = peers::row_start(case);
        assert!(document.contains(&row), "UPDATE=1 writes it: {row}");
    }
    // The header, the line below it, and a row for each.
    let rows = document.lines().filter(|line| line.starts_with('|'));
    assert_eq!(rows.count(), cases.len() + 2);
    for (file, before) in [
        ("docs/hostile-requests.md", "\n"),
        ("README.md", "hostile-requests.md) | "),
    ] {
        let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
        let counted = format!("{before}{} ", cases.len());
        let text = std::fs::read_to_string(path).unwrap();
        assert!(
            text.contains(&counted),
            "{file} counts others than {}",
            cases.len()
        );
    }
}
