//! Tests of hostile clients, frame by frame.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::client::*;
use super::farm;
use crate::common::*;
use sprat_config::resolved::PathPattern;
use sprat_scheduler::limits::MinRate;

/// The error codes of RFC 9113 7.
const PROTOCOL_ERROR: u32 = 1;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// More frames than any flood may send before it is ended.
const FRAMES: usize = 200_000;

/// Sends a flood of `frame` until the server closes the connection, and fails if it does not.
fn flood(mut raw: Raw, mut frame: impl FnMut(usize) -> Vec<u8>) {
    let mut reader = Raw {
        stream: raw.stream.try_clone().unwrap(),
    };
    let reading = std::thread::spawn(move || while reader.read().is_some() {});
    let sent = (0..FRAMES).take_while(|&n| raw.send(&frame(n))).count();
    assert!(sent < FRAMES, "the flood went through");
    reading.join().unwrap();
}

#[test]
fn control_frames_alone_end_the_connection() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    let floods = [
        frame(PING, 0, 0, &[0; 8]),
        frame(SETTINGS, 0, 0, &[]),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]),
        frame(0x10, 0, 0, b"\0\0\0\x01u=0"),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
    ];
    for sent in &floods {
        flood(Raw::connect(proxy.address, &[]), |_| sent.clone());
    }
    let lines = proxy.log_lines(floods.len());
    assert!(lines.iter().all(|line| line["reason"] == "http2_flood"));
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn empty_data_ends_the_connection() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    let mut raw = Raw::connect(proxy.address, &[]);
    let fields = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", "/1"),
    ]);
    assert!(raw.frame(HEADERS, END_HEADERS, 1, &fields));
    flood(raw, |_| frame(DATA, 0, 1, &[]));
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn requests_that_are_cancelled_end_the_connection() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    let block = get_fields("/100000", &[]);
    flood(Raw::connect(proxy.address, &[]), |n| {
        let stream = 2 * n as u32 + 1;
        let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
        [request, frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())].concat()
    });
    proxy.assert_no_leak();
    assert!(origin.connections() < 2000, "{}", origin.connections());
    proxy.stop();
}

/// Returns the fields of a request that says that its body has one byte.
fn fields_of_one_byte() -> Vec<u8> {
    block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", "/"),
        ("content-length", "1"),
    ])
}

