//! Tests of the `sprat` program: configuration files, signals, exit codes.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::binary::{self, Running, sprat, write};
use crate::common::tls::Authority;
use crate::common::*;

#[test]
fn it_serves_reopens_its_log_and_drains_on_sigterm() {
    let gate = Arc::new(std::sync::Barrier::new(2));
    let (entered, inside) = std::sync::mpsc::channel();
    let origin = Origin::http({
        let gate = Arc::clone(&gate);
        move |request| {
            if request.start.contains("/slow") {
                entered.send(()).unwrap();
                gate.wait();
            }
            ok("fine")
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("access.log");
    let more = format!("access_log: {{path: '{}', format: json}}\n", log.display());
    let configuration = write(directory.path(), origin.address, &more);
    let mut running = Running::start(&configuration);
    assert_eq!(Peer::connect(running.address).ask(get("/1")).text(), "fine");
    wait_for("a line", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/1"))
    });
    std::fs::rename(&log, log.with_extension("old")).unwrap();
    running.signal("USR1");
    wait_for("a new log", || {
        assert_eq!(Peer::connect(running.address).ask(get("/2")).text(), "fine");
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/2"))
    });
    let mut busy = Peer::connect(running.address);
    busy.send(get("/slow"));
    inside.recv_timeout(PATIENCE).unwrap();
    running.signal("TERM");
    wait_for("the listener to close", || {
        std::net::TcpStream::connect(running.address).is_err()
    });
    gate.wait();
    assert_eq!(busy.message().text(), "fine");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert!(std::fs::read_to_string(&log).unwrap().contains("/slow"));
}

#[test]
fn it_follows_its_file_and_refuses_a_bad_one() {
    let named = |name: &'static str| Origin::http(move |_| ok(name));
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let directory = tempfile::tempdir().unwrap();
    // As Kubernetes mounts a ConfigMap: a link to a link, which is swapped.
    let version = |name: &str, origin: &Origin, more: &str| {
        let own = directory.path().join(name);
        std::fs::create_dir(&own).unwrap();
        let path = write(&own, origin.address, more);
        if name == "5" {
            let text = std::fs::read_to_string(&path).unwrap();
            let other = text.replace("admin: {address: 127.0.0.1:0}", "admin: off");
            std::fs::write(&path, other).unwrap();
        }
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        std::fs::rename(&link, directory.path().join("data")).unwrap();
    };
    let watch = "runtime: {reload_interval: 20ms}\n";
    version("1", &a, watch);
    let path = directory.path().join("sprat.yaml");
    std::os::unix::fs::symlink("data/sprat.yaml", &path).unwrap();
    let running = Running::start(&path);
    let mut client = Peer::connect(running.address);
    assert_eq!(client.ask(get("/")).text(), "a");
    version("2", &b, watch);
    wait_for("the file to be followed", || {
        client.ask(get("/")).text() == "b"
    });
    version("3", &c, "routs: []\nuplnk: {}\n");
    running.says("did you mean `routes`");
    running.says("did you mean `uplink`");
    assert_eq!(client.ask(get("/")).text(), "b");
    // It is not looked at any more, but by SIGHUP.
    version("4", &a, "");
    wait_for("the file to be followed", || {
        client.ask(get("/")).text() == "a"
    });
    version("5", &c, "");
    running.signal("HUP");
    running.says("until a restart, `admin` stays as it is");
    assert_eq!(client.ask(get("/")).text(), "c");
}

#[test]
fn a_refused_configuration_is_tried_again_when_a_file_that_it_names_comes() {
    let named = |name: &'static str| Origin::http(move |_| ok(name));
    let (a, b) = (named("a"), named("b"));
    let authority = Authority::new();
    let issued = authority.issue("good", &["a.example"]);
    let key = authority.directory().join("late.key");
    let put_key = |text: &str| {
        let new = key.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &key).unwrap();
    };
    let whole = std::fs::read_to_string(&issued.key).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let admin = free_address();
    let put = |origin: &Origin, listeners: &str| {
        let more = "runtime: {reload_interval: 100ms}\n";
        let path = write(directory.path(), origin.address, more);
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text
            .replace(
                "admin: {address: 127.0.0.1:0}",
                &format!("admin: {{address: '{admin}'}}"),
            )
            .replace("listeners: [", &format!("listeners: [{listeners}"));
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    };
    let running = Running::start(&put(&a, ""));
    let mut client = Peer::connect(running.address);
    let reloads = |result: &str| {
        let text = Peer::connect(admin)
            .ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .text();
        metric(&text, &["sprat_config_reloads_total", result])
    };
    let refused = "the configuration is refused";
    let secure = format!(
        "{{name: late, address: '{}', tls: {{certificates: [{{certificate_chain: {}, \
         private_key: {}}}]}}}}, ",
        free_address(),
        issued.chain.display(),
        key.display()
    );
    put(&b, &secure);
    running.says("No such file");
    // It has been tried again some times now, and nothing more was said.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((running.has_said(refused), reloads("bad")), (1, 1.0));
    assert_eq!(client.ask(get("/")).text(), "a");
    put_key(&whole[..whole.len() / 2]);
    running.says("no line `-----END");
    assert_eq!((running.has_said(refused), reloads("bad")), (2, 2.0));
    put_key(&whole);
    wait_for("the configuration to be served by", || {
        client.ask(get("/")).text() == "b"
    });
    running.says("serving by the configuration as it is now");
    assert_eq!((reloads("good"), reloads("bad")), (1.0, 2.0));
}

#[test]
fn a_second_signal_cuts() {
    let origin = Origin::start(|mut peer| {
        peer.message();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        peer.head();
    });
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let mut running = Running::start(&configuration);
    let mut client = Peer::connect(running.address);
    client.send(get("/"));
    assert_eq!(client.head().unwrap().status(), 200);
    running.signal("INT");
    wait_for("the listener to close", || {
        std::net::TcpStream::connect(running.address).is_err()
    });
    assert!(
        running.child.try_wait().unwrap().is_none(),
        "it did not wait"
    );
    running.signal("TERM");
    assert!(client.is_closed());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

/// Replaces a configuration's file by a named pipe, so that it is read when the test writes there.
/// Returns the file's text.
fn into_pipe(configuration: &Path) -> String {
    let text = std::fs::read_to_string(configuration).unwrap();
    std::fs::remove_file(configuration).unwrap();
    let made = Command::new("mkfifo").arg(configuration).status().unwrap();
    assert!(made.success());
    text
}

#[test]
fn a_reload_that_takes_long_keeps_no_signal_waiting() {
    let origin = Origin::http(|_| ok("fine"));
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let told = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&told).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let hears_of = |state: &str| loop {
        let mut message = [0; 1000];
        let count = systemd.recv(&mut message).unwrap();
        let message = String::from_utf8_lossy(&message[..count]).into_owned();
        if message.lines().any(|line| line == state) {
            break;
        }
    };
    let mut command = binary::run(&configuration);
    command.env("NOTIFY_SOCKET", &told);
    command.env("WATCHDOG_USEC", "200000");
    let mut running = Running::of(&mut command);
    hears_of("READY=1");
    let _text = into_pipe(&configuration);
    running.signal("HUP");
    hears_of("RELOADING=1");
    for _ in 0..3 {
        hears_of("WATCHDOG=1");
    }
    running.signal("HUP");
    running.says("the reload waits until the one under way has ended");
    running.signal("USR2");
    running.says("the upgrade waits until the reload has ended");
    running.signal("TERM");
    hears_of("STOPPING=1");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_reload_that_is_asked_for_during_another_follows_it() {
    let origin = Origin::http(|_| ok("fine"));
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let running = Running::start(&configuration);
    let text = into_pipe(&configuration);
    running.signal("HUP");
    running.signal("HUP");
    // The two may have been taken for one; then this is the other.
    let waits = "the reload waits until the one under way has ended";
    wait_for("a reload to wait", || {
        running.signal("HUP");
        running.has_said(waits) > 0
    });
    let good = "serving by the configuration as it is now";
    // Each waits for its reader.
    for reloads in 1..=2 {
        std::fs::write(&configuration, &text).unwrap();
        wait_for("a reload", || running.has_said(good) == reloads);
    }
    assert_eq!(Peer::connect(running.address).ask(get("/")).text(), "fine");
}

#[test]
fn it_goes_on_when_nobody_takes_what_it_logs() {
    let full = || {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/full");
        Stdio::from(file.unwrap())
    };
    // The reader is gone.
    for unwritable in [Stdio::from(std::io::pipe().unwrap().1), full()] {
        let named = |name: &'static str| Origin::http(move |_| ok(name));
        let (a, b, c) = (named("a"), named("b"), named("c"));
        let directory = tempfile::tempdir().unwrap();
        let address = free_address();
        let beside = tempfile::tempdir().unwrap();
        let serving = |origin: &Origin, more: &str| {
            // At once: a reload may be reading.
            let written = write(beside.path(), origin.address, more);
            binary::stand_on(&written, address);
            let path = directory.path().join("sprat.yaml");
            std::fs::rename(&written, &path).unwrap();
            path
        };
        let mut command = binary::run(&serving(&a, ""));
        let child = command.stderr(unwritable).spawn().unwrap();
        let mut running = Running::with(child, address);
        let mut first = None;
        wait_for("it to listen", || {
            let ended = running.child.try_wait().unwrap();
            assert_eq!(ended, None, "it could not begin");
            first = std::net::TcpStream::connect(address).ok();
            first.is_some()
        });
        let mut client = Peer::new(first.unwrap());
        assert_eq!(client.ask(get("/")).text(), "a");
        // One that is refused, two with a warning.
        serving(&a, "routs: []\n");
        running.signal("HUP");
        for (origin, name) in [(&b, "b"), (&c, "c")] {
            serving(origin, "classes: {odd: {weight: 2}}\n");
            running.signal("HUP");
            wait_for("a reload", || client.ask(get("/")).text() == name);
        }
        drop(client);
        running.signal("TERM");
        assert_eq!(running.child.wait().unwrap().code(), Some(0));
    }
    let output = sprat(&["schema"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot write to standard output"), "{said}");
}

/// Checks that `sprat` serves and stops although the reader of standard error has stopped reading,
/// as a container's log driver may.
#[test]
fn it_serves_and_stops_while_nobody_reads_what_it_logs() {
    let origin = Origin::http(|_| ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    for reads_on in [true, false] {
        let address = free_address();
        // A worker says that the endpoint has no TLS.
        let path = write(directory.path(), origin.address, "");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text
            .replace(
                "clusters: {",
                "clusters: {odd: {endpoints: ['ORIGIN'], tls: {}}, ",
            )
            .replace(
                "routes: [",
                "routes: [{match: {prefix: /odd}, cluster: odd}, ",
            )
            .replace("ORIGIN", &origin.address.to_string());
        std::fs::write(&path, text).unwrap();
        binary::stand_on(&path, address);
        let (mut reader, writer) = std::io::pipe().unwrap();
        fill(&writer);
        let arguments = ["run", "-c", path.to_str().unwrap(), "--workers", "1"];
        let child = sprat(&arguments).stderr(writer).spawn().unwrap();
        let mut running = Running::with(child, address);
        wait_for("it to listen", || {
            std::net::TcpStream::connect(address).is_ok()
        });
        let mut client = Peer::connect(address);
        assert_eq!(client.ask(get("/odd")).status(), 502);
        assert_eq!(client.ask(get("/")).text(), "hello");
        drop(client);
        let reading = reads_on.then(|| {
            // Not before it has had its reason to wait.
            let mut reader = reader.try_clone().unwrap();
            std::thread::spawn(move || {
                let mut said = String::new();
                reader.read_to_string(&mut said).map(|_| said)
            })
        });
        running.signal("TERM");
        wait_for("it to stop", || running.child.try_wait().unwrap().is_some());
        assert_eq!(running.child.wait().unwrap().code(), Some(0));
        match reading {
            // Whoever reads again has missed nothing.
            Some(said) => {
                let said = said.join().unwrap().unwrap();
                for line in ["listening", "no TLS with an endpoint", "draining"] {
                    assert_eq!(said.matches(line).count(), 1, "{line}");
                }
                assert!(said.ends_with("stopped\n"), "{}", said.trim_matches('x'));
            }
            None => {
                let mut said = String::new();
                reader.read_to_string(&mut said).unwrap();
                assert_eq!(said.trim_matches('x'), "");
            }
        }
    }
}

/// Writes to a pipe until the pipe is full.
fn fill(mut pipe: &std::io::PipeWriter) {
    use rustix::fs::{OFlags, fcntl_setfl};
    fcntl_setfl(pipe, OFlags::NONBLOCK).unwrap();
    for part in [&[b'x'; 4096][..], b"x"] {
        while pipe.write(part).is_ok() {}
    }
    fcntl_setfl(pipe, OFlags::empty()).unwrap();
}

/// Checks that `sprat` stops although the reader of the access log has stopped reading, as a
/// container's log driver may.
#[test]
fn it_stops_when_the_access_log_is_not_read() {
    let origin = Origin::http(|_| ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), origin.address, "access_log: {}\n");
    let mut command = binary::run(&path);
    let mut running = Running::of(command.stdout(Stdio::piped()));
    let _unread = running.child.stdout.take();
    let mut client = Peer::connect(running.address);
    // More than a pipe and the writer's buffer hold.
    for _ in 0..200 {
        assert_eq!(
            client
                .ask(get(&format!("/{:4000}", 7).replace(' ', "x")))
                .status(),
            200
        );
    }
    drop(client);
    running.signal("TERM");
    wait_for("it to stop", || running.child.try_wait().unwrap().is_some());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    running.says("the access log is not read any more");
}

#[test]
fn a_reload_tells_what_it_has_changed_in_single_lines() {
    let named = |name: &'static str| Origin::http(move |_| ok(name));
    let (a, b) = (named("a"), named("b"));
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(&write(directory.path(), a.address, ""));
    let other = free_address();
    let path = write(directory.path(), b.address, "");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(
        "listeners: [",
        &format!("listeners: [{{name: other, address: '{other}'}}, "),
    );
    std::fs::write(&path, &text).unwrap();
    running.signal("HUP");
    running.says(&format!(
        "listening, since the reload address={other} listener=\"other\""
    ));
    running.says("the reload changes listeners (new: other); clusters (changed: farm)");
    assert_eq!(Peer::connect(other).ask(get("/")).text(), "b");
    write(directory.path(), b.address, "");
    running.signal("HUP");
    running.says(&format!(
        "closed by the reload address={other} listener=\"other\""
    ));
    running.says("the reload changes listeners (gone: other)");
    write(directory.path(), b.address, "routs: []\nuplnk: {}\n");
    running.signal("HUP");
    running.says("the configuration is refused; the one before goes on");
    running.says("did you mean `uplink`");
    let refusal = running.line_with("the configuration is refused");
    assert!(refusal.contains("sprat.yaml:7:1: ") && refusal.contains("sprat.yaml:8:1: "));
    assert!(refusal.contains("did you mean `routes`"), "{refusal}");
    assert!(refusal.contains("did you mean `uplink`"), "{refusal}");
    let levels = [" INFO ", " WARN ", "ERROR"];
    let stray = |line: &&String| !levels.iter().any(|level| line.contains(level));
    assert_eq!(running.lines().iter().find(stray), None);
}

#[test]
fn the_admin_listener_shows_the_configuration_without_secrets() {
    let origin = Origin::http(|_| ok("a"));
    let directory = tempfile::tempdir().unwrap();
    let store = free_address();
    let more = format!(
        "catalogue: {{shared: {{url: 'redis://user:very@secret@{store}/0', phrase: hushed}}}}\n"
    );
    let path = write(directory.path(), origin.address, &more);
    let running = Running::start(&path);
    running.says("admin address=");
    let line = running.line_with("admin address=");
    let admin = line.split("admin address=").nth(1).unwrap();
    let page = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        Peer::connect(admin.parse().unwrap()).ask(request).text()
    };
    let shown = || page("/config");
    let text = shown();
    let yaml = page("/config.yaml");
    for text in [&text, &yaml] {
        let has_secret = text.contains("secret") || text.contains("hushed");
        assert!(!has_secret, "{text}");
    }
    for line in [
        format!("version: 1  # {}:1", path.display()),
        "  policy: srpt  # default".to_owned(),
        "  workers: 2  # as at the start".to_owned(),
    ] {
        assert!(yaml.lines().any(|own| own == line), "{line} in\n{yaml}");
    }
    let page: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(page["last_reload_successful"], true);
    let config = &page["configuration"];
    assert_eq!(
        config["clusters"]["farm"]["endpoints"][0],
        origin.address.to_string()
    );
    // As it is served: by the command line's number of workers.
    assert_eq!(config["runtime"]["workers"], 2);
    let next = write(
        directory.path(),
        origin.address,
        "classes: {bulk: {level: 2}}\n",
    );
    let text = std::fs::read_to_string(&next).unwrap();
    std::fs::write(
        &next,
        text.replace("admin: {address: 127.0.0.1:0}", "admin: off"),
    )
    .unwrap();
    running.signal("HUP");
    running.says("serving by the configuration as it is now");
    let page: serde_json::Value = serde_json::from_str(&shown()).unwrap();
    let config = &page["configuration"];
    assert_eq!(config["classes"]["bulk"]["level"], 2);
    assert_eq!(config["admin"]["address"], "127.0.0.1:0");
}

#[test]
fn check_prints_every_error_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.yaml");
    std::fs::write(
        &path,
        "version: 1\nlistners: []\nclusters: {farm: {endpoints: [nowhere]}}\nroutes: [{cluster: farm}]\n",
    )
    .unwrap();
    let output = sprat(&["check", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("bad.yaml:2:1") && said.contains("listners"),
        "{said}"
    );
    assert!(
        said.contains("bad.yaml:3:") && said.contains("nowhere"),
        "{said}"
    );
    let output = sprat(&["run", "-c", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let missing = sprat(&["check", "-c", "/nonexistent.yaml"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        String::from_utf8(missing.stderr)
            .unwrap()
            .contains("/nonexistent.yaml")
    );
    assert_eq!(sprat(&["run"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_port_in_use_is_said_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = config(&[address]);
    config.listeners[0].address = address.into();
    let error = sprat_server::server::Server::start(&config).err().unwrap();
    let error = format!("{error:#}");
    assert!(
        error.contains(&address.to_string()) && error.contains("listener `test`"),
        "{error}"
    );
}

#[test]
fn an_address_is_one_processs_until_it_stops_listening() {
    let origin = Origin::http(|_| ok("fine"));
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let address = free_address();
    binary::stand_on(&configuration, address);
    let first = Running::start(&configuration);
    let mut client = Peer::connect(address);
    assert_eq!(client.ask(get("/")).text(), "fine");
    let second = binary::run(&configuration).stderr(Stdio::piped()).spawn();
    let mut second = Running::with(second.unwrap(), address);
    wait_for("the second to end", || {
        second.child.try_wait().unwrap().is_some()
    });
    assert_eq!(second.child.wait().unwrap().code(), Some(1));
    let said = std::io::read_to_string(second.child.stderr.take().unwrap()).unwrap();
    let refusal = format!("cannot listen on {address} (listener `");
    assert!(said.contains(&refusal) && said.contains("in use"), "{said}");
    // One that drains is no obstacle, nor are connections that have ended.
    first.signal("TERM");
    wait_for("the listener to close", || {
        std::net::TcpStream::connect(address).is_err()
    });
    let third = Running::start(&configuration);
    assert_eq!(Peer::connect(third.address).ask(get("/")).text(), "fine");
}

#[test]
fn the_schema_is_json() {
    let output = sprat(&["schema"]).output().unwrap();
    assert!(output.status.success());
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema["properties"]["listeners"].is_object());
}

/// Returns the output of `sprat explain` for a request to the example with classes.
fn explain(arguments: &[&str]) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples/classes.yaml");
    let mut command = sprat(&["explain", "-c", file.to_str().unwrap()]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = sprat(&["schema"]).stdout(writer).output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn explain_says_what_becomes_of_a_request_and_why() {
    let text = explain(&[
        "--request",
        "GET http://www.example.org/downloads/a.iso",
        "--size",
        "20KB",
    ]);
    assert_eq!(
        text,
        "\
request   GET http://www.example.org/downloads/a.iso
client    192.0.2.1
route     1 (any host, any path) to farm
buffer    responses: up to 256KB in memory, where places are bounded (read_ahead)
class     bulk, level 5, 2000000 bit/s for all of it
rule      rule 3 of class_rules, line 32, matches
size      20480 bytes, estimate: what --size says the catalogue holds
order     srpt: by the bytes that it has left, the fewest first: 20480 now
endpoints 1. 127.0.0.1:9101
          2. 127.0.0.1:9102
          the fewest requests of this class's level or above; all are idle here
"
    );
    let gold = ["--client", "10.20.3.4", "--request", "HEAD http://h/"];
    let text = explain(&gold);
    assert!(text.contains("class     gold, level 1\n"), "{text}");
    assert!(text.contains("rule 2 of class_rules"), "{text}");
    assert!(text.contains("0 bytes, exact"), "{text}");
}

#[test]
fn explain_says_by_what_the_uplink_orders() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples");
    for (example, order) in [
        (
            "srq.yaml",
            "order     srq: in the first of 4 queues, and in the next ones once it has sent 8192, \
             65536, 1048576 bytes; the first that has something has 90% of the link; while more \
             than 200 ms are left to send, else as `fair`\n",
        ),
        (
            "unlimited.yaml",
            "order     none: `uplink.rate` is unlimited, and responses are sent as they come\n",
        ),
        (
            "auto.yaml",
            "order     srpt-aged: by the bytes that it has sent, the fewest first, until its size \
             is known; each second that it waits counts as 10240 bytes less\n",
        ),
    ] {
        let file = examples.join(example);
        let mut command = sprat(&["explain", "-c", file.to_str().unwrap()]);
        let output = command.args(["--request", "GET http://h/a"]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(text.contains(order), "{example}: {text}");
    }
}

#[test]
fn explain_puts_a_path_in_normal_form() {
    let text = explain(&["--request", "GET http://h/x/../%64ownloads/a.iso?q=/../"]);
    let start =
        "request   GET http://h/x/../%64ownloads/a.iso?q=/../\nmatched   /downloads/a.iso\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("class     bulk"), "{text}");
    let text = explain(&["--request", "GET http://h/../etc"]);
    let refused = "refused   400 path_above_root: the request's path leads above the root\n";
    assert!(text.ends_with(refused), "{text}");
}

#[test]
fn explain_has_json() {
    let text = explain(&[
        "--json",
        "--header",
        "Sec-Purpose: prefetch",
        "--request",
        "GET http://h/a",
    ]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["class"]["name"], "background");
    assert_eq!(value["class"]["idle_only"], true);
    assert_eq!(value["rule"]["line"], serde_json::Value::Null);
    assert_eq!(value["size"]["bytes"], serde_json::Value::Null);
    assert_eq!(value["order"]["policy"], "srpt");
    assert_eq!(value["endpoints"]["order"][1]["address"], "127.0.0.1:9102");
    let wrong = sprat(&["explain", "-c", "x.yaml", "--request", "GET /a"]);
    let output = { wrong }.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("write METHOD URL"), "{said}");
}

#[test]
fn check_names_what_is_wrong_with_a_certificate() {
    let authority = Authority::new();
    let good = authority.issue("good", &["a.example"]);
    let other = authority.issue("other", &["b.example"]);
    let old = authority.issue_with("old", &["a.example"], |parameters| {
        parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let directory = authority.directory();
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let empty = file("empty.pem", "nothing\n");
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let locked = file("locked.key", locked);
    let whole = std::fs::read_to_string(&good.chain).unwrap();
    let cut = file("cut.pem", &whole[..300]);
    let odd = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let odd = file("odd.key", odd);
    let missing = directory.join("missing.pem");
    let check = |chain: &Path, key: &Path| {
        let text = format!(
            "version: 1\nlisteners:\n- address: 127.0.0.1:0\n  tls:\n    certificates:\n    \
             - certificate_chain: {}\n      private_key: {}\n\
             clusters: {{farm: {{endpoints: [a:1]}}}}\nroutes: [{{cluster: farm}}]\n",
            chain.display(),
            key.display()
        );
        let configuration = file("sprat.yaml", &text);
        let output = sprat(&["check", configuration.to_str().unwrap()])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), told)
    };
    for (chain, key, said, line) in [
        (&missing, &good.key, "No such file", 6),
        (&empty, &good.key, "there is no certificate in PEM in it", 6),
        (&cut, &good.key, "no line `-----END CERTIFICATE-----`", 6),
        (&good.chain, &odd, "of a kind that cannot be used", 7),
        (&good.key, &good.chain, "are the two files swapped?", 6),
        (&good.chain, &other.key, "the key is not that of", 7),
        (&good.chain, &locked, "the key has a pass phrase", 7),
        (
            &good.chain,
            &empty,
            "there is no private key in PEM in it",
            7,
        ),
    ] {
        let (fine, told) = check(chain, key);
        assert!(!fine && told.contains(said), "{told}");
        assert!(told.contains(&format!("sprat.yaml:{line}:")), "{told}");
    }
    assert_eq!(check(&good.chain, &good.key), (true, String::new()));
    let (fine, told) = check(&old.chain, &old.key);
    assert!(
        fine && told.contains("the certificate has expired"),
        "{told}"
    );
    let nameless = authority.issue("nameless", &[]);
    let (fine, told) = check(&nameless.chain, &nameless.key);
    assert!(
        fine && told.contains("the certificate has no subjectAltName"),
        "{told}"
    );
}

#[test]
fn check_reads_the_pages_for_browsers() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), free_address(), "");
    let page = directory.path().join("busy.html");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let wanted = format!("{{overload_page: '{}', endpoints: [", page.display());
    std::fs::write(&configuration, text.replace("{endpoints: [", &wanted)).unwrap();
    let check = || {
        let output = sprat(&["check", configuration.to_str().unwrap()]).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), told)
    };
    let (fine, told) = check();
    assert!(!fine && told.contains("sprat.yaml:5:34"), "{told}");
    assert!(
        told.contains("the overload_page of the cluster `farm`: No such file"),
        "{told}"
    );
    std::fs::write(&page, vec![b'x'; (1 << 20) + 1]).unwrap();
    assert!(check().1.contains("1 MB is the most"));
    std::fs::write(&page, "<h1>Busy</h1>").unwrap();
    assert_eq!(check(), (true, String::new()));
}

/// Returns a command that runs `sprat` under a soft and a hard limit on open files.
fn with_files(limits: &str, arguments: &[&str]) -> Command {
    let sprat = sprat(arguments);
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={limits}"));
    command.arg(sprat.get_program()).args(sprat.get_args());
    command.stdin(Stdio::null());
    command
}

#[test]
fn more_connections_than_files_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), free_address(), "");
    let check = ["check", path.to_str().unwrap()];
    let said = |limits| {
        let output = with_files(limits, &check).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let text = said("512:4096");
    assert!(text.contains("`max_connections` come to 16384"), "{text}");
    assert!(text.contains("may have 4096 files open"), "{text}");
    assert_eq!(said("512:20000"), "");
}

#[test]
fn the_limit_on_open_files_is_raised() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), free_address(), "");
    let arguments = ["run", "-c", path.to_str().unwrap(), "--workers", "1"];
    let running = Running::of(&mut with_files("512:4096", &arguments));
    running.says("`max_connections` come to 16384");
    let limits = format!("/proc/{}/limits", running.child.id());
    let limits = std::fs::read_to_string(limits).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(numbers[3..5], ["4096", "4096"], "{limits}");
}

