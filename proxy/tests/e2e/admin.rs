//! Tests of the admin listener: access, service to many clients, and formats.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::binary::Running;
use crate::common::*;

fn admin_of(proxy: &Proxy) -> SocketAddr {
    proxy.server.as_ref().unwrap().admin_address().unwrap()
}

fn with_admin() -> (Origin, Proxy) {
    let origin = Origin::http(|_| ok("hello"));
    let mut config = config(&[origin.address]);
    config.admin = Some(admin());
    let proxy = Proxy::start(&config);
    (origin, proxy)
}

fn ask(address: SocketAddr, host: &str, path: &str, fields: &str) -> Message {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
    Peer::connect(address).ask(request)
}

#[test]
fn only_known_hosts_are_answered() {
    let (_origin, proxy) = with_admin();
    let admin = admin_of(&proxy);
    for path in [
        "/",
        "/livez",
        "/metrics",
        "/endpoints",
        "/config",
        "/catalogue/dump",
    ] {
        let rebound = ask(admin, "rebound.example:9900", path, "");
        assert_eq!(rebound.status(), 421, "{path}");
        assert!(rebound.text().contains("admin.hosts"), "{path}");
        for host in [&admin.to_string(), "localhost", "test.example"] {
            assert_eq!(ask(admin, host, path, "").status(), 200, "{path} of {host}");
        }
    }
    // Probes of old do not say whom they ask.
    let answer = Peer::connect(admin).ask("GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!((answer.status(), answer.text()), (200, "ok\n".to_owned()));
}

#[test]
fn a_probe_is_answered_beside_silent_connections() {
    let (_origin, proxy) = with_admin();
    let admin = admin_of(&proxy);
    let mut silent: Vec<_> = (0..200).map(|_| Peer::connect(admin)).collect();
    for _ in 0..100 {
        assert_eq!(ask(admin, "localhost", "/livez", "").status(), 200);
        // As fast as others come, too.
        silent.push(Peer::connect(admin));
    }
    // The first have given way; the last are let in.
    assert!(silent[0].is_closed());
    let last = silent.last_mut().unwrap();
    assert_eq!(last.ask(get("/readyz")).status(), 200);
}

#[test]
fn a_client_that_asks_ahead_is_answered_in_turn() {
    let (_origin, proxy) = with_admin();
    let mut client = Peer::connect(admin_of(&proxy));
    client.send(["/livez", "/stats", "/config", "/none"].map(get).concat());
    for status in [200, 200, 200, 404] {
        assert_eq!(client.message().status(), status);
    }
}

/// Starts `sprat` with so many clusters that all admin pages together are larger than the sockets'
/// buffers. Returns it with its admin address. It is a process of its own, because its memory is
/// measured.
fn large(directory: &Path) -> (Running, SocketAddr) {
    let admin = free_address();
    let mut text = format!(
        "version: 1\nadmin: {{address: '{admin}'}}\nlisteners: [{{address: 127.0.0.1:0}}]\n\
         uplink: {{rate: unlimited}}\nroutes: [{{cluster: farm}}]\nclusters:\n  \
         farm: {{endpoints: ['{}']}}\n",
        free_address()
    );
    for n in 0..1000 {
        text += &format!("  a-cluster-with-a-long-name-{n}: {{endpoints: ['{admin}']}}\n");
    }
    let path = directory.join("sprat.yaml");
    fs::write(&path, text).unwrap();
    (Running::start(&path), admin)
}

#[test]
fn unread_metrics_hold_up_no_probe_and_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, admin) = large(directory.path());
    // In samples, for a number may have a digit less the next time.
    let scrape = || {
        let page = ask(admin, "localhost", "/metrics", "").text();
        (page.lines().count(), page.len())
    };
    let (samples, page) = scrape();
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{}/statm", proxy.child.id())).unwrap();
        let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    };
    let before = resident();
    let unread: Vec<_> = (0..128)
        .map(|_| {
            let mut client = Peer::connect(admin);
            // Hardly anything fits into the client's socket.
            socket2::SockRef::from(client.stream())
                .set_recv_buffer_size(4096)
                .unwrap();
            client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client
        })
        .collect();
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask(admin, "localhost", path, "").status(), 200);
    }
    // Who reads gets all of it.
    assert!(scrape().0 >= samples);
    // Four renderings, and one that is being made, with what the allocator keeps.
    let more = resident().saturating_sub(before);
    assert!(more < 24 * page, "{more} bytes for pages of {page}");
    drop(unread);
}

