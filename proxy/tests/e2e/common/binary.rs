//! The program `sprat` as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Returns a command that runs `sprat` with these arguments.
pub(crate) fn sprat(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprat"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Writes a configuration of one listener, one route and one cluster, with further keys.
pub(crate) fn write(directory: &Path, origin: SocketAddr, more: &str) -> PathBuf {
    let path = directory.join("sprat.yaml");
    let text = format!(
        "version: 1\nadmin: {{address: 127.0.0.1:0}}\nlisteners: [{{address: 127.0.0.1:0}}]\n\
         uplink: {{rate: unlimited}}\nclusters: {{farm: {{endpoints: ['{origin}']}}}}\n\
         routes: [{{cluster: farm}}]\n{more}"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// Replaces the listener's address in a configuration of [`write`].
pub(crate) fn stand_on(configuration: &Path, address: SocketAddr) {
    let text = std::fs::read_to_string(configuration).unwrap();
    let listener = format!("listeners: [{{address: '{address}'}}]");
    let text = text.replace("listeners: [{address: 127.0.0.1:0}]", &listener);
    std::fs::write(configuration, text).unwrap();
}

/// Returns a command that runs `sprat run` with two workers.
pub(crate) fn run(configuration: &Path) -> Command {
    let configuration = configuration.to_str().unwrap();
    sprat(&["run", "-c", configuration, "--workers", "2"])
}

/// A running `sprat`, which is killed when this is dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// The log that the process has written so far.
    said: Arc<Mutex<String>>,
}

impl Running {
    pub(crate) fn start(configuration: &Path) -> Self {
        Self::of(&mut run(configuration))
    }

    /// Starts a command that runs `sprat`, and waits until it listens.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut begun = String::new();
        let lines = log.by_ref().map_while(Result::ok);
        let mut plain = lines.map(|line| strip_colours(&line)).inspect(|line| {
            begun += &(line.clone() + "\n");
        });
        let line = plain.find(|line| line.contains("listening"));
        let line = line.expect("it says where it listens");
        // As text, or in JSON.
        let after = line.split("address=").nth(1);
        let after = after.or_else(|| line.split("\"address\":\"").nth(1));
        let address = after.unwrap().split([' ', '"']).next().unwrap();
        let address = address.parse().unwrap();
        // Read on, so that it never waits for the pipe.
        let said = Arc::new(Mutex::new(begun));
        let hears = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in log.map_while(Result::ok) {
                *hears.lock().unwrap() += &(strip_colours(&line) + "\n");
            }
        });
        Self {
            child,
            address,
            said,
        }
    }

    /// Returns a running process whose log this test does not read.
    pub(crate) fn with(child: Child, address: SocketAddr) -> Self {
        Self {
            child,
            address,
            said: Arc::default(),
        }
    }

    /// Waits until the process's log has this text.
    pub(crate) fn says(&self, text: &str) {
        let start = Instant::now();
        while !self.said.lock().unwrap().contains(text) {
            let patient = start.elapsed() < super::PATIENCE;
            let said = || self.said.lock().unwrap().clone();
            assert!(patient, "waited in vain for {text:?} in:\n{}", said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the lines of the process's log.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.said
            .lock()
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Returns the first line of the log that has this text.
    pub(crate) fn line_with(&self, text: &str) -> String {
        let found = self.lines().into_iter().find(|line| line.contains(text));
        found.expect("it has said so")
    }

    /// Returns how often the log has this text.
    pub(crate) fn has_said(&self, text: &str) -> usize {
        self.said.lock().unwrap().matches(text).count()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that the test has started.
pub(crate) fn signal(process: u32, name: &str) {
    let id = process.to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.unwrap().success());
}

fn strip_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or("", |(_, rest)| rest)
    })
}
