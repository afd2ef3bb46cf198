//! The origin and the replay against each other, over loopback.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use indicatif::ProgressBar;
use sprat_loadgen::origin::{self, Order, Origin, Service};
use sprat_loadgen::replay::{Pace, Replay, Target, replay};
use sprat_loadgen::results::{Failure, Outcome};
use sprat_loadgen::trace::{Request, Trace};
use sprat_loadgen::workload::{self, TracePlan};
use sprat_measure::wire::Connection;

fn serve(origin: &Origin) -> SocketAddr {
    origin::start(origin).unwrap().addresses[0]
}

fn plan(address: SocketAddr) -> Replay {
    Replay {
        target: Target::plain(address),
        connection: Connection::New,
        http2: None,
        fields: String::new(),
        timeout: Duration::from_secs(30),
        open_max: 1000,
        pace: Pace::Trace,
    }
}

fn ask(paths: &[&str], plan: &Replay) -> Vec<Outcome> {
    let requests = paths
        .iter()
        .map(|path| Request {
            t_s: 0.0,
            bytes: path.split('/').nth(2).unwrap().parse().unwrap(),
            path: (*path).into(),
            user: None,
        })
        .collect();
    replay(&Trace { requests }, plan, &ProgressBar::hidden()).unwrap()
}

fn assert_whole(outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert_eq!(outcome.error, None, "{outcome:?}");
        assert_eq!(outcome.status, 200, "{outcome:?}");
        assert_eq!(outcome.received, outcome.bytes, "{outcome:?}");
        assert!(outcome.response_ms > 0.0, "{outcome:?}");
    }
}

#[test]
fn each_fault_is_told_by_its_word() {
    let address = serve(&Origin::default());
    let cases = [
        ("/size/1000/a?fault=reset_head", Failure::Reset),
        ("/size/1000/a?fault=reset_head&at=0", Failure::Reset),
        ("/size/1000/a?fault=reset_body", Failure::Reset),
        ("/size/1000/a?fault=short", Failure::Short),
        ("/size/1000/a?fault=short&at=999", Failure::Short),
        ("/size/300000/a?fault=short&at=200000", Failure::Short),
        ("/size/1000/a?fault=long", Failure::Corrupt),
        ("/size/1000/a?fault=garbage", Failure::Corrupt),
        ("/size/1000/a?fault=stall_head", Failure::Timeout),
        ("/size/1000/a?fault=stall_body&at=10", Failure::Timeout),
        ("/size/1000/a?fault=header_flood", Failure::Corrupt),
        ("/size/1000/a?status=503", Failure::Status),
        ("/size/1000/a?status=204", Failure::Status),
        ("/size/1000/a?delay=1h", Failure::Timeout),
        ("/size/1000/a?oops=1", Failure::Status),
    ];
    for connection in [Connection::New, Connection::Keep] {
        let plan = Replay {
            connection,
            timeout: Duration::from_secs(2),
            ..plan(address)
        };
        let paths: Vec<&str> = cases.iter().map(|(path, _)| *path).collect();
        for (outcome, (path, failure)) in ask(&paths, &plan).iter().zip(&cases) {
            assert_eq!(
                outcome.error,
                Some(*failure),
                "{path} {connection:?} {outcome:?}"
            );
        }
    }
    let stalled = Replay {
        timeout: Duration::from_secs(1),
        ..plan(address)
    };
    let outcomes = ask(&["/size/1000/a?fault=stall_body&at=10"], &stalled);
    assert_eq!((outcomes[0].status, outcomes[0].received), (200, 10));
}

#[test]
fn knobs_change_the_framing_and_not_the_body() {
    let address = serve(&Origin {
        headers: [(http::header::SERVER, "origin".parse().unwrap())]
            .into_iter()
            .collect(),
        ..Origin::default()
    });
    let paths = [
        "/size/0/a",
        "/size/0/a?chunked=1",
        "/size/1/a?trailers=1",
        "/size/200000/a",
        "/size/200000/a?chunked=1",
        "/size/200000/a?trailers=1&close=1",
        "/size/3000000",
        "/size/20000/a?rate=10mbit&delay=5ms&body_delay=5ms",
        "/size/20000/a?rate=10mbit&chunked=1",
        "/size/10/a?close=1",
    ];
    for connection in [Connection::New, Connection::Keep] {
        let plan = Replay {
            connection,
            ..plan(address)
        };
        assert_whole(&ask(&paths, &plan));
    }
}

