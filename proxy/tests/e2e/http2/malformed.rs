//! Tests of malformed messages (RFC 9113 8.1.1), which end their own stream and no other.

use super::client::*;
use super::origin::*;
use super::{farm, pattern};
use crate::common::*;

/// A field of a header block, valid or not.
type Field<'a> = (&'a [u8], &'a [u8]);

const PROTOCOL_ERROR: u32 = 1;

/// Returns the head of a request with fields of any bytes. The `is_indexed` says whether they enter
/// the dynamic table.
fn head(path: &[u8], fields: &[Field<'_>], is_indexed: bool) -> Vec<u8> {
    let own: [(&[u8], &[u8]); 4] = [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", b"test.example"),
        (b":path", path),
    ];
    let mut block = Vec::new();
    for (name, value) in own.iter().chain(fields) {
        block.push(if is_indexed { 0x40 } else { 0 });
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text);
        }
    }
    block
}

#[test]
fn a_malformed_request_leaves_its_neighbours_alone() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = Proxy::of(&[&origin]);
    let post = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", "/neighbour"),
    ]);
    let malformed: [(&[u8], &[Field<'_>]); 7] = [
        (b"/control", &[(b"x-a", b"b\x01c")]),
        (b"/nul", &[(b"x-a", b"\0")]),
        (b"/upper", &[(b"X-Upper", b"b")]),
        (b"/space", &[(b"x a", b"b")]),
        (b"/high\xff", &[]),
        (b"/unknown", &[(b":unknown", b"b")]),
        (b"/connection", &[(b"connection", b"close")]),
    ];
    let logged = [
        "/control",
        "/nul",
        "/upper",
        "/space",
        "/high%FF",
        "/unknown",
        "/connection",
    ];
    for is_indexed in [false, true] {
        let mut raw = Raw::connect(proxy.address, &[]);
        assert!(raw.frame(HEADERS, END_HEADERS, 1, &post));
        for (n, (path, fields)) in malformed.iter().enumerate() {
            let stream = 2 * n as u32 + 3;
            let block = head(path, fields, is_indexed);
            assert!(raw.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
            let end = raw.end_of(stream).unwrap();
            assert_eq!((end.kind, end.error()), (RST_STREAM, PROTOCOL_ERROR));
        }
        // The neighbour has been under way all the time.
        assert!(raw.frame(DATA, END_STREAM, 1, b"whole"));
        let data = raw.find(|frame| frame.kind == DATA && frame.stream == 1);
        assert_eq!(data.unwrap().payload, b"whole");
        // Later requests come by a table that the library has not seen filled.
        let block = head(b"/first", &[(b"x-a", b"b")], true);
        assert!(raw.frame(HEADERS, END_HEADERS | END_STREAM, 101, &block));
        assert!(raw.end_of(101).unwrap().ends_stream());
        let again = [0xc2, 0xc1, 0xc0, 0xbf, 0xbe];
        assert!(raw.frame(HEADERS, END_HEADERS | END_STREAM, 103, &again));
        assert!(raw.end_of(103).unwrap().ends_stream());
    }
    proxy.assert_no_leak();
    let lines = proxy.log_lines(2 * (malformed.len() + 3));
    let refused: Vec<_> = lines.iter().filter(|line| line["status"] == 400).collect();
    for (line, path) in refused.iter().zip(logged.iter().cycle()) {
        assert_eq!(line["path"], *path);
        assert_eq!(
            (&line["method"], &line["host"]),
            (&"GET".into(), &"test.example".into())
        );
        assert_eq!(line["reason"], "malformed_http2");
    }
    assert_eq!(refused.len(), 2 * malformed.len());
    let paths = lines.iter().filter(|line| line["path"] == "/first");
    assert_eq!(paths.count(), 4);
    proxy.stop();
}

/// Checks that a flood of malformed requests ends the connection: each costs as much as a cancelled
/// one.
#[test]
fn a_flood_of_malformed_requests_ends_the_connection() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    let mut raw = Raw::connect(proxy.address, &[]);
    let mut reader = Raw {
        stream: raw.stream.try_clone().unwrap(),
    };
    let reading = std::thread::spawn(move || while reader.read().is_some() {});
    let block = head(b"/", &[(b"X-Upper", b"b")], false);
    let mut requests = (0..200_000).map(|n| 2 * n + 1);
    let flooded =
        requests.any(|stream| !raw.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
    assert!(flooded, "the flood went through");
    reading.join().unwrap();
    // By Sprat's bound, or by the library's where all came at once.
    let lines = proxy.log_lines_at_least(200);
    assert!(lines.len() < 10_000, "{}", lines.len());
    assert_eq!(origin.connections(), 0);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_header_block_that_is_none_ends_the_connection() {
    let proxy = Proxy::of(&[&farm()]);
    for before in [&b""[..], &head(b"/", &[(b"X-Upper", b"b")], true)] {
        let mut raw = Raw::connect(proxy.address, &[]);
        if !before.is_empty() {
            raw.frame(HEADERS, END_HEADERS | END_STREAM, 1, before);
        }
        // An index that is in no table.
        raw.frame(HEADERS, END_HEADERS | END_STREAM, 3, &[0xff, 0x20]);
        assert!(raw.find(|frame| frame.kind == GOAWAY).is_some());
        while raw.read().is_some() {}
    }
    proxy.stop();
}

#[test]
fn pseudo_header_fields_in_a_requests_trailers_reset_it() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = Proxy::of(&[&origin]);
    let post = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", "/"),
    ]);
    for name in [":path", ":status", ":x"] {
        let mut raw = Raw::connect(proxy.address, &[]);
        for stream in [1, 3] {
            assert!(raw.frame(HEADERS, END_HEADERS, stream, &post));
            assert!(raw.frame(DATA, 0, stream, b"whole"));
        }
        let end = END_HEADERS | END_STREAM;
        let trailers = block(&[("x-sum", "1"), (name, "/")]);
        assert!(raw.frame(HEADERS, end, 3, &trailers));
        let reset = raw.end_of(3).unwrap();
        assert_eq!(
            (reset.kind, reset.error()),
            (RST_STREAM, PROTOCOL_ERROR),
            "{name}"
        );
        // Its neighbour has sound ones.
        assert!(raw.frame(HEADERS, end, 1, &block(&[("x-sum", "1")])));
        let data = raw.find(|frame| frame.kind == DATA && frame.stream == 1);
        assert_eq!(data.unwrap().payload, b"whole");
    }
    proxy.assert_no_leak();
    proxy.stop();
}

