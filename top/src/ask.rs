//! A client that asks the admin listener for its pages.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::told::{Flows, Looked, clean};

/// The time for each of connecting to an address, writing and reading.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of an answer that are read.
const MAX_BYTES: u64 = 8 << 20;

/// The most bytes of a token's file that are read.
const MAX_TOKEN_BYTES: u64 = 4096;

/// The prefix of the path of a Unix socket.
const UNIX: &str = "unix:";

/// An admin listener to ask, and the token that it wants.
#[derive(Debug)]
pub struct Listener {
    address: String,
    token: Option<String>,
}

impl Listener {
    /// Returns the listener at an address: a host with a port, or a Unix socket.
    ///
    /// # Errors
    ///
    /// The address is neither, or the token cannot be read or may not be one.
    pub fn new(address: &str, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let address = address.strip_prefix("http://").unwrap_or(address);
        let address = address.trim_end_matches('/').to_owned();
        let is_host = |c: char| c.is_ascii_graphic() && c != '/';
        let is_address = match address.strip_prefix(UNIX) {
            Some(path) => path.starts_with('/'),
            None => !address.is_empty() && address.chars().all(is_host),
        };
        ensure!(
            is_address,
            "the address of an admin listener is a host with a port, such as 127.0.0.1:9900, \
             or a Unix socket, such as unix:/run/sprat-admin.sock"
        );
        let token = token_file.map(|file| {
            read_token(file).with_context(|| format!("cannot read {}", file.display()))
        });
        Ok(Self {
            address,
            token: token.transpose()?,
        })
    }

    /// Returns the address, without `http://` and the slashes at its end.
    pub fn name(&self) -> &str {
        &self.address
    }

    /// Asks for the present figures, and for the responses in progress, which may be refused.
    ///
    /// # Errors
    ///
    /// There is no answer, or it is not what an admin listener of Sprat says.
    pub(crate) fn look(&self) -> anyhow::Result<Looked> {
        let stats = self.read("/stats")?;
        let flows = self
            .read::<Flows>("/flows")
            .map_err(|error| clean(&format!("{error:#}")));
        Ok(Looked { stats, flows })
    }

    /// Asks for the configuration in use: what its file says, without secrets.
    ///
    /// # Errors
    ///
    /// There is no answer, it is not what an admin listener of Sprat says, or the page may not be
    /// seen.
    pub fn configuration(&self) -> anyhow::Result<Value> {
        let mut page: Value = self.read("/config")?;
        let own = page.get_mut("configuration").map(Value::take);
        own.context("/config does not tell of a configuration")
    }

    fn read<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let (status, body) = self.ask(path)?;
        match status {
            200 => serde_json::from_slice(&body)
                .with_context(|| format!("{path} is not what Sprat's admin listener tells")),
            401 | 403 => bail!("{path}: the token is wanted (--token-file)"),
            421 => bail!("{path}: the server does not go by this name (`admin.hosts`)"),
            status => bail!("{path}: answered {status}"),
        }
    }

    /// Asks for a page; returns the status and the body.
    fn ask(&self, path: &str) -> anyhow::Result<(u16, Vec<u8>)> {
        let (mut stream, name) = self.connect()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let token = self
            .token
            .as_ref()
            .map(|own| format!("Authorization: Bearer {own}\r\n"));
        let token = token.unwrap_or_default();
        // HTTP/1.0: the body ends with the connection.
        let request = format!("GET {path} HTTP/1.0\r\nHost: {name}\r\n{token}\r\n");
        stream
            .write_all(request.as_bytes())
            .context("it takes no request")?;
        let mut answer = Vec::new();
        stream
            .take(MAX_BYTES)
            .read_to_end(&mut answer)
            .context("it does not answer")?;
        parse(&answer).context("the answer is no HTTP")
    }
}

impl Listener {
    /// Connects to the listener; returns the connection, and the `Host` to ask for.
    fn connect(&self) -> anyhow::Result<(TcpStream, &str)> {
        let name = &self.address;
        if let Some(path) = name.strip_prefix(UNIX) {
            let stream = UnixStream::connect(path).context("cannot connect")?;
            // It is read and written like TCP's.
            return Ok((OwnedFd::from(stream).into(), "localhost"));
        }
        let addresses = name.to_socket_addrs().context("no such address")?;
        Ok((connect_to_any(addresses)?, name))
    }
}

/// Connects to the first of these addresses that accepts: `localhost` is `::1` and 127.0.0.1, and
/// an admin listener may stand on one of the two.
fn connect_to_any(addresses: impl Iterator<Item = SocketAddr>) -> anyhow::Result<TcpStream> {
    let mut refused = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = Some(error),
        }
    }
    let last = refused.context("the name has no address")?;
    Err(last).context("cannot connect")
}

/// Reads an answer's status, and what stands after its head.
fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = str::from_utf8(&answer[..end]).ok()?;
    let status = head
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some((status, answer[end + 4..].to_vec()))
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    std::fs::File::open(file)?
        .take(MAX_TOKEN_BYTES)
        .read_to_string(&mut text)?;
    let token = text.trim_end();
    let fits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(fits, "it does not have one line of visible characters");
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = b"HTTP/1.0 401 Unauthorized\r\na: b\r\n\r\nno\r\n\r\n";
        assert_eq!(parse(answer), Some((401, b"no\r\n\r\n".to_vec())));
        assert_eq!(parse(b"HTTP/1.0 200 OK\r\n"), None);
        assert_eq!(parse(b"220 smtp.example\r\n\r\n"), None);
    }

    #[test]
    fn every_address_of_a_name_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // Another one, which nothing listens on any more.
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = gone.local_addr().unwrap();
        drop(gone);
        let stream = connect_to_any([closed, open].into_iter()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let error = connect_to_any([closed].into_iter()).unwrap_err();
        assert!(format!("{error:#}").contains("refused"), "{error:#}");
        assert!(connect_to_any(std::iter::empty()).is_err());
    }

    #[test]
    fn addresses_are_hosts_with_ports() {
        let name = |text| {
            Listener::new(text, None)
                .map(|own| own.name().to_owned())
                .ok()
        };
        assert_eq!(
            name("http://a.example:9900/").as_deref(),
            Some("a.example:9900")
        );
        let socket = "unix:/run/sprat-admin.sock";
        assert_eq!(name(socket).as_deref(), Some(socket));
        assert_eq!(name("unix:sprat.sock"), None);
        assert_eq!(name("a b:1"), None);
        assert_eq!(name("a:1/\r\nX: y"), None);
        assert_eq!(name(""), None);
    }
}
