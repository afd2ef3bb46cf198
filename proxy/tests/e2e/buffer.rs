//! Tests of buffered bodies over real sockets: a backend waits for no slow client.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::binary::sprat;
use crate::common::*;
use socket2::{Domain, Socket, Type};

/// The number of clients that read nothing.
const READERS: usize = 50;

/// The bytes of the response that each of those clients asks for.
const LARGE: usize = 1 << 20;

/// Returns a body of so many bytes, each of which tells its place.
fn body(bytes: usize) -> String {
    (0..bytes)
        .map(|at| char::from(b'a' + (at % 23) as u8))
        .collect()
}

/// Starts an origin that serves one request at a time. The path has the body's length, and the
/// query adds to the head or asks for chunks. Also returns the most requests that were there at
/// once.
fn one_worker() -> (Origin, Arc<AtomicUsize>) {
    let worker = Mutex::new(());
    let most = Arc::new(AtomicUsize::new(0));
    let (now, seen) = (AtomicUsize::new(0), Arc::clone(&most));
    let origin = Origin::start(move |mut peer| {
        while let Some(request) = peer.try_message(true) {
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let is_alone = worker.lock().unwrap();
            let target = request.start.split(' ').nth(1).unwrap();
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let body = body(path[1..].parse().unwrap());
            let head = match query {
                "no" => "X-Accel-Buffering: no\r\n",
                "events" => "Content-Type: text/event-stream\r\n",
                "grpc" => "Content-Type: application/grpc\r\n",
                _ => "",
            };
            let response = match query {
                "chunked" => format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                    body.len()
                ),
                _ => ok(&body).replace("200 OK\r\n", &format!("200 OK\r\n{head}")),
            };
            peer.send(response);
            drop(is_alone);
            now.fetch_sub(1, Ordering::SeqCst);
        }
    });
    (origin, most)
}

fn serve(origin: &Origin, cluster: &str, more: &str) -> Proxy {
    serve_at("unlimited", origin, cluster, more)
}

fn serve_at(rate: &str, origin: &Origin, cluster: &str, more: &str) -> Proxy {
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: {rate}}}\n\
         listeners: [{{address: 127.0.0.1:0, tcp_notsent_lowat: 4KB, min_rates: off}}]\n\
         clusters: {{app: {{endpoints: ['{}'], max_requests: 1{cluster}}}}}\n\
         routes: [{{cluster: app}}]\n{more}",
        origin.address
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    Proxy::start(&loaded.unwrap_or_else(|errors| panic!("{errors}")).config)
}

fn in_files(directory: &Path) -> String {
    format!(
        "buffer: {{response: {{memory: 64KB, file: {{path: '{}'}}}}}}\n",
        directory.display()
    )
}

/// Sends a request from a client that reads nothing, and whose receive buffer is small.
fn unreading(proxy: &Proxy, path: &str) -> Peer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&proxy.address.into()).unwrap();
    let mut client = Peer::new(socket.into());
    client.send(get(path));
    client
}

/// A queue whose requests soon give up. Without a buffer a response holds the only place, and a
/// request that waits for it is refused.
const BRIEF: &str = ", wait_queue: {timeout: 300ms}";

