//! Tests of the gain of the uplink's order over `fair`, over real sockets.

use crate::common::*;
use serde_json::Value;
use sprat_config::resolved::*;
use sprat_scheduler::Discipline;

/// Starts an origin that answers `/SIZE` with so many bytes.
fn farm() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&"x".repeat(path[1..].parse().unwrap()))
    })
}

/// Returns a configuration with a link of 2 Mbit/s, on which 25 KB take 0.1 s.
fn slow(origin: &Origin, policy: Discipline) -> Config {
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(2_000_000);
    config.uplink.adapt = false;
    config.uplink.policy = policy;
    config.admin = Some(admin());
    config
}

/// Returns the field `gain` of the admin listener's page.
fn gain(proxy: &Proxy) -> Value {
    page(proxy).as_object_mut().unwrap().remove("gain").unwrap()
}

fn page(proxy: &Proxy) -> Value {
    let address = proxy.server.as_ref().unwrap().admin_address().unwrap();
    let answer = Peer::connect(address).ask("GET /gain HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(answer.field("content-type"), Some("application/json"));
    serde_json::from_str(&answer.text()).unwrap()
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {path} in {value}"))
}

/// Fetches three small responses, one after the other, beside a large one.
fn some_beside_a_large_one(proxy: &Proxy) {
    let mut large = proxy.connect();
    assert!(large.send(get("/300000")));
    large.stream().peek(&mut [0]).unwrap();
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(get("/25000")).body.len(), 25_000);
    }
    assert_eq!(large.message().body.len(), 300_000);
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
}

#[test]
fn small_responses_beside_a_large_one_gain_by_their_size() {
    let origin = farm();
    let proxy = Proxy::start(&slow(&origin, Discipline::Srpt));
    some_beside_a_large_one(&proxy);
    let compared = |size| ["sprat_uplink_compared_responses_total", size];
    proxy.wait_metric(&compared("size=\"<=100K\""), 3.0);
    proxy.wait_metric(&compared("size=\"<=1M\""), 1.0);
    assert_eq!(
        proxy.metric(&["sprat_uplink_compared_responses_total"]),
        4.0
    );
    let seconds = |policy| {
        let name = "sprat_uplink_compared_response_seconds_total";
        proxy.metric(&[name, "size=\"<=100K\"", policy])
    };
    let (actual, fair) = (seconds("policy=\"actual\""), seconds("policy=\"fair\""));
    // At least the time that the link takes for them.
    assert!(actual > 0.3, "{actual}");
    assert!(fair > actual, "{fair} {actual}");

    let gain = gain(&proxy);
    assert_eq!(gain["against"], "fair");
    for span in ["last_minute", "last_ten_minutes", "since_start"] {
        assert_eq!(gain[span]["sizes"][2]["size"], "<=100K", "{gain}");
        let small = number(&gain, &format!("/{span}/sizes/2/gain"));
        let all = number(&gain, &format!("/{span}/gain"));
        assert!(small > 1.0 && small > all, "{span} of {gain}");
    }
    assert_eq!(page(&proxy).get("nothing_to_compare"), None);
    assert_eq!(gain["ratio"], gain["last_ten_minutes"]["gain"]);
    assert_eq!(gain["since_start"]["responses"], 4.0);
    assert_eq!(gain["since_start"]["sizes"][0]["mean_ms"], Value::Null);
    let mean_ms = number(&gain, "/since_start/sizes/2/mean_ms");
    assert!((mean_ms - actual / 3.0 * 1e3).abs() < 0.01, "{mean_ms}");
}

/// Requests so many bytes as a client of this address, which a proxy in front names.
fn ask_from(proxy: &Proxy, client: &str, bytes: usize) {
    let mut peer = proxy.connect();
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let to = if client.contains(':') {
        "::1"
    } else {
        "127.0.0.1"
    };
    peer.send(format!("PROXY {family} {client} {to} 4711 80\r\n"));
    let answer = peer.ask(get(&format!("/{bytes}")));
    assert_eq!(answer.body.len(), bytes);
}