/// Checks that a flood of requests that the server must reset for their errors ends the connection
/// (CVE-2025-8671).
#[test]
fn requests_that_are_broken_end_the_connection() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = Origin::start(move |mut peer| {
        while peer.head().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            // It takes its time; the body does not come.
            while peer.try_message(true).is_some() {}
        }
    });
    let proxy = Proxy::of(&[&origin]);
    let fields = fields_of_one_byte();
    let mut raw = Raw::connect(proxy.address, &[]);
    let mut broken = 0;
    let sent = (0..2000).take_while(|&n| {
        let stream = 2 * n + 1;
        // The one before is broken once it has come.
        let begins = raw.frame(HEADERS, END_HEADERS, stream, &fields);
        std::thread::sleep(Duration::from_millis(1));
        let goes_on = begins && raw.frame(DATA, 0, stream, b"xy");
        broken += u32::from(goes_on);
        goes_on
    });
    let sent = sent.count();
    assert!(sent < 1000, "the flood went through");
    assert!(broken >= 200, "{broken} are no flood");
    // How many of them have a line depends on how many the library refuses: it does so with those
    // that come while it is busy.
    wait_for("the flood in the log", || {
        let lines = proxy.log_lines_at_least(1);
        lines.iter().any(|line| line["reason"] == "http2_flood")
    });
    assert!(asked.load(Ordering::SeqCst) < 1000);
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that the log tells of a flood that the library ends by itself. Of requests that come at
/// once it refuses most, and resets those again when they go on; of these the proxy hears nothing.
#[test]
fn a_flood_that_the_library_ends_is_in_the_log() {
    let origin = Origin::start(|mut peer| while peer.head().is_some() {});
    let proxy = Proxy::of(&[&origin]);
    let fields = fields_of_one_byte();
    let broken = |n: u32| {
        let stream = 2 * n + 1;
        let begins = frame(HEADERS, END_HEADERS, stream, &fields);
        [begins, frame(DATA, 0, stream, b"xy")].concat()
    };
    let mut raw = Raw::connect(proxy.address, &[]);
    // It may be closed before all is sent.
    raw.send(&(0..1000).flat_map(broken).collect::<Vec<u8>>());
    while raw.read().is_some() {}
    wait_for("the flood in the log", || {
        let lines = proxy.log_lines_at_least(1);
        lines.iter().any(|line| line["reason"] == "http2_flood")
    });
    drop(raw);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn an_upload_that_is_cut_off_without_an_error_is_not_whole() {
    let (come, begun) = std::sync::mpsc::channel();
    let (tell, told) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer| {
        peer.head().unwrap();
        come.send(()).unwrap();
        let mut body = Vec::new();
        // A reset will do.
        let _ = peer.reader.read_to_end(&mut body);
        tell.send(body).unwrap();
    });
    let proxy = Proxy::of(&[&origin]);
    let fields = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", "/"),
    ]);
    let mut raw = Raw::connect(proxy.address, &[]);
    assert!(raw.frame(HEADERS, END_HEADERS, 1, &fields));
    assert!(raw.frame(DATA, 0, 1, b"abc"));
    begun.recv_timeout(PATIENCE).unwrap();
    assert!(raw.frame(RST_STREAM, 0, 1, &[0; 4]));
    let body = told.recv_timeout(PATIENCE).unwrap();
    assert!(!body.ends_with(b"0\r\n\r\n"), "the origin saw a whole body");
    let line = proxy.log_lines(1).remove(0);
    let reason = line["reason"].as_str().unwrap();
    assert!(
        ["truncated_body", "client_closed"].contains(&reason),
        "{line}"
    );
    drop(raw);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_head_without_an_end_ends_the_connection() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    for payload in [&b""[..], &block(&[("x-a", "y")])] {
        let mut raw = Raw::connect(proxy.address, &[]);
        assert!(raw.frame(HEADERS, 0, 1, &get_fields("/1", &[])));
        flood(raw, |_| frame(CONTINUATION, 0, 1, payload));
    }
    assert_eq!(origin.connections(), 0);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    let mut raw = Raw::connect(proxy.address, &[]);
    let value = "v".repeat(15_000);
    let fields = [("x-a", &*value), ("x-b", &value), ("x-c", &value)];
    let head = get_fields("/1", &fields);
    let more = block(&[("x-d", &value), ("x-e", &value)]);
    let (first, rest) = head.split_at(16_000);
    assert!(raw.frame(HEADERS, END_STREAM, 1, first));
    for part in [rest, &more].concat().chunks(16_000) {
        assert!(raw.frame(CONTINUATION, 0, 1, part));
    }
    assert!(raw.frame(CONTINUATION, END_HEADERS, 1, &[]));
    let end = raw.end_of(1).unwrap();
    assert_ne!(end.status(), Some(200), "{end:?}");
    // Half of it is fine.
    let (first, rest) = head.split_at(16_000);
    assert!(raw.frame(HEADERS, END_STREAM, 3, first));
    for part in rest.chunks(16_000) {
        assert!(raw.frame(CONTINUATION, 0, 3, part));
    }
    assert!(raw.frame(CONTINUATION, END_HEADERS, 3, &[]));
    let end = raw.end_of(3).unwrap();
    assert_eq!((end.kind, end.payload.len()), (DATA, 1));
    drop(raw);
    // More fields than are allowed, all of them small.
    let mut raw = Raw::connect(proxy.address, &[]);
    let many = vec![("x-a", "y"); 101];
    let head = get_fields("/1", &many);
    assert!(raw.frame(HEADERS, END_HEADERS | END_STREAM, 1, &head));
    let head = raw.find(|frame| frame.kind == HEADERS).unwrap();
    assert_ne!(head.status(), Some(200), "{head:?}");
    drop(raw);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn streams_are_bounded() {
    let origin = Origin::start(|mut peer| {
        // Never answers.
        while peer.try_message(true).is_some() {}
    });
    let proxy = Proxy::of(&[&origin]);
    let mut raw = Raw::connect(proxy.address, &[]);
    // The client has heard how many it may open.
    raw.find(|frame| frame.kind == SETTINGS && frame.flags == 0)
        .unwrap();
    assert!(raw.frame(SETTINGS, ACK, 0, &[]));
    for n in 0..101 {
        assert!(raw.get(2 * n + 1, "/1"));
    }
    let reset = raw.find(|frame| frame.kind == RST_STREAM).unwrap();
    assert_eq!((reset.stream, reset.error()), (201, REFUSED_STREAM));
    proxy.wait_metric(&["sprat_open_requests"], 100.0);
    drop(raw);
    proxy.assert_no_leak();
    proxy.stop();
}