/// Checks that small requests are answered while [`READERS`] clients read nothing of their
/// responses.
fn others_are_served(more: &str) {
    let (origin, most) = one_worker();
    let proxy = serve(&origin, ", wait_queue: {timeout: 30s}", more);
    let path = format!("/{LARGE}");
    let readers: Vec<_> = (0..READERS).map(|_| unreading(&proxy, &path)).collect();
    // Each has its response at the proxy, or waits for a place at the backend.
    proxy.wait_metric(&["sprat_open_requests"], READERS as f64);
    let mut client = proxy.connect();
    for _ in 0..20 {
        assert_eq!(client.ask(get("/10")).status(), 200);
    }
    let early = || proxy.metric(&["sprat_buffered_early_ends_total"]);
    wait_for("the backend to be done", || early() >= READERS as f64);
    proxy.wait_metric(&["sprat_upstream_outstanding"], 0.0);
    proxy.wait_metric(&["sprat_open_requests"], READERS as f64);
    let held = proxy.metric(&["sprat_buffered_bytes"]);
    assert!(held > (READERS * LARGE / 2) as f64, "{held}");
    let expected = body(LARGE);
    for mut reader in readers {
        assert!(reader.message().text() == expected);
    }
    proxy.wait_metric(&["sprat_buffered_bytes"], 0.0);
    assert_eq!(proxy.metric(&["sprat_buffer_fallbacks_total"]), 0.0);
    drop(client);
    proxy.assert_no_leak();
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn a_backend_with_one_worker_serves_others_beside_fifty_slow_readers() {
    let directory = tempfile::tempdir().unwrap();
    others_are_served(&in_files(directory.path()));
    others_are_served("buffer: {response: {memory: 1100KB}, max_total_memory: 64MB}\n");
}

/// Checks that a response that waits for Sprat's own grants holds no place at the backend.
#[test]
fn a_backend_waits_for_no_grant() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, _) = one_worker();
    // A second for 125 KB.
    let proxy = serve_at("1mbit", &origin, "", &in_files(directory.path()));
    let path = format!("/{LARGE}");
    let mut readers: Vec<_> = (0..10).map(|_| proxy.connect()).collect();
    readers
        .iter_mut()
        .for_each(|own| assert!(own.send(get(&path))));
    proxy.wait_metric(&["sprat_open_requests"], 10.0);
    let early = || proxy.metric(&["sprat_buffered_early_ends_total"]);
    wait_for("the backend to be done", || early() == 10.0);
    proxy.wait_metric(&["sprat_upstream_outstanding"], 0.0);
    assert_eq!(proxy.connect().ask(get("/10")).status(), 200);
    proxy.wait_metric(&["sprat_open_requests"], 10.0);
}

#[test]
fn without_a_buffer_they_wait_in_vain() {
    let (origin, _) = one_worker();
    let proxy = serve(&origin, BRIEF, "buffer: {response: off}\n");
    let path = format!("/{LARGE}");
    let _readers: Vec<_> = (0..READERS).map(|_| unreading(&proxy, &path)).collect();
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(get("/10")).status(), 503);
    }
    assert_eq!(proxy.metric(&["sprat_buffered_bytes"]), 0.0);
}

/// Checks that no more is buffered than the bound, however many clients do not read. Some 600 KB of
/// each body are in the client's socket and the library's buffer, and do not count, so bodies are
/// larger.
#[test]
fn the_bound_of_all_holds() {
    let (origin, _) = one_worker();
    let more = "buffer: {response: {memory: 1500KB}, max_total_memory: 4MB}\n";
    let proxy = serve(&origin, BRIEF, more);
    let most = (4 << 20) as f64;
    let held = || proxy.metric(&["sprat_buffered_bytes", "memory"]);
    let spent = || proxy.metric(&["sprat_buffer_fallbacks_total", "\"max_total_memory\""]);
    let early = || proxy.metric(&["sprat_buffered_early_ends_total"]);
    let mut readers = Vec::new();
    loop {
        assert!(readers.len() < 30, "{} are held", held());
        let (before, done) = (spent(), early());
        readers.push(unreading(&proxy, "/1400000"));
        wait_for("its response", || early() > done || spent() > before);
        assert!(held() <= most, "{}", held());
        // Who has no place in it holds one at the backend, as without a buffer; unless the
        // kernel takes the rest.
        match proxy.connect().ask(get("/10")).status() {
            503 => break,
            status => assert_eq!(status, 200),
        }
    }
    assert!(spent() > 0.0 && held() > most / 2.0, "{}", held());
    for mut reader in readers {
        assert!(reader.message().text() == body(1_400_000));
        assert!(held() <= most, "{}", held());
    }
    proxy.wait_metric(&["sprat_buffered_bytes"], 0.0);
}

/// Checks that streams are passed on as they come, and so are responses whose backend asks for no
/// buffering.
#[test]
fn streams_are_not_buffered() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, _) = one_worker();
    let auto = ", read_ahead: {per_response: 2MB}";
    for (cluster, more) in [("", in_files(directory.path())), (auto, String::new())] {
        let proxy = serve(&origin, &format!("{BRIEF}{cluster}"), &more);
        for (query, status) in [("", 200), ("no", 503), ("events", 503), ("grpc", 503)] {
            let sent = || proxy.metric(&["sprat_upstream_requests_total"]);
            let before = sent();
            let mut reader = unreading(&proxy, &format!("/{LARGE}?{query}"));
            wait_for("its request", || sent() > before);
            let held = if status == 200 { 0.0 } else { 1.0 };
            proxy.wait_metric(&["sprat_upstream_outstanding"], held);
            let mut other = proxy.connect();
            assert_eq!(other.ask(get("/10")).status(), status, "{query} {more}");
            drop(other);
            assert!(reader.message().text() == body(LARGE));
            drop(reader);
            proxy.assert_no_leak();
        }
    }
}