#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let (_origin, proxy) = with_admin();
    let admin = admin_of(&proxy);
    let text = ask(admin, "localhost", "/metrics", "");
    let field = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let open = ask(admin, "localhost", "/metrics", field);
    let text_type = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(text.field("content-type"), Some(text_type));
    let open_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.field("content-type"), Some(open_type));
    let (text, open) = (text.text(), open.text());
    assert!(text.contains("# TYPE sprat_requests_total counter\n") && !text.contains("# EOF"));
    assert!(open.contains("# TYPE sprat_requests counter\n") && open.ends_with("# EOF\n"));
    assert!(text.contains("le=\"+Inf\"") && open.contains("le=\"+Inf\""));
    assert!(!text.contains("e308") && !open.contains("e308"));
}

/// Returns the value of a sample without labels.
fn sample(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let mut values = lines.filter(|(own, _)| *own == name);
    let (_, value) = values.next().unwrap_or_else(|| panic!("no {name}: {text}"));
    value.parse().unwrap()
}

#[test]
fn the_process_and_its_build_are_among_the_metrics() {
    let origin = Origin::http(|_| ok("hello"));
    let mut config = config(&[origin.address]);
    config.admin = Some(admin());
    let proxy = Proxy::start(&config);
    let text = ask(admin_of(&proxy), "localhost", "/metrics", "").text();
    let version = concat!(
        "sprat_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\""
    );
    assert!(text.contains(version), "{text}");
    // By what this test, which is the process, finds out by itself.
    let now = std::time::SystemTime::now();
    let now_s = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let age_s = now_s.as_secs_f64() - sample(&text, "process_start_time_seconds");
    assert!((-2.0..86_400.0).contains(&age_s), "{age_s}");
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = limit.current.map_or(u64::MAX as f64, |files| files as f64);
    assert_eq!(sample(&text, "process_max_fds"), files);
    assert!((5.0..files).contains(&sample(&text, "process_open_fds")));
    assert!(sample(&text, "process_resident_memory_bytes") > 1e6);
    assert!(sample(&text, "process_virtual_memory_bytes") > 1e6);
    assert!(sample(&text, "process_threads") >= 2.0);
    assert!(sample(&text, "process_cpu_seconds_total") >= 0.0);
}

/// Returns a command that runs `inner` with a `/proc` that has processes alone, as under systemd's
/// `ProcSubset=pid`. Returns none if this machine does not allow that.
fn among_processes_alone(inner: &Command) -> Option<Command> {
    const SCRIPT: &str = "mount -t proc -o subset=pid proc /proc && exec \"$0\" \"$@\"";
    let within = || {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "--pid", "--fork"])
            .args(["--kill-child", "sh", "-c", SCRIPT]);
        command
    };
    let probe = within().arg("true").stderr(Stdio::null()).status();
    probe.ok().filter(|status| status.success())?;
    let mut command = within();
    command.arg(inner.get_program()).args(inner.get_args());
    command.stdin(Stdio::null());
    Some(command)
}

#[test]
fn what_the_unit_for_systemd_hides_is_not_asked_for() {
    let origin = Origin::http(|_| ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    let syslog = UdpSocket::bind("127.0.0.1:0").unwrap();
    syslog.set_read_timeout(Some(PATIENCE)).unwrap();
    let place = syslog.local_addr().unwrap();
    let more = format!("access_log: {{syslog: {{address: '{place}'}}}}\n");
    let path = binary::write(directory.path(), origin.address, &more);
    let admin = free_address();
    let text = fs::read_to_string(&path).unwrap();
    let own = format!("admin: {{address: '{admin}'}}");
    let text = text.replace("admin: {address: 127.0.0.1:0}", &own);
    fs::write(&path, text).unwrap();
    let Some(mut command) = among_processes_alone(&binary::run(&path)) else {
        println!("skipped: no /proc can be mounted");
        return;
    };
    let running = Running::of(&mut command);
    assert_eq!(Peer::connect(running.address).ask(get("/")).status(), 200);
    let mut line = [0; 10_000];
    let count = syslog.recv(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line[..count]).into_owned();
    // The name of the host, which is `-` if it is not known.
    let host = line.split(' ').nth(2).unwrap();
    let has_none = rustix::system::uname().nodename().is_empty();
    assert_eq!(host == "-", has_none, "{line}");
    let text = ask(admin, "localhost", "/metrics", "").text();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let age_s = now.as_secs_f64() - sample(&text, "process_start_time_seconds");
    assert!((-1.0..60.0).contains(&age_s), "{age_s}");
    assert!(sample(&text, "process_open_fds") >= 5.0);
}
