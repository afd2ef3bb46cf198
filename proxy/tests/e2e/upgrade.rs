//! Tests of a new process that replaces the one that serves, of sockets from systemd, and of the
//! messages to systemd.

use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

use crate::common::binary::{Running, run, signal, write};
use crate::common::*;

/// Sends requests, each over a new connection, until `over` is set. The thread returns the number
/// of answers.
fn load(address: SocketAddr, over: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let over = Arc::clone(over);
    spawn(move || {
        let mut answered = 0;
        while !over.load(Ordering::SeqCst) {
            let stream = TcpStream::connect(address).expect("no connection is refused");
            let answer = Peer::new(stream).ask(get("/"));
            assert_eq!(answer.status(), 200);
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

/// Starts an origin that answers `/slow` only when told to, and tells when such a request has come.
fn slow() -> (Origin, Sender<()>, Receiver<()>) {
    let (go, gone) = channel::<()>();
    let (enter, entered) = channel::<()>();
    let gone = Mutex::new(gone);
    let origin = Origin::http(move |request| {
        if request.start.contains("/slow") {
            enter.send(()).unwrap();
            // The test may have ended.
            let _ = gone.lock().unwrap().recv();
        }
        ok("whole")
    });
    (origin, go, entered)
}

/// A process that the test knows by number alone, and kills when this is dropped.
struct Successor(u32);

impl Drop for Successor {
    fn drop(&mut self) {
        signal(self.0, "KILL");
    }
}

#[test]
fn another_process_takes_over_without_a_connection_refused() {
    let (origin, go, entered) = slow();
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let pid_file = directory.path().join("pid");
    let mut command = run(&configuration);
    command.arg("--pid-file").arg(&pid_file);
    let mut running = Running::of(&mut command);
    let first = running.child.id();
    wait_for("a pid file", || pid_file.exists());
    assert_eq!(process_in(&pid_file), first);
    let mut busy = Peer::connect(running.address);
    busy.send(get("/slow"));
    entered.recv_timeout(PATIENCE).unwrap();
    // One that cannot start leaves all as it is.
    let good = std::fs::read_to_string(&configuration).unwrap();
    std::fs::write(&configuration, "version: 2\n").unwrap();
    running.signal("USR2");
    running.says("no upgrade; this process goes on: the new one failed: exit status: 1");
    assert_eq!(Peer::connect(running.address).ask(get("/")).status(), 200);
    assert_eq!(process_in(&pid_file), first);
    // The next has another number of workers, too.
    std::fs::write(&configuration, good).unwrap();
    let over = Arc::default();
    let loads: Vec<_> = (0..3).map(|_| load(running.address, &over)).collect();
    running.signal("USR2");
    wait_for("another process", || process_in(&pid_file) != first);
    let successor = Successor(process_in(&pid_file));
    running.says("the new process serves; draining");
    go.send(()).unwrap();
    assert_eq!(busy.message().text(), "whole");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(process_in(&pid_file), successor.0);
    assert_eq!(Peer::connect(running.address).ask(get("/")).status(), 200);
    over.store(true, Ordering::SeqCst);
    for load in loads {
        assert!(load.join().unwrap() > 0);
    }
}

/// Replaces the listeners in a configuration by these.
fn set_listeners(configuration: &Path, listeners: &[(&str, SocketAddr)]) {
    let text = std::fs::read_to_string(configuration).unwrap();
    let lines = text
        .lines()
        .map(|line| match line.starts_with("listeners:") {
            false => line.to_owned(),
            true => {
                let one = |(name, address): &(&str, SocketAddr)| {
                    format!("{{name: {name}, address: '{address}', forwarding: {{via: {name}}}}}")
                };
                let all: Vec<_> = listeners.iter().map(one).collect();
                format!("listeners: [{}]", all.join(", "))
            }
        });
    let text: Vec<_> = lines.collect();
    std::fs::write(configuration, text.join("\n") + "\n").unwrap();
}

/// Returns the name of the listener at an address, from its `Via`.
fn listener_at(address: SocketAddr) -> String {
    Peer::connect(address).ask(get("/")).text()
}

fn telling_via() -> Origin {
    Origin::http(|request| ok(request.field("via").unwrap_or("-")))
}

#[test]
fn another_process_listens_where_its_configuration_says() {
    let origin = telling_via();
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let (p, q, r) = (free_address(), free_address(), free_address());
    set_listeners(&configuration, &[("a", p), ("b", q)]);
    let pid_file = directory.path().join("pid");
    let mut command = run(&configuration);
    command.arg("--pid-file").arg(&pid_file);
    let mut running = Running::of(&mut command);
    let first = running.child.id();
    assert_eq!(
        (listener_at(p), listener_at(q)),
        ("1.1 a".into(), "1.1 b".into())
    );
    set_listeners(&configuration, &[("b", p), ("a", r)]);
    running.signal("USR2");
    wait_for("another process", || process_in(&pid_file) != first);
    let _successor = Successor(process_in(&pid_file));
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(
        (listener_at(p), listener_at(r)),
        ("1.1 b".into(), "1.1 a".into())
    );
    assert!(TcpStream::connect(q).is_err());
}

/// Returns a command that inherits a socket as systemd passes it.
fn activated(configuration: &Path, socket: TcpListener) -> Command {
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
    let inner = run(configuration);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(inner.get_program());
    command.args(inner.get_args());
    command.stdin(Stdio::from(OwnedFd::from(socket)));
    command
}

/// Returns the next message to systemd.
fn hears(systemd: &UnixDatagram) -> String {
    let mut message = [0; 1000];
    let count = systemd.recv(&mut message).unwrap();
    String::from_utf8_lossy(&message[..count]).into_owned()
}

#[test]
fn sockets_come_from_systemd_which_is_told_how_it_goes() {
    let origin = Origin::http(|_| ok("fine"));
    let directory = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // It waits in the socket's queue for whoever is going to serve it.
    let mut early = Peer::connect(address);
    let configuration = write(directory.path(), origin.address, "");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let listeners = format!("listeners: [{{address: {address}}}]");
    let text = text.replace("listeners: [{address: 127.0.0.1:0}]", &listeners);
    std::fs::write(&configuration, text).unwrap();
    let told = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&told).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let hears_of = |state: &str| loop {
        let message = hears(&systemd);
        if message.lines().any(|line| line == state) {
            break message;
        }
    };
    let mut command = activated(&configuration, socket);
    command.env("NOTIFY_SOCKET", &told);
    command.env("WATCHDOG_USEC", "300000");
    let mut running = Running::of(&mut command);
    assert_eq!(running.address, address);
    assert_eq!(early.ask(get("/")).text(), "fine");
    let own = format!("MAINPID={}", running.child.id());
    assert!(hears_of("READY=1").lines().any(|line| line == own));
    hears_of("WATCHDOG=1");
    running.signal("HUP");
    hears_of("RELOADING=1");
    assert_eq!(hears_of("READY=1").trim(), "READY=1");
    running.signal("TERM");
    hears_of("STOPPING=1");
    drop(early);
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_socket_with_a_listeners_name_is_its_on_whatever_address() {
    let origin = telling_via();
    let directory = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let elsewhere = free_address();
    set_listeners(
        &configuration,
        &[("other", free_address()), ("web", elsewhere)],
    );
    let pid_file = directory.path().join("pid");
    let mut command = activated(&configuration, socket);
    command.arg("--pid-file").arg(&pid_file);
    command.env("LISTEN_FDNAMES", "web");
    let mut running = Running::of(&mut command);
    running.says("an inherited socket stands on another address");
    wait_for("a pid file", || pid_file.exists());
    assert_eq!(listener_at(address), "1.1 web");
    // The next process has it for the same listener.
    let first = process_in(&pid_file);
    running.signal("USR2");
    wait_for("another process", || process_in(&pid_file) != first);
    let _successor = Successor(process_in(&pid_file));
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(listener_at(address), "1.1 web");
    assert!(TcpStream::connect(elsewhere).is_err());
}

#[test]
fn a_process_that_stops_follows_no_reload() {
    let (origin, _go, entered) = slow();
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let (p, q) = (free_address(), free_address());
    set_listeners(&configuration, &[("a", p)]);
    let mut running = Running::start(&configuration);
    let mut busy = Peer::connect(p);
    busy.send(get("/slow"));
    entered.recv_timeout(PATIENCE).unwrap();
    running.signal("TERM");
    running.says("draining; a second signal cuts what is open");
    set_listeners(&configuration, &[("a", p), ("b", q)]);
    running.signal("HUP");
    running.says("no reload: the server is stopping");
    // Nobody would accept from it.
    assert!(TcpStream::connect(q).is_err());
    running.signal("TERM");
    assert!(busy.is_closed());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(running.has_said("is gone"), 0);
}

#[test]
fn a_process_that_has_been_replaced_tells_systemd_nothing() {
    let (origin, _go, entered) = slow();
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let told = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&told).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let pid_file = directory.path().join("pid");
    let mut command = run(&configuration);
    command.arg("--pid-file").arg(&pid_file);
    command.env("NOTIFY_SOCKET", &told);
    let mut running = Running::of(&mut command);
    let first = running.child.id();
    let mut busy = Peer::connect(running.address);
    busy.send(get("/slow"));
    entered.recv_timeout(PATIENCE).unwrap();
    running.signal("USR2");
    running.says("the new process serves; draining");
    let successor = Successor(process_in(&pid_file));
    assert_ne!(successor.0, first);
    // By then systemd knows which process is the main one.
    systemd.set_nonblocking(true).unwrap();
    let mut messages = vec![hears(&systemd), hears(&systemd)];
    systemd.set_nonblocking(false).unwrap();
    running.signal("HUP");
    running.says("no reload: the server is stopping");
    running.signal("TERM");
    assert!(busy.is_closed());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    // Whatever it was told is in the socket by now.
    let end = UnixDatagram::unbound().unwrap();
    end.send_to(b"END", &told).unwrap();
    while messages.last().is_none_or(|last| last != "END") {
        messages.push(hears(&systemd));
    }
    let ready = |pid: u32| format!("MAINPID={pid}\nREADY=1");
    let said: Vec<_> = messages.iter().map(|said| said.trim()).collect();
    assert_eq!(said, [&ready(first), &ready(successor.0), "END"]);
}

/// A running server whose program is a file of its own, so that another program can replace it.
struct Replaceable {
    directory: tempfile::TempDir,
    configuration: PathBuf,
    pid_file: PathBuf,
    running: Running,
}

impl Replaceable {
    /// Starts a server with a listener `a` on this address.
    fn start(origin: &Origin, address: SocketAddr) -> Self {
        Self::start_as(origin, address, |program| {
            std::fs::hard_link(env!("CARGO_BIN_EXE_sprat"), program).unwrap();
        })
    }

    /// Starts a server whose program `install` has put under a path.
    fn start_as(origin: &Origin, address: SocketAddr, install: impl FnOnce(&Path)) -> Self {
        // Where the program can be linked to.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = directory.path().join("sprat");
        install(&program);
        let configuration = write(directory.path(), origin.address, "");
        set_listeners(&configuration, &[("a", address)]);
        let pid_file = directory.path().join("pid");
        let mut command = Command::new(program);
        command.args(run(&configuration).get_args());
        command.arg("--pid-file").arg(&pid_file);
        command.stdin(Stdio::null());
        let running = Running::of(&mut command);
        wait_for("a pid file", || pid_file.exists());
        Self {
            directory,
            configuration,
            pid_file,
            running,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Begins an upgrade to a program that waits for [`Replaceable::go_on`], and then runs `then`.
    /// If that gets SIGTERM meanwhile, it creates the file `told`.
    fn upgrade(&self, then: &str) {
        let script = format!(
            "#!/bin/sh\ncd '{}'\ntrap 'touch told; exit 0' TERM\ntouch begun\ntries=0\n\
             while [ ! -e go ] && [ $tries -lt 3000 ]; do\n\
             tries=$((tries + 1)); sleep 0.02\ndone\n{then}\n",
            self.directory.path().display()
        );
        let new = self.file("new");
        std::fs::write(&new, script).unwrap();
        std::fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(new, self.file("sprat")).unwrap();
        self.running.signal("USR2");
        wait_for("the new program", || self.file("begun").exists());
    }

    fn go_on(&self) {
        std::fs::write(self.file("go"), "").unwrap();
    }
}

#[test]
fn a_reload_waits_for_an_upgrade_and_is_the_new_processs() {
    let origin = telling_via();
    let (p, q) = (free_address(), free_address());
    let mut own = Replaceable::start(&origin, p);
    let first = own.running.child.id();
    own.upgrade(&format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_sprat")));
    set_listeners(&own.configuration, &[("a", p), ("b", q)]);
    own.running.signal("HUP");
    own.running.says("the reload waits");
    // Bound now, it would not be among the sockets that were handed over.
    assert!(TcpStream::connect(q).is_err());
    own.go_on();
    wait_for("another process", || process_in(&own.pid_file) != first);
    let _successor = Successor(process_in(&own.pid_file));
    assert_eq!(own.running.child.wait().unwrap().code(), Some(0));
    assert_eq!(
        (listener_at(p), listener_at(q)),
        ("1.1 a".into(), "1.1 b".into())
    );
    // It might have read the file before it changed.
    own.running
        .says("serving by the configuration as it is now");
}

#[test]
fn a_reload_that_waited_for_an_upgrade_is_made_up_for_if_that_fails() {
    let origin = telling_via();
    let (p, q) = (free_address(), free_address());
    let own = Replaceable::start(&origin, p);
    own.upgrade("exit 3");
    set_listeners(&own.configuration, &[("a", p), ("b", q)]);
    own.running.signal("HUP");
    own.running.says("the reload waits");
    own.go_on();
    own.running
        .says("this process goes on: the new one failed: exit status: 3");
    own.running
        .says("serving by the configuration as it is now");
    assert_eq!(
        (listener_at(p), listener_at(q)),
        ("1.1 a".into(), "1.1 b".into())
    );
}

#[test]
fn a_link_to_the_program_may_lead_to_another_by_then() {
    let origin = telling_via();
    let own = Replaceable::start_as(&origin, free_address(), |program| {
        let version = program.with_extension("1");
        std::fs::hard_link(env!("CARGO_BIN_EXE_sprat"), &version).unwrap();
        std::os::unix::fs::symlink(version, program).unwrap();
    });
    own.upgrade("exit 3");
    own.go_on();
    own.running
        .says("this process goes on: the new one failed: exit status: 3");
}

#[test]
fn a_process_that_is_starting_ends_with_the_one_that_is_told_to_stop() {
    let origin = telling_via();
    let mut own = Replaceable::start(&origin, free_address());
    own.upgrade("exit 3");
    own.running.signal("TERM");
    assert_eq!(own.running.child.wait().unwrap().code(), Some(0));
    wait_for("the new program to be told", || own.file("told").exists());
}