fn impatient(origin: &Origin) -> Proxy {
    let mut config = config(&[origin.address]);
    config.listeners[0].stream_idle_timeout = Duration::from_millis(300);
    config.listeners[0].request_headers_timeout = Duration::from_millis(300);
    config.listeners[0].idle_timeout = Duration::from_millis(300);
    Proxy::logging(config)
}

#[test]
fn a_window_that_never_opens_costs_its_stream() {
    let origin = farm();
    let proxy = impatient(&origin);
    let mut raw = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 0)]);
    assert!(raw.get(1, "/20000"));
    assert!(raw.get(3, "/20000"));
    assert!(raw.frame(WINDOW_UPDATE, 0, 3, &20_000u32.to_be_bytes()));
    // The other is whole, whatever becomes of this one.
    let mut bytes = 0;
    let reset = raw
        .find(|frame| {
            if frame.kind == DATA && frame.stream == 3 {
                bytes += frame.payload.len();
            }
            frame.kind == RST_STREAM
        })
        .unwrap();
    assert_eq!((reset.stream, reset.error(), bytes), (1, CANCEL, 20_000));
    drop(raw);
    proxy.assert_no_leak();
    let lines = proxy.log_lines(2);
    assert_eq!(
        (&lines[0]["aborted"], &lines[0]["bytes"]),
        (&false.into(), &20_000.into())
    );
    assert_eq!(lines[1]["reason"], "client_stalled");
    proxy.stop();
}

