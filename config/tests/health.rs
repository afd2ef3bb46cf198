//! Health, breakers and retries: the settings that are read, and those that are refused.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use sprat_config::parse;
use sprat_config::resolved::*;

fn file(cluster: &str, route: &str) -> String {
    format!(
        "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nclusters:\n  farm:\n    \
         endpoints: [a:1]\n    {cluster}\nroutes:\n  - cluster: farm\n    {route}\n"
    )
}

fn read(cluster: &str, route: &str) -> (Arc<Cluster>, RetryPolicy) {
    match parse(&file(cluster, route), "test", &|_| None) {
        Ok(loaded) => (
            Arc::clone(&loaded.config.clusters[0]),
            loaded.config.routes[0].retry.clone(),
        ),
        Err(errors) => panic!("{errors}"),
    }
}

fn resilience(cluster: &str) -> Resilience {
    read(cluster, "").0.resilience.clone()
}

fn complaint(cluster: &str, route: &str) -> String {
    let Err(errors) = parse(&file(cluster, route), "test", &|_| None) else {
        panic!("{cluster} {route} is taken");
    };
    let first = &errors.diagnostics()[0];
    let place = first.place.as_ref().unwrap();
    format!(
        "{}:{} {} | {}",
        place.line,
        place.column,
        first.message,
        first.help.as_deref().unwrap_or_default()
    )
}

#[test]
fn nothing_given_is_the_default() {
    let (cluster, retry) = read("", "");
    assert_eq!(cluster.resilience, Resilience::default());
    assert_eq!(retry, RetryPolicy::default());
    assert_eq!(read("", "retry_policy: off").1, RetryPolicy::none());
    assert_eq!(read("", "retry_policy: {}").1, RetryPolicy::default());
}

#[test]
fn outlier_detection_is_read() {
    let outliers = resilience(
        "outlier_detection: {consecutive_5xx: off, consecutive_gateway_failure: 2, \
         success_rate_stdev_factor: off, base_ejection_time: 1s, max_ejection_percent: 10}",
    );
    let expected = OutlierConfig {
        consecutive_5xx: None,
        consecutive_gateway_failure: Some(2),
        consecutive_local_origin_failure: Some(5),
        success_rate: None,
        interval: Duration::from_secs(10),
        base_ejection_time: Duration::from_secs(1),
        max_ejection_time: Duration::from_secs(300),
        max_ejection_time_jitter: Duration::ZERO,
        max_ejection_percent: 10,
    };
    assert_eq!(outliers.outlier_detection, Some(expected));
    let defaults = resilience("outlier_detection: {}")
        .outlier_detection
        .unwrap();
    assert_eq!(
        defaults.success_rate,
        Some(SuccessRate {
            minimum_hosts: 5,
            request_volume: 100,
            stdev_factor: 1900,
        })
    );
}

#[test]
fn checks_are_read() {
    let checks = resilience(
        "health_checks: {http_health_check: {path: '/ok?full=1&a[]=%20', expected_statuses: [204, 300-399]}, \
         unhealthy_threshold: 1}",
    );
    let checks = checks.health_checks.unwrap();
    let http = checks.http.unwrap();
    assert_eq!(http.path, "/ok?full=1&a[]=%20");
    assert_eq!(http.method, "GET");
    assert_eq!(http.expected_statuses, [(204, 204), (300, 399)]);
    assert_eq!(checks.interval, Duration::from_secs(5));
    assert_eq!(
        (checks.thresholds.healthy, checks.thresholds.unhealthy),
        (2, 1)
    );
    let tcp = resilience("health_checks: {tcp_health_check: {}}");
    assert_eq!(tcp.health_checks.unwrap().http, None);
}

#[test]
fn breakers_are_read() {
    let bounds = resilience(
        "circuit_breakers: {max_connections: 1, max_pending_requests: 2, max_requests: 3, \
         max_retries: 0, retry_budget: {budget_percent: 5, min_retry_concurrency: 1}}",
    );
    assert_eq!(bounds.max_connections, 1);
    assert_eq!(bounds.max_pending_requests, 2);
    assert_eq!(bounds.max_requests, 3);
    let budget = RetryBudget {
        percent: 5,
        min: 1,
        max: 0,
    };
    assert_eq!(bounds.retry_budget, budget);
}

#[test]
fn a_retry_policy_is_read() {
    let (_, retry) = read(
        "",
        "retry_policy: {retry_on: [reset, gateway-error, retriable-status-codes], \
         num_retries: 1, per_try_timeout: 1s, retriable_status_codes: [429], retry_non_idempotent: true, \
         retry_back_off: {base_interval: 1ms, max_interval: 2ms}}\n    \
         hedge_policy: {delay: 100ms}",
    );
    let expected = RetryPolicy {
        retry_on: vec![RetryOn::Reset, RetryOn::GatewayError, RetryOn::StatusCodes],
        num_retries: 1,
        per_try_timeout: Some(Duration::from_secs(1)),
        status_codes: vec![429],
        non_idempotent: true,
        back_off: Backoff {
            base: Duration::from_millis(1),
            max: Duration::from_millis(2),
        },
        hedge_delay: Some(Duration::from_millis(100)),
    };
    assert_eq!(retry, expected);
}

