//! A real authority for ACME: Pebble, which Let's Encrypt provides for tests of clients.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::dns::{NameServer, loopback};
use super::tls::Authority;
use super::*;

/// A running authority, which is stopped when this is dropped.
pub(crate) struct Pebble {
    child: Child,
    pub(crate) directory_url: String,
    /// The authority that signed the certificate of Pebble's own server.
    pub(crate) authority: Authority,
    /// The name server that Pebble asks, for addresses and texts.
    pub(crate) names: NameServer,
}

impl Pebble {
    /// Starts Pebble, which asks for proofs at these ports of 127.0.0.1. A port of 0 is never
    /// asked.
    pub(crate) fn start(http: SocketAddr, tls: SocketAddr) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/bin/pebble");
        assert!(
            program.exists(),
            "pebble is missing: scripts/setup-test.sh installs it"
        );
        let (authority, names) = (Authority::new(), NameServer::start());
        names.serve_tcp();
        names.set("www.example.org", 1, &[loopback(1)]);
        names.set("example.org", 1, &[loopback(1)]);
        let shown = authority.issue("pebble", &["127.0.0.1"]);
        let address = free_address();
        let text = serde_json::json!({"pebble": {
            "listenAddress": address.to_string(),
            "certificate": shown.chain,
            "privateKey": shown.key,
            "httpPort": http.port(),
            "tlsPort": tls.port(),
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "as ever", "validityPeriod": 864_000}},
        }});
        let file = authority.directory().join("pebble.json");
        std::fs::write(&file, text.to_string()).unwrap();
        let child = Command::new(program)
            .arg("-config")
            .arg(file)
            .args(["-dnsserver", &names.address.to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "5")
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let own = Self {
            child,
            directory_url: format!("https://{address}/dir"),
            authority,
            names,
        };
        wait_for("pebble", || TcpStream::connect(address).is_ok());
        own
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
