//! The command `sprat healthcheck`, which asks a running server whether it serves. It is for health
//! checks of containers, which have no other program to ask with.
//!
//! The admin listener answers (`/readyz`). Under `admin: off` the command connects to a listener,
//! and ends the connection without a request; a worker that is alive closes it too. That leaves no
//! line in the access log.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use socket2::{Domain, SockAddr, Socket, Type};
use sprat_config::Config;
use sprat_config::resolved::ListenAddress;

/// The time for each of connecting, writing and reading. It is below the time-out of the image's
/// health check.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes of the answer that are read, more than a status line has.
const MAX_BYTES_READ: usize = 1024;

/// Asks the server of a configuration whether it serves, and returns the result as a text.
///
/// If the file is refused, the check passes: that says nothing about a running server, which goes
/// on with its earlier configuration. A failure would have a supervisor end a server that could not
/// start anew.
///
/// # Errors
///
/// The server does not serve, or the file cannot be read.
pub(crate) fn run(file: &Path) -> anyhow::Result<String> {
    std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    match sprat_config::load(file, &sprat_config::process_env) {
        Ok(loaded) => ask(&loaded.config),
        Err(errors) => Ok(format!(
            "not asked: the configuration is refused, and what runs goes on by the one before\n{}",
            errors.render(false)
        )),
    }
}

fn ask(config: &Config) -> anyhow::Result<String> {
    if let Some(admin) = &config.admin {
        let address = within_reach(&admin.address);
        ready(&address).with_context(|| format!("the admin listener {address}"))?;
        return Ok(format!("ready, says the admin listener {address}"));
    }
    let mut silent = Vec::new();
    for listener in &config.listeners {
        let address = within_reach(&listener.address);
        match closes(&address) {
            Ok(()) => return Ok(format!("alive: the listener {address} answers")),
            Err(error) => silent.push(format!("the listener {address}: {error:#}")),
        }
    }
    bail!(silent.join("\n"))
}

/// Checks that the admin listener answers `/readyz` with 200.
fn ready(address: &ListenAddress) -> anyhow::Result<()> {
    let mut stream = connect(address)?;
    let host = address
        .ip()
        .map_or_else(|| "localhost".to_owned(), |ip| ip.to_string());
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; MAX_BYTES_READ];
    while !answer.contains(&b'\n') && answer.len() < MAX_BYTES_READ {
        let count = stream.read(&mut piece).context("it does not answer")?;
        ensure!(count > 0, "it closes without an answer");
        answer.extend_from_slice(&piece[..count]);
    }
    let answer = String::from_utf8_lossy(&answer);
    let status_line = answer.lines().next().unwrap_or_default();
    ensure!(
        status_line.split(' ').nth(1) == Some("200"),
        "it answers {status_line:?}"
    );
    Ok(())
}

/// Checks that the server closes a connection that was ended without a request.
fn closes(address: &ListenAddress) -> anyhow::Result<()> {
    let mut stream = connect(address)?;
    stream.shutdown(Shutdown::Write)?;
    let mut piece = [0; MAX_BYTES_READ];
    // Under TLS an alert comes first.
    while stream.read(&mut piece).context("it does not answer")? > 0 {}
    Ok(())
}

fn connect(address: &ListenAddress) -> anyhow::Result<TcpStream> {
    let stream = match address {
        ListenAddress::Ip(address) => connect_ip(*address)?,
        ListenAddress::Unix(path) => connect_unix(path).context("cannot connect")?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn connect_ip(address: SocketAddr) -> anyhow::Result<TcpStream> {
    ensure!(
        address.port() != 0,
        "its port is the kernel's choice, which only the server knows"
    );
    TcpStream::connect_timeout(&address, PATIENCE).context("cannot connect")
}

/// Connects to a Unix socket, and returns the connection as a stream that is read and written like
/// TCP's.
fn connect_unix(path: &Path) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Of a queue that is full, too (socket(7)).
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(OwnedFd::from(socket).into())
}

/// Returns the address under which a server is reached from its own machine: loopback for one that
/// listens on every address.
fn within_reach(address: &ListenAddress) -> ListenAddress {
    let mut address = address.clone();
    if let ListenAddress::Ip(ip) = &mut address
        && ip.ip().is_unspecified()
    {
        ip.set_ip(match ip {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_every_address_is_asked_on_loopback() {
        let reach = |address: &str| within_reach(&address.parse().expect("an address")).to_string();
        assert_eq!(reach("0.0.0.0:9900"), "127.0.0.1:9900");
        assert_eq!(reach("[::]:9900"), "[::1]:9900");
        assert_eq!(reach("192.0.2.1:9900"), "192.0.2.1:9900");
    }
}