#[test]
fn whatif_reads_a_log_and_says_what_is_wrong_with_one() {
    let asked = |log: &str| {
        let mut command = sprat(&["whatif", "-", "--uplink", "1mbit", "--policy", "srpt"]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(log.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let line = "192.0.2.1 - - [24/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5120\n";
    let (code, printed, _) = asked(&line.repeat(3));
    assert_eq!(code, Some(0));
    assert!(printed.contains("3 requests, format clf"), "{printed}");
    assert!(printed.contains("\nsrpt "), "{printed}");
    let (code, printed, complaint) = asked("hello\n");
    assert_eq!((code, printed.as_str()), (Some(1), ""));
    assert!(
        complaint.contains("no line of - can be read"),
        "{complaint}"
    );
}

#[test]
fn a_farm_of_several_files_is_followed_and_kept_when_one_is_wrong() {
    let named = |name: &'static str| Origin::http(move |_| ok(name));
    let (a, b) = (named("a"), named("b"));
    let directory = tempfile::tempdir().unwrap();
    let parts = directory.path().join("conf.d");
    std::fs::create_dir(&parts).unwrap();
    let more = "include: [conf.d/*.yaml]\nruntime: {reload_interval: 50ms}\n";
    write(directory.path(), a.address, more);
    // By its directory.
    let running = Running::start(directory.path());
    let mut client = Peer::connect(running.address);
    assert_eq!(client.ask(get("/b")).text(), "a");
    let part = parts.join("b.yaml");
    let text = format!(
        "clusters: {{b: {{endpoints: ['{}']}}}}\nroutes: [{{match: {{prefix: /b}}, cluster: b}}]\n",
        b.address
    );
    // As a whole: the directory is looked at all the time.
    std::fs::write(parts.join("b.new"), &text).unwrap();
    std::fs::rename(parts.join("b.new"), &part).unwrap();
    running.says("the reload changes clusters (new: b); routes (1 before, 2 now)");
    wait_for("the new route", || client.ask(get("/b")).text() == "b");
    // A link without its file: it has vanished.
    std::os::unix::fs::symlink(parts.join("gone"), parts.join("c.yaml")).unwrap();
    running.says("the configuration is refused; the one before goes on");
    let refusal = running.line_with("the configuration is refused");
    assert!(refusal.contains("c.yaml`: No such file"), "{refusal}");
    assert_eq!(client.ask(get("/b")).text(), "b");
    // Seen in an included file, too.
    std::fs::remove_file(parts.join("c.yaml")).unwrap();
    std::fs::write(parts.join("b.new"), text.replace("/b}", "/c}")).unwrap();
    std::fs::rename(parts.join("b.new"), &part).unwrap();
    wait_for("the other route", || client.ask(get("/c")).text() == "b");
    assert_eq!(client.ask(get("/b")).text(), "a");
}
