//! Tests of the log lines about endpoints that are out of use.

use super::*;
use crate::common::binary::{Running, write};

/// Starts a proxy before this endpoint and one that is not there, with these settings of the
/// cluster.
fn before(origin: std::net::SocketAddr, settings: &str) -> (tempfile::TempDir, Running) {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), origin, "");
    let text = std::fs::read_to_string(&path).unwrap();
    let one = format!("{{endpoints: ['{origin}']}}");
    assert!(text.contains(&one), "{text}");
    let other = free_address();
    let both = format!("{{endpoints: ['{origin}', '{other}'], {settings}}}");
    std::fs::write(&path, text.replace(&one, &both)).unwrap();
    let running = Running::start(&path);
    (directory, running)
}

#[test]
fn an_ejection_is_told_with_its_cause() {
    let bad = Moody::start("a");
    bad.is(Mood::Status(500));
    let settings = "dispatch: round_robin, outlier_detection: {consecutive_5xx: 2}";
    let (_directory, running) = before(bad.origin.address, settings);
    let mut client = Peer::connect(running.address);
    for _ in 0..4 {
        client.ask(get("/"));
    }
    running.says("an endpoint is out of use");
    running.says("cause=\"consecutive_5xx\" in_a_row=2 ejected_for=30s");
}

#[test]
fn a_check_that_fails_is_told_with_what_it_met() {
    let bad = Moody::start("a");
    bad.is(Mood::Status(500));
    let checks = "health_checks: {http_health_check: {path: /healthz}, interval: 100ms, \
                  unhealthy_threshold: 1, healthy_threshold: 1}, healthy_panic_threshold: 40";
    let (_directory, running) = before(bad.origin.address, checks);
    running.says("cause=\"health_check\" failure=status 500");
    running.says("cause=\"health_check\" failure=connection_refused");
    running.says("a panic: so few endpoints are well that all are used");
    bad.is(Mood::Good);
    running.says("no panic any more: only endpoints that are well are used");
    bad.is(Mood::Cuts);
    running.says("failure=connection_terminated");
}
