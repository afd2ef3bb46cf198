//! Tests of the paced uplink over real sockets: order, integrity, bounds.

use std::io::Read as _;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::*;
use crate::http2::client as http2;
use http_body_util::BodyExt as _;
use sprat_config::resolved::*;
use sprat_scheduler::srq;
use sprat_scheduler::{Cutoffs, Discipline};

const LARGE: usize = 1_000_000;

/// Starts an origin that answers `/SIZE` with so many bytes, in a pattern.
fn farm() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&pattern(path[1..].parse().unwrap()))
    })
}

fn pattern(bytes: usize) -> String {
    const PART: &str = "0123456789abcdef-";
    let mut text = PART.repeat(bytes.div_ceil(PART.len()));
    text.truncate(bytes);
    text
}

fn paced(origin: &Origin, rate: Rate, policy: Discipline) -> Config {
    let mut config = config(&[origin.address]);
    config.uplink.rate = rate;
    config.uplink.policy = policy;
    config
}

/// Returns which is complete first: a large response, or a small one asked for after it. The log
/// tells it, for clients may be slow to notice.
fn first_complete(policy: Discipline) -> &'static str {
    let origin = farm();
    let proxy = Proxy::logging(paced(&origin, Rate::Fixed(8_000_000), policy));
    let mut large = proxy.connect();
    assert!(large.send(get(&format!("/{LARGE}"))));
    // It has begun.
    large.stream().peek(&mut [0]).unwrap();
    let reader = std::thread::spawn(move || large.message());
    let small = proxy.connect().ask(get("/3000"));
    assert_eq!(small.text(), pattern(3000));
    assert_eq!(reader.join().unwrap().text(), pattern(LARGE));
    proxy.assert_no_leak();
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
    match proxy.log_lines_at_least(2)[0]["bytes"].as_u64() {
        Some(3000) => "small",
        _ => "large",
    }
}

#[test]
fn the_policy_decides_who_is_served_first() {
    assert_eq!(first_complete(Discipline::Srpt), "small");
    assert_eq!(first_complete(Discipline::Fair), "small");
    let bands = Discipline::Bands(Cutoffs::paper());
    assert_eq!(first_complete(bands), "small");
    let ageing_bytes_per_s = 1000;
    assert_eq!(
        first_complete(Discipline::SrptAged { ageing_bytes_per_s }),
        "small"
    );
    let srq = Discipline::Srq(Box::new(srq::Config::bytes()));
    assert_eq!(first_complete(srq), "small");
    assert_eq!(first_complete(Discipline::Fcfs), "large");
    assert_eq!(first_complete(Discipline::Edf), "large");
}

#[test]
fn the_queues_are_told_and_a_response_that_is_cut_short_is_in_no_count() {
    let origin = Origin::http(|request| match request.start.split(' ').nth(1).unwrap() {
        "/chunked" => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let bytes = 20_000;
            format!("{head}{bytes:x}\r\n{}\r\n0\r\n\r\n", pattern(bytes))
        }
        path => ok(&pattern(path[1..].parse().unwrap())),
    });
    let srq = Discipline::Srq(Box::new(srq::Config::bytes()));
    let proxy = Proxy::start(&paced(&origin, Rate::Fixed(80_000_000), srq));
    assert_eq!(proxy.connect().ask(get("/3000")).text(), pattern(3000));
    assert_eq!(proxy.connect().ask(get("/300000")).text(), pattern(300_000));
    let completed = |queue| {
        let queue = format!("queue=\"{queue}\"");
        proxy.wait_metric(&["sprat_uplink_queue_completed_total", &queue], 1.0);
    };
    completed(0);
    completed(2);
    assert_eq!(proxy.metric(&["sprat_uplink_queues "]), 3.0);
    assert_eq!(proxy.metric(&["sprat_uplink_queues_active"]), 1.0);
    let quantum = ["sprat_uplink_queue_quantum_bytes", "queue=\"1\""];
    assert_eq!(proxy.metric(&quantum), 102_400.0);
    // The end of a chunked one is known after its last byte has gone.
    assert_eq!(proxy.connect().ask(get("/chunked")).text(), pattern(20_000));
    completed(1);
    let mut cut = proxy.connect();
    assert!(cut.send(get(&format!("/{}", 50 * LARGE))));
    cut.stream().peek(&mut [0]).unwrap();
    proxy.wait_metric(&["sprat_uplink_queue_moved_total", "queue=\"1\""], 2.0);
    drop(cut);
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
    let third = ["sprat_uplink_queue_completed_total", "queue=\"2\""];
    assert_eq!(proxy.metric(&third), 1.0);
    for queue in 0..3 {
        let queue = format!("queue=\"{queue}\"");
        assert_eq!(proxy.metric(&["sprat_uplink_queue_flows", &queue]), 0.0);
    }
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let origin = farm();
    let proxy = Proxy::start(&paced(&origin, Rate::Fixed(50_000_000), Discipline::Fcfs));
    let mut idle = proxy.connect();
    assert!(idle.send(get("/20000000")));
    idle.stream().peek(&mut [0]).unwrap();
    // First come, first served: but what cannot be sent is passed over.
    for _ in 0..3 {
        let answer = proxy.connect().ask(get("/100000"));
        assert_eq!(answer.text(), pattern(100_000));
    }
    drop(idle);
    proxy.assert_no_leak();
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
}