/// Sends two requests on one connection, of which `answer` spoils the first. Returns the outcomes
/// of both, and of one more.
fn beside(answer: impl Fn(&mut Raw, u32) + Send + Sync + 'static) -> [Result<u16, ()>; 3] {
    let origin = raw_origin(move |_, mut raw| {
        let [first, second] = [(); 2].map(|()| raw.find(is_request).unwrap().stream);
        answer(&mut raw, first);
        std::thread::sleep(std::time::Duration::from_millis(20));
        for stream in [second, second + 2] {
            if stream > second && raw.find(is_request).is_none() {
                return;
            }
            raw.frame(HEADERS, END_HEADERS, stream, OK);
            raw.frame(DATA, END_STREAM, stream, pattern(100).as_bytes());
        }
        while raw.read().is_some() {}
    });
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    let ends = run(async {
        let client = connect(proxy.address).await;
        let ask = |path: &'static str| {
            let mut client = client.clone();
            async move {
                let response = client.send_request(request(path)).await.map_err(drop)?;
                let status = response.status().as_u16();
                let body = http_body_util::BodyExt::collect(response.into_body()).await;
                body.map(|_| status).map_err(drop)
            }
        };
        let first = tokio::spawn(ask("/first"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let second = tokio::spawn(ask("/second"));
        let ends = [first.await.unwrap(), second.await.unwrap()];
        [ends[0], ends[1], ask("/third").await]
    });
    assert_eq!(origin.connections(), 1);
    proxy.assert_no_leak();
    proxy.stop();
    ends
}

#[test]
fn a_malformed_response_is_a_502_and_leaves_its_neighbours_alone() {
    let served = Ok(200);
    for field in [
        ("x-a", "b\u{1}"),
        ("X-Upper", "b"),
        ("x a", "b"),
        (":path", "/"),
    ] {
        let ends = beside(move |raw, stream| {
            let block = block(&[(":status", "200"), field]);
            raw.frame(HEADERS, END_HEADERS, stream, &block);
        });
        assert_eq!(ends, [Ok(502), served, served], "{field:?}");
    }
}

#[test]
fn pseudo_header_fields_in_a_responses_trailers_break_it_off_alone() {
    for name in [":status", ":path"] {
        let ends = beside(move |raw, stream| {
            raw.frame(HEADERS, END_HEADERS, stream, OK);
            raw.frame(DATA, 0, stream, b"part");
            // Its head has gone out.
            std::thread::sleep(std::time::Duration::from_millis(50));
            let trailers = block(&[(name, "200")]);
            raw.frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers);
        });
        assert_eq!(ends, [Err(()), Ok(200), Ok(200)], "{name}");
    }
}

