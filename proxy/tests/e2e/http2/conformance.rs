//! Tests by h2spec, which checks a server's conformance to RFC 9113 and RFC 7541.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::tls::{Authority, listener_tls};
use crate::common::*;

/// Returns the path of h2spec, where `scripts/setup-test.sh` puts it.
fn h2spec() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join(".tools/bin/h2spec");
    assert!(
        path.exists(),
        "h2spec is missing: scripts/setup-test.sh installs it"
    );
    path
}

/// The way in which a client comes to speak HTTP/2.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Preface,
    /// The preface, on a listener that accepts nothing else.
    RequiredPreface,
    Tls,
}

fn conforms(by: By) {
    let origin = Origin::http(|_| ok("hello"));
    let mut config = config(&[origin.address]);
    let authority = Authority::new();
    let issued = authority.issue("site", &["localhost"]);
    if let Some(http2) = &mut config.listeners[0].http2 {
        http2.required = by == By::RequiredPreface;
    }
    if by == By::Tls {
        config.listeners[0].tls = Some(listener_tls(&[&issued]));
    }
    let proxy = Proxy::start(&config);
    let mut command = Command::new(h2spec());
    command.args([
        "--strict",
        "--timeout",
        "10",
        "--host",
        "127.0.0.1",
        "--port",
    ]);
    command.arg(proxy.address.port().to_string());
    if by == By::Tls {
        command.args(["--tls", "--insecure"]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = match by {
        By::Tls | By::RequiredPreface => "146 tests, 146 passed, 0 skipped, 0 failed",
        // What is not the preface is a bad request of HTTP/1.1 there, and
        // answered as such; h2spec would have it closed without a word.
        By::Preface => "146 tests, 145 passed, 0 skipped, 1 failed",
    };
    assert!(text.contains(passed), "{text}");
    let other = text.lines().filter(|line| line.contains('\u{d7}'));
    let mut other = other.filter(|line| !line.contains("Sends invalid connection preface"));
    assert_eq!(other.next(), None, "{text}");
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn h2spec_passes_in_plain_text() {
    conforms(By::Preface);
}

#[test]
fn h2spec_passes_over_tls() {
    conforms(By::Tls);
}

#[test]
fn h2spec_passes_where_http2_is_required() {
    conforms(By::RequiredPreface);
}
