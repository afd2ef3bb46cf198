//! Tests of requests that wait for an endpoint while none can be reached.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::spawn;
use std::time::{Duration, Instant};

use crate::common::binary::signal;
use crate::common::*;
use sprat_config::resolved::*;

/// Returns a configuration in which requests wait so long for an endpoint.
fn waiting(address: SocketAddr, time: Duration, change: impl FnOnce(&mut Cluster)) -> Config {
    let mut config = config(&[address]);
    with_cluster(&mut config, |cluster| {
        cluster.wait_for_endpoint = Some(time);
        change(cluster);
    });
    config
}

const ENDS: &str = "sprat_endpoint_waits_total";
const AWAITING: &str = "sprat_requests_awaiting_endpoint";

#[test]
fn a_request_waits_for_an_endpoint_that_comes() {
    let address = free_address();
    let proxy = Proxy::logging(waiting(address, PATIENCE, |_| ()));
    let mut clients: Vec<_> = (0..3).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    }
    proxy.wait_metric(&[AWAITING], 3.0);
    let origin = Origin::on(TcpListener::bind(address).unwrap(), |mut peer| {
        while let Some(request) = peer.try_message(true) {
            peer.send(ok(&request.text()));
        }
    });
    for client in &mut clients {
        // It is whole, though it is not safe: nothing of it was sent before.
        let answer = client.message();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "body"));
    }
    assert!(origin.connections() >= 1);
    proxy.wait_metric(&[AWAITING], 0.0);
    assert_eq!(proxy.metric(&[ENDS, "served"]), 3.0);
    assert_eq!(proxy.metric(&[ENDS, "given_up"]), 0.0);
    let lines = proxy.log_lines(3);
    assert!(lines.iter().all(|line| line["aborted"] == false));
    drop(clients);
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that the endpoint's time to take a body begins only when the endpoint is there.
#[test]
fn an_upload_may_wait_for_longer_than_its_endpoint_may_be_idle() {
    let address = free_address();
    let idle = Duration::from_secs(1);
    let mut config = waiting(address, PATIENCE, |_| ());
    config.routes[0].idle_timeout = idle;
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    proxy.wait_metric(&[AWAITING], 1.0);
    std::thread::sleep(idle + Duration::from_millis(200));
    let _origin = Origin::on(TcpListener::bind(address).unwrap(), |mut peer| {
        while let Some(request) = peer.try_message(true) {
            peer.send(ok(&request.text()));
        }
    });
    let answer = client.message();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "body"));
    drop(client);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn waiting_is_bounded_in_time_and_number() {
    let address = free_address();
    let time = Duration::from_millis(300);
    let proxy = Proxy::start(&waiting(address, time, |cluster| {
        cluster.wait_queue.max_requests = 1;
    }));
    let began = Instant::now();
    let mut first = proxy.connect();
    first.send(get("/"));
    proxy.wait_metric(&[AWAITING], 1.0);
    // There is room for one.
    assert_eq!(proxy.connect().ask(get("/")).status(), 502);
    assert_eq!(first.message().status(), 502);
    assert!(began.elapsed() >= time);
    proxy.wait_metric(&[AWAITING], 0.0);
    assert_eq!(proxy.metric(&[ENDS, "given_up"]), 1.0);
    // A client that leaves gives its place back.
    let mut left = proxy.connect();
    left.send(get("/"));
    proxy.wait_metric(&[AWAITING], 1.0);
    reset(left);
    proxy.wait_metric(&[AWAITING], 0.0);
    drop(first);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_request_waits_for_checks_to_pass() {
    let well = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&well);
    let checked = Origin::http(move |request| match request.start.contains("/healthz") {
        true if !told.load(Ordering::SeqCst) => {
            "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
        _ => ok("back"),
    });
    let proxy = Proxy::start(&waiting(checked.address, PATIENCE, |cluster| {
        cluster.resilience.health_checks = Some(health_checks(PATIENCE));
        cluster.resilience.healthy_panic_percent = 0;
    }));
    proxy.wait_metric(&["sprat_endpoint_unhealthy"], 1.0);
    let mut client = proxy.connect();
    client.send(get("/"));
    proxy.wait_metric(&[AWAITING], 1.0);
    well.store(true, Ordering::SeqCst);
    assert_eq!(client.message().text(), "back");
    proxy.stop();
}

#[test]
fn attempts_while_a_request_waits_are_no_repetitions() {
    let address = free_address();
    let mut config = waiting(address, PATIENCE, |_| ());
    let retry = &mut config.routes[0].retry;
    retry.retry_on = vec![RetryOn::Reset];
    retry.num_retries = 1;
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    client.send(get("/"));
    let refused = ["sprat_upstream_errors", "connection_refused"];
    wait_for("more attempts than repetitions", || {
        proxy.metric(&refused) >= 2.0
    });
    // The first request that it gets it leaves unanswered.
    let was_asked = AtomicBool::new(false);
    let origin = Origin::on(TcpListener::bind(address).unwrap(), move |mut peer| {
        while peer.try_message(true).is_some() {
            if !was_asked.swap(true, Ordering::SeqCst) {
                return;
            }
            peer.send(ok("again"));
        }
    });
    let answer = client.message();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "again"));
    assert_eq!(origin.connections(), 2);
    drop(client);
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that an endpoint that has failed is counted, and not for the time that its request then
/// spends in the queue of another.
#[test]
fn the_queue_of_another_endpoint_is_not_blamed_on_the_one_that_has_failed() {
    let closes = Origin::start(|mut peer| drop(peer.head()));
    for (failing, reason) in [
        (free_address(), "connection_refused"),
        (closes.address, "connection_terminated"),
    ] {
        let free = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&free);
        let busy = Origin::http(move |_| {
            wait_for("the place to become free", || told.load(Ordering::SeqCst));
            ok("held")
        });
        let mut config = config(&[busy.address, failing]);
        with_cluster(&mut config, |cluster| {
            cluster.wait_for_endpoint = Some(PATIENCE);
            cluster.max_requests = 1;
        });
        let mut held = route(&config.clusters[0]);
        held.matches.path = PathPattern::Exact("/held".to_owned());
        let late = &mut config.routes[0];
        late.timeout = Some(Duration::from_secs(1));
        late.retry.retry_on = vec![RetryOn::Reset];
        late.retry.num_retries = 1;
        config.routes.insert(0, held);
        let proxy = Proxy::logging(config);
        let mut holder = proxy.connect();
        holder.send(get("/held"));
        proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
        assert_eq!(proxy.connect().ask(get("/")).status(), 504);
        assert_eq!(proxy.log_lines(1)[0]["reason"], "route_timeout");
        let errors = |reason| proxy.metric(&["sprat_upstream_errors", reason]);
        assert_eq!((errors(reason), errors("route_timeout")), (1.0, 0.0));
        free.store(true, Ordering::SeqCst);
        assert_eq!(holder.message().text(), "held");
        drop(holder);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

/// Starts a real nginx, which the caller must end. Returns none if there is no nginx.
fn nginx(directory: &Path, address: SocketAddr) -> Option<Child> {
    let at = directory.display();
    let config = format!(
        "daemon off; worker_processes 1; user root; pid {at}/pid; error_log {at}/log;\n\
         events {{}}\n\
         http {{ access_log off;\n\
         client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen {address}; location / {{ return 200 'here'; }} }} }}\n"
    );
    std::fs::write(directory.join("config"), config).unwrap();
    let started = Command::new("nginx")
        .arg("-c")
        .arg(directory.join("config"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.ok()
}

#[test]
fn the_only_backend_is_started_anew_under_load_without_a_request_that_fails() {
    const CLIENTS: usize = 4;
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let Some(mut backend) = nginx(directory.path(), address) else {
        eprintln!("skipped: no nginx");
        return;
    };
    wait_for("nginx to start", || TcpStream::connect(address).is_ok());
    let mut config = waiting(address, PATIENCE, |_| ());
    // A connection that was not accepted before the end is reset.
    config.routes[0].retry.retry_on = vec![
        RetryOn::ConnectFailure,
        RetryOn::RefusedStream,
        RetryOn::Reset,
    ];
    config.routes[0].retry.num_retries = 1;
    let proxy = Proxy::start(&config);
    let (over, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
            let mut client = proxy.connect();
            spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let answer = client.ask(get("/"));
                    assert_eq!((answer.status(), answer.text().as_str()), (200, "here"));
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let before = answered.load(Ordering::SeqCst);
        wait_for("answers", || answered.load(Ordering::SeqCst) > before + 20);
        // It finishes what it has, and ends.
        signal(backend.id(), "QUIT");
        backend.wait().unwrap();
        proxy.wait_metric(&[AWAITING], CLIENTS as f64);
        backend = nginx(directory.path(), address).unwrap();
    }
    let before = answered.load(Ordering::SeqCst);
    wait_for("answers", || answered.load(Ordering::SeqCst) > before + 20);
    over.store(true, Ordering::SeqCst);
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    let _ = backend.kill();
    let _ = backend.wait();
    assert!(proxy.metric(&[ENDS, "served"]) >= (3 * CLIENTS) as f64);
    proxy.stop();
}
