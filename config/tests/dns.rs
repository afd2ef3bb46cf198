//! Names of endpoints: the settings that are read, and those that are refused.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use sprat_config::parse;
use sprat_config::resolved::*;

fn file(endpoints: &str, dns: &str) -> String {
    format!(
        "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nclusters:\n  farm:\n    \
         endpoints: [{endpoints}]\n    {dns}\nroutes: [{{cluster: farm}}]\n"
    )
}

fn read(dns: &str) -> Dns {
    match parse(&file("web.example:1", dns), "test", &|_| None) {
        Ok(loaded) => {
            assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
            loaded.config.clusters[0].dns.clone()
        }
        Err(errors) => panic!("{errors}"),
    }
}

/// Returns the only complaint about a file, as `line:column message | help`.
fn complaint(endpoints: &str, dns: &str) -> String {
    let complaints = match parse(&file(endpoints, dns), "test", &|_| None) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors,
    };
    let [only] = complaints.diagnostics() else {
        panic!("{dns}: {complaints}");
    };
    let place = only.place.as_ref().unwrap();
    let help = only.help.as_deref().unwrap_or_default();
    format!("{}:{} {} | {help}", place.line, place.column, only.message)
}

fn in_ms(duration: Duration) -> u128 {
    duration.as_millis()
}

#[test]
fn every_key_is_read() {
    let dns = read(
        "dns: {type: logical_dns, resolvers: [10.0.0.53, '[fd00::53]:5353', 'fd00::54'], \
         lookup_family: all, respect_dns_ttl: false, refresh_rate: 7s, min_ttl: 2s, \
         max_ttl: 30s, jitter_percent: 0, failure_refresh_rate: {base_interval: 100ms, \
         max_interval: 3s}, max_stale: 1m, timeout: 800ms, max_addresses: 3}",
    );
    let servers = ["10.0.0.53:53", "[fd00::53]:5353", "[fd00::54]:53"];
    let expected = Dns {
        discovery: DnsType::Logical,
        resolvers: Some(servers.map(|server| server.parse().unwrap()).into()),
        lookup_family: LookupFamily::All,
        respect_dns_ttl: false,
        refresh_rate: Duration::from_secs(7),
        min_ttl: Duration::from_secs(2),
        max_ttl: Duration::from_secs(30),
        jitter_percent: 0,
        failure_base_interval: Duration::from_millis(100),
        failure_max_interval: Duration::from_secs(3),
        max_stale: Some(Duration::from_secs(60)),
        timeout: Duration::from_millis(800),
        max_addresses: 3,
    };
    assert_eq!(dns, expected);
}

#[test]
fn a_bound_that_is_given_alone_takes_the_other_along() {
    let dns = read("dns: {min_ttl: 2h}");
    assert_eq!([dns.min_ttl, dns.max_ttl].map(in_ms), [7_200_000; 2]);
    let dns = read("dns: {max_ttl: 500ms}");
    assert_eq!([dns.min_ttl, dns.max_ttl].map(in_ms), [500; 2]);
    let dns = read("dns: {failure_refresh_rate: {max_interval: 10ms}}");
    let both = [dns.failure_base_interval, dns.failure_max_interval];
    assert_eq!(both.map(in_ms), [10; 2]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (dns, expected) in [
        (
            "dns: {min_ttl: 10s, max_ttl: 5s}",
            "6:20 `min_ttl` is above `max_ttl` | lower it, or raise `max_ttl`",
        ),
        (
            "dns: {failure_refresh_rate: {base_interval: 2s, max_interval: 1s}}",
            "6:49 `base_interval` is above `max_interval` | lower it, or raise `max_interval`",
        ),
        (
            "dns: {resolvers: [ns.example]}",
            "6:23 expected an IP address, and a port if it is not 53, such as 10.0.0.53 or \
             [fd00::53]:5353, found `ns.example` | give the server's address: its name would \
             need a server itself",
        ),
        (
            "dns: {resolvers: ['10.0.0.53:0']}",
            "6:23 port 0 cannot be asked | leave it out for port 53",
        ),
        (
            "dns: {resolvers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, \
             10.0.0.7, 10.0.0.8, 10.0.0.9]}",
            "6:103 there are more than 8 servers | remove this one and those after it",
        ),
        (
            "dns: {max_addresses: 0}",
            "6:26 expected a whole number from 1 to 1000, found `0` | ",
        ),
        (
            "dns: {max_ttl: 0s}",
            "6:20 `0s` is out of range | give at least 1ms and at most 8760h",
        ),
        (
            "dns: {type: eds}",
            "6:17 expected what a name stands for: `strict_dns` or `logical_dns`, found `eds` | ",
        ),
        (
            "dns: {maxttl: 1s}",
            "6:11 unknown key `maxttl` | did you mean `max_ttl`?",
        ),
    ] {
        assert_eq!(complaint("web.example:1", dns), expected);
    }
}

#[test]
fn a_name_may_stand_for_more_endpoints_than_are_reserved() {
    let with = |kind: &str| {
        let keys = format!("dns: {{type: {kind}}}\n    dispatch: {{name: rpsq, reserved: 2}}");
        parse(&file("web.example:1", &keys), "test", &|_| None)
    };
    assert!(with("strict_dns").is_ok());
    let errors = with("logical_dns").unwrap_err().to_string();
    assert!(errors.contains("2 of 1 endpoints are reserved"), "{errors}");
}

#[test]
fn settings_for_names_where_there_are_none_are_surely_not_meant() {
    assert_eq!(
        complaint("10.0.0.1:80", "dns: {max_ttl: 5s}"),
        "6:10 no endpoint of this cluster has a name to resolve | leave `dns` out, or write an \
         endpoint as host:port"
    );
}