/// Checks that responses go on without a buffer's file if its directory is removed while Sprat
/// runs.
#[test]
fn where_no_file_can_be_made_a_response_goes_on_as_it_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, _) = one_worker();
    let proxy = serve(&origin, "", &in_files(directory.path()));
    drop(directory);
    let path = format!("/{LARGE}");
    let mut readers: Vec<_> = (0..3).map(|_| unreading(&proxy, &path)).collect();
    for reader in &mut readers {
        assert!(reader.message().text() == body(LARGE));
    }
    let failed = proxy.metric(&["sprat_buffer_fallbacks_total", "\"io\""]);
    assert!(failed >= 1.0, "{failed}");
    proxy.wait_metric(&["sprat_buffered_bytes"], 0.0);
}

/// Empties the files in a directory that this process has open, as a disk does that fails.
fn lose_files(directory: &Path) {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        if std::fs::read_link(&path).is_ok_and(|file| file.starts_with(directory)) {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(0).unwrap();
            count += 1;
        }
    }
    assert!(count > 0);
}

/// Checks that an endpoint is not blamed for what this proxy's files have lost of its response.
#[test]
fn a_response_that_the_buffer_has_lost_is_no_fault_of_the_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, _) = one_worker();
    let proxy = serve(&origin, "", &in_files(directory.path()));
    let mut reader = unreading(&proxy, "/8000000");
    proxy.wait_metric(&["sprat_buffered_early_ends_total"], 1.0);
    lose_files(directory.path());
    assert!(reader.is_closed());
    proxy.wait_metric(&["sprat_failed_requests_total", "\"buffer_lost\""], 1.0);
    assert_eq!(proxy.metric(&["sprat_upstream_errors_total"]), 0.0);
    assert_eq!(proxy.connect().ask(get("/10")).text(), body(10));
}

/// Checks that a client is not blamed for what this proxy's files have lost of its request.
#[test]
fn a_request_that_the_buffer_has_lost_is_no_fault_of_the_client() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, _) = one_worker();
    let file = directory.path().display();
    let more = format!("buffer: {{request: {{memory: 10KB, file: {{path: '{file}'}}}}}}\n");
    let proxy = serve(&origin, ", wait_queue: {timeout: 60s}", &more);
    // It holds the only place.
    let reader = unreading(&proxy, "/8000000");
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    let large = body(100_000);
    let length = format!("Content-Length: {}", large.len());
    let mut client = upload(&proxy, &length, &[&large]);
    wait_for("its file", || {
        proxy.metric(&["sprat_buffered_bytes", "file"]) >= 80_000.0
    });
    lose_files(directory.path());
    drop(reader);
    let answer = client.message();
    assert_eq!(answer.status(), 500);
    assert!(answer.text().contains("buffer_lost"), "{answer:?}");
    assert_eq!(proxy.metric(&["sprat_upstream_errors_total"]), 0.0);
}

/// Checks that a response of unknown length has an exact size once it is buffered whole, and is
/// ordered by that.
#[test]
fn what_has_ended_in_the_buffer_is_of_exact_size() {
    let (origin, _) = one_worker();
    let more = "buffer: {response: {memory: 1100KB}}\n";
    let mut text = format!(
        "version: 1\nadmin: {{address: 127.0.0.1:0, hosts: [test.example]}}\n\
         runtime: {{workers: 1}}\nuplink: {{rate: 100kbit}}\n\
         listeners: [{{address: 127.0.0.1:0, tcp_notsent_lowat: 4KB, min_rates: off}}]\n\
         clusters: {{app: {{endpoints: ['{}']}}}}\nroutes: [{{cluster: app}}]\n",
        origin.address
    );
    for (more, is_exact) in [("", false), (more, true)] {
        text.push_str(more);
        let loaded = sprat_config::parse(&text, "test", &|_| None);
        let proxy = Proxy::start(&loaded.unwrap_or_else(|errors| panic!("{errors}")).config);
        let _reader = unreading(&proxy, "/1000000?chunked");
        let admin = proxy.server.as_ref().unwrap().admin_address().unwrap();
        let flow = || -> serde_json::Value {
            let told = Peer::connect(admin).ask(get("/flows")).text();
            let told: serde_json::Value = serde_json::from_str(&told).unwrap();
            told["flows"].get(0).cloned().unwrap_or_default()
        };
        wait_for("the flow", || flow()["sent_bytes"].as_u64() > Some(0));
        match is_exact {
            true => {
                wait_for("the exact size", || flow()["size_is_exact"] == true);
                let size = flow()["size_bytes"].as_u64().unwrap();
                assert!((1_000_000..1_020_000).contains(&size), "{size}");
            }
            false => assert_eq!(flow()["size_is_exact"], false),
        }
    }
}

