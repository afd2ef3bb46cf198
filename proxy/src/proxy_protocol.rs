//! The PROXY protocol, versions 1 and 2: whose connection it is that a load
//! balancer passes on (haproxy.org/download/3.2/doc/proxy-protocol.txt).

use std::io;
use std::net::SocketAddr;

use proxy_header::{ParseConfig, Protocol, ProxiedAddress, ProxyHeader};
use sprat_config::resolved::{ProxyProtocol, ProxyVersion};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::stats::Counter;

/// What version 2 begins with; version 1's least header is longer.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of version 2's head, whose last two are the length of the rest.
const HEAD: usize = 16;

/// Bytes of version 1 at most, its line end included.
const LINE_MAX: usize = 107;

/// How the reading of a header ended.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Outcome {
    /// It tells of a client.
    Proxied,
    /// The load balancer speaks for itself, or does not tell.
    Local,
    /// Whoever is connected may not send one.
    Untrusted,
    /// It is none, or too long.
    Malformed,
    /// It did not come in time.
    Timeout,
    /// The connection ended.
    Closed,
}

/// The names of [`Outcome`]s, in the order of their numbers.
pub(crate) const HEADER_RESULTS: [&str; 6] = [
    "proxied",
    "local",
    "untrusted",
    "malformed",
    "timeout",
    "closed",
];

/// How a worker's headers were.
#[derive(Debug, Default)]
pub(crate) struct HeaderStats([Counter; HEADER_RESULTS.len()]);

impl HeaderStats {
    fn count(&self, outcome: Outcome) {
        self.0[outcome as usize].increment();
    }

    /// How many there were of a result.
    pub(crate) fn of(&self, result: usize) -> &Counter {
        &self.0[result]
    }
}

/// Reads the header at the start of a connection from `peer`; the client that
/// it is for, or none if the connection is to be closed.
pub(crate) async fn receive(
    config: &ProxyProtocol,
    stats: &HeaderStats,
    stream: &mut TcpStream,
    peer: SocketAddr,
) -> Option<SocketAddr> {
    let trusted = config.trusted.iter().any(|own| own.contains(peer.ip()));
    if !trusted {
        stats.count(Outcome::Untrusted);
        return config.others_direct.then_some(peer);
    }
    let (outcome, client) = match timeout(config.timeout, read(stream, config.max_bytes)).await {
        Err(_) => (Outcome::Timeout, None),
        Ok(Ok(Some(client))) => (Outcome::Proxied, Some(client)),
        Ok(Ok(None)) => (Outcome::Local, Some(peer)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => (Outcome::Malformed, None),
        Ok(Err(_)) => (Outcome::Closed, None),
    };
    if client.is_none() {
        tracing::debug!(%peer, ?outcome, "no PROXY header");
    }
    stats.count(outcome);
    client
}

/// A header, to its last byte and no further.
async fn read(stream: &mut TcpStream, max_bytes: usize) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; SIGNATURE.len()];
    stream.read_exact(&mut header).await?;
    if header == SIGNATURE {
        header.resize(HEAD, 0);
        stream.read_exact(&mut header[SIGNATURE.len()..]).await?;
        let rest = usize::from(u16::from_be_bytes([header[HEAD - 2], header[HEAD - 1]]));
        if HEAD + rest > max_bytes {
            return Err(malformed());
        }
        header.resize(HEAD + rest, 0);
        stream.read_exact(&mut header[HEAD..]).await?;
    } else if header.starts_with(b"PROXY ") {
        read_line(stream, &mut header).await?;
    } else {
        return Err(malformed());
    }
    let parsed = ProxyHeader::parse(&header, ParseConfig::default());
    let (parsed, length) = parsed.map_err(|_| malformed())?;
    match parsed.proxied_address() {
        _ if length != header.len() => Err(malformed()),
        Some(told) if told.protocol == Protocol::Stream => Ok(Some(told.source)),
        Some(_) | None => Ok(None),
    }
}

/// Reads on to the end of version 1's line, and no further: looks first, and
/// takes what belongs to the line.
async fn read_line(stream: &mut TcpStream, line: &mut Vec<u8>) -> io::Result<()> {
    let mut ahead = [0; LINE_MAX];
    while !line.ends_with(b"\r\n") {
        let left = LINE_MAX - line.len();
        if left == 0 {
            return Err(malformed());
        }
        let seen = stream.peek(&mut ahead[..left]).await?;
        if seen == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = ahead[..seen].iter().position(|&byte| byte == b'\n');
        let start = line.len();
        line.resize(start + end.map_or(seen, |at| at + 1), 0);
        stream.read_exact(&mut line[start..]).await?;
        if end.is_some() && !line.ends_with(b"\r\n") {
            return Err(malformed());
        }
    }
    Ok(())
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a PROXY header")
}

/// Whose request a connection to a backend is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The client.
    pub(crate) client: SocketAddr,
    /// What it is connected to.
    pub(crate) local: SocketAddr,
}

/// The header for a connection to a backend; without `ends` it is for the
/// proxy's own purposes.
pub(crate) fn header(version: ProxyVersion, ends: Option<Ends>) -> Vec<u8> {
    let header = ends.map_or_else(ProxyHeader::with_local, |ends| {
        let (client, local) = alike(ends);
        ProxyHeader::with_address(ProxiedAddress::stream(client, local))
    });
    let mut bytes = Vec::with_capacity(LINE_MAX);
    let encoded = match version {
        ProxyVersion::V1 => header.encode_v1(&mut bytes),
        ProxyVersion::V2 => header.encode_v2(&mut bytes),
    };
    encoded.expect("two addresses of one family, over a stream, have a header");
    bytes
}

/// Both of one family: IPv4 if both are, IPv6 otherwise.
fn alike(ends: Ends) -> (SocketAddr, SocketAddr) {
    let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let (client, local) = (canonical(ends.client), canonical(ends.local));
    if client.is_ipv4() == local.is_ipv4() {
        return (client, local);
    }
    let mapped = |at: SocketAddr| match at {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        SocketAddr::V6(_) => at,
    };
    (mapped(client), mapped(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(client: &str, local: &str) -> Option<Ends> {
        Some(Ends {
            client: client.parse().unwrap(),
            local: local.parse().unwrap(),
        })
    }

    #[test]
    fn headers_are_written_as_the_specification_has_them() {
        let line = |ends| String::from_utf8(header(ProxyVersion::V1, ends)).unwrap();
        let v4 = ends("192.0.2.1:5000", "198.51.100.1:443");
        assert_eq!(line(v4), "PROXY TCP4 192.0.2.1 198.51.100.1 5000 443\r\n");
        let v6 = ends("[2001:db8::1]:5000", "[::ffff:198.51.100.1]:443");
        let mapped = "PROXY TCP6 2001:db8::1 ::ffff:198.51.100.1 5000 443\r\n";
        assert_eq!(line(v6), mapped);
        let both_mapped = ends("[::ffff:192.0.2.1]:5000", "198.51.100.1:443");
        assert_eq!(line(both_mapped), line(v4));
        assert_eq!(line(None), "PROXY UNKNOWN\r\n");
        let binary = header(ProxyVersion::V2, v4);
        let rest = [
            &[0x21, 0x11, 0, 12][..],
            &[192, 0, 2, 1, 198, 51, 100, 1],
            &[0x13, 0x88, 0x01, 0xbb],
        ];
        assert_eq!(binary, [&SIGNATURE[..], &rest.concat()].concat());
        let local = header(ProxyVersion::V2, None);
        assert_eq!(local[..13], [&SIGNATURE[..], &[0x20]].concat());
    }
}