#[test]
fn a_response_that_is_longer_than_it_said_is_a_502() {
    for pause_ms in [0, 0, 1] {
        let ends = beside(move |raw, stream| {
            let head = block(&[(":status", "200"), ("content-length", "5")]);
            let head = frame(HEADERS, END_HEADERS, stream, &head);
            let data = frame(DATA, END_STREAM, stream, b"more than five");
            if pause_ms == 0 {
                raw.send(&[head, data].concat());
            } else {
                raw.send(&head);
                raw.send(&data);
            }
        });
        // The head may have gone before the rest came.
        assert!(ends[0] == Ok(502) || (pause_ms > 0 && ends[0].is_err()));
        assert_eq!(ends[1..], [Ok(200), Ok(200)]);
    }
}

/// The five bytes that a response announces, before it sends more.
const SAID: &[u8] = b"whole";

/// The way in which an endpoint sends more than it announced.
#[derive(Clone, Copy, Debug)]
enum Excess {
    /// The excess comes in the first frame of the body.
    AtOnce,
    /// The excess comes after a part of the announced bytes.
    AfterPart,
    /// The excess comes after all announced bytes.
    AfterAll,
}

/// Starts an endpoint whose streams send too much; with `alternates` every second one does.
fn exceeding(excess: Excess, alternates: bool) -> Origin {
    raw_origin(move |_, mut raw| {
        while let Some(request) = raw.find(is_request) {
            let stream = request.stream;
            let head = block(&[(":status", "200"), ("content-length", "5")]);
            let head = frame(HEADERS, END_HEADERS, stream, &head);
            let is_sound = alternates && stream % 4 == 3;
            let (first, rest) = match excess {
                _ if is_sound => (SAID, &b""[..]),
                Excess::AtOnce => (&b"whole, and more"[..], &b""[..]),
                Excess::AfterPart => (&SAID[..3], &b"le, and more"[..]),
                Excess::AfterAll => (SAID, &b", and more"[..]),
            };
            let is_whole = rest.is_empty();
            let flags = if is_whole { END_STREAM } else { 0 };
            raw.send(&[head, frame(DATA, flags, stream, first)].concat());
            if !is_whole {
                // The head and what was right have gone out.
                std::thread::sleep(std::time::Duration::from_millis(15));
                raw.frame(DATA, END_STREAM, stream, rest);
            }
        }
    })
}

/// The number of runs in a row.
const RUNS: usize = 20;