/// Sends the head of a POST, and these parts of its body.
fn upload(proxy: &Proxy, head: &str, parts: &[&str]) -> Peer {
    let mut client = proxy.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n"));
    parts.iter().for_each(|part| assert!(client.send(part)));
    client
}

/// Starts an origin that answers with the request's content length, if it has one, and its body.
fn echo() -> Origin {
    Origin::http(|request| {
        let length = request.field("content-length").unwrap_or("none").to_owned();
        ok(&format!("{length} {}", request.text()))
    })
}

#[test]
fn a_slow_upload_takes_no_place_before_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "{{memory: 10KB, file: {{path: '{}'}}}}",
        directory.path().display()
    );
    let large = body(100_000);
    for (rules, whole) in [("{memory: 256KB}", &large), (&file, &large)] {
        let origin = echo();
        let more = format!("buffer: {{request: {rules}}}\n");
        let proxy = serve(&origin, "", &more);
        let (first, rest) = whole.split_at(60_000);
        let length = format!("Content-Length: {}", whole.len());
        let mut slow = upload(&proxy, &length, &[first]);
        let chunk = format!("{:x}\r\n{first}\r\n", first.len());
        let mut chunked = upload(&proxy, "Transfer-Encoding: chunked", &[&chunk]);
        proxy.wait_metric(&["sprat_open_requests"], 2.0);
        wait_for("what they have sent", || {
            proxy.metric(&["sprat_buffered_bytes"]) >= 2.0 * 60_000.0
        });
        // The only place is free.
        assert_eq!(proxy.metric(&["sprat_upstream_outstanding"]), 0.0);
        assert_eq!(proxy.connect().ask(get("/")).text(), "none ");
        assert!(slow.send(rest));
        let expected = format!("{} {whole}", whole.len());
        assert!(slow.message().text() == expected);
        // What came in chunks is of known length, too.
        assert!(chunked.send(format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len())));
        assert!(chunked.message().text() == expected);
        // Their connections go on.
        assert_eq!(slow.ask(get("/")).text(), "none ");
        drop((slow, chunked));
        proxy.wait_metric(&["sprat_buffered_bytes"], 0.0);
        proxy.assert_no_leak();
    }
}

#[test]
fn what_memory_does_not_take_of_an_upload_is_sent_on_as_it_comes() {
    let origin = echo();
    let proxy = serve(&origin, "", "buffer: {request: {memory: 10KB}}\n");
    let whole = body(100_000);
    let (first, rest) = whole.split_at(60_000);
    let length = format!("Content-Length: {}", whole.len());
    let mut slow = upload(&proxy, &length, &[first]);
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    assert_eq!(
        proxy.metric(&["sprat_buffer_fallbacks_total", "\"memory\""]),
        1.0
    );
    assert!(slow.send(rest));
    assert!(slow.message().text() == format!("100000 {whole}"));
    drop(slow);
    proxy.wait_metric(&["sprat_buffered_bytes"], 0.0);
    proxy.assert_no_leak();
}

