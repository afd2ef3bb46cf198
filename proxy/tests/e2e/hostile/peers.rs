//! The document of hostile requests: Sprat's answers and their reasons, beside nginx and HAProxy.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::hostile::cases::Case;
use crate::hostile::strict::{Reached, StrictOrigin};
use crate::hostile::{Outcome, send};

/// Another proxy, in front of a strict origin.
struct Peer {
    name: String,
    process: Child,
    address: SocketAddr,
    origin: StrictOrigin,
    _directory: tempfile::TempDir,
}

impl Peer {
    fn start(
        program: &str,
        config: impl Fn(SocketAddr, SocketAddr, &Path) -> String,
        arguments: &[&str],
    ) -> Option<Self> {
        let version = Command::new(program).arg("-v").output().ok()?;
        let text = [version.stdout, version.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let numbers = |word: &str| word.chars().next().is_some_and(|c| c.is_ascii_digit());
        let mut words = text.split([' ', '/', '-', '\n']);
        let version = words.find(|word| numbers(word) && word.contains('.'))?;
        let directory = tempfile::tempdir().unwrap();
        let origin = StrictOrigin::start();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let file = directory.path().join("config");
        std::fs::write(&file, config(address, origin.address, directory.path())).unwrap();
        let process = Command::new(program)
            .args(arguments)
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let peer = Self {
            name: format!("{program} {version}"),
            process,
            address,
            origin,
            _directory: directory,
        };
        for _ in 0..100 {
            if TcpStream::connect(address).is_ok() {
                return Some(peer);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{program} does not start");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn nginx(address: SocketAddr, origin: SocketAddr, directory: &Path) -> String {
    let at = directory.display();
    format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/log;\n\
         events {{}}\n\
         http {{ access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         client_header_timeout 2s; client_body_timeout 2s;\n\
         upstream farm {{ server {origin}; keepalive 4; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://farm; \
         proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_set_header Host $host; }} }} }}\n"
    )
}

fn haproxy(address: SocketAddr, origin: SocketAddr, _: &Path) -> String {
    format!(
        "defaults\n mode http\n timeout connect 2s\n timeout client 2s\n timeout server 5s\n\
         frontend in\n bind {address}\n default_backend farm\n\
         backend farm\n http-reuse always\n server s {origin}\n"
    )
}

fn peers() -> Vec<Peer> {
    [
        Peer::start("nginx", nginx, &["-c"]),
        Peer::start("haproxy", haproxy, &["-db", "-f"]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn text(answers: &[u16]) -> String {
    match answers {
        [] => "closed".to_owned(),
        _ => answers
            .iter()
            .map(u16::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Returns the cell for a peer's outcome. It is in bold if the origin got bytes that can be read in
/// several ways, or a request that the client did not mean.
fn peer_text(outcome: &Outcome) -> String {
    let answers = text(&outcome.answers);
    let bad = outcome.reached.iter().any(|reached| match reached {
        Reached::Violation(_) => true,
        Reached::Request { target } => target.contains("smuggled"),
    });
    match bad {
        true => format!("**{answers}**"),
        false => answers,
    }
}

/// Returns the beginning of a case's row.
pub(crate) fn row_start(case: &Case) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let (group, name) = (cell(case.group), cell(case.name));
    let answers = text(case.answers);
    format!("| {group} | {name} | {answers} | {} |", cell(case.why))
}

/// Returns the text of the whole document.
pub(crate) fn document(cases: &[Case]) -> String {
    let peers = peers();
    let mut out = format!(
        "# Hostile requests\n\n\
         {} messages that servers have disagreed about, or that no client should send, each\n\
         followed by a harmless request on the same connection. The origin behind accepts one\n\
         reading of a message and no other. A test (`proxy/tests/e2e/hostile/`) sends them all: Sprat\n\
         forwards none in a form that could be read in two ways, and never takes for a request\n\
         what was meant as something else.\n\n\
         Each cell has the status of every answer on the connection; the last is that of the\n\
         harmless request, where the message leaves the connection usable. In bold: the origin\n\
         behind got what it could not read in one way only, or a request that no client meant.\n\n\
         | group | message | Sprat | why |",
        cases.len()
    );
    for peer in &peers {
        let _ = write!(out, " {} |", peer.name);
    }
    out.push_str("\n| --- | --- | --- | --- |");
    out.push_str(&" --- |".repeat(peers.len()));
    out.push('\n');
    for case in cases {
        out.push_str(&row_start(case));
        for peer in &peers {
            let outcome = send(peer.address, &peer.origin, case);
            let _ = write!(out, " {} |", peer_text(&outcome));
        }
        out.push('\n');
    }
    out
}
