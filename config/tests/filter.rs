//! The Envoy filters' configuration: the values that it resolves to, and the complaints about wrong
//! ones.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use sprat_config::parse_filter;
use sprat_config::resolved::*;
use sprat_scheduler::Discipline;
use sprat_scheduler::dispatch::Intervals;

fn filter(text: &str) -> Filter {
    let loaded = parse_filter(text, "filter", &|_| None).unwrap_or_else(|e| panic!("{e}"));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    loaded.config
}

/// Returns the complaints about a configuration, each as `line:column message | help`.
fn complaints(text: &str) -> Vec<String> {
    let errors = match parse_filter(text, "filter", &|_| None) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors,
    };
    let complaints = errors.diagnostics().iter().map(|complaint| {
        let place = complaint.place.as_ref().unwrap();
        let help = complaint.help.as_deref().unwrap_or_default();
        format!(
            "{}:{} {} | {help}",
            place.line, place.column, complaint.message
        )
    });
    complaints.collect()
}

#[test]
fn nothing_given_switches_everything_off() {
    let filter = filter("{}");
    assert_eq!(filter.classes, Classes::default());
    assert_eq!(filter.admission, Admission::default());
    assert_eq!(
        filter.uplink,
        FilterUplink {
            rate_bits_per_s: None,
            policy: Discipline::Srpt,
            hold: None,
            max_flows: 65_536,
            floor_percent: 5,
        }
    );
    assert!(filter.clusters.is_empty());
    assert_eq!(filter.response_header, None);
    let catalogue = filter.catalogue.unwrap();
    assert_eq!(catalogue.max_bytes, 4 << 20);
    assert_eq!(catalogue.vary, ["accept-encoding"]);
    assert!(catalogue.manifest.is_empty());
}

#[test]
fn rules_by_what_a_filter_does_not_see_are_told() {
    for (matches, expected) in [
        (
            "{users: [anna]}",
            "1:31 nothing finds out here who the user is | this rule matches nothing: Envoy's own \
             filters find that out: match a header that they set",
        ),
        (
            "{dscp: [af41]}",
            "1:30 a filter does not see `dscp` | this rule matches nothing: match a header that \
             Envoy sets",
        ),
        (
            "{client_certificate: {}}",
            "1:44 a filter does not see `client_certificate` | this rule matches nothing: match a \
             header that Envoy sets",
        ),
    ] {
        let text = format!("class_rules: [{{match: {matches}, class: default}}]");
        assert_eq!(complaints(&text), [expected]);
    }
}

#[test]
fn what_is_held_is_heads_or_bodies() {
    let hold = |text: &str| filter(text).uplink.hold;
    assert_eq!(hold("{uplink: {rate: 1mbit, hold: auto}}"), None);
    assert_eq!(
        hold("{uplink: {rate: 1mbit, hold: heads}}"),
        Some(Hold::Heads)
    );
    assert_eq!(
        hold("{uplink: {rate: 1mbit, hold: bodies}}"),
        Some(Hold::Bodies)
    );
    let complaints = complaints("{uplink: {rate: 1mbit, hold: body}}");
    assert!(complaints[0].starts_with("1:30 "), "{complaints:?}");
    assert!(complaints[0].contains("bodies"), "{complaints:?}");
}

#[test]
fn a_filter_has_no_order_srq() {
    let text = |order: &str| {
        format!("{{clusters: {{farm: {{pools: [a], wait_queue: {{order: {order}}}}}}}}}")
    };
    for order in ["srq", "{name: srq, alpha: 0.5}"] {
        assert_eq!(
            complaints(&text(order)),
            [
                "1:52 a filter cannot order by `srq`: that takes Sprat itself | write `edf` or \
                 `vrd`, which go by deadlines, or `size`"
            ]
        );
    }
    let cluster = &filter(&text("vrd")).clusters[0];
    assert_eq!(cluster.wait_queue.order, WaitOrder::Vrd);
}