#[test]
fn a_delayed_or_paced_response_takes_at_least_that_long() {
    let address = serve(&Origin::default());
    let outcomes = ask(
        &[
            "/size/10/a?delay=30ms",
            "/size/10/a?body_delay=30ms&delay=30ms",
            "/size/12500/a?rate=1mbit",
        ],
        &plan(address),
    );
    assert_whole(&outcomes);
    // The first of the pieces of the last one leaves at once.
    for (outcome, least_ms) in outcomes.iter().zip([30.0, 60.0, 80.0]) {
        assert!(outcome.response_ms >= least_ms, "{outcome:?}");
    }
}

#[test]
fn one_at_a_time_serves_one_after_the_other() {
    let address = serve(&Origin {
        service: Some(Service {
            bits_per_s: 1_000_000,
            overhead: Duration::ZERO,
            order: Order::Concurrent(1),
        }),
        ..Origin::default()
    });
    // 10 ms each: the last of eight cannot be done before 80 ms.
    let outcomes = ask(&["/size/1250/a"; 8], &plan(address));
    assert_whole(&outcomes);
    let first = outcomes
        .iter()
        .map(|o| o.start_s)
        .fold(f64::INFINITY, f64::min);
    let mut done: Vec<f64> = outcomes.iter().map(|o| o.done_s() - first).collect();
    done.sort_by(f64::total_cmp);
    for (rank, done_s) in done.iter().enumerate() {
        assert!(*done_s >= 0.01 * (rank + 1) as f64 - 0.001, "{done:?}");
    }
}

#[test]
fn open_loop_keeps_the_times_of_the_trace() {
    let address = serve(&Origin {
        threads: 2,
        ..Origin::default()
    });
    let mut trace = workload::generate(&TracePlan {
        seed: 3,
        requests: 400,
        files: 500,
        sizes: workload::Sizes::Worldcup,
        requests_per_user: None,
    });
    assert!(workload::scale_to_load(
        &mut trace,
        0.8,
        Connection::New,
        50_000_000
    ));
    let outcomes = replay(&trace, &plan(address), &ProgressBar::hidden()).unwrap();
    assert_whole(&outcomes);
    for (outcome, request) in outcomes.iter().zip(&trace.requests) {
        assert_eq!(outcome.path, request.path);
        assert!(outcome.start_s >= request.t_s - 1e-6, "{outcome:?}");
    }
}

#[test]
fn a_user_waits_for_each_answer() {
    let address = serve(&Origin::default());
    let trace = workload::generate(&TracePlan {
        seed: 3,
        requests: 60,
        files: 50,
        sizes: workload::Sizes::Worldcup,
        requests_per_user: Some(6),
    });
    let mut trace = trace;
    for request in &mut trace.requests {
        request.t_s /= 1000.0;
    }
    for connection in [Connection::New, Connection::Keep] {
        let plan = Replay {
            connection,
            ..plan(address)
        };
        let outcomes = replay(&trace, &plan, &ProgressBar::hidden()).unwrap();
        assert_whole(&outcomes);
        for user in outcomes.chunks(6) {
            assert!(
                user.is_sorted_by(|a, b| a.done_s() <= b.start_s + 2e-6),
                "{user:?}"
            );
        }
    }
}

#[test]
fn a_closed_loop_asks_for_everything_once() {
    let address = serve(&Origin::default());
    let trace = workload::generate(&TracePlan {
        seed: 3,
        requests: 500,
        files: 100,
        sizes: workload::Sizes::Worldcup,
        requests_per_user: None,
    });
    for (clients, connection) in [(1, Connection::New), (7, Connection::Keep)] {
        let plan = Replay {
            connection,
            pace: Pace::Closed(clients),
            ..plan(address)
        };
        let outcomes = replay(&trace, &plan, &ProgressBar::hidden()).unwrap();
        assert_whole(&outcomes);
        for outcome in &outcomes {
            let open = outcomes
                .iter()
                .filter(|o| o.start_s < outcome.start_s && o.done_s() > outcome.start_s + 2e-6)
                .count();
            assert!(open < clients as usize, "{outcome:?}");
        }
    }
}