#[test]
fn what_is_too_much_of_a_response_resets_its_stream_alone() {
    for excess in [Excess::AtOnce, Excess::AfterPart, Excess::AfterAll] {
        let origin = exceeding(excess, true);
        let proxy = Proxy::logging(over_http2(origin.address, 10));
        let mut raw = Raw::connect(proxy.address, &[]);
        for run in 0..RUNS as u32 {
            let [bad, neighbour] = [4 * run + 1, 4 * run + 3];
            assert!(raw.get(bad, "/") && raw.get(neighbour, "/sound"));
            let (mut got, mut open, mut status) = (Vec::new(), 2, None);
            while open > 0 {
                let frame = raw.read().expect("the connection goes on");
                assert_ne!(frame.kind, GOAWAY, "{excess:?}, run {run}");
                if frame.stream == bad {
                    match frame.kind {
                        HEADERS => status = frame.status(),
                        DATA => got.extend_from_slice(&frame.payload),
                        _ => {}
                    }
                } else if frame.stream == neighbour {
                    assert_ne!(frame.kind, RST_STREAM, "{excess:?}, run {run}");
                }
                let is_end = frame.ends_stream() || frame.kind == RST_STREAM;
                if is_end && frame.stream == bad {
                    let is_broken = frame.kind == RST_STREAM;
                    let is_refused = matches!(excess, Excess::AtOnce);
                    assert_eq!(is_broken, !is_refused, "{excess:?}, run {run}");
                }
                open -= usize::from(is_end && frame.stream > 0);
            }
            match excess {
                // Its own: a 502 has no place in the table that is fixed.
                Excess::AtOnce => assert_eq!(status, None),
                // Nothing, if all came together.
                _ => {
                    let begun = status == Some(200) && SAID.starts_with(&got);
                    let is_right = begun || (status.is_none() && got.is_empty());
                    assert!(is_right, "{excess:?}, run {run}: {got:?}");
                }
            }
        }
        assert_eq!(origin.connections(), 1);
        let lines = proxy.log_lines(2 * RUNS);
        let served = lines.iter().filter(|line| line["path"] == "/sound");
        assert!(
            served
                .clone()
                .all(|line| line["status"] == 200 && line["aborted"] == false)
        );
        assert_eq!(served.count(), RUNS);
        drop(raw);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn what_is_too_much_of_a_response_never_reaches_a_client_of_http1() {
    for excess in [Excess::AtOnce, Excess::AfterPart, Excess::AfterAll] {
        let origin = exceeding(excess, false);
        let proxy = Proxy::logging(over_http2(origin.address, 10));
        for run in 0..RUNS {
            let mut client = proxy.connect();
            assert!(client.send(get("/")));
            let Some(head) = client.head() else {
                // All came together, and nothing had gone out.
                assert!(!matches!(excess, Excess::AtOnce), "run {run}");
                continue;
            };
            if let Excess::AtOnce = excess {
                assert_eq!(head.status(), 502, "run {run}");
                continue;
            }
            assert_eq!(head.status(), 200, "{excess:?}, run {run}");
            assert_eq!(head.field("content-length"), Some("5"));
            // Where it has got all that was said, another can follow.
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let mut got = Vec::new();
            // A reset will do.
            let _ = std::io::Read::read_to_end(&mut client.reader, &mut got);
            let got = String::from_utf8(got).unwrap();
            let bodies = match got.split_once("HTTP/1.1 200 OK\r\n") {
                None => [&*got, ""],
                Some((first, second)) => {
                    assert_eq!(first.as_bytes(), SAID);
                    [first, second.split_once("\r\n\r\n").unwrap().1]
                }
            };
            let is_right = bodies.map(|body| SAID.starts_with(body.as_bytes()));
            assert_eq!(is_right, [true; 2], "{excess:?}, run {run}: {got:?}");
        }
        assert_eq!(origin.connections(), 1);
        proxy.assert_no_leak();
        proxy.stop();
    }
}