#[test]
fn every_kind_of_answer_passes_unchanged() {
    let origin = Origin::http(|request| {
        let body = pattern(40_000);
        match request.start.split(' ').nth(1).unwrap() {
            "/chunked" => {
                let chunks: String = body
                    .as_bytes()
                    .chunks(777)
                    .map(|chunk| {
                        format!(
                            "{:x}\r\n{}\r\n",
                            chunk.len(),
                            std::str::from_utf8(chunk).unwrap()
                        )
                    })
                    .collect();
                format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
                     {chunks}0\r\nx-sum: 7\r\n\r\n"
                )
            }
            "/none" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            "/empty" => ok(""),
            "/missing" => format!(
                "HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
            _ => ok(&body),
        }
    });
    for rate in [
        Rate::Fixed(20_000_000),
        Rate::Fixed(100_000_000_000),
        Rate::Auto,
    ] {
        let proxy = Proxy::start(&paced(&origin, rate, Discipline::Srpt));
        let mut client = proxy.connect();
        let whole = pattern(40_000);
        assert_eq!(client.ask(get("/whole")).text(), whole);
        let request = "GET /chunked HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
        let chunked = client.ask(request);
        assert_eq!(chunked.text(), whole);
        assert_eq!(chunked.trailers, [("x-sum".to_owned(), "7".to_owned())]);
        assert_eq!(client.ask(get("/none")).status(), 204);
        assert_eq!(client.ask(get("/empty")).text(), "");
        let missing = client.ask(get("/missing"));
        assert_eq!((missing.status(), missing.text()), (404, whole.clone()));
        assert_eq!(client.ask(get("/whole")).text(), whole);
        let last = client.ask("GET /whole HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(last.text(), whole);
        assert!(client.is_closed());
        proxy.assert_no_leak();
        proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
        assert!(proxy.metric(&["sprat_uplink_granted_bytes_total"]) > 200_000.0);
    }
}

#[test]
fn a_response_over_the_bound_on_flows_is_refused() {
    let origin = farm();
    let mut config = paced(&origin, Rate::Fixed(1_000_000), Discipline::Srpt);
    config.uplink.max_flows = 1;
    let proxy = Proxy::start(&config);
    let mut first = proxy.connect();
    assert!(first.send(get("/300000")));
    first.stream().peek(&mut [0]).unwrap();
    let refused = proxy.connect().ask(get("/10"));
    assert_eq!(refused.status(), 503);
    assert!(refused.field("proxy-status").unwrap().contains("sprat"));
    assert_eq!(first.message().text(), pattern(300_000));
    drop(first);
    assert_eq!(proxy.connect().ask(get("/10")).text(), pattern(10));
    proxy.assert_no_leak();
}

/// Checks that the refusal of one of Sprat's own answers is whole, in the log as well, and that its
/// connection serves on.
#[test]
fn a_page_that_finds_no_place_is_refused_in_whole() {
    let origin = farm();
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: 1mbit, max_flows: 1}}\n\
         listeners: [{{address: 127.0.0.1:0}}]\nclusters: {{a: {{endpoints: ['{}']}}}}\n\
         routes:\n- match: {{path: /page}}\n  direct_response: {{status: 200, body: '{}'}}\n\
         - cluster: a\n",
        origin.address,
        pattern(5000)
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    let proxy = Proxy::logging(loaded.unwrap_or_else(|errors| panic!("{errors}")).config);
    let mut first = proxy.connect();
    assert!(first.send(get("/300000")));
    first.stream().peek(&mut [0]).unwrap();
    let mut client = proxy.connect();
    let refused = client.ask(get("/page"));
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert!(refused.text().contains("too many responses"), "{refused:?}");
    assert_eq!(first.message().text(), pattern(300_000));
    assert_eq!(client.ask(get("/page")).text(), pattern(5000));
    let lines = proxy.log_lines(3);
    let refused = lines.iter().find(|line| line["reason"] == "uplink_full");
    assert_eq!(refused.expect("its line is there")["status"], 503);
}