/// Checks that an answer of the proxy's own is complete only if its client has taken it.
#[test]
fn an_answer_of_our_own_that_is_reset_before_its_body_is_not_complete() {
    let origin = farm();
    let mut config = config(&[origin.address]);
    config.routes[0].matches.path = PathPattern::Exact("/elsewhere".to_owned());
    let proxy = Proxy::logging(config);
    let mut raw = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 0)]);
    assert!(raw.get(1, "/1"));
    raw.find(|frame| frame.kind == HEADERS).unwrap();
    assert!(raw.frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["reason"], "no_route");
    assert_eq!(line["aborted"], true);
    // An answer without a body needs no window.
    let head = block(&[
        (":method", "HEAD"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", "/1"),
    ]);
    assert!(raw.frame(HEADERS, END_HEADERS | END_STREAM, 3, &head));
    assert!(raw.end_of(3).is_some_and(|end| end.kind == HEADERS));
    assert_eq!(proxy.log_lines(2)[1]["aborted"], false);
    drop(raw);
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that a stream that waits for its turn on a full socket is not taken for one whose window
/// is closed.
#[test]
fn a_stream_of_a_slow_client_may_wait_long_for_its_turn() {
    let origin = Origin::http(|_| ok(&"x".repeat(200_000)));
    let mut config = config(&[origin.address]);
    let listener = &mut config.listeners[0];
    listener.stream_idle_timeout = Duration::from_secs(2);
    listener.max_unsent_bytes = 4 << 10;
    listener.limits.min_rates.response = Some(MinRate {
        bytes_per_s: 1,
        window: Duration::from_secs(1),
    });
    let proxy = Proxy::logging(config);
    let room = 1u32 << 30;
    let mut raw = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, room)]);
    assert!(raw.frame(WINDOW_UPDATE, 0, 0, &room.to_be_bytes()));
    let streams = 50;
    for n in 0..streams {
        assert!(raw.get(2 * n + 1, "/"));
    }
    // Each has a frame in turn, and the round takes twice what a stream may stand still.
    for _ in 0..streams {
        let next = raw.find(|frame| matches!(frame.kind, DATA | RST_STREAM));
        assert_eq!(next.unwrap().kind, DATA);
        std::thread::sleep(Duration::from_millis(80));
    }
    assert_eq!(proxy.metric(&["sprat_bad_requests_total"]), 0.0);
    drop(raw);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_window_that_opens_by_single_bytes_costs_its_stream() {
    let origin = farm();
    let mut config = config(&[origin.address]);
    config.listeners[0].limits.min_rates.response = Some(MinRate {
        bytes_per_s: 1000,
        window: Duration::from_millis(300),
    });
    let proxy = Proxy::logging(config);
    let mut raw = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 100)]);
    assert!(raw.get(1, "/20000"));
    assert!(raw.get(3, "/20000"));
    let mut writer = Raw {
        stream: raw.stream.try_clone().unwrap(),
    };
    let dribbling = std::thread::spawn(move || {
        // The other takes as much in a hundred times the steps, and enough.
        let [byte, kilobyte] = [1u32, 1000].map(u32::to_be_bytes);
        while writer.frame(WINDOW_UPDATE, 0, 1, &byte)
            && writer.frame(WINDOW_UPDATE, 0, 3, &kilobyte)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut bytes = 0;
    let reset = raw.find(|frame| {
        if frame.kind == DATA && frame.stream == 3 {
            bytes += frame.payload.len();
        }
        frame.kind == RST_STREAM
    });
    let reset = reset.unwrap();
    assert_eq!((reset.stream, reset.error()), (1, CANCEL));
    if bytes < 20_000 {
        raw.find(|frame| {
            bytes += frame.payload.len();
            frame.kind == DATA && frame.ends_stream()
        })
        .unwrap();
    }
    assert_eq!(bytes, 20_000);
    raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    dribbling.join().unwrap();
    proxy.assert_no_leak();
    let lines = proxy.log_lines(2);
    let of = |reason: &str| lines.iter().filter(|l| l["reason"] == reason).count();
    assert_eq!(of("response_too_slow"), 1, "{lines:?}");
    proxy.wait_metric(&["sprat_bad_requests_total", "response_too_slow"], 1.0);
    proxy.stop();
}

#[test]
fn responses_that_are_broken_off_are_no_flood() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    let mut raw = Raw::connect(proxy.address, &[]);
    for n in 0..400 {
        let stream = 2 * n + 1;
        assert!(raw.get(stream, "/100000"), "closed after {n}");
        let mut frame = raw.find(|frame| frame.kind == DATA).unwrap();
        assert!(raw.frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
        // What is on its way already counts as well.
        loop {
            let taken = u32::try_from(frame.payload.len()).unwrap();
            if taken > 0 {
                assert!(raw.frame(WINDOW_UPDATE, 0, 0, &taken.to_be_bytes()));
            }
            assert!(raw.frame(PING, 0, 0, &[7; 8]));
            frame = raw
                .find(|frame| frame.kind == DATA || (frame.kind == PING && frame.flags == ACK))
                .unwrap();
            if frame.kind == PING {
                break;
            }
        }
    }
    drop(raw);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn the_rest_of_a_response_that_is_not_wanted_does_not_keep_a_connection() {
    let origin = farm();
    let proxy = impatient(&origin);
    // All of it is with the library when its window closes.
    let mut raw = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 1)]);
    assert!(raw.get(1, "/100"));
    assert!(raw.find(|frame| frame.kind == GOAWAY).is_some());
    while raw.read().is_some() {}
    proxy.assert_no_leak();
    let lines = proxy.log_lines(1);
    assert_eq!(lines[0]["reason"], "client_stalled");
    assert_eq!(lines[0]["aborted"], true);
    proxy.stop();
}

