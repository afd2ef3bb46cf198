//! What the uplink's order gains over `fair`, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use serde_json::Value;
use sprat_config::resolved::*;
use sprat_scheduler::Discipline;

/// `/SIZE`: so many bytes.
fn farm() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&"x".repeat(path[1..].parse().unwrap()))
    })
}

/// A link of 2 Mbit/s, on which 25 KB take 0.1 s.
fn slow(origin: &Origin, policy: Discipline) -> Config {
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(2_000_000);
    config.uplink.adapt = false;
    config.uplink.policy = policy;
    config.admin = Some(admin());
    config
}

/// The field `gain` of the page.
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

/// Three small responses, one after the other, beside a large one.
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