/// Checks that one of Sprat's own answers, of which a client over HTTP/2 takes the beginning alone,
/// does not count as complete.
#[test]
fn a_page_that_is_cancelled_is_not_complete() {
    let origin = farm();
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: 250kbit}}\n\
         listeners: [{{address: 127.0.0.1:0}}]\nclusters: {{a: {{endpoints: ['{}']}}}}\n\
         routes:\n- match: {{path: /page}}\n  direct_response: {{status: 200, body: '{}'}}\n\
         - cluster: a\n",
        origin.address,
        pattern(60_000)
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    let proxy = Proxy::logging(loaded.unwrap_or_else(|errors| panic!("{errors}")).config);
    http2::run(async {
        let client = http2::connect(proxy.address).await;
        let mut sender = client.clone();
        let page = sender.send_request(http2::request("/page")).await.unwrap();
        let mut body = page.into_body();
        assert!(body.frame().await.unwrap().unwrap().is_data());
        drop(body);
        // Nor is one without a body cancelled.
        let mut head = http2::request("/page");
        *head.method_mut() = http::Method::HEAD;
        assert_eq!(http2::ask(&client, head).await.status, 200);
    });
    for line in proxy.log_lines(2) {
        assert_eq!(line["aborted"], line["method"] == "GET", "{line}");
    }
    proxy.assert_no_leak();
}

#[test]
fn a_client_that_leaves_gives_its_place_up() {
    let origin = farm();
    let proxy = Proxy::start(&paced(&origin, Rate::Fixed(1_000_000), Discipline::Fcfs));
    let mut gone = proxy.connect();
    assert!(gone.send(get("/10000000")));
    gone.stream().peek(&mut [0]).unwrap();
    let mut waits = proxy.connect();
    assert!(waits.send(get("/5000")));
    proxy.wait_metric(&["sprat_uplink_open_flows"], 2.0);
    drop(gone);
    assert_eq!(waits.message().text(), pattern(5000));
    drop(waits);
    proxy.assert_no_leak();
}

/// Ends a flood when it is dropped, so that a check that fails does not wait for it.
struct Flood<'a>(&'a AtomicBool);

impl Drop for Flood<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Checks that connections with one empty response after another, more than the link carries, leave
/// all responses their turns. Empty responses go ahead of the others.
#[test]
fn a_flood_of_empty_responses_starves_no_one() {
    for policy in [Discipline::Srpt, Discipline::Fair] {
        let origin = farm();
        // So slow that clients on a busy machine flood it too.
        let proxy = Proxy::start(&paced(&origin, Rate::Fixed(60_000), policy));
        let answered = AtomicUsize::new(0);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let flood = Flood(&over);
            for _ in 0..16 {
                scope.spawn(|| {
                    let mut client = proxy.connect();
                    while !over.load(Relaxed) {
                        assert_eq!(client.ask(get("/0")).status(), 200);
                        answered.fetch_add(1, Relaxed);
                    }
                });
            }
            let refusals = || proxy.metric(&["sprat_uplink_fast_path_refusals_total"]);
            wait_for("a refusal of the fast path's", || refusals() > 0.0);
            // As long as the flood lasts, this one has only its share.
            let body = proxy.connect().ask(get("/2000"));
            let then = answered.load(Relaxed);
            wait_for("the flood goes on", || answered.load(Relaxed) >= then + 20);
            drop(flood);
            assert_eq!(body.text(), pattern(2000));
        });
        proxy.assert_no_leak();
        proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
    }
}

/// Returns the wire bytes that the uplink has counted.
fn wire_bytes(proxy: &Proxy) -> f64 {
    proxy.metric(&["sprat_uplink_wire_bytes_total"])
}