#[test]
fn a_client_that_stops_in_the_middle_is_closed() {
    let origin = farm();
    let proxy = impatient(&origin);
    // After the preface, after a request, in the middle of a head.
    let mut silent = Raw::connect(proxy.address, &[]);
    let mut done = Raw::connect(proxy.address, &[]);
    assert!(done.get(1, "/1"));
    let mut begun = Raw::connect(proxy.address, &[]);
    assert!(begun.frame(HEADERS, END_STREAM, 1, &get_fields("/1", &[])));
    for raw in [&mut silent, &mut done] {
        let goodbye = raw.find(|frame| frame.kind == GOAWAY).unwrap();
        assert_eq!(goodbye.error(), 0);
        while raw.read().is_some() {}
    }
    while begun.read().is_some() {}
    proxy.assert_no_leak();
    assert_eq!(
        proxy.metric(&["sprat_bad_requests_total", "head_timeout"]),
        1.0
    );
    proxy.stop();
}

#[test]
fn a_head_that_comes_byte_by_byte_is_late_however_steadily() {
    let origin = farm();
    let mut config = config(&[origin.address]);
    config.listeners[0].request_headers_timeout = Duration::from_millis(300);
    let proxy = Proxy::logging(config);
    // In one frame, whose bytes keep the connection from being idle.
    let value = "v".repeat(4000);
    let head = get_fields("/1", &[("x-a", &value)]);
    let whole = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head);
    let mut raw = Raw::connect(proxy.address, &[]);
    let sent = whole.chunks(1).take_while(|byte| {
        std::thread::sleep(Duration::from_millis(2));
        raw.send(byte)
    });
    assert!(sent.count() < whole.len(), "the head was taken");
    proxy.wait_metric(&["sprat_bad_requests_total", "head_timeout"], 1.0);
    proxy.assert_no_leak();
    proxy.stop();
}

/// The server's treatment of a head.
#[derive(Debug, PartialEq)]
enum Verdict {
    Reset,
    /// The request is answered with 400.
    Bad,
    /// The request is answered with another status that is no success.
    Refused,
    Served,
}

use Verdict::*;

const M: (&str, &str) = (":method", "GET");
const S: (&str, &str) = (":scheme", "http");
const A: (&str, &str) = (":authority", "test.example");
const P: (&str, &str) = (":path", "/1");

