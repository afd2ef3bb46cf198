//! Tests of responses that Sprat compresses, over real sockets.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::*;

/// Returns a text of so many bytes that compresses well.
fn text(bytes: usize) -> String {
    "The quick brown fox jumps over the lazy dog. "
        .chars()
        .cycle()
        .take(bytes)
        .collect()
}

/// Starts an origin of texts. The path has their type, and the query their length in bytes.
fn origin() -> Origin {
    Origin::http(|request| {
        let target = request.start.split(' ').nth(1).unwrap();
        let (path, length) = target.split_once('?').unwrap_or((target, "5000"));
        let body = text(length.parse().unwrap());
        let kind = match path {
            "/json" => "application/json",
            "/png" => "image/png",
            "/events" => "text/event-stream",
            _ => "text/html; charset=utf-8",
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nETag: \"v1\"\r\nAccept-Ranges: bytes\r\n"
        );
        match path {
            "/chunked" => {
                let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
                format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}")
            }
            "/coded" => format!(
                "{head}Content-Encoding: br\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
            "/asis" => format!(
                "{head}Cache-Control: public, no-transform\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
            "/part" => {
                let head = head.replace("200 OK", "206 Partial Content");
                format!(
                    "{head}Content-Range: bytes 0-4999/9999\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
            }
            _ => {
                let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
                match request.start.starts_with("HEAD ") {
                    true => head,
                    false => head + &body,
                }
            }
        }
    })
}

fn serve(origin: &Origin, more: &str) -> Proxy {
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: 200mbit}}\n\
         listeners: [{{address: 127.0.0.1:0}}]\ncompressor: {{}}\n\
         clusters: {{app: {{endpoints: ['{}']}}}}\nroutes:\n{more}- {{cluster: app}}\n",
        origin.address
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    Proxy::logging(loaded.unwrap_or_else(|errors| panic!("{errors}")).config)
}

fn ask(proxy: &Proxy, target: &str, accepted: &str) -> Message {
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n");
    proxy.connect().ask(request)
}

/// Returns the text of a response, with its coding undone.
fn plain(answer: &Message) -> String {
    let mut out = String::new();
    let body = &answer.body[..];
    let read = match answer.field("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_string(&mut out),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_string(&mut out),
        Some("zstd") => zstd::Decoder::new(body).unwrap().read_to_string(&mut out),
        other => panic!("{other:?}"),
    };
    assert_eq!(read.unwrap(), out.len());
    out
}

#[test]
fn bodies_are_compressed_and_small_ones_are_of_exact_size() {
    let origin = origin();
    let proxy = serve(&origin, "");
    for (accepted, coding) in [
        ("gzip", "gzip"),
        ("gzip, br", "br"),
        ("gzip, br, zstd", "zstd"),
    ] {
        for (target, bytes, is_exact) in [
            ("/html?5000", 5000, true),
            ("/json?64000", 64_000, true),
            ("/chunked?5000", 5000, true),
            ("/html?300000", 300_000, false),
            ("/chunked?300000", 300_000, false),
        ] {
            let answer = ask(&proxy, target, accepted);
            assert_eq!(answer.field("content-encoding"), Some(coding), "{target}");
            // A large one may have shrunk to what is held before the head is written.
            let has_length = answer.field("content-length").is_some();
            assert!(has_length || !is_exact, "{target}");
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
            assert_eq!(answer.field("etag"), Some("W/\"v1\""));
            assert_eq!(answer.field("accept-ranges"), None);
            assert!(
                answer.body.len() < bytes / 5,
                "{target} {}",
                answer.body.len()
            );
            assert_eq!(plain(&answer), text(bytes), "{target}");
        }
    }
    let lines = proxy.log_lines(15);
    for line in &lines[..3] {
        assert_eq!(line["size_source"], "exact", "{line}");
        assert_eq!(line["size"], line["bytes"], "{line}");
    }
    proxy.assert_no_leak();
}

