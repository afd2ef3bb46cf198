//! Tests of endpoints that fail: ejection, checks, retries, hedges, circuit breakers.

mod blame;
mod failover;
mod hedge;
mod kept;
mod log;
mod reload;
mod shortage;
mod silent;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An origin whose behaviour a test can change.
struct Moody {
    origin: Origin,
    mood: Arc<Mutex<Mood>>,
    requests: Arc<AtomicUsize>,
    checks: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Good,
    Status(u16),
    /// The connection is closed without an answer.
    Cuts,
    /// There is no answer until the mood is good again.
    Stalls,
}

/// Answers in the origin's present mood. Returns false if the connection is to be closed.
fn answer(peer: &mut Peer, name: &str, asked: &Mutex<Mood>) -> bool {
    let mood = || *asked.lock().unwrap();
    while mood() == Mood::Stalls {
        std::thread::sleep(ms(5));
    }
    match mood() {
        Mood::Cuts => false,
        Mood::Status(status) => {
            let head = format!("HTTP/1.1 {status} No\r\nContent-Length: ");
            peer.send(format!("{head}{}\r\n\r\n{name}", name.len()))
        }
        Mood::Good | Mood::Stalls => peer.send(ok(name)),
    }
}

impl Moody {
    fn start(name: &'static str) -> Self {
        let mood = Arc::new(Mutex::new(Mood::Good));
        let [requests, checks] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (asked, counted) = (Arc::clone(&mood), [&requests, &checks].map(Arc::clone));
        let origin = Origin::start(move |mut peer| {
            while let Some(request) = peer.try_message(true) {
                let check = request.start.contains("/healthz");
                counted[usize::from(check)].fetch_add(1, SeqCst);
                if !answer(&mut peer, name, &asked) {
                    return;
                }
            }
        });
        Self {
            origin,
            mood,
            requests,
            checks,
        }
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    /// Returns the number of health checks that came.
    fn checks(&self) -> usize {
        self.checks.load(SeqCst)
    }
}

impl Drop for Moody {
    fn drop(&mut self) {
        self.is(Mood::Cuts);
    }
}

/// Starts two origins that take turns, the first one first.
fn pair() -> (Moody, Moody) {
    (Moody::start("a"), Moody::start("b"))
}

fn farm(origins: [&Moody; 2]) -> Config {
    config(&origins.map(|moody| moody.origin.address))
}

/// Starts a proxy before two origins that take turns, with these changes to its configuration.
fn before_pair(change: impl FnOnce(&mut Config)) -> (Moody, Moody, Proxy) {
    let (first, other) = pair();
    let mut config = farm([&first, &other]);
    change(&mut config);
    (first, other, Proxy::logging(config))
}

fn with_resilience(change: impl FnOnce(&mut Resilience)) -> (Moody, Moody, Proxy) {
    before_pair(|config| with_cluster(config, |cluster| change(&mut cluster.resilience)))
}

fn with_retry(change: impl FnOnce(&mut RetryPolicy)) -> (Moody, Moody, Proxy) {
    before_pair(|config| change(&mut config.routes[0].retry))
}

/// Starts a proxy before two origins, where a request whose connection is cut may be repeated.
fn with_cuts_repeated(change: impl FnOnce(&mut Config)) -> (Moody, Moody, Proxy) {
    before_pair(|config| {
        config.routes[0].retry.retry_on.push(RetryOn::Reset);
        change(config);
    })
}

/// Returns an outlier detection that soon ejects an endpoint, for this time.
fn outliers_for(time: Duration) -> OutlierConfig {
    OutlierConfig {
        consecutive_5xx: Some(3),
        consecutive_gateway_failure: None,
        consecutive_local_origin_failure: Some(2),
        success_rate: None,
        interval: Duration::from_secs(10),
        base_ejection_time: time,
        max_ejection_time: time,
        max_ejection_time_jitter: Duration::ZERO,
        max_ejection_percent: 50,
    }
}

/// A time that no test reaches.
const LONG: Duration = Duration::from_secs(600);

fn post() -> &'static str {
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
}

