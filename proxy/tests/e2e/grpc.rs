//! Tests of gRPC through the proxy, between gRPC's own client and server.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::tls::{Authority, listener_tls};
use crate::common::*;
use sprat_config::resolved::*;

/// Returns a command of the Python that `scripts/setup-test.sh` has installed gRPC for. Its script
/// is both the client and the server.
fn peer() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = root.join("../.tools/grpc/bin/python");
    assert!(
        python.exists(),
        "gRPC is missing: scripts/setup-test.sh installs it"
    );
    let mut command = Command::new(python);
    command.arg(root.join("tests/e2e/grpc/peer.py"));
    command
}

/// A gRPC server, which ends when this is dropped.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut command = peer();
        command.arg("serve");
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let output = process.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut port).unwrap();
        Self {
            process,
            address: format!("127.0.0.1:{}", port.trim()).parse().unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

fn config_of(server: &Server) -> Config {
    let mut config = config(&[server.address]);
    with_cluster(&mut config, |cluster| {
        cluster.http2 = Some(UpstreamHttp2 {
            max_streams: 20,
            stream_window_bytes: 256 << 10,
        });
    });
    config
}

/// Checks every kind of gRPC call through the proxy.
fn passes(config: &Config, authority: Option<&Authority>) {
    let proxy = Proxy::start(config);
    let mut command = peer();
    command.args(["ask", &proxy.address.port().to_string()]);
    if let Some(authority) = authority {
        command.arg(authority.file());
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "all passed\n",
        "{errors}"
    );
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn every_kind_of_call_passes_in_plain_text() {
    let server = Server::start();
    passes(&config_of(&server), None);
}

#[test]
fn every_kind_of_call_passes_over_tls_and_through_the_uplink() {
    let server = Server::start();
    let authority = Authority::new();
    let issued = authority.issue("site", &["localhost"]);
    let mut config = config_of(&server);
    config.uplink.rate = Rate::Fixed(1_000_000_000);
    let listener = &mut config.listeners[0];
    listener.tls = Some(listener_tls(&[&issued]));
    listener.http2.as_mut().unwrap().required = true;
    listener.tls.as_mut().unwrap().http1 = false;
    passes(&config, Some(&authority));
}