#[test]
fn the_gain_is_told_by_network_and_all_others_share() {
    let origin = farm();
    let mut config = slow(&origin, Discipline::Srpt);
    config.uplink.rate = Rate::Fixed(20_000_000);
    config.uplink.counterfactual_networks = 2;
    config.listeners[0].proxy_protocol = Some(ProxyProtocol {
        trusted: vec![Network {
            address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            prefix_len: 32,
        }],
        others_direct: false,
        timeout: std::time::Duration::from_secs(5),
        max_bytes: 512,
    });
    let proxy = Proxy::start(&config);
    for client in [
        "192.0.2.1",
        "192.0.2.250",
        "2001:db8:1:2::7",
        "198.51.100.1",
    ] {
        ask_from(&proxy, client, 2000);
    }
    let responses = "sprat_uplink_compared_network_responses_total";
    let expected = [
        ("192.0.2.0/24", 2.0),
        ("2001:db8:1::/48", 1.0),
        ("other", 1.0),
    ];
    for (network, count) in expected {
        let label = format!("network=\"{network}\"");
        proxy.wait_metric(&[responses, &label], count);
        let seconds = "sprat_uplink_compared_network_response_seconds_total";
        for policy in ["policy=\"actual\"", "policy=\"fair\""] {
            assert!(proxy.metric(&[seconds, &label, policy]) > 0.0);
        }
    }
    let told = gain(&proxy);
    let networks = told["since_start"]["networks"].as_array().unwrap();
    let names: Vec<_> = networks.iter().map(|own| own["network"].as_str()).collect();
    assert_eq!(names, expected.map(|(network, _)| Some(network)));
    assert_eq!(networks[0]["responses"], 2.0);
    assert!(networks[0]["gain"].is_number() && networks[2]["gain"].is_number());

    // With fewer places one loses its own, and no response is lost; with none, nothing is told.
    let reload = |networks| {
        let mut changed = config.clone();
        changed.uplink.counterfactual_networks = networks;
        let control = proxy.server.as_ref().unwrap().control();
        control.reload(&changed).unwrap();
        gain(&proxy)["since_start"].clone()
    };
    let fewer = reload(1);
    assert_eq!(fewer["networks"][0]["network"], "192.0.2.0/24");
    assert_eq!(fewer["networks"][1]["responses"], 2.0);
    assert_eq!(reload(0)["networks"].as_array().unwrap().len(), 0);
    assert_eq!(gain(&proxy)["since_start"]["responses"], 4.0);
    let metrics = proxy.server.as_ref().unwrap().metrics();
    assert!(!metrics.contains("network="), "{metrics}");
}

#[test]
fn a_response_that_is_cut_short_is_in_no_comparison() {
    let origin = farm();
    let proxy = Proxy::start(&slow(&origin, Discipline::Srpt));
    let mut cut = proxy.connect();
    assert!(cut.send(get("/300000")));
    cut.stream().peek(&mut [0]).unwrap();
    drop(cut);
    let reason = ["sprat_uplink_uncompared_responses_total", "reason=\"cut\""];
    proxy.wait_metric(&reason, 1.0);
    assert_eq!(
        proxy.metric(&["sprat_uplink_compared_responses_total"]),
        0.0
    );
    assert_eq!(gain(&proxy)["ratio"], Value::Null);
}

#[test]
fn where_there_is_nothing_to_compare_nothing_is_told() {
    let origin = farm();
    let mut off = slow(&origin, Discipline::Srpt);
    off.uplink.counterfactual = false;
    let mut unlimited = slow(&origin, Discipline::Srpt);
    unlimited.uplink.rate = Rate::Unlimited;
    let fair = slow(&origin, Discipline::Fair);
    let fcfs = slow(&origin, Discipline::Fcfs);
    let reasons = ["is off", "is unlimited", "is fair", "is fair"];
    for (config, reason) in [off, unlimited, fair, fcfs].into_iter().zip(reasons) {
        let proxy = Proxy::start(&config);
        assert_eq!(proxy.connect().ask(get("/100")).body.len(), 100);
        let page = page(&proxy);
        assert_eq!(page["gain"], Value::Null);
        let told = page["nothing_to_compare"].as_str().unwrap();
        assert!(told.contains(reason), "{told}");
        let metrics = proxy.server.as_ref().unwrap().metrics();
        assert!(!metrics.contains("compared"), "{metrics}");
    }
}

#[test]
fn while_no_link_is_found_nothing_is_gained() {
    let origin = farm();
    let mut config = slow(&origin, Discipline::Srpt);
    config.uplink.rate = Rate::Auto;
    let proxy = Proxy::start(&config);
    assert_eq!(proxy.connect().ask(get("/100")).body.len(), 100);
    assert_eq!(gain(&proxy), Value::Null);
    let told = page(&proxy);
    let told = told["nothing_to_compare"].as_str().unwrap();
    assert!(told.starts_with("no link"), "{told}");
}

#[test]
fn a_reload_begins_and_ends_the_comparison() {
    let origin = farm();
    let config = slow(&origin, Discipline::Fair);
    let proxy = Proxy::start(&config);
    let reload = |change: fn(&mut Uplink)| {
        let mut changed = config.clone();
        change(&mut changed.uplink);
        let control = proxy.server.as_ref().unwrap().control();
        control.reload(&changed).unwrap();
        gain(&proxy)
    };
    assert_eq!(gain(&proxy), Value::Null);
    let begun = reload(|uplink| uplink.policy = Discipline::Srpt);
    assert_eq!(begun["since_start"]["responses"], 0.0);
    assert_eq!(proxy.connect().ask(get("/100")).body.len(), 100);
    proxy.wait_metric(&["sprat_uplink_compared_responses_total"], 1.0);
    let goes_on = reload(|uplink| uplink.policy = Discipline::Las);
    assert_eq!(goes_on["since_start"]["responses"], 1.0);
    let ended = reload(|uplink| {
        uplink.policy = Discipline::Srpt;
        uplink.counterfactual = false;
    });
    assert_eq!(ended, Value::Null);
}