#[test]
fn an_upload_is_counted_as_it_goes_and_stops_no_response() {
    let origin = farm();
    let proxy = Proxy::start(&paced(&origin, Rate::Fixed(1_000_000), Discipline::Srpt));
    let mut upload = proxy.connect();
    let length = 48 << 20;
    let head = format!("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    assert!(upload.send(head));
    let block = vec![b'x'; 1 << 20];
    let mut beside = proxy.connect();
    for mib in 0..48 {
        assert!(upload.send(&block));
        if mib % 8 == 0 {
            assert_eq!(beside.ask(get("/2000")).text(), pattern(2000));
        }
    }
    assert_eq!(upload.message().text(), pattern(1));
    drop(beside);
    wait_for("one connection", || {
        proxy.metric(&["sprat_open_connections"]) == 1.0
    });
    // Nothing that is worth a wait is left for the end.
    let before = wire_bytes(&proxy);
    drop(upload);
    proxy.assert_no_leak();
    let lump = wire_bytes(&proxy) - before;
    assert!((0.0..5_000.0).contains(&lump), "{lump} of {before}");
    assert!(before > 48.0 * 66.0, "{before}: acknowledgements count");
}

#[test]
fn an_answer_on_a_kept_connection_costs_what_goes_out() {
    let origin = farm();
    let proxy = Proxy::start(&paced(&origin, Rate::Fixed(8_000_000), Discipline::Srpt));
    let mut client = proxy.connect();
    // The connection's set-up is not part of an answer.
    client.ask(get("/1"));
    let head = "HEAD /100 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned();
    for (request, body) in [(head, 0), (get("/100"), 100), (get("/1300"), 1300)] {
        let before = wire_bytes(&proxy);
        let mut sent = 0;
        for _ in 0..10 {
            assert!(client.send(&request));
            let answer = client.head().unwrap();
            std::io::Read::read_exact(&mut client.reader, &mut vec![0; body]).unwrap();
            let fields = answer.fields.iter();
            let fields = fields.map(|(name, value)| name.len() + value.len() + 4);
            sent += answer.start.len() + 2 + fields.sum::<usize>() + 2 + body + 66;
        }
        // The client may have the last byte before the proxy knows that it is
        // out, and that its head was shorter than it might have been: by 28.
        let counted = wire_bytes(&proxy) - before;
        let off = (counted - sent as f64).abs();
        assert!(off <= 28.0, "{counted} for {sent}: {request}");
    }
}

#[test]
fn the_log_tells_how_long_a_response_waited() {
    let origin = farm();
    let config = paced(&origin, Rate::Fixed(2_000_000), Discipline::Fcfs);
    let proxy = Proxy::logging(config);
    let mut first = proxy.connect();
    assert!(first.send(get("/100000")));
    first.stream().peek(&mut [0]).unwrap();
    assert_eq!(proxy.connect().ask(get("/10")).status(), 200);
    first.message();
    let lines = proxy.log_lines(2);
    let waited = |bytes: u64| {
        let line = lines.iter().find(|line| line["bytes"] == bytes).unwrap();
        (
            line["wait_ms"].as_f64().unwrap(),
            line["slowdown"].as_f64().unwrap(),
        )
    };
    // 100,000 bytes take 400 ms at 2 Mbit/s; most of them were ahead of the
    // small response.
    assert!(waited(10).0 > 50.0, "{lines:?}");
    assert!(waited(10).1 > waited(100_000).1, "{lines:?}");
}

#[test]
fn the_log_tells_how_long_a_response_waited_whose_client_left() {
    let origin = farm();
    let config = paced(&origin, Rate::Fixed(2_000_000), Discipline::Fair);
    let proxy = Proxy::logging(config);
    let mut goes_on = proxy.connect();
    assert!(goes_on.send(get("/10000000")));
    goes_on.stream().peek(&mut [0]).unwrap();
    let mut leaves = proxy.connect();
    assert!(leaves.send(get("/10000000")));
    let mut part = vec![0; 200_000];
    std::io::Read::read_exact(&mut leaves.reader, &mut part).unwrap();
    reset(leaves);
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["reason"], "client_closed");
    // 200,000 bytes take 800 ms at 2 Mbit/s. The first turn alone came after a few.
    assert!(line["wait_ms"].as_f64() > Some(300.0), "{line}");
}

