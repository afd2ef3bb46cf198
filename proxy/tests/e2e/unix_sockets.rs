//! Tests of endpoints, listeners and the admin listener on Unix sockets, with the program itself
//! and with foreign clients.

use std::fmt::Write as _;
use std::io::{BufRead as _, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};

use crate::common::binary::{Running, run, signal, sprat};
use crate::common::tls::Authority;
use crate::common::*;

/// Starts an origin on a Unix socket that answers with the request's head. Returns the number of
/// its connections.
fn origin_at(path: &Path) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(path).unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::SeqCst);
            spawn(move || {
                let mut peer = over(stream);
                while let Some(request) = peer.try_message(true) {
                    let mut text = request.start.clone() + "\n";
                    for (name, value) in &request.fields {
                        writeln!(text, "{name}: {value}").unwrap();
                    }
                    peer.send(ok(&text));
                }
            });
        }
    });
    connections
}

/// Returns a connection that is used as one of TCP is.
fn over(stream: UnixStream) -> Peer {
    Peer::new(TcpStream::from(OwnedFd::from(stream)))
}

fn connect(path: &Path) -> Peer {
    over(UnixStream::connect(path).unwrap())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A directory with sockets and a configuration: a listener on TCP, and what the test adds.
struct Place {
    directory: tempfile::TempDir,
    tcp: SocketAddr,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            tcp: free_address(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a configuration whose cluster has these keys. The text `DIR` stands for the
    /// directory.
    fn write(&self, listeners: &str, cluster: &str, more: &str) -> PathBuf {
        let path = self.at("sprat.yaml");
        let text = format!(
            "version: 1\nlisteners:\n  - {{address: '{}'}}\n{listeners}\n\
             clusters:\n  app: {{{cluster}}}\nroutes: [{{cluster: app}}]\n{more}",
            self.tcp
        );
        let directory = self.directory.path().display().to_string();
        std::fs::write(&path, text.replace("DIR", &directory)).unwrap();
        path
    }
}

const ENDPOINT: &str = "endpoints: ['unix:DIR/app.sock']";
const LISTENER: &str = "  - {address: 'unix:DIR/sprat.sock', name: local}";
const ADMIN: &str = "admin: unix:DIR/admin.sock\n";

fn curl(arguments: &[&str]) -> Output {
    let output = Command::new("curl")
        .args(["-sS", "-m", "20"])
        .args(arguments)
        .output();
    output.expect("curl is there")
}

/// Returns the body that curl gets, and the status.
fn curled(socket: &Path, arguments: &[&str]) -> (String, String) {
    let socket = socket.to_str().unwrap();
    let all = [
        &["--unix-socket", socket, "-w", "\n%{http_code}"],
        arguments,
    ]
    .concat();
    let output = curl(&all);
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (body.to_owned(), status.to_owned())
}

#[test]
fn endpoints_and_listeners_have_paths() {
    let place = Place::new();
    let connections = origin_at(&place.at("app.sock"));
    let checked = format!("{ENDPOINT}, health_checks: {{http_health_check: {{path: /up}}}}");
    let configuration = place.write(LISTENER, &checked, "admin: off\n");
    let mut running = Running::start(&configuration);
    assert_eq!(mode(&place.at("sprat.sock")), 0o660);
    // The client's own `Host` goes on, by either way.
    for mut client in [
        connect(&place.at("sprat.sock")),
        Peer::connect(running.address),
    ] {
        let answer = client.ask(get("/a")).text();
        assert!(answer.starts_with("GET /a HTTP/1.1\n"), "{answer}");
        assert!(answer.contains("\nhost: test.example\n"), "{answer}");
        assert!(
            answer.contains("\nx-forwarded-for: 127.0.0.1\n"),
            "{answer}"
        );
        let kept = client
            .ask("GET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            .text();
        assert!(kept.contains("\nhost: localhost\n"), "{kept}");
    }
    assert!(connections.load(Ordering::SeqCst) >= 1);
    // Real clients, of both protocols.
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let (body, status) = curled(&place.at("sprat.sock"), &[version, "http://a.example/c"]);
        assert_eq!(status, "200");
        assert!(body.contains("host: a.example\n"), "{body}");
    }
    let health = sprat(&["healthcheck", "-c", configuration.to_str().unwrap()]).output();
    assert!(health.unwrap().status.success());
    running.signal("TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert!(!place.at("sprat.sock").exists());
    assert!(place.at("app.sock").exists(), "the endpoint's is not ours");
}

#[test]
fn an_endpoint_that_is_not_there_is_one_that_refuses() {
    let place = Place::new();
    let log = place.at("log");
    let more = format!("admin: off\naccess_log: {{path: {}}}\n", log.display());
    let configuration = place.write("", ENDPOINT, &more);
    let running = Running::start(&configuration);
    let mut client = Peer::connect(running.address);
    assert_eq!(client.ask(get("/")).status(), 502);
    let line = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_for("a line", || line().contains('\n'));
    assert!(line().contains("\"connection_refused\""), "{}", line());
    assert!(line().contains("unix:"), "{}", line());
    origin_at(&place.at("app.sock"));
    assert_eq!(client.ask(get("/")).status(), 200);
}

#[test]
fn the_admin_listener_is_asked_over_a_path() {
    let place = Place::new();
    origin_at(&place.at("app.sock"));
    let configuration = place.write("", ENDPOINT, ADMIN);
    let running = Running::start(&configuration);
    let admin = place.at("admin.sock");
    assert_eq!(mode(&admin), 0o600);
    assert_eq!(Peer::connect(running.address).ask(get("/")).status(), 200);
    let label = format!("unix:{}", place.at("app.sock").display());
    // By whatever name: no browser comes here.
    let (metrics, status) = curled(&admin, &["http://anything/metrics"]);
    assert_eq!(status, "200");
    let parts = ["sprat_upstream_connects_total", label.as_str()];
    assert_eq!(metric(&metrics, &parts), 1.0);
    let (endpoints, _) = curled(&admin, &["http://anything/endpoints"]);
    assert!(endpoints.contains(&label), "{endpoints}");
    let named = format!("{{\"cluster\": \"app\", \"endpoint\": \"{label}\"}}");
    let (said, status) = curled(&admin, &["-d", &named, "http://anything/endpoints/drain"]);
    assert_eq!(
        (said.trim(), status.as_str()),
        ("{\"draining\": true}", "200")
    );
    let asked = sprat(&["healthcheck", "-c", configuration.to_str().unwrap()]).output();
    let asked = asked.unwrap();
    assert!(asked.status.success());
    assert!(String::from_utf8_lossy(&asked.stdout).contains("unix:"));
    let address = format!("unix:{}", admin.display());
    let top = sprat(&["top", "--once", "--admin", &address])
        .output()
        .unwrap();
    assert!(
        top.status.success(),
        "{}",
        String::from_utf8_lossy(&top.stderr)
    );
    assert!(String::from_utf8_lossy(&top.stdout).contains("app"));
}

/// Sends requests over new connections until `over` is set. The thread returns the number of
/// answers.
fn load(path: PathBuf, over: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let over = Arc::clone(over);
    spawn(move || {
        let mut answered = 0;
        while !over.load(Ordering::SeqCst) {
            assert_eq!(connect(&path).ask(get("/")).status(), 200);
            answered += 1;
        }
        answered
    })
}

fn process_in(path: &Path) -> u32 {
    std::fs::read_to_string(path)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn another_process_takes_the_paths_over() {
    let place = Place::new();
    origin_at(&place.at("app.sock"));
    let configuration = place.write(LISTENER, ENDPOINT, ADMIN);
    let pid_file = place.at("pid");
    let mut command = run(&configuration);
    command.arg("--pid-file").arg(&pid_file);
    let mut running = Running::of(&mut command);
    let first = running.child.id();
    // No other may have the path meanwhile.
    let second = run(&configuration).output().unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("cannot listen on"), "{said}");
    let socket = place.at("sprat.sock");
    let over = Arc::default();
    let loads: Vec<_> = (0..2).map(|_| load(socket.clone(), &over)).collect();
    running.signal("USR2");
    wait_for("another process", || process_in(&pid_file) != first);
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    let successor = process_in(&pid_file);
    // The files are the new process's now.
    assert_eq!(connect(&socket).ask(get("/")).status(), 200);
    assert_eq!(
        curled(&place.at("admin.sock"), &["http://a/livez"]).1,
        "200"
    );
    over.store(true, Ordering::SeqCst);
    for load in loads {
        assert!(load.join().unwrap() > 0);
    }
    // What one that is killed leaves makes way.
    signal(successor, "KILL");
    wait_for("the end of it", || UnixStream::connect(&socket).is_err());
    assert!(socket.exists());
    let mut again = Running::start(&configuration);
    assert_eq!(connect(&socket).ask(get("/")).status(), 200);
    again.signal("TERM");
    assert_eq!(again.child.wait().unwrap().code(), Some(0));
    assert!(!socket.exists() && !place.at("admin.sock").exists());
}

#[test]
fn a_socket_from_systemd_is_served_and_its_file_left() {
    let place = Place::new();
    origin_at(&place.at("app.sock"));
    let configuration = place.write(LISTENER, ENDPOINT, "admin: off\n");
    let socket = place.at("sprat.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // It waits in the socket's queue.
    let mut early = connect(&socket);
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
    let inner = run(&configuration);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(inner.get_program());
    command.args(inner.get_args());
    command.stdin(Stdio::from(OwnedFd::from(listener)));
    let mut running = Running::of(&mut command);
    assert_eq!(early.ask(get("/")).status(), 200);
    running.signal("TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert!(socket.exists());
}

#[test]
fn a_reload_opens_changes_and_closes_them() {
    let place = Place::new();
    origin_at(&place.at("app.sock"));
    let configuration = place.write("", ENDPOINT, "admin: off\n");
    let running = Running::start(&configuration);
    let socket = place.at("sprat.sock");
    place.write(LISTENER, ENDPOINT, "admin: off\n");
    running.signal("HUP");
    wait_for("the socket", || socket.exists());
    let mut kept = connect(&socket);
    assert_eq!(kept.ask(get("/")).status(), 200);
    let wider = LISTENER.replace("name: local", "name: local, mode: '0666'");
    place.write(&wider, ENDPOINT, "admin: off\n");
    running.signal("HUP");
    wait_for("other permissions", || mode(&socket) == 0o666);
    assert_eq!(kept.ask(get("/")).status(), 200, "it is the same socket");
    place.write("", ENDPOINT, "admin: off\n");
    running.signal("HUP");
    wait_for("the file to go", || !socket.exists());
}

/// Returns the user and the group of a file.
fn owner(path: &Path) -> (u32, u32) {
    let file = std::fs::metadata(path).unwrap();
    (file.uid(), file.gid())
}

/// Returns whether this process may give files to other users.
fn may_give() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn files_have_their_owners_from_the_start_over_reloads_and_upgrades() {
    if !may_give() {
        eprintln!("skipped: only root may give a file to others");
        return;
    }
    let place = Place::new();
    origin_at(&place.at("app.sock"));
    let owned = |rights: &str| LISTENER.replace("name: local", &format!("name: local, {rights}"));
    let admin = |rights: &str| format!("admin: {{address: 'unix:DIR/admin.sock', {rights}}}\n");
    let first = admin("mode: '0660', group: 4322");
    let configuration = place.write(&owned("owner: 4321, group: 4322"), ENDPOINT, &first);
    let pid_file = place.at("pid");
    let mut command = run(&configuration);
    command.arg("--pid-file").arg(&pid_file);
    let mut running = Running::of(&mut command);
    let pid = running.child.id();
    let socket = place.at("sprat.sock");
    let admin_socket = place.at("admin.sock");
    assert_eq!((owner(&socket), mode(&socket)), ((4321, 4322), 0o660));
    assert_eq!((owner(&admin_socket).1, mode(&admin_socket)), (4322, 0o660));
    let mut kept = connect(&socket);
    assert_eq!(kept.ask(get("/")).status(), 200);

    // A reload gives it to others at once, and is refused where there are none.
    place.write(&owned("owner: root, group: 4323"), ENDPOINT, &first);
    running.signal("HUP");
    wait_for("another owner", || owner(&socket) == (0, 4323));
    assert_eq!(kept.ask(get("/")).status(), 200, "it is the same socket");

    // Another process goes by the configuration of its own.
    let last = admin("mode: '0640', group: 4325");
    place.write(&owned("owner: 4324, mode: '0666'"), ENDPOINT, &last);
    running.signal("USR2");
    wait_for("another process", || process_in(&pid_file) != pid);
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!((owner(&socket), mode(&socket)), ((4324, 4323), 0o666));
    assert_eq!((owner(&admin_socket).1, mode(&admin_socket)), (4325, 0o640));
    assert_eq!(connect(&socket).ask(get("/")).status(), 200);
    signal(process_in(&pid_file), "TERM");
    wait_for("the files to go", || {
        !socket.exists() && !admin_socket.exists()
    });
}

#[test]
fn an_owner_that_is_not_there_is_told_with_its_line() {
    let place = Place::new();
    let named = LISTENER.replace("name: local", "name: local, owner: no-such-user");
    let admin = "admin: {address: 'unix:DIR/admin.sock', group: no-such-group}\n";
    let configuration = place.write(&named, "endpoints: ['127.0.0.1:1']", admin);
    for command in ["check", "run"] {
        let mut command = sprat(&[command, "-c"]);
        let output = command.arg(&configuration).output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for part in [
            "/etc/passwd has no user `no-such-user`",
            "/etc/group has no group `no-such-group`",
            "or give its number",
            "sprat.yaml:4:",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }
    assert!(!place.at("sprat.sock").exists());
}

#[test]
fn the_proxy_protocol_passes_both_ways() {
    let place = Place::new();
    let inner = UnixListener::bind(place.at("app.sock")).unwrap();
    let listener = "  - {address: 'unix:DIR/sprat.sock', proxy_protocol: {trusted: [127.0.0.1]}}";
    let cluster = format!("{ENDPOINT}, proxy_protocol: v1");
    let configuration = place.write(listener, &cluster, "admin: off\n");
    let _running = Running::start(&configuration);
    let mut client = connect(&place.at("sprat.sock"));
    client.send("PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\r\n".to_owned() + &get("/"));
    let (stream, _) = inner.accept().unwrap();
    let mut got = over(stream);
    let mut line = String::new();
    got.reader.read_line(&mut line).unwrap();
    assert_eq!(line, "PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\r\n");
    let head = got.head().unwrap();
    assert!(
        head.fields
            .contains(&("x-forwarded-for".to_owned(), "192.0.2.7".to_owned()))
    );
    got.send(ok("told"));
    assert_eq!(client.message().text(), "told");
}

#[test]
fn http2_and_tls_go_over_paths() {
    let place = Place::new();
    origin_at(&place.at("app.sock"));
    let authority = Authority::new();
    let issued = authority.issue("inner", &["inner.example"]);
    let inner = Place::new();
    let shown = format!(
        "certificates: [{{certificate_chain: {}, private_key: {}}}]",
        issued.chain.display(),
        issued.key.display()
    );
    let listeners = format!(
        "  - {{address: 'unix:{plain}', http2: {{required: true}}}}\n  - {{address: 'unix:{secure}', \
         tls: {{{shown}}}, http2: {{required: true}}}}",
        plain = place.at("h2c.sock").display(),
        secure = place.at("h2.sock").display(),
    );
    let app = ENDPOINT.replace("DIR", &place.directory.path().display().to_string());
    let _inner = Running::start(&inner.write(&listeners, &app, "admin: off\n"));
    let trusted = format!(
        "tls: {{sni: inner.example, trusted_ca: {}}}",
        authority.file().display()
    );
    for (socket, more) in [
        ("h2c.sock", String::new()),
        ("h2.sock", format!(", {trusted}")),
    ] {
        let cluster = format!("endpoints: ['unix:DIR/{socket}'], http2: {{}}{more}");
        let configuration = place.write("", &cluster, "admin: off\n");
        let running = Running::start(&configuration);
        let answer = Peer::connect(running.address).ask(get("/through"));
        assert_eq!(answer.status(), 200, "{socket}");
        assert!(
            answer.text().contains("host: test.example"),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn what_is_large_and_what_is_left_in_the_middle_passes_over_a_path() {
    const LARGE: usize = 8 << 20;
    let place = Place::new();
    let listener = UnixListener::bind(place.at("app.sock")).unwrap();
    spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            spawn(move || {
                let mut peer = over(stream);
                while peer.try_message(true).is_some() {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
                    peer.send(head);
                    peer.send(vec![b'x'; LARGE]);
                }
            });
        }
    });
    // With a rate the uplink asks each socket what has left it.
    let rate = "uplink: {rate: 1gbit}\nadmin: off\n";
    let _running = Running::start(&place.write(LISTENER, ENDPOINT, rate));
    let socket = place.at("sprat.sock");
    let mut whole = connect(&socket);
    for _ in 0..3 {
        assert_eq!(whole.ask(get("/")).body.len(), LARGE);
    }
    let mut left = connect(&socket);
    left.send(get("/"));
    left.reader.read_exact(&mut [0; 1000]).unwrap();
    drop(left);
    assert_eq!(connect(&socket).ask(get("/")).body.len(), LARGE);
}