#[test]
fn heads_are_checked_as_strictly_as_those_of_http_1() {
    let cases: Vec<(Verdict, Vec<(&str, &str)>)> = vec![
        (Served, vec![M, S, A, P]),
        (Served, vec![M, S, P, ("host", "test.example")]),
        (Served, vec![M, S, A, P, ("host", "Test.Example")]),
        (Served, vec![M, S, A, P, ("te", "trailers")]),
        (Bad, vec![M, S, P]),
        (Bad, vec![M, S, A, P, ("host", "other.example")]),
        (Bad, vec![M, S, P, ("host", "a"), ("host", "b")]),
        (Bad, vec![M, S, (":authority", "user@test.example"), P]),
        (
            Bad,
            vec![M, S, A, P, ("content-length", "0"), ("content-length", "0")],
        ),
        (Bad, vec![M, S, A, P, ("x-a", " b")]),
        (Bad, vec![M, S, A, P, ("x-a", "b\t")]),
        (Bad, vec![M, S, A, (":path", "/a\"b")]),
        (Bad, vec![M, S, A, (":path", "/a%00")]),
        (Bad, vec![M, (":scheme", "ftp"), A, P]),
        (Refused, vec![(":method", "TRACE"), S, A, P]),
        (Refused, vec![(":method", "CONNECT"), (":authority", "a:1")]),
        (Refused, vec![M, S, A, P, ("expect", "the-unexpected")]),
        (Reset, vec![M, S, A]),
        (Reset, vec![M, A, P]),
        (Reset, vec![S, A, P]),
        (Reset, vec![M, M, S, A, P]),
        (Reset, vec![M, S, A, P, ("x-a", "b"), (":path", "/2")]),
        (Reset, vec![M, S, A, P, (":status", "200")]),
        (Reset, vec![M, S, A, P, (":unknown", "1")]),
        (Reset, vec![M, S, A, (":path", "")]),
        (Reset, vec![M, S, A, (":path", "/a b")]),
        (Reset, vec![M, S, A, P, ("connection", "close")]),
        (Reset, vec![M, S, A, P, ("transfer-encoding", "chunked")]),
        (Reset, vec![M, S, A, P, ("upgrade", "h2c")]),
        (Reset, vec![M, S, A, P, ("keep-alive", "1")]),
        (Reset, vec![M, S, A, P, ("proxy-connection", "x")]),
        (Reset, vec![M, S, A, P, ("te", "gzip")]),
        (Reset, vec![M, S, A, P, ("X-Upper", "1")]),
        (Reset, vec![M, S, A, P, ("x-a", "b\r\nc: d")]),
        (Reset, vec![M, S, A, P, ("x a", "b")]),
        (Reset, vec![M, S, A, P, ("content-length", "5")]),
        (Reset, vec![M, S, A, P, ("content-length", "x")]),
    ];
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    let origin = Origin::http(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        ok("x")
    });
    let proxy = Proxy::start(&config(&[origin.address]));
    let mut wrong = Vec::new();
    for (expected, fields) in &cases {
        let before = reached.load(Ordering::SeqCst);
        let mut raw = Raw::connect(proxy.address, &[]);
        raw.frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(fields));
        let answer = raw.find(|frame| {
            frame.kind == GOAWAY || frame.stream == 1 && matches!(frame.kind, HEADERS | RST_STREAM)
        });
        let verdict = match answer {
            Some(frame) if frame.kind == HEADERS => match frame.status() {
                Some(200) => Served,
                Some(400) => Bad,
                _ => Refused,
            },
            _ => Reset,
        };
        let passed = reached.load(Ordering::SeqCst) - before;
        if verdict != *expected || passed != usize::from(*expected == Served) {
            wrong.push((verdict, passed, expected, fields));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_body_is_as_long_as_was_said() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = Proxy::of(&[&origin]);
    let fields = [("content-length", "5"), (":path", "/1")];
    let head = block(&[(":method", "POST"), S, A, fields[1], fields[0]]);
    for (sent, whole) in [("hello", true), ("hell", false), ("hello!", false)] {
        let mut raw = Raw::connect(proxy.address, &[]);
        assert!(raw.frame(HEADERS, END_HEADERS, 1, &head));
        assert!(raw.frame(DATA, END_STREAM, 1, sent.as_bytes()));
        let end = raw.end_of(1).unwrap();
        match whole {
            true => assert_eq!(end.payload, b"hello"),
            false => assert_eq!(
                (end.kind, end.error()),
                (RST_STREAM, PROTOCOL_ERROR),
                "{sent}"
            ),
        }
    }
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that a stream is not reset right after the answer to a request whose body is unwanted:
/// some clients would forget the answer.
#[test]
fn a_client_has_time_for_an_answer_before_its_body_is_refused() {
    let proxy = Proxy::of(&[]);
    let is_reset = |frame: &RawFrame| frame.kind == RST_STREAM;
    // A machine that stands still for a second would have it in another order.
    let heard = (0..5).any(|_| {
        let mut raw = Raw::connect(proxy.address, &[]);
        let head = block(&[(":method", "POST"), S, A, (":path", "/")]);
        raw.frame(HEADERS, END_HEADERS, 1, &head);
        raw.frame(DATA, 0, 1, b"some of it");
        assert!(raw.end_of(1).unwrap().ends_stream());
        raw.frame(DATA, 0, 1, b"and more");
        raw.frame(PING, 0, 0, &[7; 8]);
        let next = raw.find(|frame| is_reset(frame) || frame.kind == PING);
        let heard = next.unwrap().kind == PING;
        if heard {
            // It is over in the end.
            let reset = raw.find(is_reset).unwrap();
            assert_eq!((reset.stream, reset.error()), (1, 0));
        }
        heard
    });
    assert!(heard);
    proxy.assert_no_leak();
    proxy.stop();
}