#[test]
fn a_body_that_fails_at_its_very_beginning_does_not_look_whole() {
    let origin = Origin::start(|mut peer| {
        if peer.try_message(true).is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2");
        }
    });
    let proxy = Proxy::start(&paced(&origin, Rate::Fixed(8_000_000), Discipline::Srpt));
    let mut client = proxy.connect();
    assert!(client.send(get("/")));
    let whole = client.try_message(true);
    assert!(whole.is_none(), "{whole:?}");
    proxy.assert_no_leak();
}

#[test]
fn rates_are_told_in_bytes_per_second() {
    let origin = farm();
    let mut config = paced(&origin, Rate::Fixed(8_000_000), Discipline::Srpt);
    config.uplink.adapt = false;
    let proxy = Proxy::start(&config);
    for name in ["rate_bytes", "effective_rate_bytes"] {
        let rate = proxy.metric(&[&format!("sprat_uplink_{name}_per_second")]);
        assert_eq!(rate, 1e6, "{name}");
    }
}

#[test]
fn without_a_rate_nothing_is_held_back_where_nothing_is_shared() {
    let origin = farm();
    let proxy = Proxy::start(&paced(&origin, Rate::Auto, Discipline::Srpt));
    for _ in 0..20 {
        let mut client = proxy.connect();
        let request = "GET /200000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert_eq!(client.ask(request).text(), pattern(200_000));
        assert!(
            client.is_closed(),
            "a followed socket is closed all the same"
        );
    }
    // No sample is no rate; one that was found in the noise of a busy machine is high.
    for name in ["rate_bytes", "effective_rate_bytes"] {
        let rate = proxy.metric(&[&format!("sprat_uplink_{name}_per_second")]);
        assert!(rate == 0.0 || rate > 125e3, "{name}: {rate}");
    }
    proxy.assert_no_leak();
    // Nothing is followed for ever.
    std::thread::sleep(Duration::from_millis(50));
    proxy.stop();
}

/// Starts a download that takes longer than the test, and returns the count of bytes that its
/// client has read. The client reads on: one that does not leaves the link to the others.
fn endless(proxy: &Proxy) -> Arc<AtomicUsize> {
    let mut client = proxy.connect();
    client.send(get("/20000000"));
    client.stream().peek(&mut [0]).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut part = vec![0; 10_000];
        while let Ok(read @ 1..) = std::io::Read::read(&mut client.reader, &mut part) {
            counted.fetch_add(read, Relaxed);
        }
    });
    count
}

/// Starts a proxy with a link of 1 Mbit/s and an endless download on it.
fn busy_link(change: impl FnOnce(&mut Config)) -> (Origin, Proxy, Arc<AtomicUsize>) {
    let origin = farm();
    let mut config = paced(&origin, Rate::Fixed(1_000_000), Discipline::Srpt);
    config.uplink.floor_percent = 0;
    change(&mut config);
    let proxy = Proxy::logging(config);
    let download = endless(&proxy);
    (origin, proxy, download)
}

#[test]
fn a_head_goes_at_once_though_its_body_waits() {
    let (_origin, proxy, _download) = busy_link(|_| {});
    let mut client = proxy.connect();
    client.send(get("/30000000"));
    let head = client.head().unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.field("content-length"), Some("30000000"));
    let waits = ["sprat_uplink_longest_wait_seconds", "default"];
    wait_for("the body to wait", || proxy.metric(&waits) > 0.2);
    // It is the first of it that waits.
    let stream = client.stream();
    let soon = Some(Duration::from_millis(200));
    stream.set_read_timeout(soon).unwrap();
    assert!(client.reader.buffer().is_empty());
    assert!(stream.peek(&mut [0]).is_err());
    // What is smaller goes ahead of both.
    assert_eq!(proxy.connect().ask(get("/3000")).text(), pattern(3000));
}

#[test]
fn everything_moves_while_the_link_is_busy() {
    let (_origin, proxy, download) = busy_link(|config| config.uplink.floor_percent = 50);
    let mut client = proxy.connect();
    client.send(get("/30000000"));
    let mut read = client.head().unwrap().body.len();
    let mut part = vec![0; 10_000];
    while read < 60_000 {
        let bytes = std::io::Read::read(&mut client.reader, &mut part).unwrap();
        assert!(bytes > 0);
        read += bytes;
    }
    let before = download.load(Relaxed);
    wait_for("the download to move", || download.load(Relaxed) > before);
}