/// Checks the word that a trace has for a response that led to a repetition: one that the file has.
#[test]
fn a_status_has_the_narrowest_word_that_allows_its_repetition() {
    const CODES: &str = "retriable-status-codes";
    let words = |retry_on: &str| {
        let keys =
            format!("retry_policy: {{retry_on: [{retry_on}], retriable_status_codes: [429, 502]}}");
        let retry = read("", &keys).1;
        [429, 500, 502, 504, 505].map(|status| retry.word_of_status(status))
    };
    let by_code = [Some(CODES), None, Some(CODES), None, None];
    assert_eq!(words("reset, retriable-status-codes"), by_code);
    let mut expected = by_code;
    expected[3] = Some("gateway-error");
    assert_eq!(words("gateway-error, retriable-status-codes"), expected);
    expected[1] = Some("5xx");
    expected[4] = Some("5xx");
    assert_eq!(
        words("5xx, gateway-error, retriable-status-codes"),
        expected
    );
}

#[test]
fn a_request_that_is_not_repeated_may_be_hedged() {
    let expected = RetryPolicy {
        hedge_delay: Some(Duration::from_millis(5)),
        ..RetryPolicy::none()
    };
    let keys = "retry_policy: off\n    hedge_policy: {delay: 5ms}";
    assert_eq!(read("", keys).1, expected);
}

#[test]
fn the_longest_may_be_the_first() {
    let ejection = |longest_s: u64| {
        let keys = format!(
            "outlier_detection: {{base_ejection_time: 5s, max_ejection_time: {longest_s}s}}"
        );
        let own = resilience(&keys).outlier_detection.unwrap();
        (own.base_ejection_time, own.max_ejection_time)
    };
    let second = Duration::from_secs(1);
    assert_eq!(ejection(6), (5 * second, 6 * second));
    assert_eq!(ejection(5), (5 * second, 5 * second));
    let back_off = |longest_s: u64| {
        let keys = format!(
            "retry_policy: {{retry_back_off: {{base_interval: 5s, max_interval: {longest_s}s}}}}"
        );
        let own = read("", &keys).1.back_off;
        (own.base, own.max)
    };
    assert_eq!(back_off(6), (5 * second, 6 * second));
    assert_eq!(back_off(5), (5 * second, 5 * second));
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (cluster, route, expected) in [
        (
            "outlier_detection: {base_ejection_time: 10m}",
            "",
            "6:45 the longest ejection is shorter than the first one | raise it to the \
             `base_ejection_time` at least",
        ),
        (
            "health_checks: {interval: 1s}",
            "",
            "6:20 it is not said how endpoints are checked | write `http_health_check: {path: \
             /healthz}`, or `tcp_health_check: {}`",
        ),
        (
            "health_checks: {http_health_check: {}, tcp_health_check: {}}",
            "",
            "6:20 endpoints are checked by HTTP or by a connection, not both | leave one of \
             `http_health_check` and `tcp_health_check` out",
        ),
        (
            "health_checks: {http_health_check: {expected_statuses: [399-200]}}",
            "",
            "6:61 the range ends before it begins | write 200-399",
        ),
        (
            "health_checks: {http_health_check: {expected_statuses: [101]}}",
            "",
            "6:61 a status below 200 is no answer to a check | write 200-299, say",
        ),
        (
            "health_checks: {http_health_check: {expected_statuses: [100-299]}}",
            "",
            "6:61 a status below 200 is no answer to a check | write 200-299, say",
        ),
        (
            "health_checks: {http_health_check: {method: CONNECT}}",
            "",
            "6:49 a check cannot ask for a tunnel | GET, HEAD or OPTIONS will do; \
             `tcp_health_check: {}` opens a connection",
        ),
        (
            "health_checks: {http_health_check: {path: '/a#b'}}",
            "",
            "6:50 '#' cannot be part of what is asked for | what follows a # is never sent: leave \
             it out",
        ),
        (
            "health_checks: {http_health_check: {path: '/a b'}}",
            "",
            "6:50 ' ' cannot be part of what is asked for | percent-encode it, as it stands in the \
             request (a space is %20)",
        ),
        (
            "",
            "retry_policy: {retry_on: [retriable-status-codes]}",
            "9:30 there are no `retriable_status_codes` | add them, such as \
             `retriable_status_codes: [503]`",
        ),
        (
            "",
            "retry_policy: {retriable_status_codes: [503]}",
            "9:44 these codes lead to no repetition | add `retriable-status-codes` to `retry_on`",
        ),
        (
            "",
            "retry_policy: {per_try_timeout: 1s}",
            "9:37 an attempt that takes longer is not repeated | add `reset` to `retry_on`; the \
             route's `timeout` bounds a request",
        ),
        (
            "",
            "retry_policy: {retry_on: [conect-failure]}",
            "9:31 expected what leads to a repetition: `connect-failure`, `refused-stream`, \
             `reset`, `gateway-error`, `5xx` or `retriable-status-codes`, found \
             `conect-failure` | did you mean `connect-failure`?",
        ),
        (
            "",
            "retry_policy: {retry_back_off: {base_interval: 1s}}",
            "9:36 the longest interval is shorter than the first one | raise `max_interval` to \
             the `base_interval` at least",
        ),
        (
            "",
            "hedge_policy: {}",
            "9:19 the key `delay` is missing | `delay` takes a span of time, such as 250ms, \
             10s, 5m or 1h",
        ),
    ] {
        assert_eq!(complaint(cluster, route), expected);
    }
}
