//! Tests that a shortage of connections at the proxy is no failure of an endpoint.

use std::fs;

use super::*;
use crate::health::binary::Running;

#[test]
fn an_endpoint_whose_connections_are_all_busy_does_not_start_slowly() {
    let (busy, _other, proxy) = before_pair(|config| {
        with_cluster(config, |cluster| {
            cluster.max_connections = 1;
            cluster.slow_start = LONG;
        });
    });
    busy.is(Mood::Stalls);
    let mut first = proxy.connect();
    first.send(get("/"));
    wait_for("the request to arrive", || busy.requests() == 1);
    for _ in 0..2 {
        assert_eq!(proxy.connect().ask(get("/")).text(), "b");
    }
    let errors = ["sprat_upstream_errors", "connection_limit"];
    assert_eq!(proxy.metric(&errors), 1.0);
    busy.is(Mood::Good);
    assert_eq!(first.message().text(), "a");
    // To which a new connection is opened then.
    busy.is(Mood::Cuts);
    let statuses = [0, 1].map(|_| proxy.connect().ask(get("/")).status());
    assert!(statuses.contains(&502), "{statuses:?}");
    busy.is(Mood::Good);
    let mut client = proxy.connect();
    let answers = (0..20).filter(|_| client.ask(get("/")).text() == "a");
    assert_eq!(answers.count(), 10);
    drop((first, client));
    proxy.assert_no_leak();
}

/// Starts `sprat` with few descriptors in front of two origins. Clients take all descriptors, and
/// the first of them has been served before.
fn out_of_descriptors(cluster: &str) -> (tempfile::TempDir, Running, Peer, Vec<Peer>) {
    let directory = tempfile::tempdir().unwrap();
    let origins = [(); 2].map(|()| Origin::http(|_| ok("a")).address);
    let path = directory.path().join("sprat.yaml");
    let text = format!(
        "version: 1\nadmin: {{address: 127.0.0.1:0}}\nlisteners: [{{address: 127.0.0.1:0}}]\n\
         uplink: {{rate: unlimited}}\nclusters:\n  farm:\n    \
         endpoints: ['{}', '{}']\n    max_idle_connections: 0\n    {cluster}\n\
         routes: [{{cluster: farm}}]\n",
        origins[0], origins[1],
    );
    fs::write(&path, text).unwrap();
    let mut command = std::process::Command::new("sh");
    let run = "ulimit -n 64; exec \"$0\" run -c \"$1\" --workers 1";
    command.args(["-c", run, env!("CARGO_BIN_EXE_sprat")]);
    let running = Running::of(command.arg(path));
    let mut client = Peer::connect(running.address);
    assert_eq!(client.ask(get("/")).status(), 200);
    let others = (0..64).map(|_| Peer::connect(running.address)).collect();
    running.says("a connection cannot be accepted");
    (directory, running, client, others)
}

const OUT: &str = "an endpoint is out of use";

#[test]
fn without_a_descriptor_nobody_is_ejected() {
    let detection = "outlier_detection: {consecutive_local_origin_failure: 1}";
    let (_directory, running, mut client, others) = out_of_descriptors(detection);
    // One may be free for a moment, until a client takes it: that of a connection closed late.
    let mut refused = 0;
    wait_for("four requests without a descriptor", || {
        let answer = client.ask(get("/"));
        if answer.status() == 200 {
            return false;
        }
        assert_eq!(answer.status(), 503);
        let told = answer.field("proxy-status").unwrap();
        assert!(told.contains("error=proxy_internal_error;"), "{told}");
        assert!(answer.text().contains("no_socket"), "{}", answer.text());
        refused += 1;
        refused == 4
    });
    drop(others);
    wait_for("a descriptor to be free", || {
        client.ask(get("/")).status() == 200
    });
    assert_eq!(running.has_said(OUT), 0);
}

#[test]
fn without_a_descriptor_nobody_fails_a_check() {
    let checks = "health_checks: {tcp_health_check: {}, interval: 20ms, unhealthy_threshold: 1}";
    let (_directory, running, mut client, others) = out_of_descriptors(checks);
    std::thread::sleep(ms(500));
    drop(others);
    wait_for("a descriptor to be free", || {
        client.ask(get("/")).status() == 200
    });
    assert_eq!(running.has_said(OUT), 0);
}
