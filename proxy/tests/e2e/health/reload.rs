//! Tests of what a reload keeps of endpoints' health.

use super::*;

fn reload(proxy: &Proxy, config: &Config) {
    let control = proxy.server.as_ref().unwrap().control();
    let waiting = control.reload(config).unwrap();
    assert!(waiting.is_empty(), "{waiting:?}");
}

fn with_endpoints(config: &Config, origins: &[&Moody]) -> Config {
    let mut config = config.clone();
    with_cluster(&mut config, |cluster| {
        let addresses = origins.iter().map(|moody| moody.origin.address);
        cluster.endpoints = addresses.map(endpoint).collect();
    });
    config
}

/// Returns the names of the endpoints that answer so many requests.
fn answers(proxy: &Proxy, count: usize) -> Vec<String> {
    let mut client = proxy.connect();
    let mut names: Vec<_> = (0..count).map(|_| client.ask(get("/")).text()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn an_ejected_endpoint_stays_ejected_as_long_as_it_is_there() {
    let (bad, good) = pair();
    let other = Moody::start("c");
    let mut before = farm([&bad, &good]);
    with_cluster(&mut before, |cluster| {
        cluster.resilience.outlier_detection = Some(outliers_for(LONG));
    });
    let proxy = Proxy::start(&before);
    bad.is(Mood::Status(500));
    for _ in 0..6 {
        proxy.connect().ask(get("/"));
    }
    bad.is(Mood::Good);
    let ejected = |count: f64| {
        assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), count);
        let address = bad.origin.address.to_string();
        assert_eq!(
            proxy.metric(&["sprat_endpoint_ejected", &address]),
            count,
            "another one is"
        );
    };
    ejected(1.0);
    let had = bad.requests();
    // The cluster is not touched; its endpoints are others, and in another
    // order; what ejects them is changed.
    let mut route = before.clone();
    route.routes[0].idle_timeout = Duration::from_secs(7);
    let moved = with_endpoints(&before, &[&other, &good, &bad]);
    let mut stricter = moved.clone();
    with_cluster(&mut stricter, |cluster| {
        let outliers = &mut cluster.resilience.outlier_detection;
        outliers.as_mut().unwrap().consecutive_5xx = Some(1);
    });
    for (config, names) in [
        (&route, &["b"][..]),
        (&moved, &["b", "c"]),
        (&stricter, &["b", "c"]),
        (&before, &["b"]),
    ] {
        reload(&proxy, config);
        ejected(1.0);
        assert_eq!(proxy.metric(&["sprat_ejections", "consecutive_5xx"]), 1.0);
        assert_eq!(answers(&proxy, 6), names);
    }
    assert_eq!(bad.requests(), had);
    // Of one that goes all is forgotten.
    reload(&proxy, &with_endpoints(&before, &[&other, &good]));
    ejected(0.0);
    reload(&proxy, &before);
    ejected(0.0);
    assert_eq!(answers(&proxy, 6), ["a", "b"]);
    // Nor does it stay where nobody is ejected any more.
    bad.is(Mood::Status(500));
    for _ in 0..6 {
        proxy.connect().ask(get("/"));
    }
    ejected(1.0);
    let mut lenient = before.clone();
    with_cluster(&mut lenient, |cluster| {
        cluster.resilience.outlier_detection = None;
    });
    reload(&proxy, &lenient);
    ejected(0.0);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn checks_follow_the_configuration() {
    let (a, b) = pair();
    let both = {
        let mut config = farm([&a, &b]);
        with_cluster(&mut config, |cluster| {
            cluster.resilience.health_checks = Some(checks(true));
        });
        config
    };
    let mut unchecked = with_endpoints(&both, &[&a]);
    with_cluster(&mut unchecked, |cluster| {
        cluster.resilience.health_checks = None;
    });
    let only_a = with_endpoints(&both, &[&a]);
    // At the start there is nothing to look after.
    let proxy = Proxy::start(&unchecked);
    reload(&proxy, &only_a);
    wait_for("checks of a", || a.checks() >= 2);
    assert_eq!(b.checks(), 0);
    // One that is added is checked, and what that shows counts.
    reload(&proxy, &both);
    wait_for("checks of b", || b.checks() >= 2);
    b.is(Mood::Status(500));
    proxy.wait_metric(&["sprat_endpoint_unhealthy"], 1.0);
    // It is still so when its place is another, and somebody else comes.
    let c = Moody::start("c");
    reload(&proxy, &with_endpoints(&both, &[&c, &b, &a]));
    let address = b.origin.address.to_string();
    let unhealthy = proxy.metric(&["sprat_endpoint_unhealthy", &address]);
    assert_eq!(unhealthy, 1.0);
    assert_eq!(answers(&proxy, 6), ["a", "c"]);
    b.is(Mood::Good);
    proxy.wait_metric(&["sprat_endpoint_used"], 3.0);
    // One that is gone is asked no more: a check may have been under way.
    reload(&proxy, &only_a);
    let goes_on = || {
        let asked = a.checks();
        wait_for("more checks of a", || a.checks() >= asked + 10);
    };
    goes_on();
    let asked = b.checks();
    goes_on();
    assert_eq!(b.checks(), asked);
    // Nor is anybody when there are no checks.
    reload(&proxy, &unchecked);
    wait_for("the checks to end", || {
        let asked = a.checks();
        std::thread::sleep(ms(200));
        a.checks() == asked
    });
    proxy.stop();
}
