//! Tests of request bodies that pass slowly, or whose end is told late.

use std::time::Duration;

use http::Request;
use sprat_config::resolved::*;

use super::client::*;
use super::origin::*;
use crate::common::*;

/// Checks that an endpoint which takes a kept body steadily, but for longer than `idle_timeout`,
/// is not cut: its window opens by a frame now and then.
#[test]
fn a_kept_body_may_be_taken_slowly() {
    const FRAMES: usize = 40;
    let origin = raw_origin(|_, mut raw| {
        let request = raw.find(is_request).unwrap().stream;
        while let Some(frame) = raw.find(|frame| frame.kind == DATA) {
            if frame.ends_stream() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            let opened = (frame.payload.len() as u32).to_be_bytes();
            raw.frame(WINDOW_UPDATE, 0, 0, &opened);
            raw.frame(WINDOW_UPDATE, 0, request, &opened);
        }
        raw.frame(HEADERS, END_HEADERS | END_STREAM, request, OK);
        while raw.read().is_some() {}
    });
    let mut config = over_http2(origin.address, 10);
    config.routes[0].idle_timeout = Duration::from_secs(1);
    config.routes[0].buffer.request = Some(BufferedBody {
        memory_bytes: 4 << 20,
        file: None,
    });
    let proxy = Proxy::start(&config);
    run(async {
        let client = connect(proxy.address).await;
        let post = Request::post("http://test.example/");
        let body = full(vec![b'a'; FRAMES * (16 << 10)]);
        assert_eq!(ask(&client, post.body(body).unwrap()).await.status, 200);
    });
    assert_eq!(proxy.metric(&["sprat_upstream_errors_total"]), 0.0);
    proxy.stop();
}

/// Checks that a request is with its endpoint once that has as many bytes as its head has
/// promised, whenever the client tells the end: from then on the answer may take longer than
/// `idle_timeout`.
#[test]
fn a_request_of_known_length_is_whole_before_its_end_is_told() {
    let origin = Origin::http(|_| {
        std::thread::sleep(Duration::from_millis(700));
        ok("done")
    });
    let kept = BufferedBody {
        memory_bytes: 1 << 20,
        file: None,
    };
    for request in [None, Some(kept)] {
        let mut config = config(&[origin.address]);
        config.routes[0].idle_timeout = Duration::from_millis(300);
        config.routes[0].buffer.request = request;
        let proxy = Proxy::start(&config);
        let mut old = proxy.connect();
        let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(old.send(format!("{chunked}0\r\n\r\n")));
        for (length, data, has_trailers) in [
            ("5", "hello", false),
            ("5", "hello", true),
            ("0", "", false),
        ] {
            let mut raw = Raw::connect(proxy.address, &[]);
            let fields = block(&[
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", "test.example"),
                (":path", "/"),
                ("content-length", length),
            ]);
            raw.frame(HEADERS, END_HEADERS, 1, &fields);
            raw.frame(DATA, 0, 1, data.as_bytes());
            if has_trailers {
                let trailers = block(&[("x-checksum", "1")]);
                raw.frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers);
            } else {
                raw.frame(DATA, END_STREAM, 1, b"");
            }
            let head = raw.find(|frame| frame.kind == HEADERS).unwrap();
            assert_eq!(head.status(), Some(200), "{length}");
            assert!(raw.end_of(1).unwrap().ends_stream());
        }
        assert_eq!(old.message().status(), 200);
        drop(old);
        proxy.assert_no_leak();
        proxy.stop();
    }
}