#[test]
fn what_is_not_for_compression_passes_as_it_is() {
    let origin = origin();
    let proxy = serve(
        &origin,
        "- {match: {path: /off}, cluster: app, compressor: off}\n",
    );
    for (target, accepted, varies) in [
        ("/html?5000", "identity", true),
        ("/html?5000", "gzip;q=0", true),
        ("/html?900", "gzip", false),
        ("/png?5000", "gzip", false),
        ("/events?5000", "gzip", false),
        ("/asis?5000", "gzip", false),
        ("/part?5000", "gzip", false),
        ("/off?5000", "gzip", false),
    ] {
        let answer = ask(&proxy, target, accepted);
        assert_eq!(answer.field("content-encoding"), None, "{target}");
        assert_eq!(answer.field("vary").is_some(), varies, "{target}");
        assert_eq!(answer.field("etag"), Some("\"v1\""));
        assert!(answer.field("content-length").is_some(), "{target}");
        assert_eq!(answer.text(), text(answer.body.len()));
    }
    let coded = ask(&proxy, "/coded?5000", "gzip");
    assert_eq!(coded.field("content-encoding"), Some("br"));
    assert_eq!(coded.text(), text(5000));
    // A HEAD tells what a GET would have without it.
    let mut client = proxy.connect();
    client.send("HEAD /html?5000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.try_message(false).unwrap();
    assert_eq!(head.field("content-encoding"), None);
    assert_eq!(head.field("vary"), Some("Accept-Encoding"));
}

#[test]
fn a_large_body_s_compressed_size_is_learnt() {
    let origin = origin();
    let proxy = serve(&origin, "");
    for _ in 0..2 {
        assert_eq!(plain(&ask(&proxy, "/html?400000", "gzip")), text(400_000));
    }
    let lines = proxy.log_lines(2);
    assert_eq!(lines[1]["size_source"], "estimate", "{}", lines[1]);
    assert_eq!(lines[1]["size"], lines[0]["bytes"], "{}", lines[1]);
}

/// Checks that the plain length, which the answer to a HEAD tells, is not taken for that of what a
/// GET with the same coding gets.
#[test]
fn a_head_teaches_no_size_of_what_is_compressed() {
    let origin = origin();
    let proxy = serve(&origin, "");
    assert_eq!(plain(&ask(&proxy, "/html?400000", "gzip")), text(400_000));
    let mut client = proxy.connect();
    client.send("HEAD /html?400000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.try_message(false).unwrap();
    assert_eq!(head.field("content-length"), Some("400000"));
    proxy.log_lines(2);
    assert_eq!(plain(&ask(&proxy, "/html?400000", "gzip")), text(400_000));
    let lines = proxy.log_lines(3);
    assert_eq!(lines[2]["size"], lines[0]["bytes"], "{}", lines[2]);
}

/// Checks that a response begins although its small body never pauses for long. Its pieces together
/// take longer than a client waits for a head.
#[test]
fn a_response_begins_though_its_body_never_pauses_for_long() {
    let has_begun = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&has_begun);
    let origin = Origin::start(move |mut peer| {
        peer.message();
        peer.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        while !ends.load(Ordering::SeqCst) && peer.send("1\r\nx\r\n") {
            std::thread::sleep(Duration::from_millis(3));
        }
        peer.send("0\r\n\r\n");
    });
    let proxy = serve(&origin, "");
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.head().expect("the head comes before the body's end");
    has_begun.store(true, Ordering::SeqCst);
    assert_eq!(head.status(), 200);
    assert_eq!(head.field("content-encoding"), Some("gzip"));
    assert_eq!(head.field("content-length"), None);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn what_an_endpoint_has_sent_is_not_kept_while_it_pauses() {
    let origin = Origin::start(|mut peer| {
        peer.message();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
        // The second part comes once the client has the first.
        std::thread::sleep(Duration::from_millis(300));
        peer.send("6\r\nsecond\r\n0\r\n\r\n");
    });
    let proxy = serve(&origin, "");
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.head().unwrap();
    let transfer = head
        .fields
        .iter()
        .find(|(name, _)| name == "transfer-encoding");
    assert!(transfer.is_some(), "{head:?}");
    let mut piece = [0; 4096];
    let read = client.reader.read(&mut piece).unwrap();
    // The first chunk: its length, then as much of gzip as can be read.
    let line = piece.iter().position(|&byte| byte == b'\n').unwrap();
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    std::io::Write::write_all(&mut decoder, &piece[line + 1..read.max(line + 1)]).unwrap();
    std::io::Write::flush(&mut decoder).unwrap();
    let early = String::from_utf8_lossy(decoder.get_ref()).into_owned();
    assert!("first".starts_with(&early), "{early}");
}