#[test]
fn what_cannot_be_opened_is_a_failure_to_connect() {
    let refused = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let outcomes = ask(&["/size/1/a"], &plan(refused));
    assert_eq!(outcomes[0].error, Some(Failure::Connect));

    let address = serve(&Origin::default());
    let two = Replay {
        open_max: 2,
        ..plan(address)
    };
    let outcomes = ask(&["/size/1/a?delay=300ms"; 5], &two);
    let failed = outcomes
        .iter()
        .filter(|o| o.error == Some(Failure::Connect));
    assert_eq!(failed.count(), 3);
}

#[test]
fn an_idle_connection_that_was_closed_is_replaced() {
    let address = serve(&Origin::default());
    let keep = Replay {
        connection: Connection::Keep,
        pace: Pace::Closed(1),
        ..plan(address)
    };
    // The server closes after each answer although it did not say so.
    let paths = ["/size/10/a?fault=long&at=0", "/size/20/a", "/size/30/a"];
    assert_whole(&ask(&paths, &keep));
}

#[test]
fn http2_has_the_same_bodies_and_faults_on_the_same_port() {
    let address = serve(&Origin::default());
    let plan = Replay {
        connection: Connection::Keep,
        http2: Some(2),
        timeout: Duration::from_secs(2),
        ..plan(address)
    };
    let whole = [
        "/size/0/a",
        "/size/1/a?trailers=1",
        "/size/200000/a?chunked=1&close=1",
        "/size/3000000/a",
        "/size/20000/a?rate=10mbit&delay=5ms",
    ];
    assert_whole(&ask(&whole, &plan));
    let cases = [
        ("/size/1000/a?fault=reset_head", Failure::Reset),
        ("/size/300000/a?fault=reset_body", Failure::Reset),
        ("/size/1000/a?fault=long", Failure::Reset),
        ("/size/1000/a?fault=short", Failure::Reset),
        ("/size/1000/a?fault=stall_head", Failure::Timeout),
        ("/size/1000/a?fault=stall_body&at=10", Failure::Timeout),
        ("/size/1000/a?fault=garbage", Failure::Status),
        ("/size/1000/a?status=503", Failure::Status),
        ("/size/1000/a?oops=1", Failure::Status),
    ];
    let paths = cases.map(|(path, _)| path);
    for (outcome, (path, failure)) in ask(&paths, &plan).iter().zip(&cases) {
        assert_eq!(outcome.error, Some(*failure), "{path} {outcome:?}");
    }
    let refused = Replay {
        target: Target::plain("127.0.0.1:1".parse().unwrap()),
        ..plan
    };
    assert_eq!(
        ask(&["/size/1/a"], &refused)[0].error,
        Some(Failure::Connect)
    );
}

#[test]
fn a_fault_is_over_after_its_attempts() {
    let address = serve(&Origin::default());
    let path = "/size/100/a?fault=reset_head&attempts=1";
    assert_eq!(ask(&[path], &plan(address))[0].error, Some(Failure::Reset));
    for http2 in [None, Some(1)] {
        let second = Replay {
            fields: "X-Envoy-Attempt-Count: 2\r\n".to_owned(),
            http2,
            ..plan(address)
        };
        assert_whole(&ask(&[path], &second));
    }
}

#[test]
fn head_has_the_length_and_no_body() {
    use std::io::{Read, Write};
    let address = serve(&Origin::default());
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(b"HEAD /size/12345/a?close=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(
        text.to_ascii_lowercase()
            .contains("\r\ncontent-length: 12345\r\n"),
        "{text}"
    );
    assert!(text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn a_trailer_is_sent_to_who_takes_one() {
    use std::io::{Read, Write};
    let address = serve(&Origin::default());
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /size/5/a?trailers=1&close=1 HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n0\r\nx-body-bytes: 5\r\n\r\n"), "{text}");
}
