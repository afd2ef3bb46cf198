//! Another process in the place of the one that serves; sockets from systemd,
//! and what it is told.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

use common::binary::{Running, run, signal, write};
use common::*;

/// Asks again and again, each time over a new connection, until it is told to
/// stop; how often it has been answered.
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

/// Ends a process that the test knows by number alone.
struct Successor(u32);

impl Drop for Successor {
    fn drop(&mut self) {
        signal(self.0, "KILL");
    }
}

#[test]
fn another_process_takes_over_without_a_connection_refused() {
    let (go, gone) = channel::<()>();
    let (enter, entered) = channel::<()>();
    let gone = Mutex::new(gone);
    let origin = Origin::http(move |request| {
        if request.start.contains("/slow") {
            enter.send(()).unwrap();
            gone.lock().unwrap().recv().unwrap();
        }
        ok("fine")
    });
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
    assert_eq!(busy.message().text(), "fine");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(process_in(&pid_file), successor.0);
    assert_eq!(Peer::connect(running.address).ask(get("/")).status(), 200);
    over.store(true, Ordering::SeqCst);
    for load in loads {
        assert!(load.join().unwrap() > 0);
    }
}

/// Has the listeners of a configuration be these.
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

/// The name of the listener behind an address, by its `Via`.
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

/// A command under which a socket is inherited as systemd does it.
fn activated(configuration: &Path, socket: TcpListener) -> Command {
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
    let inner = run(configuration);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(inner.get_program());
    command.args(inner.get_args());
    command.stdin(Stdio::from(OwnedFd::from(socket)));
    command
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
    let hears = || {
        let mut message = [0; 1000];
        let count = systemd.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..count]).into_owned()
    };
    let hears_of = |state: &str| while !hears().lines().any(|line| line == state) {};
    let mut command = activated(&configuration, socket);
    command.env("NOTIFY_SOCKET", &told);
    command.env("WATCHDOG_USEC", "300000");
    let mut running = Running::of(&mut command);
    assert_eq!(running.address, address);
    assert_eq!(early.ask(get("/")).text(), "fine");
    hears_of("READY=1");
    hears_of("WATCHDOG=1");
    running.signal("HUP");
    hears_of("RELOADING=1");
    hears_of("READY=1");
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