#[test]
fn a_class_may_bound_the_wait_for_the_link() {
    let (_origin, proxy, _download) = busy_link(|config| {
        let own = QueueTimeout::Own(Some(Duration::from_millis(200)));
        config.classes.list[0].queue_timeout = own;
    });
    let mut client = proxy.connect();
    let refused = client.ask(get("/30000000"));
    assert_eq!(refused.status(), 503);
    assert!(refused.text().contains("uplink_timeout"), "{refused:?}");
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert_eq!(client.ask(get("/3000")).text(), pattern(3000));
    let lines = proxy.log_lines_at_least(2);
    assert_eq!(lines[0]["reason"], "uplink_timeout");
    assert!(lines[0]["wait_ms"].as_f64() > Some(0.0), "{}", lines[0]);
    proxy.wait_metric(&["sprat_uplink_open_flows"], 1.0);
}

/// Checks that the wait of a response that is refused is told, and not the shorter one of the page
/// that goes out in its place.
#[test]
fn the_log_tells_the_wait_of_a_refused_response_before_its_page() {
    const PAGE: usize = 5000;
    let (_origin, proxy, _download) = busy_link(|config| {
        let own = QueueTimeout::Own(Some(Duration::from_millis(500)));
        config.classes.list[0].queue_timeout = own;
        config.routes[0].error_pages = vec![ErrorPage {
            statuses: vec![(503, 503)],
            page: Some(Page {
                source: PageSource::Text(pattern(PAGE)),
                content_type: "text/plain".to_owned(),
            }),
            status: None,
            intercept: false,
        }];
    });
    assert_eq!(proxy.connect().ask(get("/30000000")).status(), 503);
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["reason"], "uplink_timeout");
    assert!(line["wait_ms"].as_f64() >= Some(400.0), "{line}");
}

/// Checks that the length of a refusal is not learnt as the size of the resource asked for.
#[test]
fn a_refusal_teaches_no_size() {
    let origin = Origin::http(|request| match request.start.contains("/chunked") {
        true => format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
            30_000,
            pattern(30_000)
        ),
        false => ok(&pattern(3_000_000)),
    });
    let mut config = paced(&origin, Rate::Fixed(1_000_000), Discipline::Fcfs);
    let own = QueueTimeout::Own(Some(Duration::from_millis(200)));
    config.classes.list[0].queue_timeout = own;
    let proxy = Proxy::logging(config);
    let mut download = proxy.connect();
    assert!(download.send(get("/large")));
    download.stream().peek(&mut [0]).unwrap();
    let refused = proxy.connect().ask(get("/chunked"));
    assert_eq!(refused.status(), 503);
    let lines = proxy.log_lines_at_least(1);
    assert_eq!(lines[0]["reason"], "uplink_timeout");
    // The large one has told its length; nothing else is known.
    assert_eq!(proxy.metric(&["sprat_catalogue_insertions_total"]), 1.0);
}

#[test]
fn an_event_goes_ahead_of_downloads_whatever_its_stream_has_had() {
    let (go, goes) = mpsc::channel::<()>();
    let goes = Arc::new(std::sync::Mutex::new(goes));
    let origin = Origin::start(move |mut peer| {
        let path = peer.message().start;
        let bytes: usize = match path.split(' ').nth(1).unwrap() {
            "/events" => 300_000,
            path => {
                peer.send(ok(&pattern(path[1..].parse().unwrap())));
                return;
            }
        };
        let body = pattern(bytes);
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
             Transfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n"
        ));
        let goes = goes.lock().unwrap();
        while goes.recv_timeout(PATIENCE).is_ok() {
            peer.send("5\r\nevent\r\n");
        }
        peer.send("0\r\n\r\n");
    });
    let mut config = paced(&origin, Rate::Fixed(4_000_000), Discipline::Srpt);
    config.uplink.floor_percent = 0;
    let proxy = Proxy::start(&config);
    let mut events = proxy.connect();
    events.send(get("/events"));
    let mut had = events.head().unwrap().body.len();
    let mut part = vec![0; 64 << 10];
    // Framing is a little more.
    while had < 300_000 {
        had += std::io::Read::read(&mut events.reader, &mut part).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    // Less is left of it than the stream has had.
    let mut download = proxy.connect();
    download.send(get("/250000"));
    download.stream().peek(&mut [0]).unwrap();
    let before = proxy.metric(&["sprat_uplink_open_flows"]);
    assert_eq!(before, 2.0);
    go.send(()).unwrap();
    let mut text = String::new();
    while !text.contains("event") {
        let bytes = std::io::Read::read(&mut events.reader, &mut part).unwrap();
        text.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
    }
    // The download is still under way.
    assert_eq!(proxy.metric(&["sprat_uplink_open_flows"]), 2.0);
    assert_eq!(download.message().body.len(), 250_000);
    drop(go);
}

