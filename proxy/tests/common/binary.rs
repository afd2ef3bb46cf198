//! The `sprat` binary as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `sprat` with these arguments.
pub(crate) fn sprat(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprat"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A running `sprat`; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Running {
    pub(crate) fn start(configuration: &Path) -> Self {
        let mut child = sprat(&[
            "run",
            "-c",
            configuration.to_str().unwrap(),
            "--workers",
            "2",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = log
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains("listening"));
        let line = line.expect("it says where it listens");
        let plain: String = strip_colours(&line);
        let address = plain
            .split("address=")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        let address = address.parse().unwrap();
        // Read on, so that it never waits for the pipe.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, address }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &id])
            .status()
            .unwrap();
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn strip_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or("", |(_, rest)| rest)
    })
}
