//! The PROXY protocol, versions 1 and 2, by which a load balancer says whose connection it
//! passes on (haproxy.org/download/3.2/doc/proxy-protocol.txt).

mod header;

use std::io;

use sprat_config::resolved::ProxyProtocol;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use self::header::{Ends, header};
use self::header::{LINE_MAX, SIGNATURE};
use crate::counters::Counter;

/// The bytes of version 2's head; the last two of them are the length of the rest.
const HEAD: usize = 16;

/// The outcome of reading a header.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum HeaderOutcome {
    /// The header tells of a client.
    Proxied,
    /// The load balancer speaks for itself, or names no client.
    Local,
    /// The peer may not send a header.
    Untrusted,
    /// The peer has sent something other than a header, or one that is too long.
    Malformed,
    /// The header did not come in time.
    Timeout,
    /// The connection ended before the header.
    Closed,
}

/// The names of the outcomes of reading a header, in the order in which [`HeaderStats`] counts.
pub const HEADER_RESULTS: [&str; 6] = [
    "proxied",
    "local",
    "untrusted",
    "malformed",
    "timeout",
    "closed",
];

/// The counts of a worker's headers, by outcome.
#[derive(Debug, Default)]
pub struct HeaderStats([Counter; HEADER_RESULTS.len()]);

impl HeaderStats {
    fn count(&self, outcome: HeaderOutcome) {
        self.0[outcome as usize].increment();
    }

    /// Returns the counter of an outcome, by its index in [`HEADER_RESULTS`].
    pub fn of(&self, result: usize) -> &Counter {
        &self.0[result]
    }
}

/// Reads the header at the start of a connection between `ends`. Returns the ends that it names,
/// or `None` if the connection is to be closed.
pub async fn receive(
    config: &ProxyProtocol,
    stats: &HeaderStats,
    stream: &mut TcpStream,
    ends: Ends,
) -> Option<Ends> {
    let peer = ends.client;
    let trusted = config.trusted.iter().any(|own| own.contains(peer.ip()));
    if !trusted {
        stats.count(HeaderOutcome::Untrusted);
        return config.others_direct.then_some(ends);
    }
    let (outcome, told) = match timeout(config.timeout, read(stream, config.max_bytes)).await {
        Err(_) => (HeaderOutcome::Timeout, None),
        Ok(Ok(Some(told))) => (HeaderOutcome::Proxied, Some(told)),
        Ok(Ok(None)) => (HeaderOutcome::Local, Some(ends)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            (HeaderOutcome::Malformed, None)
        }
        Ok(Err(_)) => (HeaderOutcome::Closed, None),
    };
    if told.is_none() {
        tracing::debug!(%peer, ?outcome, "no PROXY header");
    }
    stats.count(outcome);
    told
}

/// Reads a header, and no byte beyond it.
async fn read(stream: &mut TcpStream, max_bytes: usize) -> io::Result<Option<Ends>> {
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
    header::told(&header).map_err(|_| malformed())
}

/// Reads on to the end of version 1's line, and no byte beyond it: peeks, then takes what
/// belongs to the line.
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

#[cfg(test)]
mod again;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzzers_corpus_is_read_again_as_it_is_written() {
        crate::corpus::each("proxy_protocol", again::run);
    }
}