/// Starts an origin that answers `/SIZE` with so many bytes, never all of them in memory, and
/// `/tunnel` with endless bytes in a tunnel.
fn flood() -> Origin {
    const CHUNK: usize = 64 << 10;
    let chunk = "x".repeat(CHUNK);
    Origin::start(move |mut peer| {
        while let Some(request) = peer.try_message(false) {
            let path = request.start.split(' ').nth(1).unwrap();
            let mut left = path[1..].parse().unwrap_or(usize::MAX);
            let head = match path {
                "/tunnel" => "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket"
                    .to_owned(),
                _ => format!("200 OK\r\nContent-Length: {left}"),
            };
            peer.send(format!("HTTP/1.1 {head}\r\n\r\n"));
            while left > 0 {
                let bytes = left.min(CHUNK);
                if !peer.send(&chunk[..bytes]) {
                    return;
                }
                left -= bytes;
            }
        }
    })
}

/// The downloads of one client, which end when this is dropped.
#[derive(Default)]
struct Downloads {
    read_bytes: Arc<AtomicUsize>,
    streams: Vec<TcpStream>,
}

impl Downloads {
    fn add(&mut self, mut peer: Peer, request: &str) {
        assert!(peer.send(request));
        self.streams.push(peer.stream().try_clone().unwrap());
        let read_bytes = Arc::clone(&self.read_bytes);
        std::thread::spawn(move || {
            let mut part = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = peer.reader.read(&mut part) {
                read_bytes.fetch_add(bytes, Relaxed);
            }
        });
    }