#[test]
fn a_client_that_waits_to_be_asked_is_and_one_that_goes_leaves_nothing() {
    let origin = echo();
    let proxy = serve(&origin, "", "buffer: {request: {memory: 10KB}}\n");
    let mut client = upload(&proxy, "Content-Length: 5\r\nExpect: 100-continue", &[]);
    assert!(client.head().unwrap().start.contains(" 100 "));
    assert!(client.send("hello"));
    assert_eq!(client.message().text(), "5 hello");
    drop(client);
    let gone = upload(&proxy, "Content-Length: 5000", &[&body(1000)]);
    proxy.wait_metric(&["sprat_open_requests"], 1.0);
    drop(gone);
    proxy.assert_no_leak();
    assert_eq!(proxy.metric(&["sprat_upstream_requests_total"]), 1.0);
    proxy.wait_metric(&["sprat_buffered_bytes"], 0.0);
}

/// Checks that a request whose body is buffered is sent again: the first endpoint closes the
/// connection when it has the whole body.
#[test]
fn a_buffered_request_is_sent_again_with_its_body() {
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "{{memory: 10KB, file: {{path: '{}'}}}}",
        directory.path().display()
    );
    for (rules, status) in [("{memory: 256KB}", 200), (&*file, 200), ("off", 502)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let origin = Origin::start(move |mut peer| {
            while let Some(request) = peer.try_message(true) {
                if count.fetch_add(1, Ordering::SeqCst) == 0 {
                    return;
                }
                peer.send(ok(&request.text()));
            }
        });
        let text = format!(
            "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: unlimited}}\n\
             listeners: [{{address: 127.0.0.1:0}}]\n\
             clusters: {{app: {{endpoints: ['{}']}}}}\n\
             routes: [{{cluster: app, retry_policy: {{retry_on: [reset]}}}}]\nbuffer: {{request: {rules}}}\n",
            origin.address
        );
        let loaded = sprat_config::parse(&text, "test", &|_| None);
        let proxy = Proxy::start(&loaded.unwrap_or_else(|errors| panic!("{errors}")).config);
        let whole = body(50_000);
        let mut client = proxy.connect();
        let head = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n";
        let answer = client.ask(format!("{head}{whole}"));
        assert_eq!(answer.status(), status, "{rules}");
        assert!(status != 200 || answer.text() == whole);
        drop(client);
        proxy.wait_metric(&["sprat_buffered_bytes"], 0.0);
        proxy.assert_no_leak();
    }
}

#[test]
fn check_refuses_a_directory_that_takes_no_file_and_explain_tells_what_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sprat.yaml");
    let write = |routes: &str, buffer: &str| {
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nuplink: {{rate: 1gbit}}\n\
             clusters: {{app: {{endpoints: ['127.0.0.1:1']}}}}\nroutes:\n\
             - {{match: {{prefix: /up}}, cluster: app, buffer: {{request: {{memory: 64KB}}}}}}\n\
             {routes}- {{cluster: app}}\n{buffer}"
        );
        std::fs::write(&path, text).unwrap();
    };
    let run = |arguments: &[&str]| {
        let output = sprat(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let config = path.to_str().unwrap();
    write("", "buffer: {response: {file: {path: /nowhere/at/all}}}\n");
    let (fine, said) = run(&["check", "-c", config]);
    assert!(
        !fine && said.contains("cannot buffer bodies in /nowhere/at/all"),
        "{said}"
    );
    let temporary = directory.path().display();
    // Each directory is looked at, and told of once.
    let elsewhere = |prefix: &str| {
        let file = "buffer: {request: {file: {path: /nowhere/else}}}";
        format!("- {{match: {{prefix: {prefix}}}, cluster: app, {file}}}\n")
    };
    write(
        &(elsewhere("/a") + &elsewhere("/b")),
        &format!("buffer: {{response: {{file: {{path: '{temporary}'}}}}}}\n"),
    );
    let (fine, said) = run(&["check", "-c", config]);
    let told = said.matches("cannot buffer bodies in /nowhere/else");
    assert!(!fine && told.count() == 1, "{said}");
    write(
        "",
        &format!("buffer: {{response: {{file: {{path: '{temporary}', max_size: 2MB}}}}}}\n"),
    );
    let (fine, said) = run(&["check", "-c", config]);
    assert!(fine, "{said}");
    for (path, expected) in [
        (
            "/",
            format!("responses: up to 256KB in memory, then up to 2MB in {temporary}"),
        ),
        ("/up", "requests: up to 64KB in memory".to_owned()),
    ] {
        let request = format!("GET http://a{path}");
        let (fine, said) = run(&["explain", "-c", config, "--request", &request]);
        assert!(fine && said.contains(&expected), "{said}");
    }
}