/// Returns the statuses of two POSTs, one at each of two endpoints, in ascending order.
fn two_posts(proxy: &Proxy) -> [u16; 2] {
    let mut statuses = [0, 1].map(|_| proxy.connect().ask(post()).status());
    statuses.sort_unstable();
    statuses
}

#[test]
fn an_endpoint_that_answers_500_is_ejected_and_returns_by_itself() {
    let (bad, _good, proxy) = with_resilience(|resilience| {
        resilience.outlier_detection = Some(outliers_for(ms(300)));
    });
    bad.is(Mood::Status(500));
    let mut client = proxy.connect();
    let statuses: Vec<u16> = (0..6).map(|_| client.ask(get("/")).status()).collect();
    assert_eq!(statuses, [500, 200, 500, 200, 500, 200]);
    assert_eq!(proxy.metric(&["sprat_endpoint_used"]), 1.0);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 1.0);
    assert_eq!(proxy.metric(&["sprat_ejections", "consecutive_5xx"]), 1.0);
    let before = bad.requests();
    for _ in 0..4 {
        assert_eq!(client.ask(get("/")).text(), "b");
    }
    assert_eq!(bad.requests(), before);
    bad.is(Mood::Good);
    proxy.wait_metric(&["sprat_endpoint_used"], 2.0);
    let answers: Vec<String> = (0..4).map(|_| client.ask(get("/")).text()).collect();
    assert!(answers.contains(&"a".to_owned()), "{answers:?}");
    drop(client);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn no_connection_is_kept_to_an_endpoint_that_is_out_of_use() {
    let (bad, _good, proxy) = with_resilience(|resilience| {
        resilience.outlier_detection = Some(outliers_for(LONG));
    });
    let mut client = proxy.connect();
    for _ in 0..2 {
        assert_eq!(client.ask(get("/")).status(), 200);
    }
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 2.0);
    bad.is(Mood::Status(500));
    for _ in 0..6 {
        client.ask(get("/"));
    }
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 1.0);
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 1.0);
    assert_eq!(client.ask(get("/")).text(), "b");
    assert_eq!(proxy.metric(&["sprat_upstream_idle_connections"]), 1.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn an_endpoint_that_cannot_be_reached_is_ejected_and_costs_no_request() {
    let good = Moody::start("b");
    let mut config = config(&[free_address(), good.origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.outlier_detection = Some(outliers_for(LONG));
    });
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for _ in 0..8 {
        assert_eq!(client.ask(get("/")).status(), 200);
        assert_eq!(client.ask(post()).status(), 200);
    }
    let cause = "consecutive_local_origin_failure";
    assert_eq!(proxy.metric(&["sprat_ejections", cause]), 1.0);
    assert_eq!(proxy.metric(&["sprat_upstream_retries"]), 2.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn a_request_that_is_safe_to_repeat_goes_to_another_endpoint() {
    let (bad, good, proxy) = with_cuts_repeated(|_| ());
    bad.is(Mood::Cuts);
    for _ in 0..4 {
        assert_eq!(proxy.connect().ask(get("/")).text(), "b");
    }
    assert_eq!(bad.requests() + good.requests(), 6);
    assert_eq!(proxy.metric(&["sprat_upstream_retries"]), 2.0);
    let errors = ["sprat_upstream_errors", "connection_terminated"];
    assert_eq!(proxy.metric(&errors), 2.0);
    proxy.assert_no_leak();
}

#[test]
fn what_an_endpoint_has_looked_at_is_not_repeated_unless_the_route_says_so() {
    let (bad, good, proxy) = before_pair(|_| ());
    bad.is(Mood::Cuts);
    assert_eq!(proxy.connect().ask(get("/")).status(), 502);
    assert_eq!((bad.requests(), good.requests()), (1, 0));
    assert_eq!(proxy.metric(&["sprat_upstream_retries"]), 0.0);
    proxy.assert_no_leak();
}

#[test]
fn a_request_with_a_body_or_of_an_unsafe_method_is_not_repeated() {
    let bare = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for request in [post(), bare] {
        let (bad, good, proxy) = with_cuts_repeated(|_| ());
        bad.is(Mood::Cuts);
        assert_eq!(proxy.connect().ask(request).status(), 502);
        assert_eq!(good.requests(), 0);
    }
    // Unless the operator says so; what has been read is gone all the same.
    let (bad, _good, proxy) = with_cuts_repeated(|config| {
        config.routes[0].retry.non_idempotent = true;
    });
    bad.is(Mood::Cuts);
    assert_eq!(proxy.connect().ask(bare).status(), 200);
    assert_eq!(two_posts(&proxy), [200, 502]);
    proxy.assert_no_leak();
}

#[test]
fn a_status_leads_to_a_repetition_if_the_route_says_so() {
    for (on, status, repeated) in [
        (RetryOn::Reset, 503, false),
        (RetryOn::GatewayError, 503, true),
        (RetryOn::GatewayError, 500, false),
        (RetryOn::ServerError, 500, true),
        (RetryOn::StatusCodes, 429, true),
    ] {
        let (bad, _good, proxy) = with_retry(|retry| {
            retry.retry_on = vec![on];
            retry.status_codes = vec![429];
        });
        bad.is(Mood::Status(status));
        let mut client = proxy.connect();
        let expected = if repeated { 200 } else { status };
        assert_eq!(client.ask(get("/")).status(), expected, "{on:?} {status}");
        drop(client);
        proxy.assert_no_leak();
    }
}

#[test]
fn what_is_answered_last_is_the_answer() {
    let (bad, worse, proxy) = with_retry(|retry| {
        retry.retry_on = vec![RetryOn::GatewayError];
        retry.num_retries = 3;
        retry.back_off.base = ms(1);
        retry.back_off.max = ms(1);
    });
    bad.is(Mood::Status(503));
    worse.is(Mood::Status(504));
    let mut client = proxy.connect();
    // Both, then both again.
    let answer = client.ask(get("/"));
    let answer = (answer.status(), answer.text());
    let each = [(503, "a".to_owned()), (504, "b".to_owned())];
    assert!(each.contains(&answer), "{answer:?}");
    assert_eq!((bad.requests(), worse.requests()), (2, 2));
    drop(client);
    proxy.assert_no_leak();
}

/// Checks that an attempt that failed is counted although its client leaves before the next.
#[test]
fn an_attempt_is_counted_though_its_client_leaves_in_the_back_off() {
    let closes = Origin::start(|mut peer| drop(peer.head()));
    let mut config = config(&[closes.address]);
    config.routes[0].timeout = None;
    let retry = &mut config.routes[0].retry;
    retry.retry_on = vec![RetryOn::Reset];
    retry.num_retries = 1;
    // It is random, and as good as never short.
    retry.back_off.base = 100 * LONG;
    retry.back_off.max = 100 * LONG;
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    client.send(get("/"));
    let errors = ["sprat_upstream_errors", "connection_terminated"];
    proxy.wait_metric(&errors, 1.0);
    reset(client);
    assert_eq!(proxy.log_lines(1)[0]["reason"], "client_closed");
    assert_eq!(proxy.metric(&errors), 1.0);
    proxy.assert_no_leak();
}

/// Starts a proxy before one endpoint that answers 503, and one that refuses connections.
fn half_a_farm(num_retries: u32) -> (Moody, Proxy) {
    let bad = Moody::start("a");
    bad.is(Mood::Status(503));
    let mut config = config(&[bad.origin.address, free_address()]);
    let retry = &mut config.routes[0].retry;
    retry.retry_on = vec![RetryOn::ServerError, RetryOn::ConnectFailure];
    retry.num_retries = num_retries;
    retry.back_off.base = ms(1);
    retry.back_off.max = ms(1);
    (bad, Proxy::logging(config))
}

#[test]
fn an_endpoint_that_answers_is_asked_again_where_the_other_is_not_there() {
    let (bad, proxy) = half_a_farm(3);
    for _ in 0..2 {
        let answer = proxy.connect().ask(get("/"));
        assert_eq!((answer.status(), answer.text()), (503, "a".to_owned()));
    }
    // Each time one attempt of four found nobody.
    assert_eq!(bad.requests(), 6);
    let errors = ["sprat_upstream_errors", "connection_refused"];
    assert_eq!(proxy.metric(&errors), 2.0);
    proxy.assert_no_leak();
}

#[test]
fn a_response_that_led_to_a_repetition_is_better_than_none() {
    let (bad, proxy) = half_a_farm(1);
    // The first endpoint first: the second is the last that is tried.
    let answer = proxy.connect().ask(get("/"));
    assert_eq!((answer.status(), answer.text()), (503, "a".to_owned()));
    assert_eq!(bad.requests(), 1);
    let errors = ["sprat_upstream_errors", "connection_refused"];
    assert_eq!(proxy.metric(&errors), 1.0);
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["status"], 503, "{line}");
    proxy.assert_no_leak();
}

#[test]
fn a_slow_attempt_ends_and_another_endpoint_is_tried() {
    let (slow, _good, proxy) = with_cuts_repeated(|config| {
        config.routes[0].retry.per_try_timeout = Some(ms(100));
    });
    slow.is(Mood::Stalls);
    assert_eq!(proxy.connect().ask(get("/")).text(), "b");
    assert_eq!(proxy.metric(&["upstream_errors", "per_try_timeout"]), 1.0);
    // Not to be repeated: the time for one attempt is all there is.
    assert_eq!(two_posts(&proxy), [200, 504]);
    proxy.assert_no_leak();
}

#[test]
fn the_budget_bounds_repetitions() {
    let (bad, _good, proxy) = with_cuts_repeated(|config| {
        with_cluster(config, |cluster| {
            cluster.resilience.retry_budget.percent = 0;
            cluster.resilience.retry_budget.min = 0;
        });
    });
    bad.is(Mood::Cuts);
    assert_eq!(proxy.connect().ask(get("/")).status(), 502);
    assert_eq!(proxy.metric(&["sprat_retries_denied"]), 1.0);
    let breaker = ["sprat_circuit_breaker_open", "max_retries"];
    assert_eq!(proxy.metric(&breaker), 1.0);
    proxy.assert_no_leak();
}

#[test]
fn a_hedge_answers_for_an_endpoint_that_stalls() {
    let (slow, _good, proxy) = with_retry(|retry| retry.hedge_delay = Some(ms(50)));
    slow.is(Mood::Stalls);
    let mut client = proxy.connect();
    for _ in 0..4 {
        assert_eq!(client.ask(get("/")).text(), "b");
    }
    assert_eq!(proxy.metric(&["sprat_upstream_hedges"]), 2.0);
    // The first attempts were cancelled, their places are free.
    proxy.wait_metric(&["sprat_upstream_outstanding"], 0.0);
    proxy.wait_metric(&["sprat_repeated_requests"], 0.0);
    // Where nobody is slow nothing is hedged.
    slow.is(Mood::Good);
    for _ in 0..4 {
        assert_eq!(client.ask(get("/")).status(), 200);
    }
    assert_eq!(proxy.metric(&["sprat_upstream_hedges"]), 2.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn a_body_may_take_its_time_where_others_are_hedged() {
    let (_first, _other, proxy) = before_pair(|config| {
        config.routes[0].retry.hedge_delay = Some(ms(20));
        config.routes[0].idle_timeout = ms(300);
    });
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n");
    // Longer than the endpoint may keep it waiting, which is not who does.
    for _ in 0..8 {
        std::thread::sleep(ms(60));
        assert!(client.send("x"));
    }
    assert_eq!(client.message().status(), 200);
    assert_eq!(proxy.metric(&["sprat_upstream_hedges"]), 0.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn an_attempt_counts_whose_repetition_finds_no_place() {
    let (slow, bad, proxy) = with_cuts_repeated(|config| {
        with_cluster(config, |cluster| {
            cluster.max_requests = 1;
            cluster.wait_queue.timeout = Some(ms(50));
        });
    });
    slow.is(Mood::Stalls);
    bad.is(Mood::Cuts);
    let mut first = proxy.connect();
    first.send(get("/"));
    wait_for("the request to arrive", || slow.requests() == 1);
    let refused = proxy.connect().ask(get("/"));
    assert!(refused.text().contains("queue_timeout"), "{refused:?}");
    let errors = ["sprat_upstream_errors", "connection_terminated"];
    assert_eq!(proxy.metric(&errors), 1.0);
    slow.is(Mood::Good);
    assert_eq!(first.message().status(), 200);
    drop(first);
    proxy.assert_no_leak();
}

#[test]
fn a_hedge_and_its_first_attempt_may_both_fail() {
    let (slow, bad, proxy) = before_pair(|config| {
        config.routes[0].retry.hedge_delay = Some(ms(20));
        config.routes[0].retry.num_retries = 0;
        config.routes[0].timeout = Some(ms(300));
    });
    slow.is(Mood::Stalls);
    bad.is(Mood::Cuts);
    // One was cut at once, but the other might have answered until time was up.
    assert_eq!(proxy.connect().ask(get("/")).status(), 504);
    proxy.assert_no_leak();
}

fn checks(http: bool) -> HealthChecks {
    let checks = health_checks(ms(500));
    HealthChecks {
        http: checks.http.filter(|_| http),
        jitter_percent: 10,
        thresholds: Thresholds {
            healthy: 2,
            unhealthy: 2,
        },
        ..checks
    }
}

#[test]
fn an_endpoint_that_fails_its_checks_gets_no_requests() {
    let (bad, _good, proxy) = with_resilience(|resilience| {
        resilience.health_checks = Some(checks(true));
    });
    for mood in [Mood::Status(500), Mood::Cuts, Mood::Stalls] {
        bad.is(mood);
        proxy.wait_metric(&["sprat_endpoint_unhealthy"], 1.0);
        let mut client = proxy.connect();
        for _ in 0..4 {
            assert_eq!(client.ask(get("/")).text(), "b");
        }
        bad.is(Mood::Good);
        proxy.wait_metric(&["sprat_endpoint_used"], 2.0);
    }
    let counted = |result| proxy.metric(&["sprat_health_checks", result]);
    assert!(counted("result=\"passed\"") >= 6.0);
    // The very first check decides by itself.
    assert!(counted("result=\"failed\"") >= 5.0);
    proxy.assert_no_leak();
}

#[test]
fn a_connection_may_be_check_enough_and_a_panic_uses_all() {
    let good = Moody::start("b");
    let mut config = config(&[free_address(), good.origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.health_checks = Some(checks(false));
        cluster.resilience.healthy_panic_percent = 60;
    });
    let proxy = Proxy::logging(config);
    proxy.wait_metric(&["sprat_endpoint_unhealthy"], 1.0);
    assert_eq!(proxy.metric(&["sprat_cluster_panic"]), 1.0);
    assert_eq!(proxy.metric(&["sprat_endpoint_used"]), 2.0);
    for _ in 0..4 {
        assert_eq!(proxy.connect().ask(get("/")).text(), "b");
    }
}

#[test]
fn with_no_healthy_endpoint_and_no_panic_requests_are_refused() {
    let (a, b) = pair();
    let mut config = farm([&a, &b]);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.health_checks = Some(checks(true));
        cluster.resilience.healthy_panic_percent = 0;
    });
    a.is(Mood::Status(500));
    b.is(Mood::Status(500));
    let proxy = Proxy::logging(config);
    proxy.wait_metric(&["sprat_endpoint_unhealthy"], 2.0);
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(answer.status(), 503);
    assert!(answer.text().contains("no endpoint is healthy"));
    assert_eq!(a.requests() + b.requests(), 0);
    let line = &proxy.log_lines(1)[0];
    assert_eq!(line["reason"], "no_healthy_endpoint", "{line}");
}

#[test]
fn a_cluster_takes_no_more_requests_than_it_may() {
    let (slow, _other, proxy) = with_resilience(|resilience| resilience.max_requests = 1);
    slow.is(Mood::Stalls);
    let mut first = proxy.connect();
    first.send(get("/"));
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(answer.status(), 503);
    assert!(answer.field("retry-after").is_some());
    let breaker = ["sprat_circuit_breaker_open", "max_requests"];
    assert_eq!(proxy.metric(&breaker), 1.0);
    proxy.wait_metric(&["failed_requests", "max_requests"], 1.0);
    slow.is(Mood::Good);
    assert_eq!(first.message().status(), 200);
    proxy.wait_metric(&breaker, 0.0);
    drop(first);
    proxy.assert_no_leak();
}

#[test]
fn a_cluster_opens_no_more_connections_than_it_may() {
    let (a, _b, proxy) = with_resilience(|resilience| resilience.max_connections = 1);
    let mut client = proxy.connect();
    // Each in turn: the other's idle connection has to make room.
    for name in ["a", "b", "a", "b"] {
        assert_eq!(client.ask(get("/")).text(), name);
        assert_eq!(proxy.metric(&["sprat_upstream_connections"]), 1.0);
    }
    // One that is in use does not.
    a.is(Mood::Stalls);
    client.send(get("/"));
    wait_for("the request to arrive", || a.requests() == 3);
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(answer.status(), 503);
    assert!(
        answer.text().contains("every connection"),
        "{}",
        answer.text()
    );
    a.is(Mood::Good);
    assert_eq!(client.message().status(), 200);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn the_admin_listener_tells_who_is_used() {
    let (bad, good) = pair();
    let mut config = farm([&bad, &good]);
    config.admin = Some(admin());
    with_cluster(&mut config, |cluster| {
        cluster.resilience.health_checks = Some(checks(true));
    });
    bad.is(Mood::Status(500));
    let proxy = Proxy::logging(config);
    proxy.wait_metric(&["sprat_endpoint_unhealthy"], 1.0);
    let admin = proxy.server.as_ref().unwrap().admin_address().unwrap();
    let answer = Peer::connect(admin).ask(get("/endpoints"));
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let endpoints = &told[0]["endpoints"];
    assert_eq!(told[0]["cluster"], "farm");
    assert_eq!(endpoints[0]["used"], false);
    assert_eq!(endpoints[0]["passes_checks"], false);
    assert_eq!(endpoints[1]["used"], true);
}

/// Checks that an ejection that one worker's requests cause holds for all workers.
#[test]
fn all_workers_know_who_is_ejected() {
    let (bad, _good, proxy) = before_pair(|config| {
        config.runtime.workers = 2;
        with_cluster(config, |cluster| {
            cluster.resilience.outlier_detection = Some(outliers_for(LONG));
        });
    });
    bad.is(Mood::Status(500));
    let ejected = AtomicBool::new(false);
    for _ in 0..60 {
        let status = proxy.connect().ask(get("/")).status();
        assert!(status == 200 || !ejected.load(SeqCst));
        ejected.store(proxy.metric(&["sprat_endpoint_ejected"]) > 0.0, SeqCst);
    }
    assert!(ejected.load(SeqCst));
    assert_eq!(bad.requests(), 3);
}