    fn read_bytes(&self) -> usize {
        self.read_bytes.load(Relaxed)
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

const ENDLESS: &str = "/1000000000";

/// Returns a configuration with a link of 5 Mbit/s, shared as given. A link that was idle for want
/// of processor time is given 10 ms of bytes at once, of which a single response has one grant: the
/// slower the link, the fewer grants that is.
fn link_shared_by(origin: &Origin, share: Option<ClientBy>) -> Config {
    let mut config = paced(origin, Rate::Fixed(5_000_000), Discipline::Srpt);
    config.uplink.adapt = false;
    config.uplink.floor_percent = 0;
    config.uplink.share = share;
    config
}

/// Returns the part of the link that one client's download has beside twenty of another client, out
/// of 2 MB in all. The function `open` connects each and says what it asks for.
fn part_of_one_beside_twenty<'a>(
    proxy: &Proxy,
    open: impl Fn(&Proxy, bool) -> (Peer, &'a str),
) -> f64 {
    let (mut many, mut one) = (Downloads::default(), Downloads::default());
    for _ in 0..20 {
        let (peer, request) = open(proxy, false);
        many.add(peer, request);
    }
    proxy.wait_metric(&["sprat_uplink_open_flows"], 20.0);
    let (peer, request) = open(proxy, true);
    one.add(peer, request);
    proxy.wait_metric(&["sprat_uplink_open_flows"], 21.0);
    let read_bytes = || (many.read_bytes(), one.read_bytes());
    let wait_more = |bytes: usize| {
        let (of_many, of_one) = read_bytes();
        let upto = of_many + of_one + bytes;
        wait_for("more bytes", || read_bytes().0 + read_bytes().1 >= upto);
        (read_bytes().0 - of_many, read_bytes().1 - of_one)
    };
    // What the many had in their sockets before the one came is read first.
    wait_more(500_000);
    let (many, one) = wait_more(2_000_000);
    let part = one as f64 / (many + one) as f64;
    println!("{part:.3} of the link for one download beside twenty");
    part
}

fn assert_half(part: f64) {
    assert!((0.4..0.6).contains(&part), "{part}");
}

/// Connects from an address of the client's own.
fn by_address(proxy: &Proxy, is_one: bool) -> Peer {
    proxy.connect_from([127, 0, 0, if is_one { 3 } else { 2 }])
}

#[test]
fn a_client_with_twenty_downloads_has_no_more_than_one_with_one() {
    let origin = flood();
    let request = get(ENDLESS);
    let by_address = |proxy: &Proxy, is_one| (by_address(proxy, is_one), request.as_str());
    let mut config = link_shared_by(&origin, None);
    let proxy = Proxy::start(&config);
    // All are of one size: what came first is served first.
    let part = part_of_one_beside_twenty(&proxy, by_address);
    assert!(part < 0.1, "{part}");
    assert_eq!(proxy.metric(&["sprat_uplink_clients"]), 0.0);
    config.uplink.share = Some(ClientBy::Client);
    let proxy = Proxy::start(&config);
    assert_half(part_of_one_beside_twenty(&proxy, by_address));
    proxy.wait_metric(&["sprat_uplink_clients"], 0.0);
    config.listeners[0].limits.per_client.ipv4_prefix = 8;
    // One office has one part.
    let proxy = Proxy::start(&config);
    let part = part_of_one_beside_twenty(&proxy, by_address);
    assert!(part < 0.1, "{part}");
}

#[test]
fn clients_may_be_told_apart_by_a_field() {
    let origin = flood();
    let by_user = ClientBy::Header("x-user".to_owned());
    let proxy = Proxy::start(&link_shared_by(&origin, Some(by_user)));
    let request = |user| format!("GET {ENDLESS} HTTP/1.1\r\nHost: a\r\nX-User: {user}\r\n\r\n");
    let requests = ["anna", "ben"].map(request);
    let by_field = |proxy: &Proxy, is_one| (proxy.connect(), &*requests[usize::from(is_one)]);
    assert_half(part_of_one_beside_twenty(&proxy, by_field));
    proxy.wait_metric(&["sprat_uplink_clients"], 0.0);
    // Without the field it is the address.
    let request = get(ENDLESS);
    let by_address = |proxy: &Proxy, is_one| (by_address(proxy, is_one), request.as_str());
    assert_half(part_of_one_beside_twenty(&proxy, by_address));
}

#[test]
fn a_client_is_whom_the_proxy_protocol_names() {
    let origin = flood();
    let mut config = link_shared_by(&origin, Some(ClientBy::Client));
    config.listeners[0].proxy_protocol = Some(ProxyProtocol {
        trusted: vec![Network {
            address: "127.0.0.0".parse().unwrap(),
            prefix_len: 8,
        }],
        others_direct: false,
        timeout: PATIENCE,
        max_bytes: 1024,
    });
    let proxy = Proxy::start(&config);
    let request = get(ENDLESS);
    let part = part_of_one_beside_twenty(&proxy, |proxy, is_one| {
        let mut peer = proxy.connect();
        let host = if is_one { 3 } else { 2 };
        peer.send(format!("PROXY TCP4 192.0.2.{host} 192.0.2.9 4000 80\r\n"));
        (peer, &request)
    });
    assert_half(part);
}

#[test]
fn tunnels_are_of_their_client_too() {
    let origin = flood();
    let proxy = Proxy::start(&link_shared_by(&origin, Some(ClientBy::Client)));
    let tunnel =
        "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let request = get(ENDLESS);
    let part = part_of_one_beside_twenty(&proxy, |proxy, is_one| {
        let request = if is_one { &request } else { tunnel };
        (by_address(proxy, is_one), request)
    });
    assert_half(part);
}

#[test]
fn a_client_has_its_small_responses_before_its_large_ones() {
    let origin = flood();
    let proxy = Proxy::start(&link_shared_by(&origin, Some(ClientBy::Client)));
    let (mut own, mut other) = (Downloads::default(), Downloads::default());
    for _ in 0..20 {
        own.add(proxy.connect(), &get(ENDLESS));
    }
    other.add(by_address(&proxy, true), &get(ENDLESS));
    proxy.wait_metric(&["sprat_uplink_open_flows"], 21.0);
    let mut client = proxy.connect();
    // It is one turn of its client's in each, and the link's other half passes meanwhile.
    let before = own.read_bytes();
    assert_eq!(client.ask(get("/1000000")).body.len(), 1_000_000);
    let passed = own.read_bytes() - before;
    assert!(passed < 1_000_000, "{passed}");
    assert_eq!(proxy.metric(&["sprat_uplink_clients"]), 2.0);
    assert_eq!(proxy.metric(&["sprat_uplink_open_flows"]), 21.0);
}