#[test]
fn the_floor_is_half_of_the_link_at_most() {
    let uplink = |floor: &str| format!("{{uplink: {{rate: 1mbit, floor: {floor}}}}}");
    for (floor, percent) in [("0%", 0), ("7%", 7), ("50%", 50)] {
        assert_eq!(filter(&uplink(floor)).uplink.floor_percent, percent);
    }
    for floor in ["51%", "5", "-1%"] {
        assert_eq!(complaints(&uplink(floor)).len(), 1, "{floor}");
    }
}

#[test]
fn json_resolves_as_yaml_does() {
    let json = r#"{"uplink": {"rate": "10mbit", "policy": {"name": "srpt-aged", "ageing": "1KB"}},
        "clusters": {"farm": {
            "match": {"hosts": ["a.example"]},
            "pools": [{"name": "small", "size_range": {"to": "10KB"}, "weight": 2},
                      {"name": "large", "size_range": {"from": "10KB"}, "reserved": true}],
            "dispatch": "sita", "max_requests": 8, "header": "X-Pool", "metadata_key": "Pool",
            "head_probe": {"budget": "5ms"}}},
        "catalogue": {"manifest": [{"path": "/a?b", "bytes": "5MB"}]},
        "response_header": "X-Sprat"}"#;
    let filter = filter(json);
    assert_eq!(filter.uplink.rate_bits_per_s, Some(10_000_000));
    assert_eq!(
        filter.uplink.policy,
        Discipline::SrptAged {
            ageing_bytes_per_s: 1024
        }
    );
    assert_eq!(filter.response_header.as_deref(), Some("x-sprat"));
    let listed = filter.catalogue.unwrap().manifest;
    assert_eq!(
        listed,
        [ListedSize {
            host: None,
            target: "/a?b".to_owned(),
            bytes: 5 << 20,
        }]
    );
    let farm = &filter.clusters[0];
    assert_eq!(farm.header, "x-pool");
    assert_eq!(farm.metadata_key.as_deref(), Some("Pool"));
    assert_eq!(farm.max_requests, 8);
    assert_eq!(
        farm.dispatch,
        Dispatch::Sita(Intervals::Fixed(vec![10 << 10, u64::MAX]))
    );
    assert_eq!(farm.wait_queue.scope, WaitScope::Endpoint);
    assert_eq!(farm.pools[0].weight, 2);
    assert!(farm.pools[1].reserved);
    let probe = farm.head_probe.as_ref().unwrap();
    assert_eq!(probe.cluster, "small");
    assert_eq!(probe.bounds.budget, Duration::from_millis(5));
}

#[test]
fn errors_say_where_and_what_to_write() {
    assert_eq!(
        complaints("{\"uplink\": {\"rate\": \"auto\"},\n \"cluster\": {}}"),
        [
            "1:22 expected `unlimited` or a rate in bits per second, \
             such as 512kbit, 10mbit or 2.5gbit, found `auto` | ",
            "2:2 unknown key `cluster` | did you mean `clusters`?",
            "2:13 the mapping is empty | give at least one name and what it stands for",
        ]
    );
    assert_eq!(
        complaints("clusters:\n  a: {pools: [p, p]}\n  b: {pools: [q], dispatch: rpsq}\n"),
        [
            "2:18 the pool p is given twice | \
             it is first given on line 2: use `weight` for a larger share",
            "3:3 this cluster can never match | \
             the cluster on line 2 takes all its requests: put this one before it",
            "3:29 1 of 1 endpoints are reserved: none is left for other classes | \
             reserve fewer, or add endpoints",
        ]
    );
}

#[test]
fn a_key_of_metadata_is_one_word() {
    let complaints = complaints("clusters: {a: {pools: [p], metadata_key: a key}}");
    assert_eq!(
        complaints,
        ["1:42 expected a key of Envoy's metadata, without spaces, such as pool, found `a key` | "]
    );
}

#[test]
fn what_orders_nothing_is_warned_of() {
    assert_eq!(
        complaints("classes: {a: {weight: 2}}\nadmission: {channel: {max_backlog: 1s}}\n"),
        [
            "1:23 `weight` has no effect on this uplink | \
             give `uplink.rate` the link's rate, such as 10mbit",
            "2:22 `channel` has no effect on this uplink | \
             give `uplink.rate` the link's rate, such as 10mbit",
        ]
    );
}
