//! Tests of `sprat top`: in a real terminal (tmux), watching a server under load, which are skipped
//! if there is no tmux; and of one look.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::binary::{Running, run, sprat};
use crate::common::*;

/// A terminal of 100 columns and 30 lines, with a shell in it.
struct Terminal {
    /// The name of the terminal's own tmux server.
    server: String,
}

impl Terminal {
    /// Opens a terminal; returns none if there is no tmux.
    fn open() -> Option<Self> {
        let own = Self {
            // Tests run side by side.
            server: format!("sprat-test-{}", free_address().port()),
        };
        let mut command = own.command(&["new-session", "-d", "-x", "100", "-y", "30"]);
        let begun = command
            .arg("env -i TERM=$TERM PATH=$PATH PS1=ready: sh")
            .output();
        match begun {
            Ok(output) => {
                assert!(output.status.success(), "{output:?}");
                Some(own)
            }
            Err(_) => None,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.server, "-f", "/dev/null"]);
        command.args(arguments);
        command
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn shows(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    /// Waits until all of these texts are shown, and returns the whole screen.
    fn wait(&self, parts: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let shown = self.shows();
            if parts.iter().all(|part| shown.contains(part)) {
                return shown;
            }
            let is_patient = began.elapsed() < PATIENCE;
            assert!(is_patient, "waited in vain for {parts:?} in\n{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_without(&self, part: &str) {
        wait_for(&format!("no {part:?}"), || !self.shows().contains(part));
    }

    fn press(&self, key: &str) {
        self.ask(&["send-keys", key]);
    }

    fn enter(&self, line: &str) {
        self.ask(&["send-keys", "-l", line]);
        self.press("Enter");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).output();
    }
}

/// A load of requests for several sizes, over and over, which ends when this is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn on(address: SocketAddr) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        // Smaller ones without pause would keep the link from large ones, but for the floor.
        for (path, pause_ms) in [
            ("/500", 50),
            ("/5000", 50),
            ("/50000", 50),
            ("/50000", 100),
            ("/200000", 0),
        ] {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let Ok(stream) = std::net::TcpStream::connect(address) else {
                        std::thread::sleep(Duration::from_millis(50));
                        continue;
                    };
                    let mut peer = Peer::new(stream);
                    while !ends.load(Ordering::Relaxed)
                        && peer.send(get(path))
                        && peer.try_message(true).is_some()
                    {
                        std::thread::sleep(Duration::from_millis(pause_ms));
                    }
                }
            });
        }
        Self(ends)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn configuration(
    directory: &std::path::Path,
    origin: &Origin,
    own: [SocketAddr; 2],
) -> std::path::PathBuf {
    let [listener, admin] = own;
    let path = directory.join("sprat.yaml");
    let text = format!(
        "version: 1\nadmin: {{address: '{admin}'}}\nlisteners: [{{address: '{listener}'}}]\n\
         uplink: {{rate: 4mbit}}\nclusters: {{farm: {{endpoints: ['{}']}}}}\n\
         routes: [{{cluster: farm}}]\n",
        origin.address
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_server_under_load_is_watched_and_the_terminal_is_left_as_it_was() {
    let Some(terminal) = Terminal::open() else {
        eprintln!("skipped: tmux is not installed");
        return;
    };
    let origin = Origin::http(|request| {
        let bytes = request
            .start
            .split(['/', ' '])
            .find_map(|own| own.parse().ok());
        ok(&"x".repeat(bytes.unwrap_or(1)))
    });
    let directory = tempfile::tempdir().unwrap();
    let [listener, admin] = [free_address(), free_address()];
    let path = configuration(directory.path(), &origin, [listener, admin]);
    let server = Running::of(&mut run(&path));
    let _load = Load::on(listener);
    terminal.wait(&["ready:"]);
    terminal.enter(&format!(
        "{} top --admin {admin}",
        env!("CARGO_BIN_EXE_sprat")
    ));
    // Figures, the queue in order, latency by size, endpoints, the gain.
    let shown = terminal.wait(&[
        "serving  srpt",
        "of 4.0 Mbit/s (fixed)",
        "order: turn",
        "sending",
        "x over fair in 10 min",
        "latency  <=1K ",
        &origin.address.to_string(),
        "default",
    ]);
    let line = |start: &str| {
        let found = shown.lines().find(|own| own.starts_with(start));
        found
            .unwrap_or_else(|| panic!("{start}\n{shown}"))
            .to_owned()
    };
    wait_for("latencies of all sizes", || {
        let shown = terminal.shows();
        let latency = shown.lines().find(|own| own.starts_with("latency"));
        ["<=1K ", "<=10K ", "<=100K ", "<=1M "].iter().all(|size| {
            let after = latency.and_then(|own| Some(own.split_once(size)?.1));
            after.is_some_and(|own| own.starts_with(|own: char| own.is_ascii_digit()))
        })
    });
    assert!(line("farm").contains("used"), "{shown}");
    let endpoints = shown.lines().filter(|own| own.starts_with("farm "));
    assert_eq!(endpoints.count(), 1, "{shown}");
    // Keys.
    terminal.press("p");
    terminal.wait(&["PAUSED"]);
    terminal.press("p");
    terminal.wait_without("PAUSED");
    terminal.press("s");
    terminal.wait(&["order: left"]);
    terminal.press("?");
    terminal.wait(&["pause, go on"]);
    terminal.press("?");
    terminal.wait_without("pause, go on");
    // A narrow terminal, and back.
    terminal.ask(&["resize-window", "-x", "40", "-y", "10"]);
    terminal.wait(&["uplink"]);
    terminal.ask(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.wait(&["order: left", "latency"]);
    // The server goes, and comes back.
    drop(server);
    terminal.wait(&["NO ANSWER", "order: left"]);
    let server = Running::of(&mut run(&path));
    terminal.wait_without("NO ANSWER");
    terminal.wait(&["sending"]);
    // The shell is where it was, and its terminal as it was.
    terminal.press("q");
    terminal.wait(&["ready:"]);
    terminal.wait_without("uplink");
    assert_eq!(
        terminal
            .ask(&["display-message", "-p", "#{alternate_on}"])
            .trim(),
        "0"
    );
    assert_eq!(
        terminal
            .ask(&["display-message", "-p", "#{cursor_flag}"])
            .trim(),
        "1"
    );
    terminal.enter("echo left with $?; stty -a | tr ' ;' '\\n\\n' | grep -cxE 'echo|icanon|isig'");
    terminal.wait(&["left with 0\n3\n"]);
    drop(server);
}

#[test]
fn it_ends_with_its_terminal() {
    let Some(terminal) = Terminal::open() else {
        eprintln!("skipped: tmux is not installed");
        return;
    };
    terminal.wait(&["ready:"]);
    // Nothing listens there. A hang-up that is ignored is not the only sign.
    let line = format!(
        "trap '' HUP; exec {} top --admin {}",
        env!("CARGO_BIN_EXE_sprat"),
        free_address()
    );
    terminal.enter(&line);
    terminal.wait(&["NO ANSWER"]);
    let process = terminal.ask(&["display-message", "-p", "#{pane_pid}"]);
    let process = format!("/proc/{}/comm", process.trim());
    let is_there = || std::fs::read_to_string(&process).is_ok_and(|name| name.trim() == "sprat");
    assert!(is_there());
    drop(terminal);
    wait_for("the end of sprat top", || !is_there());
}

#[test]
fn one_look_fails_for_no_reader_that_has_seen_enough() {
    let origin = Origin::http(|_| ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    let own = [free_address(), free_address()];
    let path = configuration(directory.path(), &origin, own);
    let _server = Running::of(&mut run(&path));
    let admin = own[1].to_string();
    let look = || sprat(&["top", "--once", "--admin", &admin]);
    wait_for("a look", || look().output().unwrap().status.success());
    // The reading end of this pipe is closed.
    let closed = std::io::pipe().unwrap().1;
    let output = look().stdout(closed).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
