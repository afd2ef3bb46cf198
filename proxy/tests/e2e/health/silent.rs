//! Tests that checks of silent endpoints keep no other checks waiting.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::*;

/// Returns endpoints that accept connections and say nothing, each on an address of this machine.
/// The caller must keep the socket that listens on all of them.
fn silent(count: u16) -> (TcpListener, Vec<Endpoint>) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = |number: u16| {
        let [high, low] = number.to_be_bytes();
        SocketAddr::from((Ipv4Addr::new(127, 1, high, low), port))
    };
    let endpoints = (1..=count).map(|number| endpoint(address(number)));
    (listener, endpoints.collect())
}

/// Waits for so many further checks.
fn wait_checks(well: &Moody, more: usize) {
    let before = well.checks();
    wait_for("checks", || well.checks() >= before + more);
}

#[test]
fn of_one_cluster_those_of_another() {
    let well = Moody::start("well");
    let (_listener, endpoints) = silent(300);
    let mut config = config(&[well.origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.health_checks = Some(health_checks(Duration::from_secs(5)));
    });
    let mut other = Cluster::clone(&config.clusters[0]);
    other.name = "silent".to_owned();
    other.endpoints = endpoints;
    // More than the test has patience for.
    other.resilience.health_checks = Some(health_checks(3 * PATIENCE));
    config.clusters.insert(0, Arc::new(other));
    let proxy = Proxy::start(&config);
    // The first checks of all have begun.
    std::thread::sleep(ms(200));
    wait_checks(&well, 50);
    proxy.stop();
}

#[test]
fn of_a_cluster_those_that_answer() {
    let well = Moody::start("well");
    let (_listener, endpoints) = silent(600);
    let mut config = config(&[well.origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.endpoints.extend(endpoints);
        cluster.resilience.health_checks = Some(health_checks(Duration::from_secs(2)));
    });
    let proxy = Proxy::start(&config);
    // More than there are places for have not answered.
    let failed = ["sprat_health_checks", "result=\"failed\""];
    wait_for("time-outs", || proxy.metric(&failed) >= 600.0);
    // Those that wait again fill their places for two seconds at a time; in one
    // queue, the well one would have its turn once in four.
    let (before, checked) = (proxy.metric(&failed), well.checks());
    wait_for("more of them", || proxy.metric(&failed) >= before + 256.0);
    let more = well.checks() - checked;
    assert!(more >= 20, "{more}");
    proxy.stop();
}
