//! A test with a real nginx behind Sprat, skipped if nginx is not installed.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::common::*;

struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an nginx that serves `/page.html`, compressed for clients that accept it. Returns none if
/// there is no nginx.
fn compressing(directory: &std::path::Path) -> Option<(Nginx, std::net::SocketAddr)> {
    let (at, address) = (directory.display(), free_address());
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/log;\n\
         events {{}}\n\
         http {{ access_log off; gzip on; default_type text/html;\n\
         client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen {address}; root {at}; }} }}\n"
    );
    std::fs::write(directory.join("page.html"), "text ".repeat(1000)).unwrap();
    std::fs::write(directory.join("config"), config).unwrap();
    let started = Command::new("nginx")
        .arg("-c")
        .arg(directory.join("config"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let nginx = Nginx(started.ok()?);
    wait_for("nginx to start", || TcpStream::connect(address).is_ok());
    Some((nginx, address))
}

/// Checks that a backend compresses as it would without Sprat. For a request with `Via`, nginx
/// compresses nothing unless `gzip_proxied` says so.
#[test]
fn a_backend_compresses_as_it_would_without_sprat() {
    let directory = tempfile::tempdir().unwrap();
    let Some((_nginx, address)) = compressing(directory.path()) else {
        eprintln!("skipped: no nginx");
        return;
    };
    for (via, coding) in [(None, Some("gzip")), (Some("sprat"), None)] {
        let mut config = config(&[address]);
        config.listeners[0].forwarding.via = via.map(str::to_owned);
        let proxy = Proxy::start(&config);
        let request = "GET /page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
        let answer = proxy.connect().ask(request);
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.field("content-encoding"), coding, "{via:?}");
    }
}
